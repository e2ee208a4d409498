package controller

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/kvscheduler"
)

// InternalSource is the source name of values that the agent's plugins request.
const InternalSource = "internal"

// Contributions holds the values of all sources for a key, and the merged result.
type Contributions struct {
	Key string
	// Sources in merge order. One source may contribute both merge directives and a value.
	Sources []Contribution
	// Result is the value passed to the scheduler; its Value is nil if the key has none.
	Result kvscheduler.KeyValue
}

type Contribution struct {
	// Source is InternalSource, DatabaseSource or the name of an ExternalConfigSource.
	Source string
	// Wants is a value for the key, or merge directives with their own key.
	Wants kvscheduler.KeyValue
}

// Contributions returns the last requests for the key. Values are read-only.
func (c *Controller) Contributions(key string) Contributions {
	key = mergedKey(key)
	c.caches.mu.RLock()
	defer c.caches.mu.RUnlock()
	internal := c.caches.internal[key]
	result := Contributions{Key: key, Result: kvscheduler.KeyValue{Key: key, Value: c.caches.merged(key, internal, slog.New(slog.DiscardHandler))}}
	if !isNil(internal) {
		result.Sources = append(result.Sources, Contribution{InternalSource, kvscheduler.KeyValue{Key: key, Value: internal}})
	}
	for _, source := range c.caches.sources {
		for _, externalKey := range []string{directivesKey(key), key} {
			if value := c.caches.external[source][externalKey]; !isNil(value) {
				result.Sources = append(result.Sources, Contribution{source, kvscheduler.KeyValue{Key: externalKey, Value: value}})
			}
		}
	}
	return result
}

func (c *Controller) serveContributions(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	if !r.URL.Query().Has("key") {
		all := []Contributions{}
		for _, key := range c.caches.keys() {
			all = append(all, c.Contributions(key))
		}
		rest.JSON(w, all)
		return
	}
	if key == "" {
		rest.Error(w, http.StatusBadRequest, errors.New("argument \"key\" is empty"))
		return
	}
	rest.JSON(w, c.Contributions(key))
}
