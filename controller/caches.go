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
// only writer; it reads without the lock.
type caches struct {
	// kubeState is the reflected Kubernetes state. Nobody but the loop reads it.
	kubeState KubeState
	// sources is the order of precedence: later values are merged onto earlier ones.
	sources []string

	// mu protects external, internal and running.
	mu sync.RWMutex
	// external is the configuration from outside, by source.
	external map[string]ExternalConfig
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
		c.replaceExternal(DatabaseSource, e.External, log)
		for _, s := range sources {
			snapshot, err := s.GetConfigSnapshot()
			if err != nil {
				log.Warn("External source has no snapshot, its last known one is used", "source", s.String(), "error", err)
				continue
			}
			c.replaceExternal(s.String(), snapshot, log)
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
			return nil, err
		}
		c.replaceExternal(e.Source, e.Config, log)
	case *ExternalConfigChange:
		if err := c.accepts(e.Source, e.Changes); err != nil {
			return nil, err
		}
		return c.changeExternal(e.Source, e.Changes, log), nil
	}
	return nil, nil
}

func (c *caches) replaceExternal(source string, config ExternalConfig, log *slog.Logger) {
	config = usable(config, source, log)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.external[source] = config
}

// changeExternal returns the keys that changed.
func (c *caches) changeExternal(source string, changes ExternalConfig, log *slog.Logger) (changed []string) {
	additions := usable(changes, source, log)
	c.mu.Lock()
	defer c.mu.Unlock()
	values := c.external[source]
	if values == nil {
		values = make(ExternalConfig)
		c.external[source] = values
	}
	for key := range changes {
		if value, ok := additions[key]; ok {
			values[key] = value
		} else {
			delete(values, key)
		}
		changed = append(changed, key)
	}
	return changed
}

// accepts tells what is wrong with an event of an external source: it is then
// refused as a whole.
func (c *caches) accepts(source string, config ExternalConfig) error {
	if !slices.Contains(c.sources, source) {
		return fmt.Errorf("external source %q is not known: sources are %q", source, c.sources)
	}
	if source == DatabaseSource {
		return nil // nobody could be told: what makes no sense is left out
	}
	return validateDirectives(config)
}

// onlyExternal tells if no handler requested the key.
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

// usable returns a copy of the configuration without directives that make no sense.
func usable(config ExternalConfig, source string, log *slog.Logger) ExternalConfig {
	result := maps.Clone(config)
	for key, value := range config {
		if isNil(value) {
			delete(result, key)
		} else if isDirectives(key) {
			if err := validateDirective(key, value); err != nil {
				log.Error("Merge directives are ignored", "source", source, "key", key, "error", err)
				delete(result, key)
			}
		}
	}
	return result
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
