package delta

import (
	"errors"
	"maps"
)

// Tracker keeps a desired and an actual state and the keys in which they differ.
// Setting a key costs the same however many there are. Make one with New.
type Tracker[K comparable, V any] struct {
	equal   func(a, b V) bool
	order   Order[K]
	desired map[K]V
	actual  map[K]V
	// pending are the keys that differ.
	pending map[K]struct{}
}

// New returns an empty Tracker. Values that are equal need no step.
func New[K comparable, V any](equal func(a, b V) bool, order Order[K]) *Tracker[K, V] {
	return &Tracker[K, V]{equal: equal, order: order, desired: map[K]V{}, actual: map[K]V{}, pending: map[K]struct{}{}}
}

// SetDesired makes the value the desired one.
func (t *Tracker[K, V]) SetDesired(key K, value V) {
	t.desired[key] = value
	t.compare(key)
}

// DeleteDesired makes the key undesired.
func (t *Tracker[K, V]) DeleteDesired(key K) {
	delete(t.desired, key)
	t.compare(key)
}

// SetActual notes that the value exists.
func (t *Tracker[K, V]) SetActual(key K, value V) {
	t.actual[key] = value
	t.compare(key)
}

// DeleteActual notes that nothing exists under the key.
func (t *Tracker[K, V]) DeleteActual(key K) {
	delete(t.actual, key)
	t.compare(key)
}

// Resync replaces the whole actual state. The Tracker keeps the map.
func (t *Tracker[K, V]) Resync(actual map[K]V) {
	before := t.actual
	t.actual = actual
	for key := range before {
		t.compare(key)
	}
	for key := range actual {
		t.compare(key)
	}
}

func (t *Tracker[K, V]) compare(key K) {
	want, wanted := t.desired[key]
	have, exists := t.actual[key]
	if wanted == exists && (!wanted || t.equal(have, want)) {
		delete(t.pending, key)
	} else {
		t.pending[key] = struct{}{}
	}
}

// Desired returns the desired value of a key.
func (t *Tracker[K, V]) Desired(key K) (V, bool) {
	v, ok := t.desired[key]
	return v, ok
}

// Actual returns the actual value of a key.
func (t *Tracker[K, V]) Actual(key K) (V, bool) {
	v, ok := t.actual[key]
	return v, ok
}

// InSync reports whether there is no difference.
func (t *Tracker[K, V]) InSync() bool { return len(t.pending) == 0 }

// Plan returns the steps from the actual to the desired state, in order.
func (t *Tracker[K, V]) Plan() Plan[K, V] {
	plan := make(Plan[K, V], 0, len(t.pending))
	for key := range t.pending {
		step := Step[K, V]{Key: key}
		var wanted, exists bool
		step.New, wanted = t.desired[key]
		step.Old, exists = t.actual[key]
		switch {
		case !exists:
			step.Kind = Add
		case wanted:
			step.Kind = Change
		default:
			step.Kind = Remove
		}
		plan = append(plan, step)
	}
	plan.Sort(t.order)
	return plan
}

// Apply calls do with each step and notes those that succeed as done. The others stay
// pending; their errors are joined.
func (t *Tracker[K, V]) Apply(do func(Step[K, V]) error) error {
	var errs []error
	for _, step := range t.Plan() {
		if err := do(step); err != nil {
			errs = append(errs, err)
			continue
		}
		t.done(step)
	}
	return errors.Join(errs...)
}

// ApplyAtOnce calls do with all steps, for transactions: all of them succeed or none
// does. Without steps, do is not called.
func (t *Tracker[K, V]) ApplyAtOnce(do func(Plan[K, V]) error) error {
	plan := t.Plan()
	if len(plan) == 0 {
		return nil
	}
	if err := do(plan); err != nil {
		return err
	}
	for _, step := range plan {
		t.done(step)
	}
	return nil
}

func (t *Tracker[K, V]) done(step Step[K, V]) {
	if step.Kind == Remove {
		t.DeleteActual(step.Key)
	} else {
		t.SetActual(step.Key, step.New)
	}
}

// Snapshot returns copies of both states.
func (t *Tracker[K, V]) Snapshot() (desired, actual map[K]V) {
	return maps.Clone(t.desired), maps.Clone(t.actual)
}
