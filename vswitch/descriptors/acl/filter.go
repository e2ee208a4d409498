package acl

import (
	"context"
	"fmt"

	"github.com/contiv/contiv/filter"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/descriptor"
	"google.golang.org/protobuf/proto"
)

func registerFilter(r *descriptor.Registrar, port vswitch.Filter) {
	descriptor.Register(r, filterDescriptor(vswitch.AddressSetDescriptor, models.AddressSet, port, filter.ValidateAddressSet))
	descriptor.Register(r, filterDescriptor(vswitch.EndpointSetDescriptor, models.EndpointSet, port, filter.ValidateEndpointSet))
	descriptor.Register(r, filterDescriptor(vswitch.AccessListDescriptor, models.AccessList, port, filter.ValidateAccessList))
	descriptor.Register(r, filterDescriptor(vswitch.SubjectDescriptor, models.Subject, port, filter.ValidateSubject))
}

// filterDescriptor handles config/contiv/filter/v1/…. Values do not depend on each
// other: while one is missing, the others deny more, never less.
func filterDescriptor[V proto.Message](name string, model *models.Model, port vswitch.Filter, validate func(V) *filter.FieldError) kvscheduler.Descriptor[V, descriptor.NoMeta] {
	set := func(ctx context.Context, v V) error { return port.Set(ctx, v) }
	all := func(do func(context.Context, ...proto.Message) error) func(context.Context, []descriptor.Item[V]) []error {
		return func(ctx context.Context, items []descriptor.Item[V]) []error {
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
		Equivalent: func(_ string, old, new V) bool { return filter.Equivalent(old, new) },
		Create:     descriptor.Create(set),
		Update:     descriptor.Update(func(ctx context.Context, _, new V) error { return port.Set(ctx, new) }),
		Delete:     descriptor.Delete(func(ctx context.Context, v V) error { return port.Remove(ctx, v) }),
		CreateBatch: func(ctx context.Context, items []descriptor.Item[V]) ([]descriptor.NoMeta, []error) {
			return make([]descriptor.NoMeta, len(items)), all(port.Set)(ctx, items)
		},
		DeleteBatch: all(port.Remove),
		Retrieve: descriptor.Retrieve(func(ctx context.Context, expected []V) ([]V, error) {
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
