package controller

import (
	"log/slog"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
)

// caches holds the input of the event loop and its last result. The loop is the
// only writer; it reads without the lock.
type caches struct {
	// kubeState is the reflected Kubernetes state. Only the loop reads it.
	kubeState KubeState
	// withClients are the sources that have clients.
	withClients []string

	// mu protects what follows.
	mu sync.RWMutex
	// sources is the order of precedence: later values are merged onto earlier ones.
	// Clients are among them while they want anything.
	sources []string
	// external is the configuration from outside, by source.
	external map[string]ExternalConfig
	// internal are the last committed values of the handlers.
	internal map[string]proto.Message
	// running are the values of the present transaction; nil between events.
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

// keys returns all keys that any source wants something for, sorted.
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

// receive applies the content of an event. For a change of the external
// configuration it returns the keys that changed, and how to undo it.
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
				log.Warn("External source has no snapshot, its last known one is used", "source", s.String(), "error", err)
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

// onlyExternal reports whether no handler requested the key.
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

// begin starts a transaction.
func (c *caches) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = newOperations()
}

// next returns the operations for the next event of the transaction. They begin with
// those of the events before.
func (c *caches) next() *operations {
	c.running.keep()
	return c.running
}

// end forgets the running transaction; internal becomes the result of update.
func (c *caches) end(update func(internal map[string]proto.Message) map[string]proto.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = nil
	if update != nil {
		c.internal = update(c.internal)
	}
}

// getConfig implements ConfigRetriever.
func (c *caches) getConfig(key string) proto.Message {
	c.mu.RLock()
	defer c.mu.RUnlock()
	value := c.internal[key]
	if c.running != nil {
		if requested, ok := c.running.lookup(key); ok {
			value = requested
		}
	}
	if isNil(value) {
		return nil
	}
	return proto.Clone(value)
}
