package descriptor

import (
	"context"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Item is a key and value of a model without metadata.
type Item[V proto.Message] = kvscheduler.Item[V, NoMeta]

// Retrieve turns a List method of the port into a Retrieve callback.
func Retrieve[V proto.Message](list func(context.Context, []V) ([]V, error)) func(context.Context, []Item[V]) ([]Item[V], error) {
	return func(ctx context.Context, expected []Item[V]) ([]Item[V], error) {
		values, err := list(ctx, ValuesOf(expected))
		if err != nil {
			return nil, err
		}
		return itemsOf(values), nil
	}
}

// ValuesOf returns the values of items.
func ValuesOf[V proto.Message](items []Item[V]) []V {
	values := make([]V, len(items))
	for i, it := range items {
		values[i] = it.Value
	}
	return values
}

func itemsOf[V proto.Message](values []V) []Item[V] {
	items := make([]Item[V], len(values))
	for i, v := range values {
		items[i] = Item[V]{Key: models.Key(v), Value: v, Origin: kvscheduler.FromNB}
	}
	return items
}

// Create turns a method of the port into a Create callback.
func Create[V proto.Message](do func(context.Context, V) error) func(context.Context, string, V) (NoMeta, error) {
	return func(ctx context.Context, _ string, v V) (NoMeta, error) { return NoMeta{}, do(ctx, v) }
}

// Update turns a method of the port into an Update callback.
func Update[V proto.Message](do func(context.Context, V, V) error) func(context.Context, string, V, V, NoMeta) (NoMeta, error) {
	return func(ctx context.Context, _ string, old, new V, _ NoMeta) (NoMeta, error) {
		return NoMeta{}, do(ctx, old, new)
	}
}

// Delete turns a method of the port into a Delete callback.
func Delete[V proto.Message](do func(context.Context, V) error) func(context.Context, string, V, NoMeta) error {
	return func(ctx context.Context, _ string, v V, _ NoMeta) error { return do(ctx, v) }
}

// Empty is the value of derived keys that contain all information.
func Empty() *emptypb.Empty { return &emptypb.Empty{} }

// Never is for descriptors that update all values in place.
func Never[V proto.Message](string, V, V, NoMeta) bool { return false }

// Noop creates nothing: the value only orders other operations.
func Noop[V any](context.Context, string, V) (NoMeta, error) { return NoMeta{}, nil }

// NoopDelete deletes nothing.
func NoopDelete[V any](context.Context, string, V, NoMeta) error { return nil }
