// Package record defines the records of a KVScheduler as plain data: transactions with their operations,
// values at a moment, revisions and differences, with their JSON in REST responses and their text form.
//
// Package kvscheduler creates records, package inspect serves them, and clients decode them.
package record

import (
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// TxnType is the source of a transaction.
type TxnType int

const (
	SBNotification TxnType = iota
	NBTransaction
	RetryFailedOps
	RetryUnimplOps
)

// Txn is the immutable record of a transaction.
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
	// Values are the arguments of the transaction, sorted by key; a nil value is a deletion.
	Values []KeyValue
	// Planned are the operations of a dry run, for WithSimulation.
	Planned  []Op
	Executed []Op
	// Retrieved are the reads of the southbound, in order.
	Retrieved []Retrieve
	// SouthboundTime is the time spent in callbacks of descriptors.
	SouthboundTime time.Duration
}

// Op is one operation of a transaction.
type Op struct {
	Operation pb.TxnOperation
	Key       string
	// Descriptor is empty for properties.
	Descriptor string

	NewState, PrevState pb.ValueState
	NewValue, PrevValue proto.Message
	NewErr, PrevErr     error

	// NOOP operations changed only the state of the value, not the southbound.
	NOOP       bool
	IsDerived  bool
	IsProperty bool
	IsRevert   bool
	IsRetry    bool
	IsRecreate bool

	// Duration of the callback; zero if none was called.
	Duration time.Duration
}

// ResyncType is the relation of a transaction to the whole state.
type ResyncType int

const (
	// NotResync: the transaction changes only its values.
	NotResync ResyncType = iota
	// FullResync: the values replace the northbound intent, and the southbound is read and made to
	// match.
	FullResync
	// UpstreamResync: the values replace the northbound intent; the southbound is assumed to be as last
	// seen.
	UpstreamResync
	// DownstreamResync: the transaction has no values; the southbound is read and made to match the
	// intent.
	DownstreamResync
)

// String returns the name of the type.
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

// String returns the name of the type.
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

// Origin is the source of the request for a value.
type Origin int

const (
	// UnknownOrigin lets the scheduler decide: FromNB if the key is or was requested, FromSB otherwise.
	UnknownOrigin Origin = iota
	// FromNB: the northbound requested the value, or a driver recognises the object as ours.
	FromNB
	// FromSB: the value exists without a request (OBTAINED), and is never created, changed or deleted.
	FromSB
)

// KeyValue is a key with its value.
type KeyValue struct {
	Key   string
	Value proto.Message
}

// Retrieve is one read of the southbound by a descriptor.
type Retrieve struct {
	Descriptor string
	// Keys are the requested keys, sorted, at most 16; empty for all values of the descriptor. MoreKeys
	// counts the other requested keys.
	Keys     []string
	MoreKeys int
	// Found is the number of returned values.
	Found int
	// After is the number of operations executed before the read.
	After    int
	Duration time.Duration
	Err      error
}

// Asked describes the requested keys.
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

// Result describes the result.
func (r *Retrieve) Result() string {
	switch {
	case r.Err != nil:
		return "error: " + FirstLine(r.Err.Error())
	case r.Found == 0:
		return "nothing found"
	}
	return fmt.Sprintf("%d found", r.Found)
}

// String describes the read on one line.
func (r Retrieve) String() string {
	return fmt.Sprintf("RETRIEVE  %s: %s  %s", r.Descriptor, r.Asked(), r.Result())
}

// InOrder calls retrieve for the reads and execute for the indexes of the operations, in the order of their
// execution.
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
