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

// exec is the execution, or the dry run, of one transaction on a graph.
//
// The operation on a value always follows from three questions: should it exist (want), does it
// exist (have), and are its dependencies met (ready)?
//
//	want  have  ready
//	 no    yes    -     DELETE                 dependents that lose a dependency first
//	 yes   no    yes    CREATE                 then the dependents that waited for it
//	 yes   no    no     PENDING
//	 yes   yes   yes    UPDATE, or DELETE and CREATE, or nothing if equivalent
//	 yes   yes   no     DELETE, then PENDING
//
// Derived values follow their base value: deleted before it, created after it.
type exec struct {
	reg     *registry
	caller  *caller // nil: dry run
	reader  *caller // reads the southbound in a dry run
	retired *retired
	log     *slog.Logger
	g       *graph.Graph[*node]
	epoch   uint64
	seq     uint64
	job     *job

	recording bool
	ops       []RecordedOp
	reads     []RecordedRetrieve
	skipped   int      // ops that a later one replaced
	changes   []change // in the order of the first change
	order     []string // the same, in order, if they may have to be reverted
	*sets
	againOrder []string
	foundOut   refresh          // what reading them back told
	staged     []staged         // operations that have yet to take effect
	unread     map[string]error // by key: why base values cannot be read back
	errs       []*KeyError
	retried    []KeyValue // what a retry was about
	planned    []RecordedOp
	gone       []*node // base values that were removed

	different [2]proto.Message // the last two that were compared and are not equal

	gains      int // how often something came to exist
	reverting  bool
	abort      bool     // a failure that calls for a revert
	afterGone  []string // keys to be looked at once what is about to be deleted is
	givingBack string   // the base value that a revert makes OBTAINED again
	forward    int      // how many of the errors are from before the revert
	before     *graph.Graph[*node]
}

// change is what a transaction did to a node.
type change struct{ old, new *node }

// silent changes are no news about the value: it was merely read back in another
// form than the one that it was requested in.
func (c change) silent() bool {
	return c.old != nil && c.new.op < 0 && c.old.state == c.new.state && (c.old.have == nil) == (c.new.have == nil) &&
		proto.Equal(c.old.want, c.new.want) && message(c.old.err()) == message(c.new.err())
}

// prior is the state of a value before an operation, for its record.
type prior struct {
	state pb.ValueState
	value proto.Message
	err   error
	// available reports whether others could depend on the value.
	available bool
}

func priorOf(n *node) prior {
	v := n.have
	if v == nil {
		v = n.want
	}
	return prior{n.State(), v, n.err(), n.available()}
}

// get returns the node, or nil. It must not be changed: see mut.
func (x *exec) get(key string) *node {
	n, _ := x.g.Get(key)
	return n
}

// mut returns the copy of the node that this transaction may change.
func (x *exec) mut(n *node) *node {
	if n.epoch == x.epoch {
		return n
	}
	c := *n
	c.epoch, c.txn, c.op = x.epoch, x.seq, -1
	x.g.Set(&c)
	x.changes = append(x.changes, change{n, &c})
	return &c
}

// add makes a new node.
func (x *exec) add(key string) *node {
	n := &node{key: key, epoch: x.epoch, txn: x.seq, op: -1}
	x.g.Set(n)
	x.changes = append(x.changes, change{nil, n})
	return n
}

// drop removes the node from the graph.
func (x *exec) drop(n *node) {
	n = x.mut(n)
	x.setDeps(n, nil)
	x.verdicts.lost()
	x.g.Delete(n.key)
	n.setState(pb.ValueState_NONEXISTENT)
	n.want, n.have = nil, nil
}

// apply makes the value of a base key be as the northbound requests: nil for
// not at all. n is its node, if there is one.
func (x *exec) apply(n *node, key string, want proto.Message) error {
	x.about.apply(key)
	n, p, err := x.prepare(n, key, want)
	switch {
	case err != nil || n == nil:
		return err
	case want == nil:
		return x.delete(n, p, removing)
	}
	return x.reconcile(n, p)
}

