package vswitch

import (
	"context"
	"fmt"

	"github.com/contiv/contiv/filter"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Filter judges connections by the values of contiv.filter, as filter.State does:
// those that the vswitch forwards, by the addresses of their ends, whichever way
// services and NAT changed them. Connections of the node itself, and to it, pass; so
// do answers, ICMP errors of connections that pass, and neighbour discovery.
//
// Values come and go in any order: a list that does not exist has no rules, a set no
// members, and what a value that is gone was needed for works as before without it.
// Each call is one step: a packet meets what was before or what is after. Connections
// that exist are judged anew: they go on if they may still be opened, else they stop.
type Filter interface {
	// Set makes or changes values of any of the models, all of them or none.
	Set(ctx context.Context, values ...proto.Message) error
	// Remove removes values by their names.
	Remove(ctx context.Context, values ...proto.Message) error
	// List returns the values of all models. What is missing or damaged differs
	// from what is expected.
	List(ctx context.Context, expected []proto.Message) ([]proto.Message, error)
}

// Names of the descriptors.
const (
	AddressSetDescriptor  = "contiv-address-set"
	EndpointSetDescriptor = "contiv-endpoint-set"
	AccessListDescriptor  = "contiv-access-list"
	SubjectDescriptor     = "contiv-subject"
)

func registerFilter(r *registrar, port Filter) {
	register(r, filterDescriptor(AddressSetDescriptor, models.AddressSet, port, filter.ValidateAddressSet))
	register(r, filterDescriptor(EndpointSetDescriptor, models.EndpointSet, port, filter.ValidateEndpointSet))
	register(r, filterDescriptor(AccessListDescriptor, models.AccessList, port, filter.ValidateAccessList))
	register(r, filterDescriptor(SubjectDescriptor, models.Subject, port, filter.ValidateSubject))
}

// filterDescriptor handles config/contiv/filter/v1/…. Values do not depend on each
// other: while one is missing, the others deny more, never less.
func filterDescriptor[V proto.Message](name string, model *models.Model, port Filter, validate func(V) *filter.FieldError) kvscheduler.Descriptor[V, noMeta] {
	set := func(ctx context.Context, v V) error { return port.Set(ctx, v) }
	all := func(do func(context.Context, ...proto.Message) error) func(context.Context, []item[V]) []error {
		return func(ctx context.Context, items []item[V]) []error {
			values := make([]proto.Message, len(items))
			for i, it := range items {
				values[i] = it.Value
			}
			err := do(ctx, values...)
			if err == nil {
				return nil
			}
			errs := make([]error, len(items))
			for i, v := range values { // which of them is to blame
				if errs[i] = err; len(values) > 1 {
					errs[i] = do(ctx, v)
				}
			}
			return errs
		}
	}
	return kvscheduler.Descriptor[V, noMeta]{
		Name: name,
		Keys: kvscheduler.KeySpace{Prefix: model.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, v V) error {
			if err := validate(v); err != nil {
				return invalid(err.Field, "%s", err.Text)
			}
			return nil
		},
		Equivalent: func(_ string, old, new V) bool { return filter.Equivalent(old, new) },
		Create:     create(set),
		Update:     update(func(ctx context.Context, _, new V) error { return port.Set(ctx, new) }),
		Delete:     remove(func(ctx context.Context, v V) error { return port.Remove(ctx, v) }),
		CreateBatch: func(ctx context.Context, items []item[V]) ([]noMeta, []error) {
			return make([]noMeta, len(items)), all(port.Set)(ctx, items)
		},
		DeleteBatch: all(port.Remove),
		Retrieve: retrieve(func(ctx context.Context, expected []V) ([]V, error) {
			messages := make([]proto.Message, len(expected))
			for i, v := range expected {
				messages[i] = v
			}
			found, err := port.List(ctx, messages)
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

// NoFilter is the Filter of a vswitch that has none: why says so to people.
type NoFilter struct{ Why string }

// Set says why it cannot.
func (f NoFilter) Set(context.Context, ...proto.Message) error { return Unsupported("%s", f.Why) }

// Remove has nothing to remove.
func (NoFilter) Remove(context.Context, ...proto.Message) error { return nil }

// List finds nothing.
func (NoFilter) List(context.Context, []proto.Message) ([]proto.Message, error) { return nil, nil }
