package kvscheduler

import (
	"errors"
	"slices"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// deletedValue returns the argument of Delete for a value that is known only from a failed creation.
func (n *node) deletedValue(p prior) proto.Message {
	if n.want != nil {
		return n.want
	}
	return p.value
}

func (x *exec) markPending(n *node, p prior, op pb.TxnOperation, unmet, derives []string) {
	same := p.state == pb.ValueState_PENDING && proto.Equal(p.value, n.want)
	n.setState(pb.ValueState_PENDING)
	n.setInfo(&nodeInfo{details: unmet, derives: derives})
	n.clear(drifted | broken)
	if len(x.errs) > 0 {
		x.recheckLater(n.key)
	}
	if !same {
		x.recordOp(n, p, op, opFlags{noop: true})
		x.recheckNeeders(n)
	}
}

// recheckNeeders re-evaluates the existing members of a cycle that relied on the creation of n.
func (x *exec) recheckNeeders(n *node) {
	if !x.g.HasNeeders(n.key) {
		return
	}
	keys := x.g.Needers(nil, n.key)
	if base := x.get(n.base()); n.base() != "" && base != nil && base.is(deleting) {
		x.recheckAfterDelete = append(x.recheckAfterDelete, keys...) // deletions in progress may need them
		return
	}
	x.recheckExisting(keys, x.isAvailable(n.key))
}

func (x *exec) recheckExisting(keys []string, gained bool) {
	for _, key := range keys {
		if d := x.get(key); d != nil && d.have != nil {
			_ = x.updateDependent(key, gained) // failures are recorded with their values
		}
	}
}

func (x *exec) markUnimplemented(n *node, p prior) error {
	n.setState(pb.ValueState_UNIMPLEMENTED)
	n.setInfo(nil)
	if p.state != pb.ValueState_UNIMPLEMENTED {
		x.recordOp(n, p, pb.TxnOperation_CREATE, opFlags{noop: true})
	}
	return nil
}

// markInvalid records that the value can never be configured. Its last valid version stays.
func (x *exec) markInvalid(n *node, p prior, op pb.TxnOperation, err error) error {
	if pe := (*PanicError)(nil); errors.As(err, &pe) {
		return x.markFailed(n, p, op, err, false) // a defect says nothing about the value
	}
	same := p.state == pb.ValueState_INVALID && proto.Equal(p.value, n.want)
	n.set(invalid)
	x.cycleCache.invalidate()
	n.setState(pb.ValueState_INVALID)
	n.lastOp = uint8(pb.TxnOperation_VALIDATE)
	n.clear(drifted)
	info := &nodeInfo{err: err, seq: x.seq}
	if iv := (*InvalidValueError)(nil); errors.As(err, &iv) {
		info.details = iv.Fields
	}
	n.setInfo(info)
	if !same {
		x.recordOp(n, p, op, opFlags{noop: true})
		if n.have == nil {
			x.recheckNeeders(n)
		}
	}
	if x.scope.get(n.baseKey()) == applied && !x.reverting {
		if err := x.addError(n.key, pb.TxnOperation_VALIDATE, err); x.abort {
			return err
		}
	} else if !x.reverting {
		x.errs = append(x.errs, &KeyError{Key: n.key, Operation: pb.TxnOperation_VALIDATE, Err: err})
	}
	for _, key := range n.derived() {
		d := x.get(key)
		if d != nil && d.want == nil && d.have != nil { // read back as part of the last valid version
			d = x.mutable(d)
			d.want = d.have
			d.setInfo(nil)
			d.setState(pb.ValueState_CONFIGURED)
			if d.available() { // its deletion was blocked: values deleted for it may be created again
				x.cycleCache.invalidateNotReady()
				x.reread.gained = append(x.reread.gained, key)
			}
		}
		_ = x.updateDependent(key, true) // derived values wait for the base value
	}
	if !n.is(unknown) {
		n.clear(broken)
		x.cycleCache.invalidateNotReady()
	}
	if n.have != nil {
		x.restoreProperties(n)
		x.setDepsOfExisting(n)
		x.recheckLater(n.key)
		if !p.available && n.available() {
			_ = x.updateDependents(n.key)
		}
	}
	return nil
}

// restoreProperties restores the properties of the last valid version of an INVALID value, which a
// blocked deletion may have removed.
func (x *exec) restoreProperties(n *node) {
	derived, err := x.derivedOf(n.desc, n.key, n.have)
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
		x.cycleCache.invalidateNotReady()
		x.reread.gained = append(x.reread.gained, kv.Key)
	}
}

