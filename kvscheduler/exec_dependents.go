package kvscheduler

import (
	"errors"
	"slices"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// updateDependents looks at all values that depend on the key, which has just
// become available or is about to be deleted.
func (x *exec) updateDependents(key string) error {
	start := len(x.scratch)
	x.scratch = x.g.Needers(x.scratch, key)
	end := len(x.scratch)
	defer func() { x.scratch = x.scratch[:start] }()
	var errs error
	creates := batch{x: x, op: pb.TxnOperation_CREATE}
	for i := start; i < end; i++ {
		dep := x.scratch[i]
		if n := x.get(dep); n != nil && creates.takes(n) && !x.waits(n) {
			p := priorOf(n)
			creates.create(x.mut(n), p)
			continue
		}
		creates.flush()
		gained := x.isAvailable(key)
		if n := x.get(dep); gained && n != nil && inTrouble(n) && !n.willNeed(key) {
			continue // what needs the key is to go
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

// willNeed reports whether the value needs the key as it is to exist.
func (n *node) willNeed(key string) bool {
	return slices.ContainsFunc(n.current(), func(d Dependency) bool { return d.matches(key) })
}

func (x *exec) isAvailable(key string) bool {
	n := x.get(key)
	return n != nil && n.available()
}

// updateDependent re-evaluates a value after a change of one of its dependencies. gained: the
// dependency became available. It returns errors only of values that this transaction is about.
func (x *exec) updateDependent(key string, gained bool) error {
	n := x.get(key)
	if n == nil || n.is(fromSB|leaving) {
		return nil
	}
	if n.want == nil {
		// Its deletion was stopped, or has yet to come: it is deleted before its dependency.
		if gained || n.have == nil || !x.lacks(n) {
			return nil
		}
		p := priorOf(n)
		return x.inherit(n, x.delete(x.mut(n), p, removing))
	}
	outer := x.branch.get(key)
	if outer == working || outer == following && gained {
		x.lookAgain(key)
		return nil
	}
	if x.failedNow(n) && (gained || n.lastOperation() == pb.TxnOperation_DELETE || x.mayStay(n)) {
		err := n.info().err
		if !gained && n.have != nil && !n.is(broken) && !x.mayStay(n) {
			x.mut(n).set(broken) // it exists although its dependencies are not met
			x.verdicts.lost()
			x.branch.set(key, working)
			_ = x.updateDependents(key) // who came back counts on it
			x.goBack(key, outer)
		}
		return x.inherit(n, err)
	}
	stays := func() bool { return gained && !x.waits(n) || !gained && x.mayStay(n) }
	if n.have != nil && !n.is(broken) && stays() {
		if gained || !x.lacks(n) {
			return nil
		}
		// It stays if others of its cycle come that failed before.
		if err := x.tryNeeded(n); !x.lacks(n) || stays() {
			return x.inherit(n, err)
		}
	}
	if n.have != nil && (!n.is(broken) || !gained && !stays()) {
		p := priorOf(n)
		x.branch.set(key, working)
		defer x.goBack(key, outer)
		return x.inherit(n, x.postpone(x.mut(n), p, nil))
	}
	if x.about.get(n.baseKey()) == upcoming {
		return nil // its turn comes, with another value perhaps
	}
	switch n.State() {
	case pb.ValueState_INVALID, pb.ValueState_UNIMPLEMENTED:
		return nil
	case pb.ValueState_PENDING:
		if unmet := x.unmet(n); len(unmet) > 0 {
			if !slices.Equal(unmet, n.details()) {
				x.mut(n).setInfo(&nodeInfo{details: unmet, derives: n.info().derives})
			}
			return nil
		}
		if !gained && !x.staysReady(n) {
			x.lookAgain(key) // something that it needs may be about to go
			return nil
		}
	}
	if n.base() != "" {
		if base := x.get(n.base()); base == nil || base.have == nil || base.is(leaving) {
			return nil
		}
	}
	p := priorOf(n)
	return x.inherit(n, x.reconcile(x.mut(n), p))
}

// inherit decides whether the failure of n also stops the operation that caused it: only if the
// transaction is about n.
func (x *exec) inherit(n *node, err error) error {
	if err == nil || x.abort {
		return err
	}
	if x.about.get(n.baseKey()) != applied {
		return nil
	}
	return err
}

// lookAgain has a value examined at the end of the transaction: the availability of its
// dependencies could not be decided, or acted upon, at the time.
func (x *exec) lookAgain(key string) {
	const enough = 4 // times: what still changes then, an operation that fails keeps changing
	was := x.again[key]
	if was.waits || was.times >= enough {
		return
	}
	x.again[key] = againTimes{was.times + 1, true}
	x.againOrder = append(x.againOrder, key)
}

// againTimes tells how often a key was looked at again, or is going to be.
type againTimes struct {
	times int
	waits bool
}

// settle re-evaluates the marked values until nothing changes any more.
func (x *exec) settle() {
	for progress := true; progress && !x.abort; {
		progress = false
		var waiting []string // something is in their way
		for len(x.againOrder) > 0 && !x.abort {
			key := x.againOrder[0]
			x.againOrder = x.againOrder[1:]
			x.again[key] = againTimes{times: x.again[key].times}
			n := x.get(key)
			switch {
			case n == nil:
			case n.info() == nil || n.info().heldBy == "" || n.info().seq != x.seq:
				_ = x.updateDependent(key, n.have == nil)
			case x.holds(n.info().heldBy, n):
				ring := x.heldByEachOther(n)
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
		x.againOrder = append(x.againOrder, waiting...)
		progress = progress || slices.ContainsFunc(waiting, x.notHeld)
	}
}

// notHeld reports whether nothing is in the way of a value any more that waited for that.
func (x *exec) notHeld(key string) bool {
	n := x.get(key)
	return n != nil && n.info() != nil && n.info().heldBy != "" && n.info().seq == x.seq && !x.holds(n.info().heldBy, n)
}

// holds reports whether the value because of which an operation of n was not begun is still
// in its way, or something would stop a re-creation again.
func (x *exec) holds(key string, n *node) bool {
	d := x.get(key)
	return d != nil && d.have != nil && inTrouble(d) && (d.base() == n.key || x.needs(d, n)) ||
		n.info().recreate && x.cannotGo(n)
}

// cannotGo reports whether n would have to take along a value whose deletion failed in this transaction. A
// re-creation is not repeated then: it would be stopped again, what it took along would come back, and it
// would begin anew.
func (x *exec) cannotGo(n *node) bool {
	going := map[string]bool{n.key: true}
	stays := func(t *node) bool { return t.have != nil && !going[t.key] }
	for queue := []*node{n}; len(queue) > 0; queue = queue[1:] {
		for _, key := range append(x.g.Needers(nil, queue[0].key), queue[0].derived()...) {
			d := x.get(key)
			if d == nil || d.have == nil || d.is(fromSB) || going[key] {
				continue
			}
			lost := func(dep Dependency) bool { return !x.satisfied(&dep, stays) }
			if !going[d.base()] && !slices.ContainsFunc(d.deps, lost) {
				continue
			}
			if x.failedNow(d) && d.lastOperation() == pb.TxnOperation_DELETE && d.info().heldBy == "" {
				return true
			}
			going[key] = true
			queue = append(queue, d)
		}
	}
	return false
}

// heldByEachOther returns the values that are in each other's way, and in that of n, which is one of
// them; nil if the last one is held up by something else.
func (x *exec) heldByEachOther(n *node) []*node {
	ring := []*node{n}
	for {
		next := x.get(ring[len(ring)-1].info().heldBy)
		switch {
		case next == n:
			return ring
		case next == nil || next.info() == nil || next.info().heldBy == "" || next.info().seq != x.seq || slices.Contains(ring, next):
			return nil
		}
		ring = append(ring, next)
	}
}

// resumeAll repeats the operations of values that are in each other's way: as members of a
// cycle, they go together.
func (x *exec) resumeAll(ring []*node) {
	for i, n := range ring {
		ring[i] = x.mut(n)
		x.forgive(ring[i])
	}
	for _, n := range ring {
		if n = x.get(n.key); n != nil && inTrouble(n) && n.info() == nil {
			x.resume(n)
		}
	}
}

// forgive takes back that an operation of the value failed.
func (x *exec) forgive(n *node) {
	forgiven := func(e *KeyError) bool { return e.Key == n.key && e.Err == n.info().err }
	for _, e := range x.errs[:x.forward] {
		if forgiven(e) {
			x.forward--
		}
	}
	x.errs = slices.DeleteFunc(x.errs, forgiven)
	n.setInfo(nil)
}

// resume repeats the operation of a value that nothing is in the way of any more.
func (x *exec) resume(n *node) {
	n = x.mut(n)
	p := priorOf(n)
	if n.info() != nil {
		x.forgive(n)
	}
	switch {
	case n.want == nil:
		_ = x.delete(n, p, removing)
	case n.is(invalid) && n.have != nil:
		x.branch.set(n.key, working)
		_ = x.deleteExisting(n, p, postponing)
		x.branch.delete(n.key)
	default:
		_ = x.reconcile(n, p)
	}
}
