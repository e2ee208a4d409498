package kvscheduler

import (
	"context"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// ValidateSemantically asks the descriptors if the values, and those that they
// derive, are valid; nothing is scheduled. What is not is told by a *TransactionError.
// Keys without a descriptor, and nil values, are valid.
func (s *Scheduler) ValidateSemantically(ctx context.Context, values ...KeyValue) error {
	var errs []*KeyError
	err := s.onWorker(ctx, func() {
		x := s.newExec(&job{})
		for _, kv := range values {
			if isNil(kv.Value) {
				continue
			}
			h := x.reg.find(kv.Key)
			x.validate(h, kv)
			derived, err := h.derived(kv.Key, kv.Value)
			if err != nil {
				_ = x.note(kv.Key, pb.TxnOperation_VALIDATE, err)
			}
			for _, d := range derived {
				if !isNil(d.Value) {
					x.validate(x.reg.find(d.Key), d)
				}
			}
		}
		errs = x.errs
	})
	if err == nil && len(errs) > 0 {
		err = &TransactionError{SeqNum: NoSeqNum, Errors: errs}
	}
	return err
}

func (x *exec) validate(h *handler, kv KeyValue) {
	if err := h.validate(kv.Key, kv.Value); err != nil {
		_ = x.note(kv.Key, pb.TxnOperation_VALIDATE, err)
	}
	if _, err := h.dependencies(kv.Key, kv.Value); err != nil {
		_ = x.note(kv.Key, pb.TxnOperation_VALIDATE, err)
	}
}
