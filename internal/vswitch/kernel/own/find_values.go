package own

import (
	"context"
	"slices"

	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// FindIn selects the expected values from a list of all.
func FindIn[V proto.Message](ctx context.Context, list func(context.Context, []V) ([]V, error), expected []V) ([]V, error) {
	keys := make(map[string]bool, len(expected))
	for _, v := range expected {
		keys[models.Key(v)] = true
	}
	all, err := list(ctx, expected)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(v V) bool { return !keys[models.Key(v)] }), nil
}
