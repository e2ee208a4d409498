package plugintest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
)

// Scheduler records committed values.
type Scheduler struct {
	mu      sync.Mutex
	seq     uint64
	values  Txn
	changed int
	fail    func(controller.SchedulerTxn) []string
	differs []kvscheduler.Difference
}

// FailKeys sets the function that selects the failing keys of a transaction; nil: none.
func (s *Scheduler) FailKeys(fail func(controller.SchedulerTxn) []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// SetDifferences sets the result of Verify.
func (s *Scheduler) SetDifferences(d ...kvscheduler.Difference) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.differs = d
}

// Values returns the committed values.
func (s *Scheduler) Values() Txn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Txn{}.Apply(s.values)
}

// Changed returns how many values the last transaction changed.
func (s *Scheduler) Changed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Commit implements controller.Scheduler.
func (s *Scheduler) Commit(_ context.Context, txn controller.SchedulerTxn) (controller.TxnResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	result := controller.TxnResult{SeqNum: s.seq, SouthboundTime: time.Millisecond}
	if s.fail != nil {
		result.FailedKeys = s.fail(txn)
	}
	if len(result.FailedKeys) > 0 {
		err := &kvscheduler.TransactionError{SeqNum: s.seq, Reverted: txn.Revert}
		for _, key := range result.FailedKeys {
			err.Errors = append(err.Errors, &kvscheduler.KeyError{Key: key, Err: errors.New("made to fail")})
		}
		return result, err
	}
	change := Txn{}
	for _, kv := range txn.Values {
		change[kv.Key] = kv.Value
	}
	before := s.values
	if txn.Resync == kvscheduler.NotResync {
		s.values = change.Apply(before)
	} else {
		s.values = change.Apply(Txn{})
	}
	s.changed = len(differing(before, s.values))
	return result, nil
}

// Verify returns the set differences of the keys.
func (s *Scheduler) Verify(_ context.Context, keys ...string) ([]kvscheduler.Difference, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []kvscheduler.Difference
	for _, key := range keys {
		for _, d := range s.differs {
			if d.Key == key {
				found = append(found, d)
			}
		}
		if s.values[key] == nil {
			found = append(found, kvscheduler.Difference{Key: key})
		}
	}
	return found, nil
}
