package kvscheduler

import (
	"errors"
	"slices"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// deletedValue is the argument of Delete for a value of which only a failed creation is known.
func (n *node) deletedValue(p prior) proto.Message {
	if n.want != nil {
		return n.want
	}
	return p.value
}

// pending marks a value whose dependencies are not met.
func (x *exec) pending(n *node, p prior, op pb.TxnOperation, unmet, derives []string) {
	same := p.state == pb.ValueState_PENDING && proto.Equal(p.value, n.want)
	n.setState(pb.ValueState_PENDING)
	n.setInfo(&nodeInfo{details: unmet, derives: derives})
	n.clear(drifted | broken)
	if len(x.errs) > 0 {
		x.lookAgain(n.key)
	}
	if !same {
		x.record(n, p, op, recordAs{noop: true})
		x.notComing(n)
	}
}

// notComing re-evaluates the members of a cycle that exist because n was about to. Failures are
// recorded with their values.
func (x *exec) notComing(n *node) {
	if !x.g.HasNeeders(n.key) {
		return
	}
	keys := x.g.Needers(nil, n.key)
	if base := x.get(n.base()); n.base() != "" && base != nil && base.is(leaving) {
		x.afterGone = append(x.afterGone, keys...) // which may need them
		return
	}
	x.lookAt(keys, x.isAvailable(n.key))
}

// lookAt re-examines those of the keys that exist.
func (x *exec) lookAt(keys []string, gained bool) {
	for _, key := range keys {
		if d := x.get(key); d != nil && d.have != nil {
			_ = x.updateDependent(key, gained) // failures are recorded with their values
		}
	}
}

// unimplemented marks a base value that has no descriptor.
func (x *exec) unimplemented(n *node, p prior) error {
	n.setState(pb.ValueState_UNIMPLEMENTED)
	n.setInfo(nil)
	if p.state != pb.ValueState_UNIMPLEMENTED {
		x.record(n, p, pb.TxnOperation_CREATE, recordAs{noop: true})
	}
	return nil
}

// invalid marks a value that can never be configured. What exists, if
// anything, stays as it is: the last valid value.
func (x *exec) invalid(n *node, p prior, op pb.TxnOperation, err error) error {
	if pe := (*PanicError)(nil); errors.As(err, &pe) {
		return x.fail(n, p, op, err, false) // a defect, which tells nothing about the value
	}
	same := p.state == pb.ValueState_INVALID && proto.Equal(p.value, n.want)
	n.set(invalid)
	x.verdicts.lost()
	n.setState(pb.ValueState_INVALID)
	n.lastOp = uint8(pb.TxnOperation_VALIDATE)
	n.clear(drifted)
	info := &nodeInfo{err: err, seq: x.seq}
	if iv := (*InvalidValueError)(nil); errors.As(err, &iv) {
		info.details = iv.Fields
	}
	n.setInfo(info)
	if !same {
		x.record(n, p, op, recordAs{noop: true})
		if n.have == nil {
			x.notComing(n)
		}
	}
	if x.about.get(n.baseKey()) == applied && !x.reverting {
		if err := x.note(n.key, pb.TxnOperation_VALIDATE, err); x.abort {
			return err
		}
	} else if !x.reverting {
		x.errs = append(x.errs, &KeyError{Key: n.key, Operation: pb.TxnOperation_VALIDATE, Err: err})
	}
	for _, key := range n.derived() {
		d := x.get(key)
		if d != nil && d.want == nil && d.have != nil { // found with the last valid value
			d = x.mut(d)
			d.want = d.have
			d.setInfo(nil)
			d.setState(pb.ValueState_CONFIGURED)
			if d.available() { // its deletion was stopped: what had made way for it may come back
				x.verdicts.gained()
				x.foundOut.gained = append(x.foundOut.gained, key)
			}
		}
		_ = x.updateDependent(key, true) // they were left for the turn of this value
	}
	if !n.is(unknown) {
		n.clear(broken)
		x.verdicts.gained()
	}
	if n.have != nil {
		x.restoreProperties(n)
		x.dependOnFound(n)
		x.lookAgain(n.key)
		if !p.available && n.available() {
			_ = x.updateDependents(n.key)
		}
	}
	return nil
}

// restoreProperties restores the properties of the existing version of an INVALID value: a deletion
// that was stopped may have taken them.
func (x *exec) restoreProperties(n *node) {
	derived, err := x.deriveFrom(n.desc, n.key, n.have)
	if err != nil {
		return
	}
	for _, kv := range derived {
		i, known := slices.BinarySearch(n.derived(), kv.Key)
		if x.reg.find(kv.Key) != nil || x.get(kv.Key) != nil {
			continue
		}
		d := x.add(kv.Key)
		d.setBase(n.key)
		d.want, d.have = kv.Value, kv.Value
		d.setState(pb.ValueState_CONFIGURED)
		if !known {
			n.setDerived(slices.Insert(slices.Clone(n.derived()), i, kv.Key))
		}
		x.verdicts.gained()
		x.foundOut.gained = append(x.foundOut.gained, kv.Key)
	}
}

// stillInvalid makes a value INVALID again whose last valid value went. It reports false if
// the value validates now.
func (x *exec) stillInvalid(n *node, info *nodeInfo) bool {
	if err := n.desc.validate(n.key, n.want); err != nil {
		info = &nodeInfo{err: err}
		if iv := (*InvalidValueError)(nil); errors.As(err, &iv) {
			info.details = iv.Fields
		}
	} else if info == nil || !errors.As(info.err, new(*InvalidValueError)) {
		n.clear(invalid)
		return false
	}
	n.setInfo(info)
	n.setState(pb.ValueState_INVALID)
	return true
}

// held marks a value whose operation was not started because of the failure of another value,
// described by err. The value is unchanged, and its operation will be repeated.
func (x *exec) held(n *node, p prior, op pb.TxnOperation, err error, by string, recreate bool) error {
	if x.abort {
		return errAborted
	}
	x.verdicts.lost()
	n.setInfo(&nodeInfo{err: err, seq: x.seq, heldBy: by, recreate: recreate})
	x.lookAgain(n.key)
	n.setState(x.planRetry(n, n.info()))
	n.lastOp = uint8(op)
	x.record(n, p, op, recordAs{recreate: recreate})
	err = x.note(n.key, op, err)
	if !p.available && n.available() && !x.abort {
		_ = x.updateDependents(n.key) // it exists, and is wanted again
	}
	return err
}

// fail marks a value whose operation failed, and has it read back.
func (x *exec) fail(n *node, p prior, op pb.TxnOperation, err error, recreate bool) error {
	x.verdicts.lost()
	var state pb.ValueState
	info := &nodeInfo{err: err, seq: x.seq}
	iv := (*InvalidValueError)(nil)
	again := false
	switch {
	case errors.Is(err, ErrUnsupported):
		state = pb.ValueState_UNIMPLEMENTED
		again = p.state == state && p.err != nil && p.err.Error() == err.Error()
	case errors.As(err, &iv):
		state = pb.ValueState_INVALID
		n.set(invalid)
		info.details = iv.Fields
	default:
		state = x.planRetry(n, info)
	}
	switch op {
	case pb.TxnOperation_CREATE:
		n.have = nil
		n.setMeta(nil)
		if state == pb.ValueState_FAILED || state == pb.ValueState_RETRYING {
			n.set(broken | unknown)
		}
		x.failedToCome(n)
	case pb.TxnOperation_DELETE:
		n.set(broken | unknown)
	case pb.TxnOperation_UPDATE:
		n.set(unknown)
	}
	n.clear(drifted)
	n.setState(state)
	n.lastOp = uint8(op)
	n.setInfo(info)
	if !again {
		x.record(n, p, op, recordAs{recreate: recreate})
	}
	x.failed[n.baseKey()] = struct{}{}
	return x.note(n.key, op, err)
}

// failedToCome has those looked at who may exist because n was about to, as members
// of a cycle: what needs n, directly or through others that do not come either.
func (x *exec) failedToCome(n *node) {
	if len(n.deps) == 0 && n.base() == "" {
		return // in no cycle
	}
	seen := map[string]bool{n.key: true}
	for queue := []string{n.key}; len(queue) > 0; queue = queue[1:] {
		if !x.g.HasNeeders(queue[0]) {
			continue
		}
		x.foundOut.lost = append(x.foundOut.lost, queue[0])
		for _, key := range x.g.Needers(nil, queue[0]) {
			if d := x.get(key); d != nil && d.have == nil && !seen[key] {
				seen[key] = true
				queue = append(queue, key)
			}
		}
	}
}

// planRetry decides if the failed operation is repeated, and when. It returns the state
// that says so.
func (x *exec) planRetry(n *node, info *nodeInfo) pb.ValueState {
	policy := x.policy(n)
	if policy == nil || x.before != nil && !x.reverting && x.callsForRevert(n.baseKey()) || !n.desc.retriable(info.err) {
		return pb.ValueState_FAILED
	}
	attempt := 1
	if x.job.isRetryOf(n.baseKey()) {
		attempt = x.job.attempt + 1
	}
	if policy.MaxCount > 0 && attempt > policy.MaxCount {
		return pb.ValueState_FAILED
	}
	info.attempt = attempt
	info.delay = policy.delay(attempt)
	info.retryAt = time.Now().Add(info.delay)
	return pb.ValueState_RETRYING
}

// policy is how failed operations of the value are repeated; nil: they are not. Derived
// values have that of their base value, and an undo that of its transaction, if it has one.
func (x *exec) policy(n *node) *Retry {
	switch x.about.get(n.baseKey()) {
	case applied, unreached:
		if x.reverting && x.job.opts.retry != nil {
			return x.job.opts.retry
		}
	case upcoming:
		if x.changesRetry() {
			return x.job.opts.retry
		}
	}
	if n.base() != "" {
		if base := x.get(n.base()); base != nil {
			return base.retry()
		}
	}
	return n.retry()
}

// delay before the given attempt, which counts from 1.
func (r *Retry) delay(attempt int) time.Duration {
	const longest = 24 * time.Hour
	d := r.Period
	if d <= 0 {
		d = DefaultRetry.Period
	}
	for i := 1; r.ExpBackoff && i < attempt && d < longest; i++ {
		d *= 2
	}
	return d
}

func (h *handler) retriable(err error) bool {
	if errors.Is(err, ErrUnimplementedCreate) || errors.Is(err, ErrUnimplementedDelete) || errors.Is(err, ErrUnsupported) {
		return false
	}
	if h == nil || h.retriableFn == nil {
		return true
	}
	retriable := true
	var p error
	func() {
		defer caught(&p, h.name, "Retriable")
		retriable = h.retriableFn(err)
	}()
	return retriable
}

// note adds a failure to the result of the transaction. It also decides whether the transaction is
// to be reverted: if the value belongs to the transaction, or had not failed before it.
func (x *exec) note(key string, op pb.TxnOperation, err error) error {
	x.errs = append(x.errs, &KeyError{Key: key, Operation: op, Err: err})
	if x.before == nil || x.reverting {
		return err
	}
	base := key
	if n := x.get(key); n != nil {
		base = n.baseKey()
	}
	if x.callsForRevert(base) || x.callsForRevert(key) {
		x.abort = true
	}
	return err
}

// callsForRevert reports whether the failure of the value has the transaction reverted.
func (x *exec) callsForRevert(key string) bool {
	if x.about.get(key) == applied {
		return true
	}
	old := x.oldOf(key)
	return old != nil && old.available()
}

// recordAs are the flags of an operation that the value does not tell.
type recordAs struct{ noop, recreate bool }

// record adds an operation to the record of the transaction. Of several
// operations that only tell the way to the last one, the last one remains.
func (x *exec) record(n *node, p prior, op pb.TxnOperation, as recordAs) {
	if !x.recording {
		n.op = 0 // there was one
		return
	}
	r := RecordedOp{
		Operation: op, Key: n.key,
		NewState: n.State(), PrevState: p.state, PrevValue: p.value, PrevErr: p.err, NewErr: n.err(),
		NOOP: as.noop, IsDerived: n.base() != "", IsProperty: n.base() != "" && n.desc == nil,
		IsRevert: x.reverting, IsRetry: x.job.isRetryOf(n.baseKey()), IsRecreate: as.recreate,
	}
	if op != pb.TxnOperation_DELETE {
		r.NewValue = n.want
	}
	if n.desc != nil {
		r.Descriptor = n.desc.name
	}
	if x.caller != nil && !as.noop && n.desc != nil && !n.is(fromSB) {
		r.Duration, x.caller.last = x.caller.last, 0
	}
	if n.op >= 0 {
		switch last := &x.ops[n.op]; {
		case last.IsRevert != r.IsRevert:
		case op == pb.TxnOperation_CREATE && last.NOOP && last.Operation == op && last.NewState == pb.ValueState_PENDING:
			r.PrevState, r.PrevValue, r.PrevErr = last.PrevState, last.PrevValue, last.PrevErr
			*last = RecordedOp{}
			x.skipped++
		case op == pb.TxnOperation_DELETE && as.noop && last.Operation == op && last.NewState == pb.ValueState_PENDING:
			last.NewState = r.NewState
			return
		}
	}
	n.op = int32(len(x.ops))
	x.ops = append(x.ops, r)
}

// recorded returns the operations, without those that later ones replaced.
func (x *exec) recorded() []RecordedOp {
	if x.skipped == 0 {
		return x.ops
	}
	ops := make([]RecordedOp, 0, len(x.ops)-x.skipped)
	for i := range x.ops {
		if x.ops[i].Key != "" {
			ops = append(ops, x.ops[i])
		}
	}
	return ops
}

// storeMetadata publishes the metadata of a value that exists.
func (x *exec) storeMetadata(n *node) {
	if n.desc == nil || n.desc.metadata == nil || n.base() != "" || x.caller == nil {
		return
	}
	if err := n.desc.metadata.set(n.key, n.meta()); err != nil {
		x.log.Error("metadata not indexed", "key", n.key, "error", err)
	}
}

func (x *exec) forgetMetadata(n *node) {
	if n.desc == nil || n.desc.metadata == nil || n.base() != "" || x.caller == nil {
		return
	}
	if err := n.desc.metadata.unset(n.key); err != nil {
		x.log.Error("metadata not indexed", "key", n.key, "error", err)
	}
}
