package descriptor

import (
	"context"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// RegisterIf registers a descriptor for a port that the vswitch may lack. make must not call the
// port's methods.
func RegisterIf[V proto.Message](r *Registrar, f vswitch.Features, has bool, d kvscheduler.Descriptor[V, NoMeta]) {
	if !has {
		d = Unimplemented(f, d)
	}
	Register(r, d)
}

// RegisterValues is RegisterIf for a port of Values, whose methods are the descriptor's operations.
// If the descriptor says which changes need a new creation, Create handles all others.
func RegisterValues[V proto.Message](r *Registrar, f vswitch.Features, port vswitch.Values[V], d kvscheduler.Descriptor[V, NoMeta]) {
	if port != nil {
		d.Create, d.Delete, d.Retrieve = Create(port.Create), Delete(port.Delete), Retrieve(port.List)
		if d.UpdateWithRecreate != nil {
			d.Update = Update(func(ctx context.Context, _, new V) error { return port.Create(ctx, new) })
		}
	}
	RegisterIf(r, f, port != nil, d)
}

// Unimplemented returns the descriptor of a model that the vswitch does not support.
func Unimplemented[V proto.Message](f vswitch.Features, d kvscheduler.Descriptor[V, NoMeta]) kvscheduler.Descriptor[V, NoMeta] {
	return kvscheduler.Descriptor[V, NoMeta]{
		Name: d.Name, Keys: d.Keys, NB: d.NB, Validate: d.Validate,
		Create: func(context.Context, string, V) (NoMeta, error) {
			return NoMeta{}, vswitch.Unsupported("%s", f.Lacks(d.Name))
		},
		Delete: NoopDelete[V],
	}
}
