package kvscheduler

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
	"google.golang.org/protobuf/proto"
)

// run executes the transaction up to and including its last operation.
func (x *exec) run() {
	switch x.job.typ {
	case SBNotification:
		x.runNotification()
	case RetryFailedOps:
		x.retried = x.job.retryValues(x)
		x.readUnknown(x.retried)
		x.applyAll(x.retried)
	case RetryUnimplOps:
		x.retried = x.newlyImplemented()
		x.applyAll(x.retried)
	default:
		switch x.job.opts.resync {
		case NotResync:
			x.applyAll(x.job.values)
		case DownstreamResync:
			x.runDownstream()
		default:
			x.runFull(x.job.opts.resync == FullResync)
		}
	}
	x.settle()
	if !x.abort {
		x.commitAll()
		x.readBackAll()
	}
	if x.abort {
		x.revert()
		x.commitAll()
		x.readBackAll()
		x.reportNotReverted()
	}
	x.dropRemoved()
}

// readBackAll reads failed values from the southbound and executes the operations that the result
// requires, until no new operation fails or a failure aborts the transaction.
func (x *exec) readBackAll() {
	rounds := 16 // forward, a failed operation is not repeated
	if x.reverting {
		rounds = 2 // a failed undo is repeated
	}
	for range rounds {
		x.readBackFailed(true)
		if x.settle(); x.abort {
			return
		}
		if more := x.commitAll(); x.abort {
			return
		} else if !more && len(x.toReadBack) == 0 {
			break
		}
	}
	// Values that keep failing stay failed, and no value relies on them.
	for round := 0; round < 4 && (x.commitAll() || len(x.toReadBack) > 0); round++ {
		x.readBackFailed(false)
		x.reread.x = x
		x.reread.deleteNeedersOfLost()
		if round < 2 {
			x.settle()
		}
		if x.abort {
			return
		}
	}
	x.commitAll()
}

// runFull replaces the intent of the northbound by the values of the transaction.
func (x *exec) runFull(read bool) {
	r := refresh{x: x, requested: x.job.values}
	if read {
		r.readAll()
		r.deleteNeedersOfLost()
	}
	values := x.job.values
	var all []KeyValue // the values, and deletions of all other requested values
	x.g.Ascend("", func(key string, n *node) bool {
		for len(values) > 0 && values[0].Key < key {
			all = append(all, values[0])
			values = values[1:]
		}
		if len(values) > 0 && values[0].Key == key {
			if !x.unchanged(n, values[0].Value) {
				all = append(all, values[0])
			}
			values = values[1:]
		} else if n.base() == "" && !n.is(fromSB) {
			all = append(all, KeyValue{Key: key})
		}
		return true
	})
	x.applyAll(append(all, values...))
	r.createNeedersOfGained()
}

// runDownstream reads all values, or the given keys, and repairs the differences from the intent.
func (x *exec) runDownstream() {
	r := refresh{x: x}
	var values []KeyValue
	intent := func(n *node) {
		if n.base() == "" && !n.is(fromSB) && !x.unchanged(n, n.want) {
			values = append(values, KeyValue{Key: n.key, Value: n.want})
		}
	}
	if keys := x.job.opts.keys; keys != nil {
		keys = x.baseKeys(keys)
		r.readKeys(slices.Clone(keys))
		r.deleteNeedersOfLost()
		for _, key := range keys {
			if n := x.get(key); n != nil {
				intent(n)
			}
		}
	} else {
		r.readAll()
		r.deleteNeedersOfLost()
		x.g.Ascend("", func(_ string, n *node) bool { intent(n); return true })
	}
	x.applyAll(values)
	r.createNeedersOfGained()
}

// baseKeys returns the base keys of the given keys, sorted and without duplicates.
func (x *exec) baseKeys(keys []string) []string {
	base := make([]string, 0, len(keys))
	for _, key := range keys {
		if n := x.get(key); n != nil {
			key = n.baseKey()
		}
		base = append(base, key)
	}
	slices.Sort(base)
	return slices.Compact(base)
}

// unchanged reports whether the value is already as wanted.
func (x *exec) unchanged(n *node, want proto.Message) bool {
	if want == nil || n.want == nil || n.is(fromSB|drifted|unknown|broken) || !stable(n) {
		return false
	}
	if !x.equal(n.want, want) {
		return false
	}
	for _, key := range n.derived() {
		if d := x.get(key); d == nil || d.want == nil || d.is(drifted|unknown|broken) || !stable(d) {
			return false
		}
	}
	return x.job.typ != NBTransaction || x.job.opts.retry == nil && n.retry() == nil ||
		x.job.opts.resync == DownstreamResync && x.job.opts.retry == nil ||
		x.job.opts.retry != nil && n.retry() != nil && *x.job.opts.retry == *n.retry()
}

