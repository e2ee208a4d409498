package descriptor

import (
	"context"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// InBulk adds bulk callbacks to a descriptor if the port supports them.
func InBulk[V proto.Message](d kvscheduler.Descriptor[V, NoMeta], port any, a Allocated[V]) kvscheduler.Descriptor[V, NoMeta] {
	bulk, ok := port.(vswitch.Bulk[V])
	if !ok {
		return d
	}
	d.CreateBatch = func(ctx context.Context, items []Item[V]) ([]NoMeta, []error) {
		return make([]NoMeta, len(items)), a.all(items, func(values []V) []error { return bulk.CreateAll(ctx, values) },
			func(err error) error { return err })
	}
	d.DeleteBatch = func(ctx context.Context, items []Item[V]) []error {
		return a.all(items, func(values []V) []error { return bulk.DeleteAll(ctx, values) },
			func(error) error { return nil }) // it was never resolved
	}
	return d
}

// Unallocated is for models without references to allocated addresses.
func Unallocated[V proto.Message]() Allocated[V] {
	return Allocated[V]{Resolve: func(v V) (V, error) { return v, nil }}
}
