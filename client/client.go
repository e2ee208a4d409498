package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/feedback"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Client configures one node. It is safe for concurrent use.
type Client struct{ transport }

// transport is how a client reaches the agent.
type transport interface {
	commit(ctx context.Context, t *change) (*Result, error)
	// own returns the client's values, merged those of all external sources: at least the selected ones.
	own(ctx context.Context, selected selection) ([]Value, error)
	merged(ctx context.Context, selected selection) ([]Value, error)
	// watch tells the statuses of the selected keys as they are, single keys in any
	// case, then, if they are to be followed, those that change until there is an error.
	watch(ctx context.Context, selected selection, follow bool) iter.Seq2[[]*Status, error]
	// wanted returns what statuses have to be about if they are about what is wanted
	// now.
	wanted(ctx context.Context, keys []string) (expected, error)
	close() error
}

// Status is what became of a value. Value.State says how it is; WaitsFor, of values that
// are PENDING, the keys of what is missing. Revision and Time are only known through
// etcd. The state of a value that is gone is REMOVED or NONEXISTENT.
type Status = feedback.ValueStatus

// Value is a value with its key.
type Value struct {
	Key     string
	Message proto.Message
}

// Close ends all calls.
func (c *Client) Close() error { return c.close() }

// Get returns what this client wants, sorted by key; over etcd, what is in etcd. Each of
// the selectors is a key or, if it ends with "/", the beginning of keys; without any, all
// values are returned.
//
// Over etcd, an *UndecodableError comes with the values if there are others that cannot
// be decoded.
func (c *Client) Get(ctx context.Context, selectors ...string) ([]Value, error) {
	return selectFrom(c.own, ctx, selectors)
}

// GetMerged is Get for what all external sources of the node want, merged. It needs gRPC.
func (c *Client) GetMerged(ctx context.Context, selectors ...string) ([]Value, error) {
	return selectFrom(c.merged, ctx, selectors)
}

func selectFrom(read func(context.Context, selection) ([]Value, error), ctx context.Context, selectors []string) ([]Value, error) {
	selected, err := newSelection(selectors)
	if err != nil {
		return nil, err
	}
	values, err := read(ctx, selected)
	values = slices.DeleteFunc(values, func(v Value) bool { return !selected.has(v.Key) })
	slices.SortFunc(values, func(a, b Value) int { return strings.Compare(a.Key, b.Key) })
	return values, err
}

// Status returns the statuses of values, sorted by key; the selectors are as for Get.
// Each key has a status, also if there is no such value.
func (c *Client) Status(ctx context.Context, selectors ...string) ([]*Status, error) {
	selected, err := newSelection(selectors)
	if err != nil {
		return nil, err
	}
	var all []*Status
	for batch, err := range c.watch(ctx, selected, false) {
		if err != nil {
			return nil, err
		}
		all = append(all, batch...)
	}
	slices.SortFunc(all, func(a, b *Status) int { return strings.Compare(keyOf(a), keyOf(b)) })
	return all, nil
}

// WatchStatus tells the statuses of values as they are, and each that changes from then
// on, until ctx ends or the connection breaks: that error is the last element. Changes
// that follow each other fast may be told as one, but the last one always is.
func (c *Client) WatchStatus(ctx context.Context, selectors ...string) iter.Seq2[*Status, error] {
	return func(yield func(*Status, error) bool) {
		selected, err := newSelection(selectors)
		if err != nil {
			yield(nil, err)
			return
		}
		for batch, err := range c.watch(ctx, selected, true) {
			for _, status := range batch {
				if !yield(status, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// selection is a set of keys and of beginnings of keys; an empty one has all keys.
type selection []string

const valuePrefix = "config/"

func newSelection(selectors []string) (selection, error) {
	var errs []error
	for _, s := range selectors {
		switch {
		case !strings.HasPrefix(s, valuePrefix):
			errs = append(errs, fmt.Errorf("%q is not the key of a value: they begin with %s", s, valuePrefix))
		case !strings.HasSuffix(s, "/"):
			errs = append(errs, models.CheckKey(s))
		}
	}
	return selectors, errors.Join(errs...)
}

func (s selection) has(key string) bool {
	return len(s) == 0 || slices.ContainsFunc(s, func(want string) bool {
		return key == want || strings.HasSuffix(want, "/") && strings.HasPrefix(key, want)
	})
}

// keys returns the single keys, sorted.
func (s selection) keys() (keys []string) {
	for _, key := range s {
		if !strings.HasSuffix(key, "/") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func keyOf(s *Status) string { return s.GetValue().GetKey() }
