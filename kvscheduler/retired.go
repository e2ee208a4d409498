package kvscheduler

// retired remembers keys that the northbound requested and does not any more:
// should they turn up in the southbound, they are ours. It holds the last
// maxRetired keys; independent of the history, which may be off.
type retired struct {
	keys map[string]struct{}
	ring []string
	next int
}

const maxRetired = 1 << 16

func newRetired() *retired { return &retired{keys: map[string]struct{}{}} }

func (r *retired) has(key string) bool {
	_, ok := r.keys[key]
	return ok
}

func (r *retired) add(key string) {
	if _, ok := r.keys[key]; ok {
		return
	}
	if len(r.ring) < maxRetired {
		r.ring = append(r.ring, key)
	} else {
		delete(r.keys, r.ring[r.next])
		r.ring[r.next] = key
		r.next = (r.next + 1) % maxRetired
	}
	r.keys[key] = struct{}{}
}
