package descriptor

import (
	"context"

	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Allocated resolves references between a descriptor and a port: the port sees addresses, the
// scheduler sees the references to allocated ones.
type Allocated[V proto.Message] struct {
	// Resolve returns the value with addresses, or the value itself if it has no references.
	Resolve func(V) (V, error)
	// Restore replaces resolved addresses in a found value by the references of the wanted value.
	Restore func(found, resolved, wanted V)
}

// Create is like the function Create, with references resolved.
func (a Allocated[V]) Create(do func(context.Context, V) error) func(context.Context, string, V) (NoMeta, error) {
	return func(ctx context.Context, _ string, v V) (none NoMeta, err error) {
		if v, err = a.Resolve(v); err != nil {
			return none, err
		}
		return none, do(ctx, v)
	}
}

// Update is like the function Update, with references resolved.
func (a Allocated[V]) Update(do func(context.Context, V, V) error) func(context.Context, string, V, V, NoMeta) (NoMeta, error) {
	return func(ctx context.Context, _ string, old, new V, none NoMeta) (_ NoMeta, err error) {
		if old, err = a.Resolve(old); err != nil {
			return none, err
		}
		if new, err = a.Resolve(new); err != nil {
			return none, err
		}
		return none, do(ctx, old, new)
	}
}

// Delete does nothing for a value that was never resolved.
func (a Allocated[V]) Delete(do func(context.Context, V) error) func(context.Context, string, V, NoMeta) error {
	return func(ctx context.Context, _ string, v V, _ NoMeta) error {
		v, err := a.Resolve(v)
		if err != nil {
			return nil
		}
		return do(ctx, v)
	}
}

// Retrieve is like the function Retrieve. Found values refer to allocated addresses where the
// expected value does.
func (a Allocated[V]) Retrieve(list func(context.Context, []V) ([]V, error)) func(context.Context, []Item[V]) ([]Item[V], error) {
	type pair struct{ resolved, wanted V }
	return func(ctx context.Context, expected []Item[V]) ([]Item[V], error) {
		pairs := make(map[string]pair, len(expected)) // by the key of the resolved value
		values := make([]V, 0, len(expected))
		for _, it := range expected {
			v, err := a.Resolve(it.Value)
			if err != nil {
				continue // unresolved values do not exist
			}
			pairs[models.Key(v)] = pair{v, it.Value}
			values = append(values, v)
		}
		found, err := list(ctx, values)
		if err != nil {
			return nil, err
		}
		for i, v := range found {
			if p, ok := pairs[models.Key(v)]; ok {
				found[i] = proto.CloneOf(v)
				a.Restore(found[i], p.resolved, p.wanted)
			}
		}
		return itemsOf(found), nil
	}
}

// all calls do for the values that can be resolved.
func (a Allocated[V]) all(items []Item[V], do func([]V) []error, unresolved func(error) error) []error {
	errs := make([]error, len(items))
	values, of := make([]V, 0, len(items)), make([]int, 0, len(items))
	for i, it := range items {
		v, err := a.Resolve(it.Value)
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
