package controller

import (
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
)

// operations collects what the handlers request for the events of a transaction. Only the event
// loop writes; GetConfig may read from anywhere.
type operations struct {
	mu     sync.RWMutex
	values map[string]proto.Message // nil: delete
	// replaced is what the present event has changed, in order.
	replaced []replaced
}

// replaced is what was requested for a key before.
type replaced struct {
	key   string
	value proto.Message
	asked bool
}

func newOperations() *operations { return &operations{values: make(map[string]proto.Message)} }

// set requests a value, nil: none.
func (o *operations) set(key string, value proto.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, asked := o.values[key]
	o.replaced = append(o.replaced, replaced{key, before, asked})
	o.values[key] = value
}

// keep begins the next event: what was requested so far is not undone any more.
func (o *operations) keep() { o.replaced = nil }

// undo takes back what was requested for the present event.
func (o *operations) undo() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range slices.Backward(o.replaced) {
		if r.asked {
			o.values[r.key] = r.value
		} else {
			delete(o.values, r.key)
		}
	}
	o.replaced = nil
}

// Put requests the value for the key.
func (o *operations) Put(key string, value proto.Message) {
	if isNil(value) {
		panic("Put of a nil value for " + key + ": use Delete")
	}
	o.set(key, value)
}

// Get returns what has been put for the key in this transaction.
func (o *operations) Get(key string) proto.Message {
	value, _ := o.lookup(key)
	return value
}

// Delete requests that the key has no value.
func (o *operations) Delete(key string) { o.set(key, nil) }

// lookup tells also if the transaction has anything to say about the key.
func (o *operations) lookup(key string) (value proto.Message, ok bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	value, ok = o.values[key]
	return value, ok
}

// snapshot returns a copy of the map.
func (o *operations) snapshot() map[string]proto.Message {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return maps.Clone(o.values)
}
