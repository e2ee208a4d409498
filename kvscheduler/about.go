package kvscheduler

// progress of a transaction with one of its values.
type progress uint8

const (
	_ progress = iota
	upcoming
	applied
	// unreached: the transaction was reverted before its turn came.
	unreached
)

// about holds the base keys that a transaction is about, and how far it has come with them. Keys have numbers in the
// order in which they are applied: counting takes the place of an assignment for each of them.
type about struct {
	numbers  few[int] // from 1
	reached  int      // this number and lower ones are applied
	reverted bool     // higher ones are not going to be
}

func (a *about) get(key string) progress {
	switch n := a.numbers.get(key); {
	case n == 0:
		return 0
	case n <= a.reached:
		return applied
	case a.reverted:
		return unreached
	}
	return upcoming
}

// expect adds a key that is yet to be applied.
func (a *about) expect(key string, number int) { a.numbers.set(key, number) }

// apply marks a key as applied, whether or not it was expected.
func (a *about) apply(key string) {
	a.reached = max(a.reached, 1)
	if n := a.numbers.get(key); n == 0 || n > a.reached {
		a.numbers.set(key, 1)
	}
}

func (a *about) clear() {
	a.numbers.clear()
	a.reached, a.reverted = 0, false
}

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
