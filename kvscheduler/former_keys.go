package kvscheduler

// formerKeys remembers the last maxFormerKeys keys that the northbound no longer requests. Values with
// such keys in the southbound are ours. It does not depend on the history, which may be disabled.
type formerKeys struct {
	keys map[string]struct{}
	ring []string
	next int
}

const maxFormerKeys = 1 << 16

func newFormerKeys() *formerKeys { return &formerKeys{keys: map[string]struct{}{}} }

func (r *formerKeys) has(key string) bool {
	_, ok := r.keys[key]
	return ok
}

func (r *formerKeys) add(key string) {
	if _, ok := r.keys[key]; ok {
		return
	}
	if len(r.ring) < maxFormerKeys {
		r.ring = append(r.ring, key)
	} else {
		delete(r.keys, r.ring[r.next])
		r.ring[r.next] = key
		r.next = (r.next + 1) % maxFormerKeys
	}
	r.keys[key] = struct{}{}
}
