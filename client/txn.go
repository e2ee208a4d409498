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

// Txn builds a transaction. Its methods return it for chaining. Commit returns the errors in their
// arguments.
type Txn struct {
	client *Client
	change change
	errs   []error
}

type change struct {
	// values by key; nil: remove
	values map[string]proto.Message
	// replace removes the client's other values.
	replace, revert, async bool
}

func (c *change) keys() []string { return slices.Sorted(maps.Keys(c.values)) }

// Result is the result of a transaction.
type Result struct {
	// Keys of the values that were put, sorted: for Wait and WatchStatus.
	Keys []string
	// Transaction is the agent's number of the transaction (`contivctl txns`); nil: none or
	// unknown.
	Transaction *uint64
	// Event is the agent's number of the event (`contivctl events`); nil: unknown.
	Event *uint64
	// Revision of etcd; 0 over gRPC.
	Revision int64
	// Warnings name fields that the agent ignores because it does not know them.
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

// DeleteKeys removes the values of the keys. Keys without a value are ignored.
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
		t.errs = append(t.errs, fmt.Errorf("duplicate key %s in the transaction", key))
	}
	t.change.values[key] = value
}

// Replace removes all values of the client that the transaction does not put; over etcd, all values
// of the node in etcd.
func (t *Txn) Replace() *Txn {
	t.change.replace = true
	return t
}

// Revert makes the transaction all or nothing. It needs gRPC.
func (t *Txn) Revert() *Txn {
	t.change.revert = true
	return t
}

// Async lets Commit return as soon as etcd has the change, even if no agent runs. It has no effect
// over gRPC.
func (t *Txn) Async() *Txn {
	t.change.async = true
	return t
}

// Commit executes the transaction and returns when it is final. Errors:
//
//   - a *TransactionError if something failed;
//   - a *RequestError if the request is invalid; nothing was changed;
//   - ErrNoRevert;
//   - ErrUnanswered if ctx ended, or the connection broke, during the transaction;
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

// Resync removes all other values of the client; it is Txn().Put(…).Replace().Commit().
func (c *Client) Resync(ctx context.Context, values ...proto.Message) (*Result, error) {
	return c.Txn().Put(values...).Replace().Commit(ctx)
}

func (c *change) result() *Result {
	r := &Result{}
	for _, key := range c.keys() {
		if c.values[key] != nil {
			r.Keys = append(r.Keys, key)
		}
	}
	return r
}
