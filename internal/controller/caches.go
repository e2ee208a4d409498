package controller

import (
	"log/slog"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
)

// caches holds the inputs of the event loop and its last result. Only the loop writes, so it reads
// without the lock.
type caches struct {
	// kubeState is read by the loop only.
	kubeState KubeState
	// withClients are the names of the sources that implement ClientsSource.
	withClients []string

	// mu protects the fields below.
	mu sync.RWMutex
	// sources, in merge order: later values are merged onto earlier ones. Contains the clients that
	// have values.
	sources  []string
	external map[string]ExternalConfig
	// internal holds the last committed values of the handlers.
	internal map[string]proto.Message
	// running holds the requests of the current transaction; nil between events.
	running *operations
}

func newCaches(sources []ExternalConfigSource) *caches {
	c := &caches{
		kubeState: KubeState{},
		external:  make(map[string]ExternalConfig),
		sources:   []string{DatabaseSource},
		internal:  make(map[string]proto.Message),
	}
	for _, s := range sources {
		c.sources = append(c.sources, s.String())
		if _, ok := s.(ClientsSource); ok {
			c.withClients = append(c.withClients, s.String())
		}
	}
	return c
}

// keys returns the sorted keys that have a value from any source.
func (c *caches) keys() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	known := make(map[string]bool)
	for key, value := range c.internal {
		known[key] = !isNil(value)
	}
	for _, config := range c.external {
		for key := range config {
			known[mergedKey(key)] = true
		}
	}
	var keys []string
	for key, wanted := range known {
		if wanted {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// receive applies the content of an event. For a change of the external configuration it returns
// the changed keys and a function that undoes the change.
func (c *caches) receive(event Event, sources []ExternalConfigSource, log *slog.Logger) (changed []string, undo func(), err error) {
	switch e := event.(type) {
	case *DBResync:
		c.kubeState = e.State
		if c.kubeState == nil {
			c.kubeState = KubeState{}
		}
		c.replaceExternal(DatabaseSource, e.External, log)
		for _, s := range sources {
			if err := c.readSource(s, log); err != nil {
				log.Warn("Reading an external source failed, using its last snapshot", "source", s.String(), "error", err)
			}
		}
	case *KubeStateChange:
		values := c.kubeState[e.Resource]
		if values == nil {
			values = make(map[string]proto.Message)
			c.kubeState[e.Resource] = values
		}
		if isNil(e.NewValue) {
			delete(values, e.Key)
		} else {
			values[e.Key] = e.NewValue
		}
	case *ExternalConfigResync:
		if err := c.accepts(e.Source, e.Config); err != nil {
			return nil, nil, err
		}
		c.replaceExternal(e.Source, e.Config, log)
	case *ExternalConfigChange:
		if err := c.accepts(e.Source, e.Changes); err != nil {
			return nil, nil, err
		}
		changed, undo = c.changeExternal(e, log)
	}
	return changed, undo, nil
}

// onlyExternal reports whether only external sources request the key.
func (c *caches) onlyExternal(key string) bool {
	if c.internal[key] != nil {
		return false
	}
	for _, config := range c.external {
		if !isNil(config[key]) {
			return true
		}
	}
	return false
}

func (c *caches) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = newOperations()
}

// next returns the operations for the next event of the transaction, which include the requests of
// the events before it.
func (c *caches) next() *operations {
	c.running.keep()
	return c.running
}

// end closes the transaction. update, if not nil, returns the new internal configuration.
func (c *caches) end(update func(internal map[string]proto.Message) map[string]proto.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = nil
	if update != nil {
		c.internal = update(c.internal)
	}
}
