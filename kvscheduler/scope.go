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
