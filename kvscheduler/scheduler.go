package kvscheduler

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
)

// Options of a Scheduler. The zero value is usable.
type Options struct {
	// Logger; nil: slog.Default().
	Logger *slog.Logger
	// Metrics is where the scheduler registers its metrics; nil: nowhere.
	Metrics prometheus.Registerer
	// CallTimeout is the deadline of each callback. Default 30 s.
	CallTimeout time.Duration
	// History bounds what is remembered of past transactions.
	History HistoryLimits
}

// HistoryLimits bound the history of transactions. Zero fields have defaults.
type HistoryLimits struct {
	// Disabled turns the history off.
	Disabled bool
	// Age of the oldest record. Default 24 h.
	Age time.Duration
	// Count of records. Default 10 000.
	Count int
	// Bytes of all records, estimated. Default 64 MiB.
	Bytes int
	// InitPeriod after the start whose records are kept in any case,
	// as long as Bytes allows. Default 1 h.
	InitPeriod time.Duration
}

// Scheduler is the transaction engine. See the package documentation.
type Scheduler struct{}

// New returns a running scheduler; Close it.
func New(opts Options) *Scheduler { panic("skeleton") }

// Close ends the scheduler after the transaction in progress. Queued ones fail
// with ErrClosed.
func (s *Scheduler) Close() error { panic("skeleton") }

// Register adds a descriptor. Errors name both sides of a conflict.
func Register[V proto.Message, M any](s *Scheduler, d Descriptor[V, M]) error { panic("skeleton") }

// Transaction is a set of changes to be committed together.
type Transaction struct{}

// NewTransaction returns an empty transaction.
func (s *Scheduler) NewTransaction() *Transaction { panic("skeleton") }

// Put requests the value for the key. The last call for a key wins. The value
// must not be changed afterwards.
func (t *Transaction) Put(key string, value proto.Message) *Transaction { panic("skeleton") }

// Delete requests that the key has no value.
func (t *Transaction) Delete(key string) *Transaction { panic("skeleton") }

// Commit executes the transaction and returns its sequence number. Failed
// operations are reported in a *TransactionError. When ctx ends before the
// transaction was started, it is withdrawn; later, it runs to its end.
func (t *Transaction) Commit(ctx context.Context, opts ...TxnOption) (uint64, error) {
	panic("skeleton")
}

// Plan returns the operations that Commit would execute, in order, if nothing
// failed; it changes nothing.
func (t *Transaction) Plan(ctx context.Context, opts ...TxnOption) ([]RecordedOp, error) {
	panic("skeleton")
}

// Notification is a change of a value that the southbound reports. A nil Value
// says that the key is gone.
type Notification struct {
	Key      string
	Value    proto.Message
	Metadata any
}

// PushSBNotification queues one transaction with the given OBTAINED values.
// Values that the northbound requested are not affected by it.
func (s *Scheduler) PushSBNotification(n ...Notification) error { panic("skeleton") }

// ReportDrift queues a downstream resync of the given keys, because their
// southbound state is suspected to have changed behind our back. Keys that are
// not requested, and keys already queued, are ignored. The transaction is recorded only if
// something differed; its description then contains the reason. Never blocks.
func (s *Scheduler) ReportDrift(reason string, keys ...string) error { panic("skeleton") }

// Difference is what Verify found for one key.
type Difference struct {
	Key string
	// Want is nil for what should not exist, Have for what does not exist.
	Want, Have proto.Message
	// State of the value as the scheduler knows it.
	State pb.ValueState
}

// Verify reads the given keys back from the southbound and compares them with
// what was requested. Nothing is changed. Values that are not CONFIGURED
// differ.
func (s *Scheduler) Verify(ctx context.Context, keys ...string) ([]Difference, error) {
	panic("skeleton")
}

// Barrier returns when all transactions queued before it have been processed.
func (s *Scheduler) Barrier(ctx context.Context) error { panic("skeleton") }

// ValueStatus returns the state of a base value with its derived values;
// NONEXISTENT if the key is unknown. Never waits for a transaction.
func (s *Scheduler) ValueStatus(key string) *pb.BaseValueStatus { panic("skeleton") }

// ValueStatuses returns the states of all base values with the key prefix,
// sorted by key.
func (s *Scheduler) ValueStatuses(keyPrefix string) []*pb.BaseValueStatus { panic("skeleton") }

// View selects what Dump returns.
type View int

const (
	// SBView is what Retrieve reads now.
	SBView View = iota
	// NBView is what the northbound requested.
	NBView
	// CachedView is what the scheduler believes to exist.
	CachedView
)

// DumpedValue is one value of a dump.
type DumpedValue struct {
	Key        string
	Descriptor string
	Value      proto.Message
	Metadata   any
	Origin     Origin
	State      pb.ValueState
}

// DumpFilter narrows a dump down; empty fields do not.
type DumpFilter struct {
	Descriptor string
	KeyPrefix  string
}

// Dump returns values sorted by key. SBView waits for the transaction in
// progress.
func (s *Scheduler) Dump(ctx context.Context, view View, f DumpFilter) ([]DumpedValue, error) {
	panic("skeleton")
}

// History returns the records of transactions that overlap [since, until],
// oldest first. Zero times are open ends.
func (s *Scheduler) History(since, until time.Time) []*RecordedTxn { panic("skeleton") }

// RecordedTxn returns one record, nil if there is none (any more).
func (s *Scheduler) RecordedTxn(seqNum uint64) *RecordedTxn { panic("skeleton") }

// Metadata returns the metadata of a value by descriptor name and label. It
// may be called from callbacks and sees what the running transaction did.
func (s *Scheduler) Metadata(descriptor, label string) (any, bool) { panic("skeleton") }

// Handler serves the REST API below /scheduler/.
func (s *Scheduler) Handler() http.Handler { panic("skeleton") }
