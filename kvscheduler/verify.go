package kvscheduler

import (
	"context"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// Difference is a difference between the southbound and the requests.
type Difference struct {
	Key string
	// Want is nil if the value should not exist. Have is nil if it does not exist.
	Want, Have proto.Message
	// State is the state of the value in the scheduler.
	State pb.ValueState
}

// Verify reads the given keys from the southbound and compares them with the requests. It changes
// nothing. Values that are not CONFIGURED count as different. The key of a derived value stands for
// its base value.
func (s *Scheduler) Verify(ctx context.Context, keys ...string) ([]Difference, error) {
	var diffs []Difference
	var verifyErr error
	if err := s.onWorker(ctx, func() { diffs, verifyErr = s.verify(keys) }); err != nil {
		return nil, err
	}
	return diffs, verifyErr
}

// verify runs on the worker. It merges the read values into a copy of the graph.
func (s *Scheduler) verify(keys []string) ([]Difference, error) {
	x := s.newExec(&job{})
	x.g = s.graph.Copy()
	x.reader, x.caller = s.caller, nil
	keys = x.baseKeys(keys)
	before := x.g.Copy()
	r := refresh{x: x}
	r.readKeys(keys)
	var diffs []Difference
	for _, key := range keys {
		if err := x.unreadable[key]; err != nil {
			x.errs = append(x.errs, &KeyError{Key: key, Err: err})
		}
		old, ok := before.Get(key)
		if !ok {
			diffs = append(diffs, Difference{Key: key})
			continue
		}
		if d, differs := x.compare(old); differs {
			diffs = append(diffs, d)
		}
		for _, dk := range old.derived() {
			if od, ok := before.Get(dk); ok {
				if d, differs := x.compare(od); differs {
					diffs = append(diffs, d)
				}
			}
		}
		if now := x.get(key); now != nil {
			for _, dk := range now.derived() {
				if n := x.get(dk); n != nil && n.have != nil {
					if _, known := before.Get(dk); !known {
						diffs = append(diffs, Difference{Key: dk, Have: n.have})
					}
				}
			}
		}
	}
	if len(x.errs) > 0 {
		return diffs, &TransactionError{SeqNum: NoSeqNum, Errors: x.errs}
	}
	return diffs, nil
}

// compare returns the wanted and the read version of a value, and whether they differ.
func (v *view) compare(old *node) (Difference, bool) {
	d := Difference{Key: old.key, Want: old.want, State: old.State()}
	if old.is(fromSB) {
		d.Want = old.have
	}
	if n := v.get(old.key); n != nil {
		d.Have = n.have
	}
	settled := old.State() == pb.ValueState_CONFIGURED || old.State() == pb.ValueState_OBTAINED
	if !settled || d.Have == nil || d.Want == nil {
		return d, true
	}
	equal, err := old.desc.equivalent(old.key, d.Have, d.Want, proto.Equal)
	return d, err != nil || !equal
}
