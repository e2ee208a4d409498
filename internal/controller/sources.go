package controller

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// readSource replaces the configuration of a source by its snapshots.
func (c *caches) readSource(s ExternalConfigSource, log *slog.Logger) error {
	snapshot, err := s.GetConfigSnapshot()
	if err != nil {
		return err
	}
	c.replaceExternal(s.String(), snapshot, log)
	clients, ok := s.(ClientsSource)
	if !ok {
		return nil
	}
	snapshots, err := clients.GetClientSnapshots()
	if err != nil {
		return err
	}
	for _, known := range slices.Clone(c.sources) {
		if client, ok := strings.CutPrefix(known, ClientSource(s.String(), "")); ok && snapshots[client] == nil {
			c.replaceExternal(known, nil, log)
		}
	}
	for client, snapshot := range snapshots {
		c.replaceExternal(ClientSource(s.String(), client), snapshot, log)
	}
	return nil
}

// accepts returns an error if an event of an external source is invalid.
func (c *caches) accepts(source string, config ExternalConfig) error {
	if !slices.Contains(c.sources, source) && c.sourceOfClient(source) == "" {
		return fmt.Errorf("external source %q is not known: sources are %q", source, c.sources)
	}
	if source == DatabaseSource {
		return nil // the source cannot receive an error: invalid values are skipped
	}
	return validateDirectives(config)
}

// sourceOfClient returns the source of a client name, or "".
func (c *caches) sourceOfClient(name string) string {
	for _, source := range c.withClients {
		if client, ok := strings.CutPrefix(name, ClientSource(source, "")); ok && client != "" {
			return source
		}
	}
	return ""
}

func (c *caches) replaceExternal(source string, config ExternalConfig, log *slog.Logger) {
	config = usable(config, source, log)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.external[source] = config
	c.noteClient(source)
}

// changeExternal returns the changed keys, and a function that restores their previous values.
func (c *caches) changeExternal(e *ExternalConfigChange, log *slog.Logger) (changed []string, undo func()) {
	additions := usable(e.Changes, e.Source, log)
	c.mu.Lock()
	defer c.mu.Unlock()
	values := c.external[e.Source]
	if values == nil {
		values = make(ExternalConfig)
		c.external[e.Source] = values
	}
	before := make(ExternalConfig)
	for key := range e.Changes {
		before[key] = values[key]
	}
	if e.Replace {
		maps.Copy(before, values)
	}
	for key := range before {
		if value, ok := additions[key]; ok {
			values[key] = value
		} else {
			delete(values, key)
		}
		changed = append(changed, key)
	}
	slices.Sort(changed)
	c.noteClient(e.Source)
	undone := &ExternalConfigChange{Source: e.Source, Changes: before}
	return changed, func() { c.changeExternal(undone, log) }
}

// noteClient adds a client to the sources if it has values and removes it otherwise. The caller
// holds mu.
func (c *caches) noteClient(name string) {
	source := c.sourceOfClient(name)
	if source == "" {
		return
	}
	at, known := slices.Index(c.sources, name), slices.Contains(c.sources, name)
	switch {
	case len(c.external[name]) == 0:
		delete(c.external, name)
		if known {
			c.sources = slices.Delete(slices.Clone(c.sources), at, at+1)
		}
	case !known:
		at = slices.Index(c.sources, source) + 1
		for at < len(c.sources) && strings.HasPrefix(c.sources[at], ClientSource(source, "")) && c.sources[at] < name {
			at++
		}
		c.sources = slices.Insert(slices.Clone(c.sources), at, name)
	}
}

// usable returns a copy of the configuration without deleted values and invalid directives.
func usable(config ExternalConfig, source string, log *slog.Logger) ExternalConfig {
	result := maps.Clone(config)
	for key, value := range config {
		if isNil(value) {
			delete(result, key)
		} else if isDirectives(key) {
			if err := validateDirective(key, value); err != nil {
				log.Error("Merge directives ignored", "source", source, "key", key, "error", err)
				delete(result, key)
			}
		}
	}
	return result
}

// given returns the sources, except the database, of each key; with nil, of all external keys.
func (c *caches) given(keys []string) map[string][]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	given := make(map[string][]string, len(keys))
	for _, key := range keys {
		given[key] = []string{}
	}
	for _, source := range c.sources {
		config := c.external[source]
		switch {
		case source == DatabaseSource:
		case keys != nil:
			for _, key := range keys {
				if !isNil(config[key]) {
					given[key] = append(given[key], source)
				}
			}
		default:
			for key := range config {
				given[key] = append(given[key], source)
			}
		}
	}
	return given
}

// ExternalValues returns the merged values of the external sources. They are read-only.
func (c *Controller) ExternalValues() ExternalConfig {
	c.caches.mu.RLock()
	defer c.caches.mu.RUnlock()
	values := make(ExternalConfig)
	for _, config := range c.caches.external {
		for key := range config {
			if _, done := values[key]; done || isDirectives(key) {
				continue
			}
			if value := c.caches.merged(key, nil, slog.New(slog.DiscardHandler)); value != nil {
				values[key] = value
			}
		}
	}
	return values
}
