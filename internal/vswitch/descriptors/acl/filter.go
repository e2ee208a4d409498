package acl

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func registerFilter(r *descriptor.Registrar, port vswitch.Filter) {
	changes := &filterChanges{port: port}
	stage := &kvscheduler.Stage{Name: "policies", Early: true, Commit: changes.commit}
	descriptor.Register(r, filterDescriptor(vswitch.AddressSetDescriptor, models.AddressSet, changes, stage, policyrules.ValidateAddressSet))
	descriptor.Register(r, filterDescriptor(vswitch.EndpointSetDescriptor, models.EndpointSet, changes, stage, policyrules.ValidateEndpointSet))
	descriptor.Register(r, filterDescriptor(vswitch.AccessListDescriptor, models.AccessList, changes, stage, policyrules.ValidateAccessList, vswitch.AddressSetDescriptor, vswitch.EndpointSetDescriptor))
	descriptor.Register(r, filterDescriptor(vswitch.SubjectDescriptor, models.Subject, changes, stage, policyrules.ValidateSubject, vswitch.AccessListDescriptor))
}

// filterChanges collects the changes of a transaction, which take effect in one step: between two
// steps, more could pass than before and after. Their keys sort before the interfaces of pods, so
// the step comes first.
type filterChanges struct {
	port vswitch.Filter
	keys []string // in order of the first change
	last map[string]filterChange
}

type filterChange struct {
	value proto.Message
	gone  bool
}

func (c *filterChanges) prepare(key string, value proto.Message, gone bool) {
	if _, ok := c.last[key]; !ok {
		c.keys = append(c.keys, key)
	}
	if c.last == nil {
		c.last = map[string]filterChange{}
	}
	c.last[key] = filterChange{value, gone}
}

// commit makes the changes one by one if they cannot be made together, so that valid values take
// effect.
func (c *filterChanges) commit(ctx context.Context) error {
	keys, last := c.keys, c.last
	c.keys, c.last = nil, nil
	err := c.change(ctx, last, keys)
	if err == nil || len(keys) == 1 || errors.Is(err, kvscheduler.ErrUnsupported) {
		return err
	}
	some := &kvscheduler.StageError{Keys: map[string]error{}}
	for _, key := range keys {
		if err := c.change(ctx, last, []string{key}); err != nil {
			some.Keys[key] = err
		}
	}
	if len(some.Keys) == 0 {
		return nil
	}
	return some
}

func (c *filterChanges) change(ctx context.Context, changes map[string]filterChange, keys []string) error {
	var set, remove []proto.Message
	for _, key := range keys {
		if change := changes[key]; change.gone {
			remove = append(remove, change.value)
		} else {
			set = append(set, change.value)
		}
	}
	return c.port.Change(ctx, set, remove)
}

// filterDescriptor handles config/contiv/filter/v1/…. Values are independent: a missing list has no
// rules, a missing set no members.
func filterDescriptor[V proto.Message](name string, model *models.Model, changes *filterChanges, stage *kvscheduler.Stage, validate func(V) *policyrules.FieldError, after ...string) kvscheduler.Descriptor[V, descriptor.NoMeta] {
	return kvscheduler.Descriptor[V, descriptor.NoMeta]{
		Name: name,
		Keys: kvscheduler.KeySpace{Prefix: model.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, v V) error {
			if err := validate(v); err != nil {
				return descriptor.Invalid(err.Field, "%s", err.Text)
			}
			return nil
		},
		Equivalent: func(_ string, old, new V) bool { return policyrules.Equivalent(old, new) },
		Stage:      stage,
		// Drivers that write values compare the last ones with the existing state.
		RetrieveAfter: after,
		Create: func(_ context.Context, key string, v V) (none descriptor.NoMeta, err error) {
			changes.prepare(key, v, false)
			return none, nil
		},
		Update: func(_ context.Context, key string, _, v V, none descriptor.NoMeta) (descriptor.NoMeta, error) {
			changes.prepare(key, v, false)
			return none, nil
		},
		Delete: func(_ context.Context, key string, v V, _ descriptor.NoMeta) error {
			changes.prepare(key, v, true)
			return nil
		},
		Retrieve: descriptor.Retrieve(func(ctx context.Context, expected []V) ([]V, error) {
			messages := make([]proto.Message, len(expected))
			for i, v := range expected {
				messages[i] = v
			}
			found, err := changes.port.List(ctx, messages)
			if err != nil {
				return nil, fmt.Errorf("reading policies: %w", err)
			}
			var own []V
			for _, m := range found {
				if v, ok := m.(V); ok {
					own = append(own, v)
				}
			}
			return own, nil
		}),
	}
}
