package controller

import (
	"context"

	"google.golang.org/protobuf/proto"
)

// EventMethod is how an event is processed.
type EventMethod int

const (
	// FullResync: handlers compute the whole configuration; the southbound is read and made to
	// match.
	FullResync EventMethod = iota
	// DownstreamResync: no handler is called; the southbound is read and made to match the last
	// computed configuration.
	DownstreamResync
	// UpstreamResync: handlers compute the whole configuration; the southbound is assumed to be as
	// last seen.
	UpstreamResync
	// Update: handlers compute a change. The event is an UpdateEvent.
	Update
)

// TransactionType is how failures of an update are handled.
type TransactionType int

const (
	// BestEffort continues after errors; a healing resync follows.
	BestEffort TransactionType = iota
	// BestEffortIgnoreErrors is BestEffort without the healing resync.
	BestEffortIgnoreErrors
	// RevertOnFailure reverts the whole event after the first error.
	RevertOnFailure
)

// Direction is the order in which handlers process an update.
type Direction int

const (
	// Forward is the order of registration.
	Forward Direction = iota
	// Reverse is for events that remove configuration.
	Reverse
)

// Event is an input of the event loop.
type Event interface {
	// Name of the kind of event, e.g. "Add Pod".
	Name() string
	// String describes this event, possibly on several lines.
	String() string
	Method() EventMethod
	// Done is called once, when the event was processed or dropped. It must not block. Events with
	// a waiting sender embed a Blocking.
	Done(Outcome)
}

// UpdateEvent is an event with the method Update.
type UpdateEvent interface {
	Event
	TransactionType() TransactionType
	Direction() Direction
}

// Outcome is the result of an event.
type Outcome struct {
	// Err is nil for success, and ErrWithdrawn, ErrClosed or ErrAborting for a dropped event.
	Err error
	// Accepted: the content of the event is in force, and parts that failed are retried. If false,
	// nothing has changed.
	Accepted bool
	// Record is nil for a dropped event. Read-only.
	Record *EventRecord
}

// Txn returns the transaction of the event, nil if nothing was committed.
func (o Outcome) Txn() *TxnRecord {
	if o.Record == nil {
		return nil
	}
	return o.Record.Txn
}

// Blocking, embedded in an event, lets the sender Await the outcome.
type Blocking struct{ outcome chan Outcome }

// NewBlocking returns a Blocking for one event.
func NewBlocking() Blocking { return Blocking{outcome: make(chan Outcome, 1)} }

// Done implements Event.
func (b Blocking) Done(o Outcome) { b.outcome <- o }

// Await returns the outcome of the event and its error. If ctx ends first, it returns the error of
// ctx, and the event is still processed. With the context of a handler it returns
// ErrBlockingFollowUp.
func (b Blocking) Await(ctx context.Context) (Outcome, error) {
	if currentScope(ctx) != nil {
		return Outcome{}, ErrBlockingFollowUp
	}
	select {
	case o := <-b.outcome:
		return o, o.Err
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
}

// Wait is Await without the outcome.
func (b Blocking) Wait(ctx context.Context) error {
	_, err := b.Await(ctx)
	return err
}

func (b Blocking) blocking() {}

// NonBlocking, embedded in an event, ignores its outcome.
type NonBlocking struct{}

// Done does nothing.
func (NonBlocking) Done(Outcome) {}

// EventLoop accepts events.
type EventLoop interface {
	// PushEvent queues an event without blocking. An event pushed with the context of a handler is
	// a follow-up: it is processed right after the current event. A blocking follow-up is refused,
	// since the loop would wait for itself.
	PushEvent(ctx context.Context, event Event) error
}

// KubeState is the reflected Kubernetes state: resource keyword -> key -> value. Keys are etcd keys
// without the KSR prefix. Read-only.
type KubeState map[string]map[string]proto.Message

// ExternalConfig is configuration from an external source: NB key -> value.
type ExternalConfig map[string]proto.Message

// ResyncOperations collects the whole configuration.
type ResyncOperations interface {
	// Put requests the value for the NB key and takes ownership of it.
	Put(key string, value proto.Message)
	// Get returns the value put for the key in this transaction, or nil.
	Get(key string) proto.Message
}

// UpdateOperations collects a change of the configuration.
type UpdateOperations interface {
	ResyncOperations
	// Delete removes the value of the NB key.
	Delete(key string)
}

// EventHandler is a plugin of the event loop. The loop calls its methods, one at a time.
type EventHandler interface {
	// String returns the name of the plugin.
	String() string
	// HandlesEvent reports whether Resync or Update is to be called for the event.
	HandlesEvent(event Event) bool
	// Resync computes the plugin's whole configuration. resyncCount is 1 for the startup resync.
	Resync(ctx context.Context, event Event, state KubeState, resyncCount int, txn ResyncOperations) error
	// Update computes the change for the event and returns a short description of it for people, or
	// "" if nothing changes.
	Update(ctx context.Context, event Event, txn UpdateOperations) (change string, err error)
	// Revert undoes the effect of Update on the plugin's own state after the transaction of a
	// RevertOnFailure event failed.
	Revert(ctx context.Context, event Event) error
}

// BulkHandler is an EventHandler that computes the combined effect of several database changes at
// once.
type BulkHandler interface {
	EventHandler
	// EndBulk is called after the Update of the last of one or more database changes that share a
	// transaction. It adds the changes that Update deferred and returns a description of them.
	EndBulk(ctx context.Context, txn UpdateOperations) (change string, err error)
}
