package controller

import (
	"fmt"
	"log/slog"

	mergepb "github.com/contiv/contiv/api/contiv/merge"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// merge returns internal with the fields set in external, and with the list items that internal
// lacks. Either may be nil. The inputs are not changed.
func merge(internal, external proto.Message) (proto.Message, error) {
	switch {
	case isNil(external):
		return internal, nil
	case isNil(internal):
		return external, nil
	}
	if have, want := proto.MessageName(external), proto.MessageName(internal); have != want {
		return internal, fmt.Errorf("external value is a %s, internal value a %s: external value ignored", have, want)
	}
	merged := proto.Clone(internal)
	addition := proto.Clone(external)
	removePresent(addition.ProtoReflect(), merged.ProtoReflect())
	proto.Merge(merged, addition)
	return merged, nil
}

// removePresent removes the list items from addition that value contains already.
func removePresent(addition, value protoreflect.Message) {
	addition.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsMap() || !value.Has(field):
		case field.IsList():
			present, list, kept := value.Get(field).List(), v.List(), 0
			for i := range list.Len() {
				if item := list.Get(i); !hasItem(present, item) {
					list.Set(kept, item)
					kept++
				}
			}
			list.Truncate(kept)
		case field.Message() != nil:
			removePresent(v.Message(), value.Get(field).Message())
		}
		return true
	})
}

func hasItem(list protoreflect.List, item protoreflect.Value) bool {
	for i := range list.Len() {
		if list.Get(i).Equal(item) {
			return true
		}
	}
	return false
}

// merged returns the value of a key: internal merged with the directives and values of all external
// sources in order; nil for none. internal is not changed.
func (c *caches) merged(key string, internal proto.Message, log *slog.Logger) proto.Message {
	value, directives := internal, directivesKey(key)
	for _, source := range c.sources {
		config := c.external[source]
		if d, ok := config[directives].(*mergepb.Directives); ok {
			value = c.directed(value, d, log)
		}
		var err error
		if value, err = merge(value, config[key]); err != nil {
			log.Error("Merge with external configuration failed", "key", key, "source", source, "error", err)
		}
	}
	if isNil(value) {
		return nil
	}
	return value
}

// directed applies the directives to a copy of the value.
func (c *caches) directed(value proto.Message, d *mergepb.Directives, log *slog.Logger) proto.Message {
	if isNil(value) || d.GetDiscard() {
		return nil
	}
	changed := proto.Clone(value)
	if err := applyDirectives(changed, d); err != nil { // they were validated for this type
		log.Error("Merge directives failed", "key", d.GetKey(), "error", err)
		return value
	}
	return changed
}

// mergeUpdate returns the final values of the keys that an update changes, internally or
// externally.
func (c *caches) mergeUpdate(changes map[string]proto.Message, externalKeys []string, log *slog.Logger) map[string]proto.Message {
	final := make(map[string]proto.Message, len(changes)+len(externalKeys))
	for key, value := range changes {
		final[key] = c.merged(key, value, log)
	}
	for _, externalKey := range externalKeys {
		key := mergedKey(externalKey)
		if _, done := final[key]; !done {
			final[key] = c.merged(key, c.internal[key], log)
		}
	}
	return final
}

// mergeAll returns the whole configuration.
func (c *caches) mergeAll(internal map[string]proto.Message, log *slog.Logger) map[string]proto.Message {
	final := make(map[string]proto.Message, len(internal))
	for key, value := range internal {
		final[key] = value
	}
	for _, config := range c.external {
		for externalKey := range config {
			key := mergedKey(externalKey)
			if value := c.merged(key, internal[key], log); value != nil {
				final[key] = value
			} else {
				delete(final, key)
			}
		}
	}
	return final
}