// prepare stores the requested value in the node of the key, n if there is one. It returns nil if there is nothing to do.
func (x *exec) prepare(n *node, key string, want proto.Message) (*node, prior, error) {
	if x.before != nil && !x.reverting {
		x.order = append(x.order, key)
	}
	if n != nil && n.base() != "" {
		return nil, prior{}, x.note(key, pb.TxnOperation_VALIDATE, NewInvalidValueError(
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
	n = x.mut(n)
	if x.failedNow(n) && want != nil && !proto.Equal(n.want, want) {
		n.setInfo(&nodeInfo{err: n.info().err, seq: NoSeqNum}) // that was another value
	}
	n.want = want
	x.verdicts.lost()
	n.clear(invalid)
	if want != nil && n.is(fromSB) {
		x.takeOver(n)
	}
	x.remember(n)
	return n, p, nil
}

// takeOver makes an obtained value, and its derived values, ours.
func (x *exec) takeOver(n *node) {
	n.clear(fromSB)
	x.dependOnFound(n)
	for _, key := range n.derived() {
		if d := x.get(key); d != nil && d.is(fromSB) {
			d = x.mut(d)
			d.want = nil
			d.clear(fromSB)
			d.setState(pb.ValueState_DISCOVERED)
			x.dependOnFound(d)
		}
	}
}

// dependOnFound sets the dependencies of the value as it exists.
func (x *exec) dependOnFound(n *node) {
	if deps, err := n.desc.dependencies(n.key, n.have); err == nil {
		x.setDeps(n, deps)
	}
}

// remember stores the retry policy of the transaction with the value.
func (x *exec) remember(n *node) {
	if !x.changesRetry() || x.reverting {
		return
	}
	if x.job.opts.retry == nil && n.retry() != nil {
		x.stopRetries(n)
	}
	n.setRetry(x.job.opts.retry)
}

// stopRetries has derived values not repeated any more: their turn may not come if their base value fails.
func (x *exec) stopRetries(base *node) {
	for _, key := range base.derived() {
		if d := x.get(key); d != nil && d.State() == pb.ValueState_RETRYING {
			d = x.mut(d)
			d.setState(pb.ValueState_FAILED)
			d.setInfo(&nodeInfo{err: d.info().err, seq: d.info().seq})
		}
	}
}

// changesRetry reports whether the transaction says how its values are repeated.
func (x *exec) changesRetry() bool {
	return x.job.typ == NBTransaction && (x.job.opts.retry != nil || x.job.opts.resync != DownstreamResync)
}

// reconcile makes a wanted value exist as wanted, if its dependencies allow it.
func (x *exec) reconcile(n *node, p prior) error {
	if x.abort {
		return errAborted
	}
	if x.isBusy(n.key) || n.is(invalid) {
		return nil
	}
	if x.failedNow(n) {
		if x.before != nil && x.about.get(n.baseKey()) == applied {
			x.abort = true
		}
		return n.info().err // once is enough
	}
	x.branch.set(n.key, working)
	defer x.branch.delete(n.key)
	if n.have == nil {
		return x.create(n, p, false)
	}
	return x.update(n, p)
}

// failedNow reports whether an operation of the value failed in this transaction, before
// a revert. INVALID values did not fail: nothing was tried.
func (x *exec) failedNow(n *node) bool {
	return n.info() != nil && n.info().err != nil && n.info().seq == x.seq && !x.reverting && !n.is(invalid)
}

// create makes a value exist that does not.
func (x *exec) create(n *node, p prior, recreate bool) error {
	if n.desc == nil && n.base() == "" && !n.is(fromSB) {
		if n.desc = x.reg.find(n.key); n.desc == nil {
			return x.unimplemented(n, p)
		}
	}
	h := n.desc
	if !n.is(fromSB) {
		if err := x.validateWanted(n); err != nil {
			return x.invalid(n, p, pb.TxnOperation_CREATE, err)
		}
		if failed, err := x.failUnread(n, p, pb.TxnOperation_CREATE); failed {
			return err
		}
	}
	deps, derived, err := x.describe(n)
	if err != nil {
		return x.fail(n, p, pb.TxnOperation_CREATE, err, recreate)
	}
	x.setDeps(n, deps)
	_ = x.inEffect(n) // what is not does not exist
	if x.abort {
		return errAborted
	}
	if unmet := x.unmet(n); len(unmet) > 0 {
		if n.is(unknown) {
			return x.deleteExisting(n, p, postponing) // what a failed creation may have left
		}
		x.pending(n, p, pb.TxnOperation_CREATE, unmet, derivedKeys(derived))
		// Re-evaluating those may have made available what n waits for.
		if x.abort || n.State() != pb.ValueState_PENDING || x.lacks(n) {
			return nil
		}
	}
	if h != nil && !n.is(fromSB) && x.caller != nil {
		if h.create == nil {
			return x.fail(n, p, pb.TxnOperation_CREATE, ErrUnimplementedCreate, recreate)
		}
		c := x.caller.call()
		c.h, c.name, c.run, c.key, c.new = h, "Create", callCreate, n.key, n.want
		if err := x.perform(n, c); err != nil {
			return x.fail(n, p, pb.TxnOperation_CREATE, err, recreate)
		}
		n.setMeta(c.outMeta)
	}
	x.created(n, p, recreate)
	return x.follow(n, derived)
}

// follow re-evaluates values that may have been waiting for n, which was created or has other
// dependencies now, and then creates its derived values.
func (x *exec) follow(n *node, derived []KeyValue) error {
	x.branch.set(n.key, following)
	err := x.updateDependents(n.key)
	err = errors.Join(err, x.tryNeeded(n))
	if !x.abort && n.have != nil && !n.is(leaving) && !x.failedNow(n) && x.lacks(n) && !x.mayStay(n) {
		// Its dependencies went meanwhile, or were not created.
		return errors.Join(err, x.deleteExisting(n, priorOf(n), postponing))
	}
	return errors.Join(err, x.applyDerived(n, derived))
}

// tryNeeded has those looked at that n counts on to come, as members of its cycle: they
// may depend on n through others that existed before, and so were not.
func (x *exec) tryNeeded(n *node) error {
	if x.abort || n.have == nil || n.is(leaving) || !x.lacks(n) {
		return nil
	}
	var waiting []string
	for i := range n.deps {
		x.candidates(&n.deps[i], func(t *node) bool {
			if t != n && t.want != nil && !t.available() && (inTrouble(t) || t.State() == pb.ValueState_PENDING) {
				waiting = append(waiting, t.key)
			}
			return true
		})
	}
	var errs error
	for _, key := range waiting {
		if x.abort || !x.lacks(n) {
			break
		}
		errs = errors.Join(errs, x.updateDependent(key, true))
	}
	return errs
}

// created takes over that a value was created.
func (x *exec) created(n *node, p prior, recreate bool) {
	n.have = n.want
	x.exists(n, pb.TxnOperation_CREATE)
	x.storeMetadata(n)
	x.record(n, p, pb.TxnOperation_CREATE, recordAs{recreate: recreate})
}

// update makes a value that exists be as wanted.
func (x *exec) update(n *node, p prior) error {
	h := n.desc
	if !n.is(fromSB) {
		if err := x.validateWanted(n); err != nil {
			return x.invalid(n, p, pb.TxnOperation_UPDATE, err) // the last valid value stays
		}
		if failed, err := x.failUnread(n, p, pb.TxnOperation_UPDATE); failed {
			return err
		}
	}
	equivalent, err := false, error(nil)
	if !n.is(unknown) {
		if equivalent, err = n.desc.equivalent(n.key, n.have, n.want, x.equal); err != nil {
			return x.fail(n, p, pb.TxnOperation_UPDATE, err, false)
		}
	}
	recreate := n.is(unknown) && n.is(broken)
	if !equivalent && !recreate && !n.is(fromSB) {
		if recreate, err = h.recreate(n.key, n.have, n.want, n.meta()); err != nil {
			return x.fail(n, p, pb.TxnOperation_UPDATE, err, false)
		}
	}
	if recreate {
		if err := x.deleteExisting(n, p, recreating); err != nil {
			if deps, _, unclear := x.describe(n); unclear == nil {
				x.needToReturn(n, deps)
			}
			return err
		}
		return x.create(n, prior{state: n.State()}, true)
	}
	deps, derived, err := x.describe(n)
	if err != nil {
		return x.fail(n, p, pb.TxnOperation_UPDATE, err, false)
	}
	if err := x.removeObsolete(n, derived); err != nil {
		x.needToReturn(n, deps)
		return x.held(n, p, pb.TxnOperation_UPDATE, fmt.Errorf("not changed, because of what it derived before: %w", err), x.holder(n).key, false)
	}
	// What was configured has its dependencies met; look again only if they change.
	stillMet := !x.reverting && p.available && p.state == pb.ValueState_CONFIGURED && sameNeeds(n.deps, deps)
	before := n.deps
	x.setDeps(n, deps)
	if x.inEffect(n) != nil {
		stillMet = false
	}
	if x.abort {
		return errAborted
	}
	if !stillMet && !x.mayStay(n) {
		err := x.postpone(n, p, func() []string { return derivedKeys(derived) })
		if n.have != nil && !sameNeeds(before, deps) {
			x.setDepsWithPast(n, deps, before) // it is still there as it was
		}
		return err
	}
	if !equivalent {
		if h != nil && !n.is(fromSB) && x.caller != nil {
			c := x.caller.call()
			c.h, c.name, c.run, c.key, c.old, c.new, c.meta = h, "Update", callUpdate, n.key, n.have, n.want, n.meta()
			if err := x.perform(n, c); err != nil {
				if !sameNeeds(before, deps) {
					x.setDepsWithPast(n, deps, before) // it is unknown which of them exists
				}
				return x.fail(n, p, pb.TxnOperation_UPDATE, err, false)
			}
			n.setMeta(c.outMeta)
		}
		n.have = n.want
	}
	done := pb.TxnOperation_UPDATE
	if equivalent {
		done = pb.TxnOperation(n.lastOp) // nothing was
	}
	x.exists(n, done)
	if !equivalent {
		x.storeMetadata(n)
		x.record(n, p, pb.TxnOperation_UPDATE, recordAs{})
	} else if p.state != n.State() && p.state != pb.ValueState_DISCOVERED {
		x.record(n, p, pb.TxnOperation_UPDATE, recordAs{noop: true})
	}
	if !p.available || !stillMet && x.lacks(n) { // the rest of its cycle is yet to come
		return x.follow(n, derived)
	}
	x.branch.set(n.key, following)
	return x.applyDerived(n, derived)
}

// equal is proto.Equal. An update compares the same two values when it is applied and when it is executed: it remembers
// that they differ.
func (x *exec) equal(a, b proto.Message) bool {
	if a == b {
		return true
	}
	if x.different == [2]proto.Message{a, b} {
		return false
	}
	equal := proto.Equal(a, b)
	if !equal {
		x.different = [2]proto.Message{a, b}
	}
	return equal
}

// exists marks the value as existing and right.
func (x *exec) exists(n *node, op pb.TxnOperation) {
	n.setInfo(nil)
	x.gains++
	x.verdicts.gained()
	n.clear(broken | unknown | drifted | leaving)
	n.lastOp = uint8(op)
	if n.is(fromSB) {
		n.setState(pb.ValueState_OBTAINED)
	} else {
		n.setState(pb.ValueState_CONFIGURED)
	}
}

// foreign reports whether the value exists without us, or is being made so again: neither its
// dependencies nor its validity concern us.
func (x *exec) foreign(n *node) bool {
	return n.is(fromSB) || x.givingBack != "" && n.baseKey() == x.givingBack
}

// validateWanted returns why the wanted value cannot be.
func (x *exec) validateWanted(n *node) error {
	if x.foreign(n) {
		return nil
	}
	return n.desc.validate(n.key, n.want)
}

// describe asks the descriptor for the dependencies and derived values of the wanted value.
func (x *exec) describe(n *node) ([]Dependency, []KeyValue, error) {
	var deps []Dependency
	if !x.foreign(n) {
		var err error
		if deps, err = n.desc.dependencies(n.key, n.want); err != nil {
			return nil, nil, err
		}
	}
	if n.base() != "" {
		return deps, nil, nil
	}
	if old := x.lastValid(n); old != nil {
		return deps, x.partsOf(old), nil
	}
	derived, err := x.deriveFrom(n.desc, n.key, n.want)
	return deps, derived, err
}

// lastValid returns the value as it was before the transaction if it was INVALID then, and a revert
// restores its last valid version; otherwise nil.
func (x *exec) lastValid(n *node) *node {
	if !x.reverting {
		return nil
	}
	if old := x.oldOf(n.key); old != nil && old.is(invalid) && n.want == old.have {
		return old
	}
	return nil
}

// partsOf returns the derived values as they were wanted before the transaction. The existing
// version of their base value does not tell: an equivalent one may have derived others since, and
// some may have gone.
func (x *exec) partsOf(old *node) []KeyValue {
	var parts []KeyValue
	for _, key := range old.derived() {
		part := x.oldOf(key)
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

// needToReturn sets the dependencies of the wanted value although it does not exist yet: if the
// value is broken, dependents do not rely on the existing value but on the future one.
func (x *exec) needToReturn(n *node, deps []Dependency) {
	if n.is(broken) {
		x.setDepsWithPast(n, deps, n.deps)
	}
}

// setDepsWithPast sets both the dependencies of the wanted value and those of the value that still
// exists.
func (x *exec) setDepsWithPast(n *node, deps, before []Dependency) {
	x.replaceDeps(n, slices.Concat(deps, before), len(before))
}

// setDeps replaces the dependencies of the node, and their edges.
func (x *exec) setDeps(n *node, deps []Dependency) { x.replaceDeps(n, deps, 0) }

func (x *exec) replaceDeps(n *node, deps []Dependency, past int) {
	if len(n.deps) == 0 && len(deps) == 0 {
		n.deps = nil
		n.setPast(0)
		return
	}
	if len(n.past()) == past && sameTargets(n.deps, deps) {
		n.deps = deps
		return
	}
	n.setPast(0) // until both fit again
	x.verdicts.lost()
	for i := range n.deps {
		d := &n.deps[i]
		if d.Key != "" {
			x.g.Unneed(d.Key, n.key)
		}
		for _, p := range d.AnyOf.prefixes() {
			x.g.UnneedPrefix(p, n.key)
		}
	}
	for i := range deps {
		d := &deps[i]
		if d.Key != "" {
			x.g.Need(d.Key, n.key)
		}
		for _, p := range d.AnyOf.prefixes() {
			x.g.NeedPrefix(p, n.key)
		}
	}
	n.deps = deps
	n.setPast(past)
}

var everyKey = []string{""}

// prefixes of the keys that may match; none if the AnyOf is not in use.
func (a *AnyOf) prefixes() []string {
	if len(a.KeyPrefixes) == 0 && a.KeySelector != nil {
		return everyKey
	}
	return a.KeyPrefixes
}

// sameNeeds reports whether the dependencies are the same for sure: predicates cannot
// be compared.
func sameNeeds(a, b []Dependency) bool {
	return sameTargets(a, b) && !slices.ContainsFunc(b, func(d Dependency) bool { return d.AnyOf.KeySelector != nil })
}

func sameTargets(a, b []Dependency) bool {
	return slices.EqualFunc(a, b, func(a, b Dependency) bool {
		return a.Key == b.Key && slices.Equal(a.AnyOf.prefixes(), b.AnyOf.prefixes())
	})
}
