package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
)

// Transactions returns the transactions that the agent's scheduler recorded since a time, oldest
// first. A zero time returns all.
func (r *REST) Transactions(ctx context.Context, since time.Time) ([]*kvscheduler.RecordedTxn, error) {
	path := "/scheduler/txn-history"
	if !since.IsZero() {
		path += "?since=" + strconv.FormatInt(since.UnixNano(), 10)
	}
	var txns []*kvscheduler.RecordedTxn
	return txns, r.Get(ctx, path, &txns)
}

// Transaction returns the record of one transaction.
func (r *REST) Transaction(ctx context.Context, seqNum uint64) (*kvscheduler.RecordedTxn, error) {
	txn := &kvscheduler.RecordedTxn{}
	return txn, r.Get(ctx, fmt.Sprintf("/scheduler/txn-history?seq-num=%d", seqNum), txn)
}

// Events returns the agent's event history, oldest first.
func (r *REST) Events(ctx context.Context) ([]*controller.EventRecord, error) {
	var events []*controller.EventRecord
	return events, r.Get(ctx, "/controller/event-history", &events)
}

// NotConfigured describes the scheduler values, derived ones included, that are neither configured
// nor obtained.
func (r *REST) NotConfigured(ctx context.Context) ([]string, error) {
	var statuses []record.Status
	if err := r.Get(ctx, "/scheduler/status", &statuses); err != nil {
		return nil, err
	}
	var found []string
	for _, s := range statuses {
		for _, v := range append(s.GetDerivedValues(), s.GetValue()) {
			if state := v.GetState(); state != pb.ValueState_CONFIGURED && state != pb.ValueState_OBTAINED {
				found = append(found, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", state, v.GetKey(), v.GetError(), strings.Join(v.GetDetails(), ", "))))
			}
		}
	}
	return found, nil
}

// Drift runs a full resync of the agent and returns the operations that repaired drift.
func (r *REST) Drift(ctx context.Context) ([]kvscheduler.RecordedOp, error) {
	txn := &kvscheduler.RecordedTxn{}
	err := r.Post(ctx, "/scheduler/downstream-resync", txn)
	return Operations(txn), err
}

// Operations returns the southbound operations of the transactions. It omits operations that only
// changed a value's state and notifications about obtained values.
func Operations(txns ...*kvscheduler.RecordedTxn) []kvscheduler.RecordedOp {
	var ops []kvscheduler.RecordedOp
	for _, txn := range txns {
		for _, op := range txn.Executed {
			if !op.NOOP && op.NewState != pb.ValueState_OBTAINED && op.PrevState != pb.ValueState_OBTAINED {
				ops = append(ops, op)
			}
		}
	}
	return ops
}
