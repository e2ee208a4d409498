// Package record holds the records of a KVScheduler, as plain data: transactions with their
// operations, values at a moment, revisions and differences; with the JSON in which REST serves
// them and the text that people read.
//
// It knows nothing of how transactions are executed: package kvscheduler makes
// records, package inspect presents them, clients decode them.
package record

import (
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// TxnType tells where a transaction came from.
type TxnType int

const (
	SBNotification TxnType = iota
	NBTransaction
	RetryFailedOps
	RetryUnimplOps
)

// Txn is the record of a transaction. Records are immutable.
type Txn struct {
	SeqNum      uint64
	Type        TxnType
	Resync      ResyncType
	Description string
	// Start and Stop of the processing.
	Start, Stop time.Time
	// RetryForTxn and RetryAttempt are set for RetryFailedOps.
	RetryForTxn  uint64
	RetryAttempt int
	// Values that the transaction was given, sorted by key; nil value: delete.
	Values []KeyValue
	// Planned is set for WithSimulation: what would be executed if nothing failed.
	Planned  []Op
	Executed []Op
	// Retrieved are the reads from the southbound, in order.
	Retrieved []Retrieve
	// SouthboundTime is the time spent in callbacks of descriptors.
	SouthboundTime time.Duration
}

// Op is one operation of a transaction.
type Op struct {
	Operation pb.TxnOperation
	Key       string
	// Descriptor of the value; empty for properties.
	Descriptor string

	NewState, PrevState pb.ValueState
	NewValue, PrevValue proto.Message
	NewErr, PrevErr     error

	// NOOP operations changed the state of the value, but not the southbound.
	NOOP       bool
	IsDerived  bool
	IsProperty bool
	IsRevert   bool
	IsRetry    bool
	IsRecreate bool

	// Duration of the call of the descriptor; zero if there was none.
	Duration time.Duration
}

// ResyncType tells how a transaction relates to the whole state.
type ResyncType int

const (
	// NotResync: the transaction changes the values that it names.
	NotResync ResyncType = iota
	// FullResync: its values replace the northbound intent, and the southbound
	// is read and made to match.
	FullResync
	// UpstreamResync: its values replace the northbound intent; the southbound
	// is assumed to be as last seen.
	UpstreamResync
	// DownstreamResync: it carries no values; the southbound is read and made
	// to match the intent.
	DownstreamResync
)

// String names the type as records do.
func (t TxnType) String() string {
	if name, ok := txnTypeNames[t]; ok {
		return name
	}
	return fmt.Sprintf("TxnType(%d)", int(t))
}

var txnTypeNames = map[TxnType]string{
	SBNotification: "SBNotification", NBTransaction: "NBTransaction",
	RetryFailedOps: "RetryFailedOps", RetryUnimplOps: "RetryUnimplOps",
}

// String names the type as records do.
func (t ResyncType) String() string {
	if name, ok := resyncNames[t]; ok {
		return name
	}
	return fmt.Sprintf("ResyncType(%d)", int(t))
}

var resyncNames = map[ResyncType]string{
	NotResync: "NotResync", FullResync: "FullResync",
	UpstreamResync: "UpstreamResync", DownstreamResync: "DownstreamResync",
}

// Origin tells who wants a value to exist.
type Origin int

const (
	// UnknownOrigin leaves it to the scheduler to find out: NB if the value is
	// or was last requested, SB otherwise.
	UnknownOrigin Origin = iota
	// FromNB marks a value that the northbound requested, or that a driver
	// recognises as created by us.
	FromNB
	// FromSB marks a value that exists without us (OBTAINED): never created,
	// changed or deleted by the scheduler.
	FromSB
)

// KeyValue is a key with its value.
type KeyValue struct {
	Key   string
	Value proto.Message
}

// Retrieve is one reading of the southbound by a descriptor.
type Retrieve struct {
	Descriptor string
	// Keys that were asked for, sorted, at most 16 of them; none: all values of
	// the descriptor. MoreKeys were asked for as well.
	Keys     []string
	MoreKeys int
	// Found is the number of values that the descriptor returned.
	Found int
	// After is the number of executed operations before it.
	After    int
	Duration time.Duration
	Err      error
}

// Asked names what was asked for.
func (r *Retrieve) Asked() string {
	if len(r.Keys) == 0 {
		return "all"
	}
	text := strings.Join(r.Keys, ", ")
	if r.MoreKeys > 0 {
		text += fmt.Sprintf(" and %d more", r.MoreKeys)
	}
	return text
}

// Result is what came back.
func (r *Retrieve) Result() string {
	switch {
	case r.Err != nil:
		return "error: " + FirstLine(r.Err.Error())
	case r.Found == 0:
		return "nothing found"
	}
	return fmt.Sprintf("%d found", r.Found)
}

// String renders the reading on one line.
func (r Retrieve) String() string {
	return fmt.Sprintf("RETRIEVE  %s: %s  %s", r.Descriptor, r.Asked(), r.Result())
}

// InOrder calls retrieve and execute for what the transaction did, in order;
// execute gets the index of the operation.
func (t *Txn) InOrder(retrieve func(*Retrieve), execute func(i int)) {
	reads := slices.Clone(t.Retrieved)
	for i := 0; i <= len(t.Executed); i++ {
		for len(reads) > 0 && (reads[0].After <= i || i == len(t.Executed)) {
			retrieve(&reads[0])
			reads = reads[1:]
		}
		if i < len(t.Executed) {
			execute(i)
		}
	}
}
