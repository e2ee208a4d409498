package kvscheduler

import (
	"fmt"
	"slices"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
	"google.golang.org/protobuf/proto"
)

// reversal reverts a transaction.
type reversal struct{ *exec }

// revert undoes the transaction: it reads the failed values back, and then restores the previous version
// of every applied value, in reverse order.
func (r reversal) revert() {
	r.abort, r.reverting = false, true
	r.scope.reverted = true
	r.inProgress.clear()
	r.cycleCache.reset()
	for _, c := range r.changes {
		c.new.clear(deleting)
		if c.old != nil && c.new.base() != "" && c.new.have != nil && c.new.want == nil {
			c.new.want = c.old.want // its deletion had started
		}
		if c.old != nil && c.new.have != nil && c.new.have == c.old.have && !c.new.is(unknown) && r.get(c.new.key) == c.new {
			r.setDeps(c.new, c.old.deps) // its update was aborted before the operation
		}
	}
	r.readBackFailed(false)
	r.reviveLastValid()
	r.forwardErrs = len(r.errs)
	r.deleteUnsupported()
	for i := len(r.applyOrder) - 1; i >= 0; i-- {
		key := r.applyOrder[i]
		old, ok := r.beforeTxn.Get(key)
		switch {
		case !ok || old.is(fromSB) && old.want == nil:
			_ = r.apply(r.get(key), key, nil)
		case old.is(fromSB):
			r.restoreObtained(old)
		case old.is(invalid):
			_ = r.apply(r.get(key), key, old.have) // its last valid version, or nil
		default:
			_ = r.apply(r.get(key), key, old.want)
		}
	}
	// Restore the other values that were deleted, failed or lost a derived value.
	for i := 0; i < len(r.changes); i++ {
		base := r.changes[i].new.baseKey()
		old, existed := r.beforeTxn.Get(base)
		if r.scope.get(base) == applied || !existed || old.want == nil || old.is(fromSB) {
			continue
		}
		n := r.get(base)
		switch {
		case n == nil || n.info() != nil && n.info().err != nil && !r.failedBeforeRevert(base):
		case n.have == nil:
			_ = r.updateDependent(base, true)
		case !r.unchanged(n, n.want):
			_ = r.reconcile(r.mutable(n), priorOf(n))
		}
	}
	for i := 0; i < len(r.changes); i++ {
		old := r.changes[i].old
		if old == nil || !old.available() {
			continue
		}
		if n := r.get(old.key); n != nil && !n.available() && (n.info() == nil || n.info().err == nil || r.failedBeforeRevert(n.key)) {
			_ = r.updateDependent(n.key, true)
		}
	}
	r.restoreInvalid()
	for _, key := range r.applyOrder {
		if n, old := r.get(key), r.nodeBefore(key); n != nil && old != nil && !n.is(unknown|broken) {
			r.mutable(n).setRetry(old.retry())
		}
	}
}

