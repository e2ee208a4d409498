package kvscheduler

import (
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

// RecordedTxn is the record of a transaction. Records are immutable.
type RecordedTxn struct {
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
	Planned  []RecordedOp
	Executed []RecordedOp
	// Retrieved tells what was read from the southbound, in order.
	Retrieved []RecordedRetrieve
	// SouthboundTime is the time spent in callbacks of descriptors.
	SouthboundTime time.Duration
}

// RecordedOp is one operation of a transaction.
type RecordedOp struct {
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
