package kvscheduler

// verdicts caches the results of analyses of cycles. One analysis decides for all values that it
// visits for the same reason, so that the next one of them need not be analysed:
//
//   - That a value may exist, or is founded, holds until something is lost: a value is
//     about to be deleted, was deleted, failed, or needs something else.
//   - That it may not exist holds until something is gained, too.
type verdicts struct {
	founded, positive, negative map[string]struct{}
}

// forget forgets everything.
func (v *verdicts) forget() {
	clear(v.founded)
	clear(v.positive)
	clear(v.negative)
}

// gained invalidates the results that may change when a value is created or may be created.
func (v *verdicts) gained() {
	if len(v.negative) > 0 {
		clear(v.negative)
	}
}

// lost invalidates the results that may change when a value goes or will not be created.
func (v *verdicts) lost() {
	if len(v.founded)+len(v.positive)+len(v.negative) > 0 {
		v.forget()
	}
}

func (v *verdicts) isFounded(key string) bool {
	_, founded := v.founded[key]
	return founded
}

func (v *verdicts) setFounded(key string) {
	if v.founded == nil {
		v.founded = map[string]struct{}{}
	}
	v.founded[key] = struct{}{}
}

// ready returns the cached result for a pending value.
func (v *verdicts) ready(key string) (ready, known bool) {
	if _, ready = v.positive[key]; ready {
		return true, true
	}
	_, known = v.negative[key]
	return false, known
}

func (v *verdicts) setReady(key string, ready bool) {
	if v.positive == nil {
		v.positive, v.negative = map[string]struct{}{}, map[string]struct{}{}
	}
	if ready {
		v.positive[key] = struct{}{}
	} else {
		v.negative[key] = struct{}{}
	}
}