// reviveLastValid requests the last valid versions of the values that were INVALID before the
// transaction, so that they are restored like other values.
func (v *view) reviveLastValid() {
	for i := 0; i < len(v.changes); i++ {
		old := v.changes[i].old
		if old == nil || !old.is(invalid) || old.have == nil {
			continue
		}
		if n := v.get(old.key); n != nil && n.is(invalid) {
			n = v.mutable(n)
			v.cycleCache.reset()
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
func (r reversal) restoreInvalid() {
	r.reviveLastValid() // derived values of restored base values
	for i := 0; i < len(r.changes); i++ {
		old := r.changes[i].old
		if old == nil || !old.is(invalid) {
			continue
		}
		n := r.get(old.key)
		switch {
		case n == nil:
		case old.have != nil && n.have == nil && n.want != nil:
			_ = r.updateDependent(n.key, true)
		case old.have == nil && n.have != nil && n.base() != "":
			r.deleteInvalidDerived(n, old)
		}
	}
	r.readBackFailed(false) // before the invalid version is wanted again
	for i := 0; i < len(r.changes); i++ {
		old := r.changes[i].old
		if old == nil || !old.is(invalid) {
			continue
		}
		n := r.get(old.key)
		if n == nil && old.base() != "" {
			continue // deleted with its base value
		}
		if n == nil {
			n = r.add(old.key)
			n.desc = old.desc
		}
		n = r.mutable(n)
		available := n.available()
		n.want = old.want
		n.setRetry(old.retry())
		n.set(invalid)
		if !available && n.available() { // its failed deletion is obsolete: other values may rely on it again
			r.reread.gained = append(r.reread.gained, n.key)
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
func (r reversal) deleteInvalidDerived(n, old *node) {
	if r.deleteDerived(n.key) != nil {
		return
	}
	n = r.add(old.key)
	n.setBase(old.base())
	n.desc, n.want = old.desc, old.want
	n.setInfo(old.info())
	n.state, n.lastOp, n.flags = old.state, old.lastOp, old.flags
}

// deleteUnsupported deletes the values that exist without their dependencies because the revert
// aborted their deletion.
func (r reversal) deleteUnsupported() {
	cut := func(key string) {
		if n := r.get(key); n != nil && n.available() && r.hasUnmet(n) {
			_ = r.updateDependent(key, false)
		}
	}
	for i := 0; i < len(r.changes); i++ {
		key := r.changes[i].new.key
		cut(key)
		if r.isAvailable(key) {
			continue
		}
		for _, dependent := range r.g.Needers(nil, key) {
			cut(dependent)
		}
	}
}

// failedBeforeRevert reports whether the key did not fail in the revert.
func (r reversal) failedBeforeRevert(key string) bool {
	return !slices.ContainsFunc(r.errs[r.forwardErrs:], func(e *KeyError) bool { return e.Key == key })
}

// restoreObtained returns a value to OBTAINED that the transaction requested.
func (r reversal) restoreObtained(old *node) {
	n := r.get(old.key)
	if n == nil {
		return
	}
	n = r.mutable(n)
	n.want = old.want
	n.setRetry(nil)
	n.clear(invalid)
	touched := slices.ContainsFunc(old.derived(), func(key string) bool {
		d := r.get(key)
		return d == nil || d.have == nil || hasFailed(d)
	})
	if touched || n.have == nil || hasFailed(n) || !proto.Equal(n.have, old.have) || !slices.Equal(n.derived(), old.derived()) {
		r.releasing = n.key
		_ = r.reconcile(n, priorOf(n))
		r.releasing = ""
	}
	if n.have == nil || hasFailed(n) {
		return
	}
	for _, key := range append([]string{n.key}, n.derived()...) {
		if d := r.get(key); d != nil && d.have != nil && !hasFailed(d) {
			d = r.mutable(d)
			d.want = d.have
			d.setInfo(nil)
			d.set(fromSB)
			d.setState(pb.ValueState_OBTAINED)
			r.setDeps(d, nil)
		}
	}
}

// reportNotReverted adds an error for every value that exists differently than before the transaction.
func (r reversal) reportNotReverted() {
	reported := map[string]bool{}
	for _, e := range r.errs[r.forwardErrs:] {
		reported[e.Key] = true
	}
	for i := range r.changes {
		key, base := r.changes[i].new.key, r.changes[i].new.baseKey()
		if reported[key] || reported[base] {
			continue
		}
		var was, is proto.Message
		var desc *handler
		if old, ok := r.beforeTxn.Get(key); ok {
			was, desc = old.have, old.desc
		}
		if n := r.get(key); n != nil {
			is = n.have
		}
		same := (was == nil) == (is == nil)
		if same && was != nil {
			same, _ = desc.equivalent(key, was, is, proto.Equal)
		}
		if !same {
			reported[key] = true
			r.errs = append(r.errs, &KeyError{Key: key, Err: fmt.Errorf("not reverted: it is %s, it was %s", compactOrMissing(is), compactOrMissing(was))})
		}
	}
}

func compactOrMissing(v proto.Message) string {
	if v == nil {
		return "missing"
	}
	return strings.TrimSpace(record.Compact(v))
}
