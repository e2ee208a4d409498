package controller

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// maxDescribed limits the keys in the description of an event.
const maxDescribed = 20

// ExternalConfigSource is a source of external configuration other than the database.
type ExternalConfigSource interface {
	// String returns the name of the source, as used in its events.
	String() string
	// GetConfigSnapshot returns the whole configuration of the source.
	GetConfigSnapshot() (ExternalConfig, error)
}

// ClientsSource is an ExternalConfigSource that separates the configuration of its clients. Each
// client is a source named ClientSource(source, client). Clients are merged after the source
// itself, sorted by name.
type ClientsSource interface {
	ExternalConfigSource
	// GetClientSnapshots returns the configuration of each client, by client name.
	GetClientSnapshots() (map[string]ExternalConfig, error)
}

// ClientSource returns the source name of a client of a ClientsSource.
func ClientSource(source, client string) string { return source + "/" + client }

// DatabaseSource is the source name of the configuration in the database.
const DatabaseSource = "db"

// ExternalObserver receives, after an event, the names of the external sources except the database
// that have a value for each key, in merge order. The list is empty if none has. all: given is
// complete. Keys include keys of merge directives. The event loop calls it; it must not block and
// must not modify its arguments.
type ExternalObserver func(given map[string][]string, all bool, record *EventRecord)

// ExternalConfigChange changes the configuration of an external source in one transaction.
type ExternalConfigChange struct {
	// Source is DatabaseSource or the name of an ExternalConfigSource.
	Source string
	// Changes are the new values; nil deletes the key.
	Changes ExternalConfig
	// Replace also deletes the source's values that Changes does not name.
	Replace bool
	// Revert applies the change completely or not at all. Without it, failed values stay requested
	// and are retried.
	Revert bool
	// Result, if not nil, receives the outcome.
	Result *Blocking
	// Processed, if not nil, is called with the record of the event after processing. For an
	// aborted event it is called with the record of the next successful resync, whose outcome
	// Result and Request then receive, too. It must not block.
	Processed func(*EventRecord)
	// Request, if not nil, receives the outcome and can withdraw the event.
	Request *ExternalRequest
}

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
func (e *ExternalConfigChange) Done(o Outcome) {
	tell(e.Processed, o)
	tellSender(e.Result, e.Request, o)
}
func (e *ExternalConfigChange) completesLater() bool { return e.Processed != nil }
func (e *ExternalConfigChange) waits() bool          { return e.Result != nil }
func (e *ExternalConfigChange) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "External Config Change from %s", e.Source)
	if e.Replace {
		fmt.Fprintf(&b, ", replacing all its values")
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
	// Full also reads the southbound.
	Full bool
	// Result, if not nil, receives the outcome.
	Result *Blocking
	// Request, if not nil, receives the outcome and can withdraw the event.
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
func (e *ExternalConfigResync) Done(o Outcome) { tellSender(e.Result, e.Request, o) }
func (e *ExternalConfigResync) String() string {
	return fmt.Sprintf("External Config Resync from %s: %d values", e.Source, len(e.Config))
}

// ExternalRequest tracks one event with external configuration: it can withdraw the event before
// processing, and returns the outcome.
type ExternalRequest struct {
	// OnOutcome is called once: by the event loop, in processing order, or by Close for unprocessed
	// events. It must not block.
	OnOutcome func(Outcome)

	state atomic.Int32
}

const (
	requestWaits = iota
	requestBegun
	requestWithdrawn
)

// Withdraw cancels the event: it is not processed, and its Done is called with ErrWithdrawn. It
// returns false if processing has begun.
func (r *ExternalRequest) Withdraw() bool {
	return r.state.CompareAndSwap(requestWaits, requestWithdrawn)
}

func (r *ExternalRequest) begin() bool {
	return r == nil || r.state.CompareAndSwap(requestWaits, requestBegun)
}

// tellSender passes an outcome to a sender that waits for a result or has made a request.
func tellSender(result *Blocking, request *ExternalRequest, o Outcome) {
	if result != nil {
		result.Done(o)
	}
	if request != nil && request.OnOutcome != nil {
		request.OnOutcome(o)
	}
}

func requestOf(event Event) *ExternalRequest {
	if e, ok := event.(interface{ request() *ExternalRequest }); ok {
		return e.request()
	}
	return nil
}
