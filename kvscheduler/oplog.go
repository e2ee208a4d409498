package kvscheduler

import (
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// opLog holds the operations and reads of a transaction, for its record.
type opLog struct {
	recording bool
	ops       []RecordedOp // zero: a later one replaced it
	reads     []RecordedRetrieve
	// replacedOps is the number of replaced operations.
	replacedOps int
}

// addOp appends an operation and returns its index. It replaces the last operation of the value, -1 if
// none, that was only an intermediate step.
func (l *opLog) addOp(r RecordedOp, lastIndex int32) int32 {
	if lastIndex >= 0 {
		switch last := &l.ops[lastIndex]; {
		case last.IsRevert != r.IsRevert:
		case r.Operation == pb.TxnOperation_CREATE && last.NOOP && last.Operation == r.Operation && last.NewState == pb.ValueState_PENDING:
			r.PrevState, r.PrevValue, r.PrevErr = last.PrevState, last.PrevValue, last.PrevErr
			*last = RecordedOp{}
			l.replacedOps++
		case r.Operation == pb.TxnOperation_DELETE && r.NOOP && last.Operation == r.Operation && last.NewState == pb.ValueState_PENDING:
			last.NewState = r.NewState
			return lastIndex
		}
	}
	l.ops = append(l.ops, r)
	return int32(len(l.ops) - 1)
}

// executedOps returns the recorded operations that were not replaced.
func (l *opLog) executedOps() []RecordedOp {
	if l.replacedOps == 0 {
		return l.ops
	}
	ops := make([]RecordedOp, 0, len(l.ops)-l.replacedOps)
	for i := range l.ops {
		if l.ops[i].Key != "" {
			ops = append(ops, l.ops[i])
		}
	}
	return ops
}

// executedReads returns the recorded reads. After, the number of operations before a read, is that
// in the result of executedOps.
func (l *opLog) executedReads() []RecordedRetrieve {
	if l.replacedOps == 0 {
		return l.reads
	}
	kept, counted := 0, 0
	for i := range l.reads {
		for ; counted < l.reads[i].After; counted++ {
			if l.ops[counted].Key != "" {
				kept++
			}
		}
		l.reads[i].After = kept
	}
	return l.reads
}
