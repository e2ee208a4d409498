package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler"
)

// Scheduler executes transactions. It is the KVScheduler, or a fake in tests.
type Scheduler interface {
	// Commit executes the transaction. The error is a *kvscheduler.TransactionError, or the reason
	// why the transaction was not executed.
	Commit(ctx context.Context, txn SchedulerTxn) (TxnResult, error)
}

// SchedulerTxn is the transaction of one event.
type SchedulerTxn struct {
	// Values sorted by key; a nil value deletes the key.
	Values      []kvscheduler.KeyValue
	Resync      kvscheduler.ResyncType
	Revert      bool
	Retry       *kvscheduler.Retry
	Description string
}

// TxnResult is the result of a transaction.
type TxnResult struct {
	// SeqNum is kvscheduler.NoSeqNum if it was not executed.
	SeqNum uint64
	// SouthboundTime is the time spent in the vswitch.
	SouthboundTime time.Duration
	// Operations is the number of executed operations.
	Operations int
	// FailedKeys are the base keys with a failed operation.
	FailedKeys []string
	// Final: all failures are permanent, since the values are invalid or the vswitch does not
	// support them.
	Final bool
}

// NewScheduler adapts the KVScheduler.
func NewScheduler(s *kvscheduler.Scheduler) Scheduler { return scheduler{s} }

type scheduler struct{ *kvscheduler.Scheduler }

func (s scheduler) Commit(ctx context.Context, txn SchedulerTxn) (TxnResult, error) {
	t := s.NewTransaction()
	for _, kv := range txn.Values {
		if kv.Value == nil {
			t.Delete(kv.Key)
		} else {
			t.Put(kv.Key, kv.Value)
		}
	}
	options := []kvscheduler.TxnOption{
		kvscheduler.WithResync(txn.Resync),
		kvscheduler.WithDescription(txn.Description),
	}
	if txn.Retry != nil {
		options = append(options, kvscheduler.WithRetry(*txn.Retry))
	}
	if txn.Revert {
		options = append(options, kvscheduler.WithRevert())
	}
	seq, err := t.Commit(ctx, options...)
	result := TxnResult{SeqNum: seq, FailedKeys: s.failedKeys(txn, err), Final: isFinal(err)}
	if record := s.RecordedTxn(seq); record != nil {
		result.SouthboundTime = record.SouthboundTime
		for _, op := range record.Executed {
			if !op.NOOP {
				result.Operations++
			}
		}
	}
	return result, err
}

// AwaitChange returns nil when a value was configured, changed or removed without failing. Such a
// change may let a failed value succeed.
func (s scheduler) AwaitChange(ctx context.Context) error {
	watcher := s.WatchFrom(s.Revision(), "")
	for {
		events, err := watcher.Next(ctx)
		switch {
		case errors.Is(err, kvscheduler.ErrLostPlace):
			return nil // many events were missed
		case err != nil:
			return err
		case slices.ContainsFunc(events, func(e kvscheduler.StatusEvent) bool { return succeeded(e.Status) }):
			return nil
		}
	}
}

// succeeded reports whether the value is not pending, and neither it nor a derived value has
// failed.
func succeeded(status *pb.BaseValueStatus) bool {
	failed := func(v *pb.ValueStatus) bool {
		return v.GetState() == pb.ValueState_FAILED || v.GetState() == pb.ValueState_RETRYING
	}
	return status.GetValue().GetState() != pb.ValueState_PENDING && !failed(status.GetValue()) && !slices.ContainsFunc(status.GetDerivedValues(), failed)
}

// isFinal reports whether all failures of a transaction are permanent.
func isFinal(err error) bool {
	txnError, ok := errors.AsType[*kvscheduler.TransactionError](err)
	return ok && !slices.ContainsFunc(txnError.Errors, func(e *kvscheduler.KeyError) bool {
		_, invalid := errors.AsType[*kvscheduler.InvalidValueError](e)
		return !invalid && !errors.Is(e, kvscheduler.ErrUnsupported)
	})
}

// failedKeys returns the base keys that failed: keys of the transaction if they account for the
// error, otherwise other keys, too, since operations spread along dependencies.
func (s scheduler) failedKeys(txn SchedulerTxn, err error) (keys []string) {
	txnError, ok := errors.AsType[*kvscheduler.TransactionError](err)
	if !ok {
		return nil
	}
	failed := make(map[string]bool)
	for _, e := range txnError.Errors {
		failed[e.Key] = true
	}
	explain := func(status *pb.BaseValueStatus) {
		explains := false
		for _, value := range append(status.GetDerivedValues(), status.GetValue()) {
			explains = explains || failed[value.GetKey()]
			delete(failed, value.GetKey())
		}
		if explains {
			keys = append(keys, status.GetValue().GetKey())
		}
	}
	for _, kv := range txn.Values {
		explain(s.ValueStatus(kv.Key))
	}
	if len(failed) > 0 {
		for _, status := range s.ValueStatuses("") {
			explain(status)
		}
	}
	for key := range failed { // keys of removed values
		keys = append(keys, key)
	}
	return keys
}
