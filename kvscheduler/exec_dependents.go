package kvscheduler

import (
	"errors"
	"slices"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// updateDependents re-evaluates the values that depend on the key, which has become available or is
// about to be deleted.
func (x *exec) updateDependents(key string) error {
	start := len(x.scratch)
	x.scratch = x.g.Needers(x.scratch, key)
	end := len(x.scratch)
	defer func() { x.scratch = x.scratch[:start] }()
	var errs error
	creates := batch{x: x, op: pb.TxnOperation_CREATE}
	for i := start; i < end; i++ {
		dep := x.scratch[i]
		if n := x.get(dep); n != nil && creates.accepts(n) && !x.mustWait(n) {
			p := priorOf(n)
			creates.create(x.mutable(n), p)
			continue
		}
		creates.flush()
		gained := x.isAvailable(key)
		if n := x.get(dep); gained && n != nil && hasFailed(n) && !n.wantedNeeds(key) {
			continue // the dependency on the key belongs to the obsolete version
		}
		if err := x.updateDependent(dep, gained); err != nil {
			if x.abort {
				return errAborted
			}
			errs = errors.Join(errs, err)
		}
	}
	creates.flush()
	if x.abort {
		return errAborted
	}
	return errors.Join(errs, creates.errs)
}

// wantedNeeds reports whether the wanted version of the value needs the key.
func (n *node) wantedNeeds(key string) bool {
	return slices.ContainsFunc(n.wantedDeps(), func(d Dependency) bool { return d.matches(key) })
}

func (v *view) isAvailable(key string) bool {
	n := v.get(key)
	return n != nil && n.available()
}

// updateDependent re-evaluates a value after a change of a dependency; gained reports whether it became
// available. It returns only errors of values that this transaction requests.
func (x *exec) updateDependent(key string, gained bool) error {
	n := x.get(key)
	if n == nil || n.is(fromSB|deleting) {
		return nil
	}
	if n.want == nil {
		// Its deletion was blocked or follows later, but must precede the deletion of its dependency.
		if gained || n.have == nil || !x.hasUnmet(n) {
			return nil
		}
		p := priorOf(n)
		return x.propagate(n, x.delete(x.mutable(n), p, removing))
	}
	outer := x.inProgress.get(key)
	if outer == operating || outer == followingUp && gained {
		x.recheckLater(key)
		return nil
	}
	if x.failedInTxn(n) && (gained || n.lastOperation() == pb.TxnOperation_DELETE || x.canStay(n)) {
		err := n.info().err
		if !gained && n.have != nil && !n.is(broken) && !x.canStay(n) {
			x.mutable(n).set(broken) // it exists although its dependencies are not met
			x.cycleCache.invalidate()
			x.inProgress.set(key, operating)
			_ = x.updateDependents(key) // values that were re-created rely on it
			x.restorePhase(key, outer)
		}
		return x.propagate(n, err)
	}
	stays := func() bool { return gained && !x.mustWait(n) || !gained && x.canStay(n) }
	if n.have != nil && !n.is(broken) && stays() {
		if gained || !x.hasUnmet(n) {
			return nil
		}
		// It may stay if failed members of its cycle can be created now.
		if err := x.retryCycleMembers(n); !x.hasUnmet(n) || stays() {
			return x.propagate(n, err)
		}
	}
	if n.have != nil && (!n.is(broken) || !gained && !stays()) {
		p := priorOf(n)
		x.inProgress.set(key, operating)
		defer x.restorePhase(key, outer)
		return x.propagate(n, x.postpone(x.mutable(n), p, nil))
	}
	if x.scope.get(n.baseKey()) == upcoming {
		return nil // its request follows, and may change it
	}
	switch n.State() {
	case pb.ValueState_INVALID, pb.ValueState_UNIMPLEMENTED:
		return nil
	case pb.ValueState_PENDING:
		if unmet := x.unmet(n); len(unmet) > 0 {
			if !slices.Equal(unmet, n.details()) {
				x.mutable(n).setInfo(&nodeInfo{details: unmet, derives: n.info().derives})
			}
			return nil
		}
		if !gained && !x.remainsReady(n) {
			x.recheckLater(key) // a dependency may be deleted soon
			return nil
		}
	}
	if n.base() != "" {
		if base := x.get(n.base()); base == nil || base.have == nil || base.is(deleting) {
			return nil
		}
	}
	p := priorOf(n)
	return x.propagate(n, x.reconcile(x.mutable(n), p))
}

// propagate returns the failure of n if it also fails the operation that caused it: if the
// transaction requests n or is being aborted.
func (x *exec) propagate(n *node, err error) error {
	if err == nil || x.abort {
		return err
	}
	if x.scope.get(n.baseKey()) != applied {
		return nil
	}
	return err
}

// recheckLater schedules a check of the value for the end of the transaction, because the availability
// of its dependencies cannot be decided yet.
func (x *exec) recheckLater(key string) {
	const enough = 4 // a value that still changes then depends on an operation that keeps failing
	was := x.rechecks[key]
	if was.queued || was.times >= enough {
		return
	}
	x.rechecks[key] = recheckState{was.times + 1, true}
	x.recheckQueue = append(x.recheckQueue, key)
}

// recheckState counts the checks of a key, and says whether another one is queued.
type recheckState struct {
	times  int
	queued bool
}

// settle checks the queued values until nothing changes.
func (x *exec) settle() {
	for progress := true; progress && !x.abort; {
		progress = false
		var waiting []string // still blocked
		for len(x.recheckQueue) > 0 && !x.abort {
			key := x.recheckQueue[0]
			x.recheckQueue = x.recheckQueue[1:]
			x.rechecks[key] = recheckState{times: x.rechecks[key].times}
			n := x.get(key)
			switch {
			case n == nil:
			case n.info() == nil || n.info().blockedBy == "" || n.info().seq != x.seq:
				_ = x.updateDependent(key, n.have == nil)
			case x.stillBlocks(n.info().blockedBy, n):
				ring := x.blockingCycle(n)
				if ring == nil {
					waiting = append(waiting, key)
					continue
				}
				progress = true
				x.resumeAll(ring)
			default:
				progress = true
				x.resume(n)
			}
		}
		x.recheckQueue = append(x.recheckQueue, waiting...)
		progress = progress || slices.ContainsFunc(waiting, x.isUnblocked)
	}
}

// isUnblocked reports whether the operation of the value was blocked and is not any longer.
func (v *view) isUnblocked(key string) bool {
	n := v.get(key)
	return n != nil && n.info() != nil && n.info().blockedBy != "" && n.info().seq == v.seq && !v.stillBlocks(n.info().blockedBy, n)
}

// stillBlocks reports whether the value with the key still blocks the operation of n, or another value
// would block a re-creation.
func (v *view) stillBlocks(key string, n *node) bool {
	d := v.get(key)
	return d != nil && d.have != nil && hasFailed(d) && (d.base() == n.key || v.reliesOn(d, n)) ||
		n.info().recreate && v.deletionWouldFail(n)
}

// deletionWouldFail reports whether deleting n requires a deletion that failed in this transaction. Repeating a re-creation would then delete and restore the same values forever.
func (v *view) deletionWouldFail(n *node) bool {
	going := map[string]bool{n.key: true}
	stays := func(t *node) bool { return t.have != nil && !going[t.key] }
	for queue := []*node{n}; len(queue) > 0; queue = queue[1:] {
		for _, key := range append(v.g.Needers(nil, queue[0].key), queue[0].derived()...) {
			d := v.get(key)
			if d == nil || d.have == nil || d.is(fromSB) || going[key] {
				continue
			}
			lost := func(dep Dependency) bool { return !v.satisfied(&dep, stays) }
			if !going[d.base()] && !slices.ContainsFunc(d.deps, lost) {
				continue
			}
			if v.failedInTxn(d) && d.lastOperation() == pb.TxnOperation_DELETE && d.info().blockedBy == "" {
				return true
			}
			going[key] = true
			queue = append(queue, d)
		}
	}
	return false
}

// blockingCycle returns the values that block n and each other, starting with n, or nil.
func (v *view) blockingCycle(n *node) []*node {
	ring := []*node{n}
	for {
		next := v.get(ring[len(ring)-1].info().blockedBy)
		switch {
		case next == n:
			return ring
		case next == nil || next.info() == nil || next.info().blockedBy == "" || next.info().seq != v.seq || slices.Contains(ring, next):
			return nil
		}
		ring = append(ring, next)
	}
}

// resumeAll repeats the operations of values that block each other: as members of a cycle, they are
// deleted together.
func (x *exec) resumeAll(ring []*node) {
	for i, n := range ring {
		ring[i] = x.mutable(n)
		x.withdrawFailure(ring[i])
	}
	for _, n := range ring {
		if n = x.get(n.key); n != nil && hasFailed(n) && n.info() == nil {
			x.resume(n)
		}
	}
}

// withdrawFailure removes the failure of the value from the result of the transaction.
func (x *exec) withdrawFailure(n *node) {
	forgiven := func(e *KeyError) bool { return e.Key == n.key && e.Err == n.info().err }
	for _, e := range x.errs[:x.forwardErrs] {
		if forgiven(e) {
			x.forwardErrs--
		}
	}
	x.errs = slices.DeleteFunc(x.errs, forgiven)
	n.setInfo(nil)
}

// resume repeats the operation of a value that was blocked.
func (x *exec) resume(n *node) {
	n = x.mutable(n)
	p := priorOf(n)
	if n.info() != nil {
		x.withdrawFailure(n)
	}
	switch {
	case n.want == nil:
		_ = x.delete(n, p, removing)
	case n.is(invalid) && n.have != nil:
		x.inProgress.set(n.key, operating)
		_ = x.deleteExisting(n, p, postponing)
		x.inProgress.delete(n.key)
	default:
		_ = x.reconcile(n, p)
	}
}
