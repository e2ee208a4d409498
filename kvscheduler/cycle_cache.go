package kvscheduler

// verdicts caches the results of analyses of cycles. One analysis decides for all values that it
// visits for the same reason, so that the next one of them need not be analysed:
//
//   - That a value may exist, or is founded, holds until something is lost: a value is
//     about to be deleted, was deleted, failed, or needs something else.
//   - That it may not exist holds until something is gained, too.
type cycleCache struct {
	supported, ready, notReady map[string]struct{}
}

// forget forgets everything.
func (v *cycleCache) reset() {
	clear(v.supported)
	clear(v.ready)
	clear(v.notReady)
}

// gained invalidates the results that may change when a value is created or may be created.
func (v *cycleCache) invalidateNotReady() {
	if len(v.notReady) > 0 {
		clear(v.notReady)
	}
}

// lost invalidates the results that may change when a value goes or will not be created.
func (v *cycleCache) invalidate() {
	if len(v.supported)+len(v.ready)+len(v.notReady) > 0 {
		v.reset()
	}
}

func (v *cycleCache) isSupported(key string) bool {
	_, founded := v.supported[key]
	return founded
}

func (v *cycleCache) setSupported(key string) {
	if v.supported == nil {
		v.supported = map[string]struct{}{}
	}
	v.supported[key] = struct{}{}
}

// ready returns the cached result for a pending value.
func (v *cycleCache) lookup(key string) (ready, known bool) {
	if _, ready = v.ready[key]; ready {
		return true, true
	}
	_, known = v.notReady[key]
	return false, known
}

func (v *cycleCache) store(key string, ready bool) {
	if v.ready == nil {
		v.ready, v.notReady = map[string]struct{}{}, map[string]struct{}{}
	}
	if ready {
		v.ready[key] = struct{}{}
	} else {
		v.notReady[key] = struct{}{}
	}
}
