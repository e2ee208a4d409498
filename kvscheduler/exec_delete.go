package kvscheduler

import (
	"errors"
	"fmt"
	"slices"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

type purpose int

const (
	// removing: the value is not wanted.
	removing purpose = iota
	// postponing: the value is wanted, but its dependencies are not met.
	postponing
	// recreating: another version is created afterwards.
	recreating
)

// errAborted stops the execution of a transaction that will be reverted.
var errAborted = errors.New("transaction is being reverted")

func (x *exec) delete(n *node, p prior, why purpose) error {
	if x.abort {
		return errAborted
	}
	outer := x.inProgress.get(n.key)
	if outer == operating {
		switch {
		case n.base() != "" && n.is(deleting):
			// The deletion in progress led to the deletion of its base value: execute it now.
			return x.deleteExisting(n, p, why)
		case n.base() == "" || n.have != nil:
			return nil
		}
		// The failed creation led to the deletion of its base value.
	}
	if x.failedInTxn(n) && n.have != nil {
		return n.info().err
	}
	x.inProgress.set(n.key, operating)
	defer x.restorePhase(n.key, outer)
	if n.have == nil && !n.is(unknown) {
		if x.markRemoved(n); p.state != pb.ValueState_NONEXISTENT && p.state != pb.ValueState_REMOVED {
			x.recordOp(n, p, pb.TxnOperation_DELETE, opFlags{noop: true})
			x.recheckNeeders(n)
		}
		return nil
	}
	return x.deleteExisting(n, p, why)
}

// deleteExisting deletes the derived values, then the dependents, which become PENDING, then the
// value itself.
func (x *exec) deleteExisting(n *node, p prior, why purpose) error {
	n.set(deleting)
	x.cycleCache.invalidate()
	start := len(x.recheckAfterDelete)
	defer func() { x.recheckDeferred(start) }()
	_ = x.deleteAllDerived(n) // the error is irrelevant: blocker decides below
	if !x.abort {
		_ = x.updateDependents(n.key)
	}
	if !x.abort {
		_ = x.commitBefore(n) // a failed deletion leaves a blocker
	}
	if holder := x.blocker(n); x.abort || holder != nil && !n.is(fromSB) { // an OBTAINED value is gone already
		return x.cancelDelete(n, p, why, holder)
	}
	if !n.is(deleting) { // it was deleted, or failed, together with its base value
		return n.err()
	}
	if h := n.desc; h != nil && !n.is(fromSB) && x.caller != nil {
		if h.delete == nil {
			n.clear(deleting)
			return x.markFailed(n, p, pb.TxnOperation_DELETE, ErrUnimplementedDelete, why == recreating)
		}
		old := n.have
		if old == nil {
			old = n.deletedValue(p)
		}
		c := x.caller.newCall()
		c.h, c.name, c.run, c.key, c.old, c.meta = h, "Delete", callDelete, n.key, old, n.meta()
		if err := x.perform(n, c); err != nil {
			n.clear(deleting)
			n.have = old // for the next attempt
			return x.markFailed(n, p, pb.TxnOperation_DELETE, err, why == recreating)
		}
	}
	x.markDeleted(n, p, why)
	return nil
}

// recheckDeferred re-evaluates the values that were deferred to the end of a deletion, from index start
// on. A value that another deletion in progress needs stays deferred.
func (x *exec) recheckDeferred(start int) {
	keys := slices.Clone(x.recheckAfterDelete[start:])
	x.recheckAfterDelete = x.recheckAfterDelete[:start]
	for _, key := range keys {
		if n := x.get(key); n != nil && x.neededByDeleting(n) {
			x.recheckAfterDelete = append(x.recheckAfterDelete, key)
		} else {
			x.recheckExisting([]string{key}, false)
		}
	}
}

// neededByDeleting reports whether a value that is being deleted relies on n.
func (v *view) neededByDeleting(n *node) bool {
	return slices.ContainsFunc(v.g.Needers(nil, n.key), func(key string) bool {
		d := v.get(key)
		return d != nil && d != n && d.have != nil && d.is(deleting) && v.reliesOn(d, n)
	})
}

// postpone deletes an existing value with unmet dependencies. derives returns the keys that
// the wanted value derives; nil if they did not change.
func (x *exec) postpone(n *node, p prior, derives func() []string) error {
	gains := x.gains
	err := x.deleteExisting(n, p, postponing)
	if n.State() != pb.ValueState_PENDING {
		return err
	}
	if derives != nil {
		n.info().derives = derives()
	}
	// The dependents that were re-evaluated may have created the dependencies of n.
	if err != nil || x.abort || x.scope.get(n.baseKey()) == upcoming || !x.remainsReady(n) {
		if x.gains > gains {
			x.recheckLater(n.key) // its cycle may wait for it
		}
		return err
	}
	return x.create(n, priorOf(n), false)
}

// remainsReady reports whether the dependencies and the base value of n are available and stay so: no
// deletion in progress will remove them, and their own dependencies are met.
func (v *view) remainsReady(n *node) bool {
	lasts := func(n *node) bool { return n.base() == "" || v.isAvailable(n.base()) }
	for i := range n.deps {
		met := false
		v.candidates(&n.deps[i], func(t *node) bool {
			met = t.available() && lasts(t) && v.canStay(t)
			return !met
		})
		if !met {
			return false
		}
	}
	return lasts(n)
}

// blocker returns a value that blocks the deletion of n: an unwanted derived value that still
// exists, or an existing value that relies on n, or nil.
func (v *view) blocker(n *node) *node {
	for _, key := range n.derived() {
		if d := v.get(key); d != nil && d.have != nil && d.want == nil {
			return d
		}
	}
	start := len(v.scratch)
	v.scratch = v.g.Needers(v.scratch, n.key)
	defer func() { v.scratch = v.scratch[:start] }()
	for _, key := range v.scratch[start:] {
		d := v.get(key)
		if d == nil || d == n || d.have == nil || d.is(fromSB|deleting) || v.inProgress.get(key) == operating {
			continue
		}
		if v.reliesOn(d, n) && !v.survivesLoss(d) {
			return d
		}
	}
	return nil
}

// survivesLoss reports whether the value may keep existing because a member of its cycle will replace
// the dependency that it loses.
func (v *view) survivesLoss(d *node) bool {
	return d.want != nil && !d.is(broken|unknown) && !hasFailed(d) && v.canStay(d)
}

// reliesOn reports whether n satisfies a dependency of d that no other existing value satisfies.
func (v *view) reliesOn(d, n *node) bool {
	return slices.ContainsFunc(d.deps, func(dep Dependency) bool { return dep.matches(n.key) && !v.hasAlternative(&dep, n) })
}

// hasAlternative reports whether an existing value other than n satisfies the dependency, even if it
// has failed.
func (v *view) hasAlternative(d *Dependency, n *node) bool {
	return v.satisfied(d, func(t *node) bool { return t != n && t.have != nil && !t.is(deleting) })
}

// phase is the progress of a value that is being processed further up the call stack.
type phase uint8

const (
	noPhase phase = iota
	// operating: its operation is not finished.
	operating
	// followingUp: its operation is finished, and dependents are re-evaluated. They may undo it.
	followingUp
)

func (v *view) isInProgress(key string) bool { return v.inProgress.get(key) != noPhase }

// restorePhase ends a nested processing of the value.
func (v *view) restorePhase(key string, outer phase) {
	if outer == noPhase {
		v.inProgress.delete(key)
	} else {
		v.inProgress.set(key, outer)
	}
}

func (x *exec) markDeleted(n *node, p prior, why purpose) {
	if n.meta() != nil {
		x.dropMetadata(n)
	}
	x.cycleCache.invalidate()
	derived, info, failed := n.derived(), n.info(), x.failedInTxn(n)
	changed := n.have != n.want || len(n.oldDeps()) > 0 // n.deps may belong to the deleted version
	n.have = nil
	n.setInfo(nil)
	n.setMeta(nil)
	n.setDerived(nil)
	n.clear(broken | unknown | deleting | drifted)
	switch why {
	case removing:
		x.markRemoved(n)
	case recreating:
		n.setState(pb.ValueState_REMOVED)
		n.lastOp = uint8(pb.TxnOperation_DELETE)
	case postponing:
		failedOp, failedState := n.lastOp, n.State()
		n.lastOp = uint8(pb.TxnOperation_DELETE)
		if n.is(invalid) && x.stillInvalid(n, info) { // the last valid version is gone for good
			x.setDeps(n, nil)
			break
		}
		n.setState(pb.ValueState_PENDING)
		if changed {
			if deps, _, err := x.describe(n); err == nil {
				x.setDeps(n, deps)
			}
		}
		unmet := x.unmet(n)
		if failed && len(unmet) == 0 {
			// Only members of its own cycle are missing, and they wait for its retry.
			n.lastOp = failedOp
			n.setState(failedState)
			n.setInfo(info)
			break
		}
		if changed || len(x.errs) > 0 {
			x.recheckLater(n.key)
		}
		n.setInfo(&nodeInfo{details: unmet, derives: derived})
	}
	x.recordOp(n, p, pb.TxnOperation_DELETE, opFlags{recreate: why == recreating})
}

// cancelDelete restores a value after the failure of another value blocked its deletion.
func (x *exec) cancelDelete(n *node, p prior, why purpose, holder *node) error {
	n.clear(deleting)
	x.cycleCache.invalidate()
	if x.abort {
		return errAborted
	}
	err := holder.err()
	if err == nil {
		err = fmt.Errorf("state %v", holder.State())
	}
	err = fmt.Errorf("not deleted, because %s remains: %w", holder.key, err)
	if why == postponing || !x.keepsItsDeps(n) {
		n.set(broken) // it exists although its dependencies are not met
	}
	err = x.markBlocked(n, p, pb.TxnOperation_DELETE, err, holder.key, why == recreating)
	if n.available() && !x.abort {
		// Values that were deleted for it may be created again.
		_ = x.updateDependents(n.key)
	}
	return err
}

// keepsItsDeps reports whether the dependencies of an existing value exist, or will be created again
// together with it.
func (v *view) keepsItsDeps(n *node) bool {
	if n.want == nil {
		return !v.hasUnmet(n)
	}
	return v.canStay(n)
}

func (x *exec) deleteAllDerived(n *node) error {
	var errs error
	for _, key := range n.derived() {
		if err := x.deleteDerived(key); err != nil {
			if x.abort {
				return errAborted
			}
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// markRemoved records that the value is gone for good. Derived values leave the graph at once, base
// values at the end of the transaction.
func (x *exec) markRemoved(n *node) {
	n.setState(pb.ValueState_REMOVED)
	n.lastOp = uint8(pb.TxnOperation_DELETE)
	n.setInfo(nil)
	n.clear(broken | unknown | deleting | drifted)
	x.setDeps(n, nil)
	if n.base() != "" {
		x.g.Delete(n.key)
		return
	}
	x.removals = append(x.removals, n)
}

func (x *exec) dropRemoved() {
	for _, n := range x.removals {
		if n.State() == pb.ValueState_REMOVED && n.want == nil && n.have == nil {
			x.g.Delete(n.key)
		}
	}
}
