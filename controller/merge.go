package controller

import (
	"fmt"
	"log/slog"

	"google.golang.org/protobuf/proto"
)

// merge puts the external values, in the order of their precedence, onto the
// internal one: fields that are set replace, items of lists are added. Either
// may be absent; nil is the result of nothing at all. The inputs are not changed.
func merge(internal proto.Message, external []proto.Message) (proto.Message, error) {
	if len(external) == 0 {
		return internal, nil
	}
	var merged proto.Message
	if !isNil(internal) {
		merged = proto.Clone(internal)
	}
	for _, value := range external {
		if merged == nil {
			merged = proto.Clone(value)
			continue
		}
		if have, want := proto.MessageName(value), proto.MessageName(merged); have != want {
			return internal, fmt.Errorf("external value is a %s, internal value a %s: external one ignored", have, want)
		}
		proto.Merge(merged, value)
	}
	return merged, nil
}

// mergeUpdate turns the internal changes of an update into the final ones: those
// keys, and the keys that changed externally, with all values that now count.
func (c *caches) mergeUpdate(changes map[string]proto.Message, externalKeys []string, log *slog.Logger) map[string]proto.Message {
	final := make(map[string]proto.Message, len(changes)+len(externalKeys))
	put := func(key string, internal proto.Message) {
		merged, err := merge(internal, c.externalValues(key))
		if err != nil {
			log.Error("Merge with external configuration failed", "key", key, "error", err)
		}
		if isNil(merged) {
			merged = nil
		}
		final[key] = merged
	}
	for key, value := range changes {
		put(key, value)
	}
	for _, key := range externalKeys {
		if _, changed := changes[key]; !changed {
			put(key, c.internal[key])
		}
	}
	return final
}

// mergeAll returns the whole configuration: internal values with all external ones.
func (c *caches) mergeAll(internal map[string]proto.Message, log *slog.Logger) map[string]proto.Message {
	final := make(map[string]proto.Message, len(internal))
	for key, value := range internal {
		final[key] = value
	}
	for _, source := range c.sources {
		for key := range c.external[source] {
			merged, err := merge(internal[key], c.externalValues(key))
			if err != nil {
				log.Error("Merge with external configuration failed", "key", key, "error", err)
			}
			final[key] = merged
		}
	}
	return final
}
