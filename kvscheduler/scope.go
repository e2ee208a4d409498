package kvscheduler

// scopeState is the progress of a transaction with one of the base keys that it requests. The zero
// value stands for keys that it does not request.
type scopeState uint8

const (
	_ scopeState = iota
	upcoming
	applied
	// skippedByRevert: the transaction was reverted before it reached the key.
	skippedByRevert
)

// scope holds the base keys that a transaction requests, and its progress with them. Keys are
// numbered in the order in which they are applied, so that one counter marks all applied keys.
type scope struct {
	positions smallMap[int] // starts at 1
	reached   int           // keys up to this position are applied
	reverted  bool          // later keys will not be applied
}

func (a *scope) get(key string) scopeState {
	switch n := a.positions.get(key); {
	case n == 0:
		return 0
	case n <= a.reached:
		return applied
	case a.reverted:
		return skippedByRevert
	}
	return upcoming
}

// expect adds a key that will be applied later.
func (a *scope) expect(key string, number int) { a.positions.set(key, number) }

func (a *scope) apply(key string) {
	a.reached = max(a.reached, 1)
	if n := a.positions.get(key); n == 0 || n > a.reached {
		a.positions.set(key, 1)
	}
}

func (a *scope) clear() {
	a.positions.clear()
	a.reached, a.reverted = 0, false
}

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
