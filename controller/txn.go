package controller

import (
	"maps"
	"sync"

	"google.golang.org/protobuf/proto"
)

// operations collects what the handlers request for one event. Only the event loop
// writes; GetConfig may read from anywhere.
type operations struct {
	mu     sync.RWMutex
	values map[string]proto.Message // nil: delete
}

func newOperations(values map[string]proto.Message) *operations {
	if values == nil {
		values = make(map[string]proto.Message)
	}
	return &operations{values: values}
}

// Put requests the value for the key.
func (o *operations) Put(key string, value proto.Message) {
	if isNil(value) {
		panic("Put of a nil value for " + key + ": use Delete")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.values[key] = value
}

// Get returns what has been put for the key in this transaction.
func (o *operations) Get(key string) proto.Message {
	value, _ := o.lookup(key)
	return value
}

// Delete requests that the key has no value.
func (o *operations) Delete(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.values[key] = nil
}

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
