package kvscheduler

import (
	"errors"
	"fmt"
	"slices"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// purpose of a deletion.
type purpose int

const (
	// removing: the value is no longer wanted.
	removing purpose = iota
	// postponing: the value is wanted, but its dependencies are not met.
	postponing
	// recreating: the value is created again, differently.
	recreating
)

// errAborted unwinds the execution of a transaction that is to be reverted.
var errAborted = errors.New("transaction is being reverted")

// delete removes a value that is not wanted.
func (x *exec) delete(n *node, p prior, why purpose) error {
	if x.abort {
		return errAborted
	}
	outer := x.branch.get(n.key)
	if outer == working {
		switch {
		case n.base() != "" && n.is(leaving):
			// Its deletion is under way, and has led to that of its base value: it goes now.
			return x.deleteExisting(n, p, why)
		case n.base() == "" || n.have != nil:
			return nil
		}
		// That it does not come to exist has led to the deletion of its base value.
	}
	if x.failedNow(n) && n.have != nil {
		return n.info().err
	}
	x.branch.set(n.key, working)
	defer x.goBack(n.key, outer)
	if n.have == nil && !n.is(unknown) {
		if x.removed(n); p.state != pb.ValueState_NONEXISTENT && p.state != pb.ValueState_REMOVED {
			x.record(n, p, pb.TxnOperation_DELETE, recordAs{noop: true})
			x.notComing(n)
		}
		return nil
	}
	return x.deleteExisting(n, p, why)
}

// deleteExisting deletes an existing value. First its derived values are deleted, then its
// dependents, which become pending, then the value itself.
func (x *exec) deleteExisting(n *node, p prior, why purpose) error {
	n.set(leaving)
	x.verdicts.lost()
	start := len(x.afterGone)
	defer func() { x.lookAfter(start) }()
	_ = x.deleteAllDerived(n) // holder decides below; the error does not matter
	if !x.abort {
		_ = x.updateDependents(n.key)
	}
	if !x.abort {
		_ = x.inEffect(n) // whose deletion is not exists
	}
	if holder := x.holder(n); x.abort || holder != nil && !n.is(fromSB) { // what the southbound says is gone, is
		return x.stay(n, p, why, holder)
	}
	if !n.is(leaving) { // it went, or could not, together with its base value
		return n.err()
	}
	if h := n.desc; h != nil && !n.is(fromSB) && x.caller != nil {
		if h.delete == nil {
			n.clear(leaving)
			return x.fail(n, p, pb.TxnOperation_DELETE, ErrUnimplementedDelete, why == recreating)
		}
		old := n.have
		if old == nil {
			old = n.deletedValue(p)
		}
		c := x.caller.call()
		c.h, c.name, c.run, c.key, c.old, c.meta = h, "Delete", callDelete, n.key, old, n.meta()
		if err := x.perform(n, c); err != nil {
			n.clear(leaving)
			n.have = old // for the next attempt
			return x.fail(n, p, pb.TxnOperation_DELETE, err, why == recreating)
		}
	}
	x.deleted(n, p, why)
	return nil
}

// lookAfter re-examines the values that were put off to the end of a deletion, from start on. What a
// value needs that is about to be deleted, too, has to wait for that.
func (x *exec) lookAfter(start int) {
	keys := slices.Clone(x.afterGone[start:])
	x.afterGone = x.afterGone[:start]
	for _, key := range keys {
		if n := x.get(key); n != nil && x.neededByLeaving(n) {
			x.afterGone = append(x.afterGone, key)
		} else {
			x.lookAt([]string{key}, false)
		}
	}
}

// neededByLeaving reports whether a value needs n, with nothing else in its place, that is about to be deleted.
func (x *exec) neededByLeaving(n *node) bool {
	return slices.ContainsFunc(x.g.Needers(nil, n.key), func(key string) bool {
		d := x.get(key)
		return d != nil && d != n && d.have != nil && d.is(leaving) && x.needs(d, n)
	})
}

// postpone deletes a value that exists although its dependencies are not met. derives returns the
// keys that the value would derive now, if they changed; may be nil.
func (x *exec) postpone(n *node, p prior, derives func() []string) error {
	gains := x.gains
	err := x.deleteExisting(n, p, postponing)
	if n.State() != pb.ValueState_PENDING {
		return err
	}
	if derives != nil {
		n.info().derives = derives()
	}
	// Re-evaluating dependents may have made available what n waits for.
	if err != nil || x.abort || x.about.get(n.baseKey()) == upcoming || !x.staysReady(n) {
		if x.gains > gains {
			x.lookAgain(n.key) // or to what its cycle does, which was about to go
		}
		return err
	}
	return x.create(n, priorOf(n), false)
}

// staysReady reports whether the dependencies and the base value of n are available and will remain
// so: none of them belongs to a base value that is about to be deleted, or is about to lose its own
// dependencies.
func (x *exec) staysReady(n *node) bool {
	lasts := func(n *node) bool { return n.base() == "" || x.isAvailable(n.base()) }
	for i := range n.deps {
		met := false
		x.candidates(&n.deps[i], func(t *node) bool {
			met = t.available() && lasts(t) && x.mayStay(t)
			return !met
		})
		if !met {
			return false
		}
	}
	return lasts(n)
}

// holder returns a value that is in the way of an operation of n: one derived from it that
// was to be deleted, or one that exists and cannot without n, if that is deleted; nil if
// there is none.
func (x *exec) holder(n *node) *node {
	for _, key := range n.derived() {
		if d := x.get(key); d != nil && d.have != nil && d.want == nil {
			return d
		}
	}
	start := len(x.scratch)
	x.scratch = x.g.Needers(x.scratch, n.key)
	defer func() { x.scratch = x.scratch[:start] }()
	for _, key := range x.scratch[start:] {
		d := x.get(key)
		if d == nil || d == n || d.have == nil || d.is(fromSB|leaving) || x.branch.get(key) == working {
			continue
		}
		if x.needs(d, n) && !x.staysWithout(d) {
			return d
		}
	}
	return nil
}

// staysWithout reports whether a value may continue to exist because another member of its cycle is
// about to replace the dependency that it loses.
func (x *exec) staysWithout(d *node) bool {
	return d.want != nil && !d.is(broken|unknown) && !inTrouble(d) && x.mayStay(d)
}

// needs reports whether a value needs n, with nothing else in its place.
func (x *exec) needs(d, n *node) bool {
	return slices.ContainsFunc(d.deps, func(dep Dependency) bool { return dep.matches(n.key) && !x.existsFor(&dep, n) })
}

// existsFor reports whether another value than n exists that satisfies the dependency,
// whatever may be wrong with it.
func (x *exec) existsFor(d *Dependency, n *node) bool {
	return x.satisfied(d, func(t *node) bool { return t != n && t.have != nil && !t.is(leaving) })
}

// turn is how far the work on a value is that other work further up the stack interrupts.
type turn uint8

const (
	resting turn = iota
	// working: the operation has yet to be done, or is under way.
	working
	// following: it is done, and others are looked at because of it. They may have it undone.
	following
)

func (x *exec) isBusy(key string) bool { return x.branch.get(key) != resting }

// goBack ends the work on a value, within that on the same value as it was before.
func (x *exec) goBack(key string, outer turn) {
	if outer == resting {
		x.branch.delete(key)
	} else {
		x.branch.set(key, outer)
	}
}

// deleted takes over that a value was deleted.
func (x *exec) deleted(n *node, p prior, why purpose) {
	if n.meta() != nil {
		x.forgetMetadata(n)
	}
	x.verdicts.lost()
	derived, info, failed := n.derived(), n.info(), x.failedNow(n)
	changed := n.have != n.want || len(n.past()) > 0 // its dependencies may be those of what existed
	n.have = nil
	n.setInfo(nil)
	n.setMeta(nil)
	n.setDerived(nil)
	n.clear(broken | unknown | leaving | drifted)
	switch why {
	case removing:
		x.removed(n)
	case recreating:
		n.setState(pb.ValueState_REMOVED)
		n.lastOp = uint8(pb.TxnOperation_DELETE)
	case postponing:
		failedOp, failedState := n.lastOp, n.State()
		n.lastOp = uint8(pb.TxnOperation_DELETE)
		if n.is(invalid) && x.stillInvalid(n, info) { // the last valid value went, and does not come back
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
			// It waits for nothing but members of its cycle, which wait for it: trying again is left to its retry.
			n.lastOp = failedOp
			n.setState(failedState)
			n.setInfo(info)
			break
		}
		if changed || len(x.errs) > 0 {
			x.lookAgain(n.key)
		}
		n.setInfo(&nodeInfo{details: unmet, derives: derived})
	}
	x.record(n, p, pb.TxnOperation_DELETE, recordAs{recreate: why == recreating})
}

// stay restores a value whose deletion was stopped by the failure of another.
func (x *exec) stay(n *node, p prior, why purpose, holder *node) error {
	n.clear(leaving)
	x.verdicts.lost()
	if x.abort {
		return errAborted
	}
	err := holder.err()
	if err == nil {
		err = fmt.Errorf("it is %v", holder.State())
	}
	err = fmt.Errorf("not deleted, because of %s: %w", holder.key, err)
	if why == postponing || !x.mayBeLeft(n) {
		n.set(broken) // it exists although its dependencies are not met
	}
	err = x.held(n, p, pb.TxnOperation_DELETE, err, holder.key, why == recreating)
	if n.available() && !x.abort {
		// Who was deleted to make way for it may come back.
		_ = x.updateDependents(n.key)
	}
	return err
}

// mayBeLeft reports whether the dependencies of a value that still exists also exist, or will be
// created again with it. For an unwanted value, none will be.
func (x *exec) mayBeLeft(n *node) bool {
	if n.want == nil {
		return !x.lacks(n)
	}
	return x.mayStay(n)
}

// deleteAllDerived deletes the derived values of a base value.
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

// removed marks a value as gone for good. Derived values leave the graph at
// once, base values at the end of the transaction.
func (x *exec) removed(n *node) {
	n.setState(pb.ValueState_REMOVED)
	n.lastOp = uint8(pb.TxnOperation_DELETE)
	n.setInfo(nil)
	n.clear(broken | unknown | leaving | drifted)
	x.setDeps(n, nil)
	if n.base() != "" {
		x.g.Delete(n.key)
		return
	}
	x.gone = append(x.gone, n)
}

// dropGone takes removed base values out of the graph.
func (x *exec) dropGone() {
	for _, n := range x.gone {
		if n.State() == pb.ValueState_REMOVED && n.want == nil && n.have == nil {
			x.g.Delete(n.key)
		}
	}
}
