package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	mergepb "github.com/contiv/contiv/api/contiv/merge"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

func directivesKey(key string) string { return models.MergeDirectives.KeyPrefix() + key }

// mergedKey returns the northbound key that an external key affects.
func mergedKey(externalKey string) string {
	return strings.TrimPrefix(externalKey, models.MergeDirectives.KeyPrefix())
}

func isDirectives(externalKey string) bool {
	return strings.HasPrefix(externalKey, models.MergeDirectives.KeyPrefix())
}

// validateDirectives returns an error for merge directives that cannot be applied.
func validateDirectives(config ExternalConfig) error {
	var errs []error
	for _, key := range sortedKeys(config) {
		if !isDirectives(key) || isNil(config[key]) {
			continue
		}
		if err := validateDirective(key, config[key]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// ValidateDirectives returns an error for invalid external merge directives, and nil for other
// values.
func ValidateDirectives(key string, value proto.Message) error {
	return validateDirectives(ExternalConfig{key: value})
}

func validateDirective(key string, value proto.Message) error {
	d, ok := value.(*mergepb.Directives)
	if !ok {
		return fmt.Errorf("value is a %s, not a %s", proto.MessageName(value), proto.MessageName(d))
	}
	if d.GetKey() != mergedKey(key) {
		return fmt.Errorf("field key is %q: it must be %q", d.GetKey(), mergedKey(key))
	}
	model, ok := models.ForKey(d.GetKey())
	if !ok || model == models.MergeDirectives {
		return fmt.Errorf("%q is not a key of a mergeable value", d.GetKey())
	}
	return applyDirectives(model.New(), d)
}

// applyDirectives removes the items named by the directives from value, which it changes. Discard
// is handled by the caller.
func applyDirectives(value proto.Message, d *mergepb.Directives) error {
	m := value.ProtoReflect()
	for _, path := range d.GetUnset() {
		if err := clearField(m, path, false); err != nil {
			return fmt.Errorf("unset: %w", err)
		}
	}
	for _, path := range d.GetReplace() {
		if err := clearField(m, path, true); err != nil {
			return fmt.Errorf("replace: %w", err)
		}
	}
	for _, r := range d.GetRemove() {
		if err := removeItems(m, r.GetList(), r.GetItem()); err != nil {
			return fmt.Errorf("remove: %w", err)
		}
	}
	return nil
}

// clearField clears a field. collection: the field must be a list or a map; otherwise it must not.
func clearField(m protoreflect.Message, path string, collection bool) error {
	parent, field, err := resolve(m, path)
	if err != nil {
		return err
	}
	if isCollection := field.IsList() || field.IsMap(); isCollection != collection {
		if collection {
			return fmt.Errorf("%q is not a list: use unset", path)
		}
		return fmt.Errorf("%q is a list: use replace, or remove for single items", path)
	}
	if parent != nil {
		parent.Clear(field)
	}
	return nil
}

func removeItems(m protoreflect.Message, path, item string) error {
	parent, field, err := resolve(m, path)
	if err != nil {
		return err
	}
	if !field.IsList() {
		return fmt.Errorf("%q is not a list", path)
	}
	matches, err := matcher(field, item)
	if err != nil {
		return fmt.Errorf("item of %q: %w", path, err)
	}
	if parent == nil || !parent.Has(field) {
		return nil
	}
	list, kept := parent.Mutable(field).List(), 0
	for i := range list.Len() {
		if value := list.Get(i); !matches(value) {
			list.Set(kept, value)
			kept++
		}
	}
	list.Truncate(kept)
	return nil
}

// matcher returns a predicate for the items of a list. It parses the JSON of the item as a list of
// one in an otherwise empty message.
func matcher(field protoreflect.FieldDescriptor, item string) (func(protoreflect.Value) bool, error) {
	if item != "" && !json.Valid([]byte(item)) {
		return nil, errors.New(`not JSON: put strings in quotes, as in "10.0.0.1/24"`)
	}
	holder := dynamicpb.NewMessage(field.ContainingMessage())
	unknown, err := models.DecodeJSON(fmt.Appendf(nil, `{%q:[%s]}`, field.Name(), item), holder)
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		return nil, unknown[0].Err()
	}
	list := holder.Get(field).List()
	if list.Len() != 1 {
		return nil, errors.New("one item is expected")
	}
	want := list.Get(0)
	if field.Message() == nil {
		return want.Equal, nil
	}
	return func(have protoreflect.Value) bool { return contains(have.Message(), want.Message()) }, nil
}

// contains reports whether have equals want in all fields set in want.
func contains(have, want protoreflect.Message) bool {
	same := true
	want.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Message() != nil && !field.IsList() && !field.IsMap() {
			same = have.Has(field) && contains(have.Get(field).Message(), value.Message())
		} else {
			same = have.Get(field).Equal(value)
		}
		return same
	})
	return same
}

// resolve follows a path of field names. parent is nil if a message on the path is not set.
func resolve(m protoreflect.Message, path string) (parent protoreflect.Message, field protoreflect.FieldDescriptor, err error) {
	parent = m
	descriptor := m.Descriptor()
	names := strings.Split(path, ".")
	for i, name := range names {
		field = descriptor.Fields().ByName(protoreflect.Name(name))
		if field == nil {
			return nil, nil, fmt.Errorf("%q: %s has no field %q", path, descriptor.FullName(), name)
		}
		if i == len(names)-1 {
			return parent, field, nil
		}
		if field.Message() == nil || field.IsList() || field.IsMap() {
			return nil, nil, fmt.Errorf("%q: field %q has no fields inside", path, name)
		}
		descriptor = field.Message()
		if parent != nil && parent.Has(field) {
			parent = parent.Mutable(field).Message()
		} else {
			parent = nil
		}
	}
	return parent, field, nil
}
