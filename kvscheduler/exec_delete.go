package kvscheduler

import (
	"errors"
	"fmt"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// purpose of a deletion.
type purpose int

const (
	// removing: nobody wants the value any more.
	removing purpose = iota
	// postponing: the value is wanted, but its dependencies are not met.
	postponing
	// recreating: the value is created again, differently.
	recreating
)

// errAborted unwinds the execution of a transaction that is to be reverted.
var errAborted = errors.New("transaction is being reverted")

// delete makes a value not exist that nobody wants.
func (x *exec) delete(n *node, p was, why purpose) error {
	if x.abort {
		return errAborted
	}
	if _, busy := x.branch[n.key]; busy {
		if n.base != "" && n.is(leaving) {
			// Its deletion is under way, and has led to that of its base value: it goes now.
			return x.deleteExisting(n, p, why)
		}
		return nil
	}
	if x.failedNow(n) && n.have != nil {
		return n.info.err
	}
	x.branch[n.key] = struct{}{}
	defer delete(x.branch, n.key)
	if n.have == nil && !n.is(unknown) {
		if x.removed(n); p.state != pb.ValueState_NONEXISTENT && p.state != pb.ValueState_REMOVED {
			x.record(n, p, pb.TxnOperation_DELETE, recordAs{noop: true})
			x.notComing(n)
		}
		return nil
	}
	return x.deleteExisting(n, p, why)
}

// deleteExisting deletes a value that exists: first its derived values, then
// those who depend on it are deleted and become pending, then itself.
func (x *exec) deleteExisting(n *node, p was, why purpose) error {
	n.set(leaving)
	err := x.deleteAllDerived(n)
	if err == nil || !x.abort {
		err = errors.Join(err, x.updateDependents(n.key))
	}
	if err != nil {
		return x.stay(n, p, why, err)
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
		c.h, c.name, c.run, c.key, c.old, c.meta = h, "Delete", callDelete, n.key, old, n.meta
		if err := x.caller.do(c); err != nil {
			n.clear(leaving)
			n.have = old // for the next attempt
			return x.fail(n, p, pb.TxnOperation_DELETE, err, why == recreating)
		}
	}
	x.deleted(n, p, why)
	return nil
}

// postpone deletes a value that exists although its dependencies are not met.
// derives are the keys that it would derive, if that is not what it did; may be nil.
func (x *exec) postpone(n *node, p was, derives func() []string) error {
	err := x.deleteExisting(n, p, postponing)
	if n.State() != pb.ValueState_PENDING {
		return err
	}
	if derives != nil {
		n.info.derives = derives()
	}
	// What was looked at because of that may have led to what n waits for.
	if err != nil || x.abort || x.about[n.baseKey()] == upcoming || !x.stands(n) {
		return err
	}
	return x.create(n, wasOf(n), false)
}

// stands tells if what a value needs, and is derived from, is available, and does not
// go together with a base value that is about to be deleted.
func (x *exec) stands(n *node) bool {
	lasts := func(n *node) bool { return n.base == "" || x.isAvailable(n.base) }
	for i := range n.deps {
		met := false
		x.candidates(&n.deps[i], func(t *node) bool {
			met = t.available() && lasts(t)
			return !met
		})
		if !met {
			return false
		}
	}
	return lasts(n)
}

// deleted takes over that a value was deleted.
func (x *exec) deleted(n *node, p was, why purpose) {
	if n.meta != nil {
		x.forgetMetadata(n)
	}
	derived := n.derived
	n.have, n.meta, n.info, n.derived = nil, nil, nil, nil
	unfinished := n.flags & drifted // its dependencies may be those of another value
	n.clear(broken | unknown | leaving | drifted)
	switch why {
	case removing:
		x.removed(n)
	case recreating:
		n.setState(pb.ValueState_REMOVED)
		n.lastOp = uint8(pb.TxnOperation_DELETE)
	case postponing:
		n.set(unfinished)
		n.setState(pb.ValueState_PENDING)
		n.lastOp = uint8(pb.TxnOperation_DELETE)
		n.info = &nodeInfo{details: x.unmet(n), derives: derived}
	}
	x.record(n, p, pb.TxnOperation_DELETE, recordAs{recreate: why == recreating})
}

// stay restores a value whose deletion was stopped by the failure of another.
func (x *exec) stay(n *node, p was, why purpose, err error) error {
	n.clear(leaving)
	if x.abort {
		return errAborted
	}
	if why == postponing || !x.mayBeLeft(n) {
		// It exists although its dependencies are not met.
		return x.fail(n, p, pb.TxnOperation_DELETE, fmt.Errorf("not deleted, because of what depends on it: %w", err), false)
	}
	n.set(drifted)
	if n.available() {
		// Who was deleted to make way for it may come back.
		err = errors.Join(err, x.updateDependents(n.key))
	}
	return err
}

// mayBeLeft tells if what a value that is still there needs is there as well, or comes
// back with it. Nothing does with a value that nobody wants.
func (x *exec) mayBeLeft(n *node) bool {
	if n.want == nil {
		return len(x.missing(n)) == 0
	}
	return x.mayStay(n)
}

// deleteAllDerived deletes the derived values of a base value.
func (x *exec) deleteAllDerived(n *node) error {
	var errs error
	for _, key := range n.derived {
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
	n.info = nil
	n.clear(broken | unknown | leaving | drifted)
	x.setDeps(n, nil)
	if n.base != "" {
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
