package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Txn is a transaction that is being put together. Its methods return it, so that they can be
// chained; Commit returns the errors in their arguments.
type Txn struct {
	client *Client
	change change
	errs   []error
}

// change is what a transaction requests.
type change struct {
	// values by key; nil: to be removed.
	values map[string]proto.Message
	// replace removes the client's other values.
	replace, revert, async bool
}

// keys of the values, sorted.
func (c *change) keys() []string { return slices.Sorted(maps.Keys(c.values)) }

// Result is what is known of a transaction.
type Result struct {
	// Keys of the values that were put, sorted: for Wait and WatchStatus.
	Keys []string
	// Transaction is its number at the agent: see `contivctl txns`; nil: there was none,
	// or it is not known.
	Transaction *uint64
	// Event is the number of the event at the agent: see `contivctl events`; nil: not known.
	Event *uint64
	// Revision is that of etcd; 0 over gRPC.
	Revision int64
	// Warnings name fields that the agent does not know: they have no effect.
	Warnings []string
}

// Txn begins a transaction.
func (c *Client) Txn() *Txn {
	return &Txn{client: c, change: change{values: make(map[string]proto.Message)}}
}

// Put creates or replaces values.
func (t *Txn) Put(values ...proto.Message) *Txn {
	for _, value := range values {
		t.add(value, value)
	}
	return t
}

// Delete removes values; only the fields that name them need to be set.
func (t *Txn) Delete(values ...proto.Message) *Txn {
	for _, value := range values {
		t.add(value, nil)
	}
	return t
}

// DeleteKeys removes the values of the keys. That there is none is no mistake.
func (t *Txn) DeleteKeys(keys ...string) *Txn {
	for _, key := range keys {
		if err := models.CheckKey(key); err != nil {
			t.errs = append(t.errs, err)
			continue
		}
		t.set(key, nil)
	}
	return t
}

func (t *Txn) add(named, value proto.Message) {
	key, err := models.KeyOf(named)
	if err != nil {
		t.errs = append(t.errs, err)
		return
	}
	t.set(key, value)
}

func (t *Txn) set(key string, value proto.Message) {
	if _, twice := t.change.values[key]; twice {
		t.errs = append(t.errs, fmt.Errorf("%s is in the transaction twice: leave one of them out", key))
	}
	t.change.values[key] = value
}

// Replace makes the values that are put the only ones of the client, which removes all
// others; over etcd, the only ones that etcd has for the node.
func (t *Txn) Replace() *Txn {
	t.change.replace = true
	return t
}

// Revert makes the transaction do all or nothing. It needs gRPC.
func (t *Txn) Revert() *Txn {
	t.change.revert = true
	return t
}

// Async lets Commit return as soon as etcd has the change, whether an agent runs or not.
// Over gRPC it has no effect: what is not done yet could get lost.
func (t *Txn) Async() *Txn {
	t.change.async = true
	return t
}

// Commit carries the transaction out and returns when it is final. Errors:
//
//   - a *TransactionError if something failed;
//   - a *RequestError if nothing was changed because the request makes no sense;
//   - ErrNoRevert;
//   - ErrUnanswered if ctx ended, or the connection broke, while the transaction was under way;
//   - others, if the agent or etcd cannot be reached.
//
// The result is nil only if nothing was changed.
func (t *Txn) Commit(ctx context.Context) (*Result, error) {
	if len(t.errs) > 0 {
		return nil, &RequestError{errors.Join(t.errs...)}
	}
	if len(t.change.values) == 0 && !t.change.replace {
		return &Result{}, nil
	}
	return t.client.commit(ctx, &t.change)
}

// Resync makes the values the client's only ones: short for Txn().Put(…).Replace().Commit().
func (c *Client) Resync(ctx context.Context, values ...proto.Message) (*Result, error) {
	return c.Txn().Put(values...).Replace().Commit(ctx)
}

// result begins the result of the change.
func (c *change) result() *Result {
	r := &Result{}
	for _, key := range c.keys() {
		if c.values[key] != nil {
			r.Keys = append(r.Keys, key)
		}
	}
	return r
}
