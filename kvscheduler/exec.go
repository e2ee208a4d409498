package kvscheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/graph"
	"google.golang.org/protobuf/proto"
)

// exec executes one transaction, or its dry run, on a graph.
//
// The operation of a value follows from three questions: should it exist (want), does it exist
// (have), and are its dependencies met (ready)?
//
//	want  have  ready
//	 no    yes    -     DELETE                 first the dependents that lose a dependency
//	 yes   no    yes    CREATE                 then the dependents that waited for it
//	 yes   no    no     PENDING
//	 yes   yes   yes    UPDATE, or DELETE and CREATE, or nothing if equivalent
//	 yes   yes   no     DELETE, then PENDING
//
// Derived values are deleted before their base value and created after it.
type exec struct {
	view
	opLog
	caller     *caller // nil in a dry run
	reader     *caller // reads the southbound in a dry run
	formerKeys *formerKeys
	log        *slog.Logger

	applyOrder    []string // the applied base keys in order, if a revert is possible
	recheckQueue  []string
	reread        refresh          // availability that changed because values were read back
	pendingStages []pendingStage   // operations that are prepared but not committed
	unreadable    map[string]error // by base key: the error of reading it back
	errs          []*KeyError
	retried       []KeyValue // values of a retry
	planned       []RecordedOp
	removals      []*node // removed base values

	lastUnequal [2]proto.Message // the last two values that turned out unequal

	gains              int      // number of values that became available
	abort              bool     // a failure triggered the revert
	recheckAfterDelete []string // keys to check after the current deletion
	releasing          string   // base key that a revert returns to OBTAINED
	forwardErrs        int      // number of errors before the revert
	beforeTxn          *graph.Graph[*node]
}

// change is the first and the last version of a node within a transaction.
type change struct{ old, new *node }

// silent reports whether the change is irrelevant to users: the value was read back in a form that is
// equivalent to the requested one.
func (c change) silent() bool {
	return c.old != nil && c.new.op < 0 && c.old.state == c.new.state && (c.old.have == nil) == (c.new.have == nil) &&
		proto.Equal(c.old.want, c.new.want) && message(c.old.err()) == message(c.new.err())
}

// prior is the state of a value before an operation, for the record.
type prior struct {
	state pb.ValueState
	value proto.Message
	err   error
	// available reports whether other values could depend on the value.
	available bool
}

func priorOf(n *node) prior {
	v := n.have
	if v == nil {
		v = n.want
	}
	return prior{n.State(), v, n.err(), n.available()}
}

// apply sets the requested value of a base key; nil requests its deletion. n is the node of the
// key, or nil.
func (x *exec) apply(n *node, key string, want proto.Message) error {
	x.scope.apply(key)
	n, p, err := x.prepare(n, key, want)
	switch {
	case err != nil || n == nil:
		return err
	case want == nil:
		return x.delete(n, p, removing)
	}
	return x.reconcile(n, p)
}

// prepare stores the requested value in the node of the key. It returns nil if nothing else is left to do.
func (x *exec) prepare(n *node, key string, want proto.Message) (*node, prior, error) {
	if x.beforeTxn != nil && !x.reverting {
		x.applyOrder = append(x.applyOrder, key)
	}
	if n != nil && n.base() != "" {
		return nil, prior{}, x.addError(key, pb.TxnOperation_VALIDATE, NewInvalidValueError(
			fmt.Errorf("%s is derived from %s: request a change of that value", key, n.base())))
	}
	if n == nil || want == nil && n.is(fromSB) {
		if want == nil {
			return nil, prior{}, nil
		}
		n = x.add(key)
		n.desc = x.reg.find(key)
	}
	p := priorOf(n)
	n = x.mutable(n)
	if x.failedInTxn(n) && want != nil && !proto.Equal(n.want, want) {
		n.setInfo(&nodeInfo{err: n.info().err, seq: NoSeqNum}) // another version failed
	}
	n.want = want
	x.cycleCache.invalidate()
	n.clear(invalid)
	if want != nil && n.is(fromSB) {
		x.takeOwnership(n)
	}
	x.storeRetryPolicy(n)
	return n, p, nil
}

