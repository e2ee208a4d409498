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

type transport interface {
	commit(ctx context.Context, t *change) (*Result, error)
	// own and merged return at least the selected values: the client's, or the merged ones of all
	// external sources.
	own(ctx context.Context, selected selection) ([]Value, error)
	merged(ctx context.Context, selected selection) ([]Value, error)
	// watch yields the statuses of the selected keys, including missing single keys. With follow it
	// then yields changed statuses until an error.
	watch(ctx context.Context, selected selection, follow bool) iter.Seq2[[]*Status, error]
	// expected returns the revisions that the statuses must have to describe the present values.
	expected(ctx context.Context, keys []string) (expected, error)
	close() error
}

// Status is the status of a value. Value.State is its state; WaitsFor names the unmet dependencies
// of a PENDING value. Revision and Time are known only through etcd. The state of a removed value
// is REMOVED or NONEXISTENT.
type Status = feedback.ValueStatus

type Value struct {
	Key     string
	Message proto.Message
}

// Close ends all calls.
func (c *Client) Close() error { return c.close() }

// Get returns the values of this client (over etcd, the values in etcd), sorted by key. Each
// selector is a key, or a key prefix that ends with "/". Without selectors, Get returns all values.
//
// Over etcd, the error is an *UndecodableError if some values cannot be decoded; the others are
// returned with it.
func (c *Client) Get(ctx context.Context, selectors ...string) ([]Value, error) {
	return selectFrom(c.own, ctx, selectors)
}

// GetMerged is Get for the merged values of all external sources of the node. It needs gRPC.
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

// Status returns the statuses of values, sorted by key. Selectors are as for Get. A selected key
// without a value has a status, too.
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

// WatchStatus yields the present statuses of values, then each changed one, until ctx ends or the
// connection breaks: that error is the last element. Fast changes may be merged; the last one is
// always delivered.
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

// selection is a set of keys and key prefixes. The empty selection matches all keys.
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