func stable(n *node) bool {
	switch n.State() {
	case pb.ValueState_CONFIGURED:
		return true
	case pb.ValueState_PENDING:
		return n.have == nil
	case pb.ValueState_INVALID:
		return true
	}
	return false
}

// applyAll applies the values, which are sorted by key: deletions, then re-creations, then updates that
// release something, then creations, then other updates.
func (x *exec) applyAll(values []KeyValue) {
	if len(values) == 1 {
		if n := x.get(values[0].Key); n == nil || !x.unchanged(n, values[0].Value) {
			_ = x.apply(n, values[0].Key, values[0].Value)
		}
		return
	}
	const (
		deletes = iota
		recreates
		releases
		creates
		updates
		groups
		nothing
	)
	group := make([]uint8, len(values))
	for i, kv := range values {
		n := x.get(kv.Key)
		switch {
		case kv.Value == nil:
			group[i] = deletes
		case n == nil || n.have == nil && !x.unchanged(n, kv.Value):
			group[i] = creates
		case x.unchanged(n, kv.Value):
			group[i] = nothing
		default:
			group[i] = updates
			if !n.is(fromSB) {
				if eq, err := n.desc.equivalent(kv.Key, n.have, kv.Value, x.equal); err == nil && !eq {
					if re, err := n.desc.recreate(kv.Key, n.have, kv.Value, n.meta()); err == nil && re {
						group[i] = recreates
					} else if err == nil && n.desc.releases(kv.Key, n.have, kv.Value) {
						group[i] = releases
					}
				}
			}
		}
	}
	concerned := 0
	for _, g := range group {
		if g != nothing {
			concerned++
		}
	}
	// Usually, neither has to grow again.
	x.scope.positions.grow(concerned)
	x.changes = slices.Grow(x.changes, concerned)
	number := 0
	for g := uint8(0); g < groups; g++ {
		for i, kv := range values {
			if group[i] == g {
				number++
				x.scope.expect(kv.Key, number)
			}
		}
	}
	for g := uint8(0); g < groups; g++ {
		together := batch{x: x, op: pb.TxnOperation_CREATE}
		if g == deletes {
			together.op = pb.TxnOperation_DELETE
		}
		for i, kv := range values {
			if group[i] != g {
				continue
			}
			if x.abort {
				return
			}
			together.prepareFor(kv.Key)
			x.scope.reached++
			n, p, _ := x.prepare(x.get(kv.Key), kv.Key, kv.Value) // failures are in x.errs
			switch {
			case n == nil:
			case g == deletes:
				together.delete(n, p)
			case g == creates:
				together.create(n, p)
			default:
				_ = x.reconcile(n, p)
			}
		}
		together.flush()
	}
}

func (x *exec) runNotification() {
	if x.job.fetch != nil {
		x.job.fetchNotifications(x.log)
	}
	for _, nf := range x.job.notifications {
		x.scope.apply(nf.Key)
		n := x.get(nf.Key)
		if n != nil && !n.is(fromSB) || n != nil && n.base() != "" {
			x.log.Debug("notification ignored: the value is requested", "key", nf.Key)
			continue
		}
		if nf.Value == nil {
			if n != nil {
				p := priorOf(n)
				n = x.mutable(n)
				n.want = nil
				_ = x.delete(n, p, removing)
			}
			continue
		}
		if n == nil {
			n = x.add(nf.Key)
			n.desc = x.reg.find(nf.Key)
			n.set(fromSB)
		}
		sameMetadata := n.meta() == nil && nf.Metadata == nil || n.desc != nil && n.desc.sameMetadata(n.meta(), nf.Metadata)
		if sameMetadata && n.have != nil && proto.Equal(n.have, nf.Value) {
			continue
		}
		p := priorOf(n)
		n = x.mutable(n)
		n.want = nf.Value
		n.setMeta(nf.Metadata)
		_ = x.reconcile(n, p)
	}
}

// newlyImplemented returns the values that waited for the new descriptor.
func (x *exec) newlyImplemented() []KeyValue {
	var values []KeyValue
	h := x.job.unimplemented
	x.g.Ascend(h.keys.Prefix, func(key string, n *node) bool {
		if n.desc == nil && n.base() == "" && n.want != nil && !n.is(fromSB) && h.owns(key) {
			values = append(values, KeyValue{Key: key, Value: n.want})
		}
		return true
	})
	return values
}

