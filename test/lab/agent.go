package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
)

// Transactions returns what an agent's scheduler recorded of the transactions
// since a time (zero: all), oldest first.
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

// Events returns what an agent recorded of all its events, oldest first.
func (r *REST) Events(ctx context.Context) ([]*controller.EventRecord, error) {
	var events []*controller.EventRecord
	return events, r.Get(ctx, "/controller/event-history", &events)
}

// NotConfigured describes the values of an agent's scheduler, derived ones
// included, that are neither configured nor obtained.
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

// Drift asks an agent to read the whole southbound back, and returns the
// operations that were needed to make it right again.
func (r *REST) Drift(ctx context.Context) ([]kvscheduler.RecordedOp, error) {
	txn := &kvscheduler.RecordedTxn{}
	err := r.Post(ctx, "/scheduler/downstream-resync", txn)
	return Operations(txn), err
}

// Operations returns what the transactions did to the southbound. Left out is
// what only changed the state of a value, and what the scheduler was told of
// values that are not its own.
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