// stillInvalid makes a value INVALID again after its last valid version was deleted. It returns false
// if the value is valid now.
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

// markBlocked records that the operation of the value was not started because another value blocks it.
// The operation is repeated later.
func (x *exec) markBlocked(n *node, p prior, op pb.TxnOperation, err error, by string, recreate bool) error {
	if x.abort {
		return errAborted
	}
	x.cycleCache.invalidate()
	n.setInfo(&nodeInfo{err: err, seq: x.seq, blockedBy: by, recreate: recreate})
	x.recheckLater(n.key)
	n.setState(x.planRetry(n, n.info()))
	n.lastOp = uint8(op)
	x.recordOp(n, p, op, opFlags{recreate: recreate})
	err = x.addError(n.key, op, err)
	if !p.available && n.available() && !x.abort {
		_ = x.updateDependents(n.key) // it exists and is wanted again
	}
	return err
}

// markFailed records that the operation of the value failed, and schedules reading it back.
func (x *exec) markFailed(n *node, p prior, op pb.TxnOperation, err error, recreate bool) error {
	x.cycleCache.invalidate()
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
		x.addLostNeeders(n)
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
		x.recordOp(n, p, op, opFlags{recreate: recreate})
	}
	x.toReadBack[n.baseKey()] = struct{}{}
	return x.addError(n.key, op, err)
}

// addLostNeeders marks n, which could not be created, and the values that wait for it as lost, so that the
// existing members of their cycle are deleted.
func (x *exec) addLostNeeders(n *node) {
	if len(n.deps) == 0 && n.base() == "" {
		return // not in a cycle
	}
	seen := map[string]bool{n.key: true}
	for queue := []string{n.key}; len(queue) > 0; queue = queue[1:] {
		if !x.g.HasNeeders(queue[0]) {
			continue
		}
		x.reread.lost = append(x.reread.lost, queue[0])
		for _, key := range x.g.Needers(nil, queue[0]) {
			if d := x.get(key); d != nil && d.have == nil && !seen[key] {
				seen[key] = true
				queue = append(queue, key)
			}
		}
	}
}

// planRetry returns RETRYING and sets the time of the retry in info, or returns FAILED if the
// operation is not repeated.
func (x *exec) planRetry(n *node, info *nodeInfo) pb.ValueState {
	policy := x.retryPolicy(n)
	if policy == nil || x.beforeTxn != nil && !x.reverting && x.triggersRevert(n.baseKey()) || !n.desc.retriable(info.err) {
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

// delay returns the time before the given attempt; attempts start at 1.
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

// addError adds a failure to the result of the transaction, and aborts the transaction if the failure
// triggers its revert.
func (x *exec) addError(key string, op pb.TxnOperation, err error) error {
	x.errs = append(x.errs, &KeyError{Key: key, Operation: op, Err: err})
	if x.beforeTxn == nil || x.reverting {
		return err
	}
	base := key
	if n := x.get(key); n != nil {
		base = n.baseKey()
	}
	if x.triggersRevert(base) || x.triggersRevert(key) {
		x.abort = true
	}
	return err
}

// nodeBefore returns the node before the transaction, or nil.
func (x *exec) nodeBefore(key string) *node {
	old, _ := x.beforeTxn.Get(key)
	return old
}

// triggersRevert reports whether a failure of the value reverts the transaction: if the transaction
// requests the value, or the value was available before.
func (x *exec) triggersRevert(key string) bool {
	if x.scope.get(key) == applied {
		return true
	}
	old := x.nodeBefore(key)
	return old != nil && old.available()
}

// opFlags are the flags of a recorded operation that cannot be computed from the node.
type opFlags struct{ noop, recreate bool }

// recordOp records an operation.
func (x *exec) recordOp(n *node, p prior, op pb.TxnOperation, as opFlags) {
	if !x.recording {
		n.op = 0 // marks that an operation was executed
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
	n.op = x.addOp(r, n.op)
}

func (x *exec) storeMetadata(n *node) {
	if n.desc == nil || n.desc.metadata == nil || n.base() != "" || x.caller == nil {
		return
	}
	if err := n.desc.metadata.set(n.key, n.meta()); err != nil {
		x.log.Error("metadata not indexed", "key", n.key, "error", err)
	}
}

func (x *exec) dropMetadata(n *node) {
	if n.desc == nil || n.desc.metadata == nil || n.base() != "" || x.caller == nil {
		return
	}
	if err := n.desc.metadata.unset(n.key); err != nil {
		x.log.Error("metadata not indexed", "key", n.key, "error", err)
	}
}