// reconcile makes the southbound match a wanted value as far as its dependencies allow.
func (x *exec) reconcile(n *node, p prior) error {
	if x.abort {
		return errAborted
	}
	if x.isInProgress(n.key) || n.is(invalid) {
		return nil
	}
	if x.failedInTxn(n) {
		if x.beforeTxn != nil && x.scope.get(n.baseKey()) == applied {
			x.abort = true
		}
		return n.info().err // tried already
	}
	x.inProgress.set(n.key, operating)
	defer x.inProgress.delete(n.key)
	if n.have == nil {
		return x.create(n, p, false)
	}
	return x.update(n, p)
}

func (x *exec) create(n *node, p prior, recreate bool) error {
	if n.desc == nil && n.base() == "" && !n.is(fromSB) {
		if n.desc = x.reg.find(n.key); n.desc == nil {
			return x.markUnimplemented(n, p)
		}
	}
	h := n.desc
	if !n.is(fromSB) {
		if err := x.validateWanted(n); err != nil {
			return x.markInvalid(n, p, pb.TxnOperation_CREATE, err)
		}
		if failed, err := x.failIfUnreadable(n, p, pb.TxnOperation_CREATE); failed {
			return err
		}
	}
	deps, derived, err := x.describe(n)
	if err != nil {
		return x.markFailed(n, p, pb.TxnOperation_CREATE, err, recreate)
	}
	x.setDeps(n, deps)
	_ = x.commitBefore(n) // a failed value does not exist and is unmet below
	if x.abort {
		return errAborted
	}
	if unmet := x.unmet(n); len(unmet) > 0 {
		if n.is(unknown) {
			return x.deleteExisting(n, p, postponing) // remains of a failed creation
		}
		x.markPending(n, p, pb.TxnOperation_CREATE, unmet, derivedKeys(derived))
		// The dependents that were re-evaluated may have created the dependencies of n.
		if x.abort || n.State() != pb.ValueState_PENDING || x.hasUnmet(n) {
			return nil
		}
	}
	if h != nil && !n.is(fromSB) && x.caller != nil {
		if h.create == nil {
			return x.markFailed(n, p, pb.TxnOperation_CREATE, ErrUnimplementedCreate, recreate)
		}
		c := x.caller.newCall()
		c.h, c.name, c.run, c.key, c.new = h, "Create", callCreate, n.key, n.want
		if err := x.perform(n, c); err != nil {
			return x.markFailed(n, p, pb.TxnOperation_CREATE, err, recreate)
		}
		n.setMeta(c.outMeta)
	}
	x.markCreated(n, p, recreate)
	return x.followUp(n, derived)
}

// followUp re-evaluates the values that may have waited for n, which was created or has new
// dependencies, and creates its derived values.
func (x *exec) followUp(n *node, derived []KeyValue) error {
	x.inProgress.set(n.key, followingUp)
	err := x.updateDependents(n.key)
	err = errors.Join(err, x.retryCycleMembers(n))
	if !x.abort && n.have != nil && !n.is(deleting) && !x.failedInTxn(n) && x.hasUnmet(n) && !x.canStay(n) {
		// A dependency was deleted meanwhile, or a member of the cycle could not be created.
		return errors.Join(err, x.deleteExisting(n, priorOf(n), postponing))
	}
	return errors.Join(err, x.applyDerived(n, derived))
}

// retryCycleMembers re-evaluates the missing members of n's cycle. Members that depend on n only
// through existing values are not among the dependents that followUp re-evaluates.
func (x *exec) retryCycleMembers(n *node) error {
	if x.abort || n.have == nil || n.is(deleting) || !x.hasUnmet(n) {
		return nil
	}
	var waiting []string
	for i := range n.deps {
		x.candidates(&n.deps[i], func(t *node) bool {
			if t != n && t.want != nil && !t.available() && (hasFailed(t) || t.State() == pb.ValueState_PENDING) {
				waiting = append(waiting, t.key)
			}
			return true
		})
	}
	var errs error
	for _, key := range waiting {
		if x.abort || !x.hasUnmet(n) {
			break
		}
		errs = errors.Join(errs, x.updateDependent(key, true))
	}
	return errs
}