// retryValues returns the values that still wait for this retry.
func (j *job) retryValues(x *exec) []KeyValue {
	waiting := func(n *node) bool {
		return n.State() == pb.ValueState_RETRYING && n.info() != nil && n.info().seq == j.retryOf && n.info().attempt == j.attempt
	}
	var values []KeyValue
	for key := range j.retryKeys {
		n := x.get(key)
		if n == nil {
			continue
		}
		retry := waiting(n)
		for _, d := range n.derived() {
			if dn := x.get(d); dn != nil && waiting(dn) {
				retry = true
			}
		}
		if retry {
			values = append(values, KeyValue{Key: key, Value: n.want})
		}
	}
	sort.Slice(values, func(a, b int) bool { return values[a].Key < values[b].Key })
	return values
}

func (j *job) isRetryOf(baseKey string) bool {
	if j.typ != RetryFailedOps {
		return false
	}
	_, ok := j.retryKeys[baseKey]
	return ok
}

// revert undoes the transaction: it reads the failed values back, and then restores the previous version
// of every applied value, in reverse order.
func (x *exec) revert() {
	x.abort, x.reverting = false, true
	x.scope.reverted = true
	x.inProgress.clear()
	x.cycleCache.reset()
	for _, c := range x.changes {
		c.new.clear(deleting)
		if c.old != nil && c.new.base() != "" && c.new.have != nil && c.new.want == nil {
			c.new.want = c.old.want // its deletion had started
		}
		if c.old != nil && c.new.have != nil && c.new.have == c.old.have && !c.new.is(unknown) && x.get(c.new.key) == c.new {
			x.setDeps(c.new, c.old.deps) // its update was aborted before the operation
		}
	}
	x.readBackFailed(false)
	x.reviveLastValid()
	x.forwardErrs = len(x.errs)
	x.deleteUnsupported()
	for i := len(x.applyOrder) - 1; i >= 0; i-- {
		key := x.applyOrder[i]
		old, ok := x.beforeTxn.Get(key)
		switch {
		case !ok || old.is(fromSB) && old.want == nil:
			_ = x.apply(x.get(key), key, nil)
		case old.is(fromSB):
			x.restoreObtained(old)
		case old.is(invalid):
			_ = x.apply(x.get(key), key, old.have) // its last valid version, or nil
		default:
			_ = x.apply(x.get(key), key, old.want)
		}
	}
	// Restore the other values that were deleted, failed or lost a derived value.
	for i := 0; i < len(x.changes); i++ {
		base := x.changes[i].new.baseKey()
		old, existed := x.beforeTxn.Get(base)
		if x.scope.get(base) == applied || !existed || old.want == nil || old.is(fromSB) {
			continue
		}
		n := x.get(base)
		switch {
		case n == nil || n.info() != nil && n.info().err != nil && !x.failedBeforeRevert(base):
		case n.have == nil:
			_ = x.updateDependent(base, true)
		case !x.unchanged(n, n.want):
			_ = x.reconcile(x.mutable(n), priorOf(n))
		}
	}
	for i := 0; i < len(x.changes); i++ {
		old := x.changes[i].old
		if old == nil || !old.available() {
			continue
		}
		if n := x.get(old.key); n != nil && !n.available() && (n.info() == nil || n.info().err == nil || x.failedBeforeRevert(n.key)) {
			_ = x.updateDependent(n.key, true)
		}
	}
	x.restoreInvalid()
	for _, key := range x.applyOrder {
		if n, old := x.get(key), x.nodeBefore(key); n != nil && old != nil && !n.is(unknown|broken) {
			x.mutable(n).setRetry(old.retry())
		}
	}
}

// nodeBefore returns the node before the transaction, or nil.
func (x *exec) nodeBefore(key string) *node {
	old, _ := x.beforeTxn.Get(key)
	return old
}

// reviveLastValid requests the last valid versions of the values that were INVALID before the
// transaction, so that they are restored like other values.
func (x *exec) reviveLastValid() {
	for i := 0; i < len(x.changes); i++ {
		old := x.changes[i].old
		if old == nil || !old.is(invalid) || old.have == nil {
			continue
		}
		if n := x.get(old.key); n != nil && n.is(invalid) {
			n = x.mutable(n)
			x.cycleCache.reset()
			n.want = old.have
			n.clear(invalid)
			if n.have == nil && n.State() == pb.ValueState_INVALID {
				n.setState(pb.ValueState_PENDING)
				n.setInfo(&nodeInfo{})
			}
		}
	}
}

