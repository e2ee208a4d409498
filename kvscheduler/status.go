package kvscheduler

import (
	"slices"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/graph"
)

// ValueStatus returns the state of a base value with its derived values, or of a derived value. The
// state of an unknown key is NONEXISTENT. It never waits for a transaction.
func (s *Scheduler) ValueStatus(key string) *pb.BaseValueStatus {
	g := s.view()
	n, ok := g.Get(key)
	if !ok {
		return &pb.BaseValueStatus{Value: &pb.ValueStatus{Key: key}}
	}
	if n.base() != "" {
		return &pb.BaseValueStatus{Value: n.status()}
	}
	return baseStatus(g, n)
}

// ValueStatuses returns the states of all base values with the key prefix, sorted by key.
func (s *Scheduler) ValueStatuses(keyPrefix string) []*pb.BaseValueStatus {
	return statusesOf(s.view(), keyPrefix)
}

func statusesOf(g *graph.Graph[*node], keyPrefix string) []*pb.BaseValueStatus {
	var all []*pb.BaseValueStatus
	g.Ascend(keyPrefix, func(_ string, n *node) bool {
		if n.base() == "" {
			all = append(all, baseStatus(g, n))
		}
		return true
	})
	return all
}

func baseStatus(g *graph.Graph[*node], n *node) *pb.BaseValueStatus {
	st := &pb.BaseValueStatus{Value: n.status()}
	for _, key := range n.derived() {
		if d, ok := g.Get(key); ok {
			st.DerivedValues = append(st.DerivedValues, d.status())
		}
	}
	return st
}

func (n *node) status() *pb.ValueStatus {
	err := n.err()
	if err == nil && n.State() == pb.ValueState_UNIMPLEMENTED {
		err = ErrNoDescriptor
	}
	return &pb.ValueStatus{Key: n.key, State: n.State(), LastOperation: n.lastOperation(), Error: message(err), Details: n.details()}
}

// lastOperation returns the last executed operation of the value. It is UNDEFINED for OBTAINED values
// and for values that were only PENDING.
func (n *node) lastOperation() pb.TxnOperation {
	if n.is(fromSB) {
		return pb.TxnOperation_UNDEFINED
	}
	return pb.TxnOperation(n.lastOp)
}

// Unmet returns the unmet dependencies of a PENDING value, the ones in the details of its status. It
// never waits for a transaction. Package inspect explains them.
func (s *Scheduler) Unmet(key string) (needs []Need) {
	n, ok := s.view().Get(key)
	if !ok || n.State() != pb.ValueState_PENDING {
		return nil
	}
	for i := range n.deps {
		if label := n.depLabel(i); slices.Contains(n.details(), label) {
			needs = append(needs, Need{Label: label, Target: n.deps[i].target()})
		}
	}
	return needs
}

// Stats are counters of a scheduler since its start.
type Stats struct {
	Values      int
	ValueStates map[string]int
	Queued      int
	Recorded    int
	// HistoryBytes is the estimated size of the history.
	HistoryBytes int
	Since        time.Time
	LastSeqNum   uint64
}

// Stats returns the current counters.
func (s *Scheduler) Stats() Stats {
	st := Stats{ValueStates: map[string]int{}, Queued: s.queue.length(), Since: s.history.start}
	s.view().Ascend("", func(_ string, n *node) bool {
		st.Values++
		st.ValueStates[pb.ValueState(n.state).String()]++
		return true
	})
	h := s.history
	h.mu.RLock()
	defer h.mu.RUnlock()
	st.Recorded, st.HistoryBytes = len(h.records), h.bytes
	if len(h.records) > 0 {
		st.LastSeqNum = h.records[len(h.records)-1].txn.SeqNum
	}
	return st
}
