package controller

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
)

// caches holds the input of the event loop and its last result. The loop is the
// only writer, and the only reader of all but internal.
type caches struct {
	// kubeState is the reflected Kubernetes state.
	kubeState KubeState
	// external is the configuration from outside, by source.
	external map[string]ExternalConfig
	// sources is the order of precedence: later values are merged onto earlier ones.
	sources []string

	// mu protects internal and running.
	mu sync.RWMutex
	// internal is what the handlers requested, as last committed.
	internal map[string]proto.Message
	// running is what the present transaction consists of; nil between events.
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
	}
	return c
}

// receive applies the content of an event. It returns the keys of the external
// configuration that changed.
func (c *caches) receive(event Event, sources []ExternalConfigSource, log *slog.Logger) (changed []string, err error) {
	switch e := event.(type) {
	case *DBResync:
		c.kubeState = e.State
		if c.kubeState == nil {
			c.kubeState = KubeState{}
		}
		c.external[DatabaseSource] = maps.Clone(e.External)
		for _, s := range sources {
			snapshot, err := s.GetConfigSnapshot()
			if err != nil {
				log.Warn("External source has no snapshot, its last known one is used", "source", s.String(), "error", err)
				continue
			}
			c.external[s.String()] = maps.Clone(snapshot)
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
		if err := c.knows(e.Source); err != nil {
			return nil, err
		}
		c.external[e.Source] = maps.Clone(e.Config)
	case *ExternalConfigChange:
		if err := c.knows(e.Source); err != nil {
			return nil, err
		}
		values := c.external[e.Source]
		if values == nil {
			values = make(ExternalConfig)
			c.external[e.Source] = values
		}
		for key, value := range e.Changes {
			if isNil(value) {
				delete(values, key)
			} else {
				values[key] = value
			}
			changed = append(changed, key)
		}
	}
	return changed, nil
}

func (c *caches) knows(source string) error {
	if !slices.Contains(c.sources, source) {
		return fmt.Errorf("external source %q is not known: sources are %q", source, c.sources)
	}
	return nil
}

// externalValues returns the external values for the key in the order of precedence.
func (c *caches) externalValues(key string) (values []proto.Message) {
	for _, source := range c.sources {
		if value := c.external[source][key]; !isNil(value) {
			values = append(values, value)
		}
	}
	return values
}

// onlyExternal tells if no handler requested the key.
func (c *caches) onlyExternal(key string) bool {
	return c.internal[key] == nil && len(c.externalValues(key)) > 0
}

// begin starts a transaction.
func (c *caches) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = newOperations(nil)
}

// next returns the operations for the next event of the transaction. They begin with
// those of the events before, which do not see what is added.
func (c *caches) next() *operations {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = newOperations(c.running.snapshot())
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
