package kvscheduler

// smallMap is a map that keeps one entry outside of the builtin map. Most transactions request one
// value and then allocate no map.
type smallMap[V any] struct {
	used  bool // key and value are set
	key   string
	value V
	more  map[string]V // other entries
}

// get returns the zero value for missing keys.
func (f *smallMap[V]) get(key string) V {
	if f.used && f.key == key {
		return f.value
	}
	return f.more[key]
}

func (f *smallMap[V]) set(key string, v V) {
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

func (f *smallMap[V]) delete(key string) {
	if f.used && f.key == key {
		f.key, f.used = "", false
		return
	}
	delete(f.more, key)
}

func (f *smallMap[V]) clear() {
	f.key, f.used = "", false
	clear(f.more)
}

// grow preallocates n entries if the map is empty.
func (f *smallMap[V]) grow(n int) {
	if !f.used && len(f.more) == 0 && n > 1 {
		f.more = make(map[string]V, n)
	}
}
