package kvscheduler

// cycleCache caches the results of cycle analyses. One analysis decides for all values that it visits
// for the same reason:
//
//   - A positive result (ready, supported) holds until a value is deleted, fails, or gets other
//     dependencies.
//   - A negative result (notReady) also ends when a value becomes available.
type cycleCache struct {
	supported, ready, notReady map[string]struct{}
}

func (v *cycleCache) reset() {
	clear(v.supported)
	clear(v.ready)
	clear(v.notReady)
}

// invalidateNotReady drops the results that may change when a value becomes available or may be created.
func (v *cycleCache) invalidateNotReady() {
	if len(v.notReady) > 0 {
		clear(v.notReady)
	}
}

// invalidate drops the results that may change when a value is lost or will not be created.
func (v *cycleCache) invalidate() {
	if len(v.supported)+len(v.ready)+len(v.notReady) > 0 {
		v.reset()
	}
}

func (v *cycleCache) isSupported(key string) bool {
	_, ok := v.supported[key]
	return ok
}

func (v *cycleCache) setSupported(key string) {
	if v.supported == nil {
		v.supported = map[string]struct{}{}
	}
	v.supported[key] = struct{}{}
}

// lookup returns the cached result for a PENDING value.
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