// restoreInvalid makes the values INVALID again that were INVALID before the transaction.
func (x *exec) restoreInvalid() {
	x.reviveLastValid() // derived values of restored base values
	for i := 0; i < len(x.changes); i++ {
		old := x.changes[i].old
		if old == nil || !old.is(invalid) {
			continue
		}
		n := x.get(old.key)
		switch {
		case n == nil:
		case old.have != nil && n.have == nil && n.want != nil:
			_ = x.updateDependent(n.key, true)
		case old.have == nil && n.have != nil && n.base() != "":
			x.deleteInvalidDerived(n, old)
		}
	}
	x.readBackFailed(false) // before the invalid version is wanted again
	for i := 0; i < len(x.changes); i++ {
		old := x.changes[i].old
		if old == nil || !old.is(invalid) {
			continue
		}
		n := x.get(old.key)
		if n == nil && old.base() != "" {
			continue // deleted with its base value
		}
		if n == nil {
			n = x.add(old.key)
			n.desc = old.desc
		}
		n = x.mutable(n)
		available := n.available()
		n.want = old.want
		n.setRetry(old.retry())
		n.set(invalid)
		if !available && n.available() { // its failed deletion is obsolete: other values may rely on it again
			x.reread.gained = append(x.reread.gained, n.key)
		}
		if n.is(broken|unknown) || (old.have == nil) != (n.have == nil) {
			continue // keeps the failure
		}
		n.setInfo(old.info())
		n.setState(pb.ValueState_INVALID)
		n.lastOp = old.lastOp
	}
}

// deleteInvalidDerived deletes a derived value that was INVALID and did not exist.
func (x *exec) deleteInvalidDerived(n, old *node) {
	if x.deleteDerived(n.key) != nil {
		return
	}
	n = x.add(old.key)
	n.setBase(old.base())
	n.desc, n.want = old.desc, old.want
	n.setInfo(old.info())
	n.state, n.lastOp, n.flags = old.state, old.lastOp, old.flags
}

// deleteUnsupported deletes the values that exist without their dependencies because the revert
// aborted their deletion.
func (x *exec) deleteUnsupported() {
	cut := func(key string) {
		if n := x.get(key); n != nil && n.available() && x.hasUnmet(n) {
			_ = x.updateDependent(key, false)
		}
	}
	for i := 0; i < len(x.changes); i++ {
		key := x.changes[i].new.key
		cut(key)
		if x.isAvailable(key) {
			continue
		}
		for _, dependent := range x.g.Needers(nil, key) {
			cut(dependent)
		}
	}
}

// failedBeforeRevert reports whether the key did not fail in the revert.
func (x *exec) failedBeforeRevert(key string) bool {
	return !slices.ContainsFunc(x.errs[x.forwardErrs:], func(e *KeyError) bool { return e.Key == key })
}

// restoreObtained returns a value to OBTAINED that the transaction requested.
func (x *exec) restoreObtained(old *node) {
	n := x.get(old.key)
	if n == nil {
		return
	}
	n = x.mutable(n)
	n.want = old.want
	n.setRetry(nil)
	n.clear(invalid)
	touched := slices.ContainsFunc(old.derived(), func(key string) bool {
		d := x.get(key)
		return d == nil || d.have == nil || hasFailed(d)
	})
	if touched || n.have == nil || hasFailed(n) || !proto.Equal(n.have, old.have) || !slices.Equal(n.derived(), old.derived()) {
		x.releasing = n.key
		_ = x.reconcile(n, priorOf(n))
		x.releasing = ""
	}
	if n.have == nil || hasFailed(n) {
		return
	}
	for _, key := range append([]string{n.key}, n.derived()...) {
		if d := x.get(key); d != nil && d.have != nil && !hasFailed(d) {
			d = x.mutable(d)
			d.want = d.have
			d.setInfo(nil)
			d.set(fromSB)
			d.setState(pb.ValueState_OBTAINED)
			x.setDeps(d, nil)
		}
	}
}

// reportNotReverted adds an error for every value that exists differently than before the transaction.
func (x *exec) reportNotReverted() {
	reported := map[string]bool{}
	for _, e := range x.errs[x.forwardErrs:] {
		reported[e.Key] = true
	}
	for i := range x.changes {
		key, base := x.changes[i].new.key, x.changes[i].new.baseKey()
		if reported[key] || reported[base] {
			continue
		}
		var was, is proto.Message
		var desc *handler
		if old, ok := x.beforeTxn.Get(key); ok {
			was, desc = old.have, old.desc
		}
		if n := x.get(key); n != nil {
			is = n.have
		}
		same := (was == nil) == (is == nil)
		if same && was != nil {
			same, _ = desc.equivalent(key, was, is, proto.Equal)
		}
		if !same {
			reported[key] = true
			x.errs = append(x.errs, &KeyError{Key: key, Err: fmt.Errorf("not reverted: it is %s, it was %s", compactOrMissing(is), compactOrMissing(was))})
		}
	}
}

func compactOrMissing(v proto.Message) string {
	if v == nil {
		return "missing"
	}
	return strings.TrimSpace(record.Compact(v))
}
