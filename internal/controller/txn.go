package controller

import (
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
)

// operations collects the requests of the handlers for the events of a transaction. Only the event
// loop writes; GetConfig may read from any goroutine.
type operations struct {
	mu     sync.RWMutex
	values map[string]proto.Message // nil: delete
	// replaced holds the previous requests of the keys that the current event changed, in order.
	replaced []replaced
}

// replaced is a previous request for a key; existed is false if the key had none.
type replaced struct {
	key     string
	value   proto.Message
	existed bool
}

func newOperations() *operations { return &operations{values: make(map[string]proto.Message)} }

func (o *operations) set(key string, value proto.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, existed := o.values[key]
	o.replaced = append(o.replaced, replaced{key, before, existed})
	o.values[key] = value
}

// keep starts the next event: undo no longer affects earlier requests.
func (o *operations) keep() { o.replaced = nil }

// undo removes the requests of the current event.
func (o *operations) undo() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range slices.Backward(o.replaced) {
		if r.existed {
			o.values[r.key] = r.value
		} else {
			delete(o.values, r.key)
		}
	}
	o.replaced = nil
}

func (o *operations) Put(key string, value proto.Message) {
	if isNil(value) {
		panic("Put of a nil value for " + key + ": use Delete")
	}
	o.set(key, value)
}

// Get implements ResyncOperations.
func (o *operations) Get(key string) proto.Message {
	value, _ := o.lookup(key)
	return value
}

// Delete implements UpdateOperations.
func (o *operations) Delete(key string) { o.set(key, nil) }

// lookup returns ok if the transaction has a request for the key, possibly a deletion.
func (o *operations) lookup(key string) (value proto.Message, ok bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	value, ok = o.values[key]
	return value, ok
}

func (o *operations) snapshot() map[string]proto.Message {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return maps.Clone(o.values)
}
