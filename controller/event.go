package controller

import (
	"context"

	"google.golang.org/protobuf/proto"
)

// EventMethod tells how an event is processed.
type EventMethod int

const (
	// FullResync: handlers compute the whole configuration again; the southbound is read and made
	// to match.
	FullResync EventMethod = iota
	// DownstreamResync: no handler is called; the southbound is read and made
	// to match the last computed configuration.
	DownstreamResync
	// UpstreamResync: handlers compute the whole configuration again; the southbound is assumed to
	// be as last seen.
	UpstreamResync
	// Update: handlers compute a change. The event is an UpdateEvent.
	Update
)

// TransactionType tells how failures of an update are treated.
type TransactionType int

const (
	// BestEffort: what can be done is done; errors lead to a healing resync.
	BestEffort TransactionType = iota
	// BestEffortIgnoreErrors: as BestEffort, without the healing resync.
	BestEffortIgnoreErrors
	// RevertOnFailure: the first error undoes the event as a whole.
	RevertOnFailure
)

// Direction is the order in which handlers process an update.
type Direction int

const (
	// Forward is the order of registration.
	Forward Direction = iota
	// Reverse is for events that undo something.
	Reverse
)

// Event is something that the event loop processes: seed 001, "Events".
type Event interface {
	// Name of the kind of event, e.g. "Add Pod".
	Name() string
	// String describes this event, on several lines if it helps.
	String() string
	Method() EventMethod
	// Done is called once, when the event was processed or given up. Events
	// whose sender waits embed a Blocking.
	Done(error)
}

// UpdateEvent is an event with the method Update.
type UpdateEvent interface {
	Event
	TransactionType() TransactionType
	Direction() Direction
}

// Blocking, embedded in an event, lets the sender Wait for its result.
type Blocking struct{ result chan error }

// NewBlocking returns a Blocking for one event.
func NewBlocking() Blocking { return Blocking{result: make(chan error, 1)} }

// Done tells the result to the sender.
func (b Blocking) Done(err error) { b.result <- err }

// Wait returns the result of the event, or ctx's error; in the latter case the event is
// processed all the same. With the context of a handler it returns
// ErrBlockingFollowUp: the event loop would wait for itself.
func (b Blocking) Wait(ctx context.Context) error {
	if currentScope(ctx) != nil {
		return ErrBlockingFollowUp
	}
	select {
	case err := <-b.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b Blocking) blocking() {}

// NonBlocking, embedded in an event, ignores its result.
type NonBlocking struct{}

// Done does nothing.
func (NonBlocking) Done(error) {}

// EventLoop accepts events.
type EventLoop interface {
	// PushEvent queues an event; it never waits. An event pushed with the
	// context that a handler was given is a follow-up: it is processed right
	// after the present event, before any other. A blocking follow-up would
	// wait for itself and is refused.
	PushEvent(ctx context.Context, event Event) error
}

// KubeState is the reflected Kubernetes state: resource keyword -> key ->
// value. Keys are those of etcd without the KSR prefix. Read-only.
type KubeState map[string]map[string]proto.Message

// ExternalConfig is configuration from outside: NB key -> value.
type ExternalConfig map[string]proto.Message

// ResyncOperations collects the whole configuration.
type ResyncOperations interface {
	// Put requests the value for the NB key. The value belongs to the
	// transaction from then on.
	Put(key string, value proto.Message)
	// Get returns what has been put for the key in this transaction, nil if nothing.
	Get(key string) proto.Message
}

// UpdateOperations collects a change of the configuration.
type UpdateOperations interface {
	ResyncOperations
	// Delete requests that the NB key has no value.
	Delete(key string)
}

// EventHandler is a plugin of the event loop. Its methods are called from the
// loop only, one at a time.
type EventHandler interface {
	// String is the name of the plugin.
	String() string
	// HandlesEvent reports whether the plugin wants the event. Called before it.
	HandlesEvent(event Event) bool
	// Resync computes the plugin's whole configuration. resyncCount is 1 for
	// the startup resync.
	Resync(ctx context.Context, event Event, state KubeState, resyncCount int, txn ResyncOperations) error
	// Update computes the change that the event needs and describes it in a few
	// words, for people; "" if there is none.
	Update(ctx context.Context, event Event, txn UpdateOperations) (change string, err error)
	// Revert undoes what Update did to the plugin's own state, after the
	// transaction of a RevertOnFailure event failed.
	Revert(ctx context.Context, event Event) error
}

// BulkHandler is an EventHandler that would rather compute what several changes of the database come to
// than each of them.
type BulkHandler interface {
	EventHandler
	// EndBulk is called after the Update of the last of some changes of the database that share a
	// transaction, of a single one as well. It adds what Update left out, and returns what that does.
	EndBulk(ctx context.Context, txn UpdateOperations) (change string, err error)
}

// ConfigRetriever reads the configuration that our plugins requested.
type ConfigRetriever interface {
	// GetConfig returns a copy of the key's value in the running transaction, or else of the last
	// committed one; nil if there is none.
	GetConfig(key string) proto.Message
}
