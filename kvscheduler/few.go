package kvscheduler

// few is a map that keeps one of its keys outside of the map. Most transactions concern
// one value, and need no map at all.
type few[V any] struct {
	used  bool // key and value are set
	key   string
	value V
	more  map[string]V // the other keys
}

// get returns the zero value for keys that were not set.
func (f *few[V]) get(key string) V {
	if f.used && f.key == key {
		return f.value
	}
	return f.more[key]
}

func (f *few[V]) set(key string, v V) {
	switch {
	case f.used && f.key == key:
		f.value = v
	case !f.used && len(f.more) == 0:
		f.used, f.key, f.value = true, key, v
	default:
		if f.more == nil {
			f.more = map[string]V{}
		}
		f.more[key] = v
	}
}

func (f *few[V]) delete(key string) {
	if f.used && f.key == key {
		f.key, f.used = "", false
		return
	}
	delete(f.more, key)
}

func (f *few[V]) clear() {
	f.key, f.used = "", false
	clear(f.more)
}

// grow makes room for n keys, unless there are some already.
func (f *few[V]) grow(n int) {
	if !f.used && len(f.more) == 0 && n > 1 {
		f.more = make(map[string]V, n)
	}
}

// change calls change for the value of each key, and stores what it returns.
func (f *few[V]) change(change func(V) V) {
	if f.used {
		f.value = change(f.value)
	}
	for key, v := range f.more {
		f.more[key] = change(v)
	}
}