func (x *exec) markCreated(n *node, p prior, recreate bool) {
	n.have = n.want
	x.markExisting(n, pb.TxnOperation_CREATE)
	x.storeMetadata(n)
	x.recordOp(n, p, pb.TxnOperation_CREATE, opFlags{recreate: recreate})
}

func (x *exec) update(n *node, p prior) error {
	h := n.desc
	if !n.is(fromSB) {
		if err := x.validateWanted(n); err != nil {
			return x.markInvalid(n, p, pb.TxnOperation_UPDATE, err) // the last valid value stays
		}
		if failed, err := x.failIfUnreadable(n, p, pb.TxnOperation_UPDATE); failed {
			return err
		}
	}
	equivalent, err := false, error(nil)
	if !n.is(unknown) {
		if equivalent, err = n.desc.equivalent(n.key, n.have, n.want, x.equal); err != nil {
			return x.markFailed(n, p, pb.TxnOperation_UPDATE, err, false)
		}
	}
	recreate := n.is(unknown) && n.is(broken)
	if !equivalent && !recreate && !n.is(fromSB) {
		if recreate, err = h.recreate(n.key, n.have, n.want, n.meta()); err != nil {
			return x.markFailed(n, p, pb.TxnOperation_UPDATE, err, false)
		}
	}
	if recreate {
		if err := x.deleteExisting(n, p, recreating); err != nil {
			if deps, _, unclear := x.describe(n); unclear == nil {
				x.addWantedDeps(n, deps)
			}
			return err
		}
		return x.create(n, prior{state: n.State()}, true)
	}
	deps, derived, err := x.describe(n)
	if err != nil {
		return x.markFailed(n, p, pb.TxnOperation_UPDATE, err, false)
	}
	if err := x.deleteObsoleteDerived(n, derived); err != nil {
		x.addWantedDeps(n, deps)
		return x.markBlocked(n, p, pb.TxnOperation_UPDATE, fmt.Errorf("not updated, because an obsolete derived value remains: %w", err), x.blocker(n).key, false)
	}
	// The dependencies of a CONFIGURED value are met. Check again only if they change.
	stillMet := !x.reverting && p.available && p.state == pb.ValueState_CONFIGURED && sameNeeds(n.deps, deps)
	before := n.deps
	x.setDeps(n, deps)
	if x.commitBefore(n) != nil {
		stillMet = false
	}
	if x.abort {
		return errAborted
	}
	if !stillMet && !x.canStay(n) {
		err := x.postpone(n, p, func() []string { return derivedKeys(derived) })
		if n.have != nil && !sameNeeds(before, deps) {
			x.setDepsKeepingOld(n, deps, before) // the existing version is unchanged
		}
		return err
	}
	if !equivalent {
		if h != nil && !n.is(fromSB) && x.caller != nil {
			c := x.caller.newCall()
			c.h, c.name, c.run, c.key, c.old, c.new, c.meta = h, "Update", callUpdate, n.key, n.have, n.want, n.meta()
			if err := x.perform(n, c); err != nil {
				if !sameNeeds(before, deps) {
					x.setDepsKeepingOld(n, deps, before) // either version may exist
				}
				return x.markFailed(n, p, pb.TxnOperation_UPDATE, err, false)
			}
			n.setMeta(c.outMeta)
		}
		n.have = n.want
	}
	done := pb.TxnOperation_UPDATE
	if equivalent {
		done = pb.TxnOperation(n.lastOp) // no operation was executed
	}
	x.markExisting(n, done)
	if !equivalent {
		x.storeMetadata(n)
		x.recordOp(n, p, pb.TxnOperation_UPDATE, opFlags{})
	} else if p.state != n.State() && p.state != pb.ValueState_DISCOVERED {
		x.recordOp(n, p, pb.TxnOperation_UPDATE, opFlags{noop: true})
	}
	if !p.available || !stillMet && x.hasUnmet(n) { // the rest of its cycle does not exist yet
		return x.followUp(n, derived)
	}
	x.inProgress.set(n.key, followingUp)
	return x.applyDerived(n, derived)
}

