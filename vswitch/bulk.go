package vswitch

import (
	"context"

	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// Bulk is what Routes, Neighbours and FIB of a driver may also be: many values of one
// model at once, without waiting for one after the other. Each fares as if it were
// alone.
type Bulk[V proto.Message] interface {
	// CreateAll and DeleteAll return an error for each of the values; nil: it went well.
	CreateAll(ctx context.Context, values []V) []error
	DeleteAll(ctx context.Context, values []V) []error
}

// inBulk completes a descriptor if the port takes many values at once.
func inBulk[V proto.Message](d kvscheduler.Descriptor[V, noMeta], port any, a allocated[V]) kvscheduler.Descriptor[V, noMeta] {
	bulk, ok := port.(Bulk[V])
	if !ok {
		return d
	}
	d.CreateBatch = func(ctx context.Context, items []item[V]) ([]noMeta, []error) {
		return make([]noMeta, len(items)), a.all(items, func(values []V) []error { return bulk.CreateAll(ctx, values) },
			func(err error) error { return err })
	}
	d.DeleteBatch = func(ctx context.Context, items []item[V]) []error {
		return a.all(items, func(values []V) []error { return bulk.DeleteAll(ctx, values) },
			func(error) error { return nil }) // it was never resolved
	}
	return d
}

// all does something with the values that can be resolved.
func (a allocated[V]) all(items []item[V], do func([]V) []error, unresolved func(error) error) []error {
	errs := make([]error, len(items))
	values, of := make([]V, 0, len(items)), make([]int, 0, len(items))
	for i, it := range items {
		v, err := a.resolve(it.Value)
		if err != nil {
			errs[i] = unresolved(err)
			continue
		}
		values, of = append(values, v), append(of, i)
	}
	for j, err := range do(values) {
		errs[of[j]] = err
	}
	return errs
}

// unallocated is for models without references to allocated addresses.
func unallocated[V proto.Message]() allocated[V] {
	return allocated[V]{resolve: func(v V) (V, error) { return v, nil }}
}
