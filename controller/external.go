package controller

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// maxDescribed is how many keys the description of an event names.
const maxDescribed = 20

// ExternalConfigSource is a source of configuration from outside other than the
// database.
type ExternalConfigSource interface {
	// String is the name of the source, as in its events.
	String() string
	// GetConfigSnapshot returns all that the source wants.
	GetConfigSnapshot() (ExternalConfig, error)
}

// ClientsSource is an ExternalConfigSource that keeps what its clients want apart.
// Each client is a source with the name ClientSource(source, client): in events, and
// where values are merged, after the source itself, sorted by name.
type ClientsSource interface {
	ExternalConfigSource
	// GetClientSnapshots returns all that each client wants, by its name.
	GetClientSnapshots() (map[string]ExternalConfig, error)
}

// ClientSource is the name of a client of a ClientsSource among the sources.
func ClientSource(source, client string) string { return source + "/" + client }

// DatabaseSource is the name of the external configuration in the database.
const DatabaseSource = "db"

// ExternalObserver is told, by the event loop after an event, which external sources but
// the database want something for a key, in the order of their precedence; none: an empty
// list. all: nothing is wanted for other keys. Keys are those of values and of merge
// directives. It must not wait, nor change what it gets.
type ExternalObserver func(given map[string][]string, all bool, record *EventRecord)

// ExternalConfigChange changes the configuration of an external source, in one
// transaction.
type ExternalConfigChange struct {
	// Source is DatabaseSource or the name of an ExternalConfigSource.
	Source string
	// Changes are the new values; nil deletes the key.
	Changes ExternalConfig
	// Replace deletes also the source's values that Changes does not name.
	Replace bool
	// Revert makes the change as a whole or, if anything fails, not at all.
	// Otherwise what fails is tried again, for it is wanted from then on.
	Revert bool
	// Result, if not nil, is told the outcome: to Wait for it.
	Result *Blocking
	// Processed, if not nil, is told the record of the event, right after it was
	// processed; or, if it was aborted, that of the resync that made up for it. It
	// must not wait.
	Processed func(*EventRecord)
	// Request, if not nil, is told what became of the event.
	Request *ExternalRequest
}

func (e *ExternalConfigChange) processed(r *EventRecord) { tell(e.Processed, r) }

func (*ExternalConfigChange) Name() string                { return "External Config Change" }
func (*ExternalConfigChange) Method() EventMethod         { return Update }
func (*ExternalConfigChange) Direction() Direction        { return Forward }
func (e *ExternalConfigChange) request() *ExternalRequest { return e.Request }
func (e *ExternalConfigChange) TransactionType() TransactionType {
	if e.Revert {
		return RevertOnFailure
	}
	return BestEffort
}
func (e *ExternalConfigChange) Done(err error) {
	done(e.Result, err)
	e.Request.done(err)
}
func (e *ExternalConfigChange) waits() bool { return e.Result != nil }
func (e *ExternalConfigChange) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "External Config Change from %s", e.Source)
	if e.Replace {
		fmt.Fprintf(&b, ", replacing all of its values")
	}
	if e.Revert {
		b.WriteString(", completely or not at all")
	}
	for i, key := range sortedKeys(e.Changes) {
		if i == maxDescribed {
			fmt.Fprintf(&b, "\n* and %d more", len(e.Changes)-i)
			break
		}
		what := "put"
		if isNil(e.Changes[key]) {
			what = "delete"
		}
		fmt.Fprintf(&b, "\n* %s %s", what, key)
	}
	return b.String()
}

// ExternalConfigResync replaces the configuration of an external source.
type ExternalConfigResync struct {
	// Source is the name of an ExternalConfigSource.
	Source string
	Config ExternalConfig
	// Full has the southbound read, too.
	Full bool
	// Result, if not nil, is told the outcome: to Wait for it.
	Result *Blocking
	// Request, if not nil, is told what became of the event.
	Request *ExternalRequest
}

func (*ExternalConfigResync) Name() string                { return "External Config Resync" }
func (e *ExternalConfigResync) waits() bool               { return e.Result != nil }
func (e *ExternalConfigResync) request() *ExternalRequest { return e.Request }
func (e *ExternalConfigResync) Method() EventMethod {
	if e.Full {
		return FullResync
	}
	return UpstreamResync
}
func (e *ExternalConfigResync) Done(err error) {
	done(e.Result, err)
	e.Request.done(err)
}
func (e *ExternalConfigResync) String() string {
	return fmt.Sprintf("External Config Resync from %s: %d values", e.Source, len(e.Config))
}

// ExternalRequest tracks an event with external configuration: it can withdraw the event while it
// waits, and returns its outcome. It belongs to one event.
type ExternalRequest struct {
	// OnOutcome is called once: by the event loop, in the order in which the events
	// were processed; or by Close, for events that were not. It must not wait.
	OnOutcome func(Outcome)

	outcome Outcome
	state   atomic.Int32
}

// Outcome of an event with external configuration.
type Outcome struct {
	// Accepted says that what was requested counts from now on, even if parts of
	// it failed: they are tried again. Otherwise nothing has changed.
	Accepted bool
	// Event is the sequence number of the event; Txn, of its transaction in the
	// scheduler, is nil if there was nothing to do.
	Event uint64
	Txn   *TxnRecord
	// Err of the event.
	Err error
}

const (
	requestWaits = iota
	requestBegun
	requestWithdrawn
)

// Withdraw takes the event back: it will not be processed, and its Done is called
// with ErrWithdrawn when it would have been. It returns false if the processing has begun.
func (r *ExternalRequest) Withdraw() bool {
	return r.state.CompareAndSwap(requestWaits, requestWithdrawn)
}

// begin returns false if the event was withdrawn.
func (r *ExternalRequest) begin() bool {
	return r == nil || r.state.CompareAndSwap(requestWaits, requestBegun)
}

func (r *ExternalRequest) done(err error) {
	if r != nil && r.OnOutcome != nil {
		r.outcome.Err = err
		r.OnOutcome(r.outcome)
	}
}

// requestOf returns the request behind an event, nil if there is none.
func requestOf(event Event) *ExternalRequest {
	if e, ok := event.(interface{ request() *ExternalRequest }); ok {
		return e.request()
	}
	return nil
}