// equal is proto.Equal. It remembers the last unequal pair, because an update compares the same two
// values when it is planned and when it is executed.
func (x *exec) equal(a, b proto.Message) bool {
	if a == b {
		return true
	}
	if x.lastUnequal == [2]proto.Message{a, b} {
		return false
	}
	equal := proto.Equal(a, b)
	if !equal {
		x.lastUnequal = [2]proto.Message{a, b}
	}
	return equal
}

func (x *exec) markExisting(n *node, op pb.TxnOperation) {
	n.setInfo(nil)
	x.gains++
	x.cycleCache.invalidateNotReady()
	n.clear(broken | unknown | drifted | deleting)
	n.lastOp = uint8(op)
	if n.is(fromSB) {
		n.setState(pb.ValueState_OBTAINED)
	} else {
		n.setState(pb.ValueState_CONFIGURED)
	}
}

// unmanaged reports whether the value is OBTAINED, or a revert is returning it to that state. Its
// dependencies and validity then do not matter.
func (x *exec) unmanaged(n *node) bool {
	return n.is(fromSB) || x.releasing != "" && n.baseKey() == x.releasing
}

func (x *exec) validateWanted(n *node) error {
	if x.unmanaged(n) {
		return nil
	}
	return n.desc.validate(n.key, n.want)
}

// describe returns the dependencies and the derived values of the wanted value.
func (x *exec) describe(n *node) ([]Dependency, []KeyValue, error) {
	var deps []Dependency
	if !x.unmanaged(n) {
		var err error
		if deps, err = n.desc.dependencies(n.key, n.want); err != nil {
			return nil, nil, err
		}
	}
	if n.base() != "" {
		return deps, nil, nil
	}
	if old := x.lastValid(n); old != nil {
		return deps, x.derivedBeforeTxn(old), nil
	}
	derived, err := x.derivedOf(n.desc, n.key, n.want)
	return deps, derived, err
}

// lastValid returns the node before the transaction if the value was INVALID then and a revert
// restores its last valid version, otherwise nil.
func (x *exec) lastValid(n *node) *node {
	if !x.reverting {
		return nil
	}
	if old := x.nodeBefore(n.key); old != nil && old.is(invalid) && n.want == old.have {
		return old
	}
	return nil
}

// derivedBeforeTxn returns the derived values that were wanted before the transaction. They cannot be
// computed from the existing base value: an equivalent version may have derived others since.
func (x *exec) derivedBeforeTxn(old *node) []KeyValue {
	var parts []KeyValue
	for _, key := range old.derived() {
		part := x.nodeBefore(key)
		switch {
		case part == nil || part.want == nil:
		case part.is(invalid) && part.have != nil:
			parts = append(parts, KeyValue{Key: key, Value: part.have})
		default:
			parts = append(parts, KeyValue{Key: key, Value: part.want})
		}
	}
	return parts
}

var everyKey = []string{""}

func (a *AnyOf) prefixes() []string {
	if len(a.KeyPrefixes) == 0 && a.KeySelector != nil {
		return everyKey
	}
	return a.KeyPrefixes
}

// sameNeeds reports whether the dependencies are certainly equal. Selectors cannot be compared.
func sameNeeds(a, b []Dependency) bool {
	return sameTargets(a, b) && !slices.ContainsFunc(b, func(d Dependency) bool { return d.AnyOf.KeySelector != nil })
}

func sameTargets(a, b []Dependency) bool {
	return slices.EqualFunc(a, b, func(a, b Dependency) bool {
		return a.Key == b.Key && slices.Equal(a.AnyOf.prefixes(), b.AnyOf.prefixes())
	})
}
