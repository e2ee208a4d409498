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
		if n := x.get(dep); n != nil && n.State() == pb.ValueState_PENDING && n.base == "" && n.desc != nil && n.desc.createBatch != nil &&
			x.about[dep] != upcoming && len(x.unmet(n)) == 0 {
			p := wasOf(n)
			creates.create(x.mut(n), p)
			continue
		}
		creates.flush()
		if err := x.updateDependent(dep, x.isAvailable(key)); err != nil {
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

func (x *exec) isAvailable(key string) bool {
	n := x.get(key)
	return n != nil && n.available()
}

// updateDependent re-examines one value, one of whose dependencies has
// changed; gained tells that it was not for the worse. It returns errors only of
// values that this transaction is about.
func (x *exec) updateDependent(key string, gained bool) error {
	n := x.get(key)
	if n == nil || n.is(fromSB|leaving) {
		return nil
	}
	if n.want == nil {
		// Its deletion was stopped: it goes before what it needs does.
		if gained || n.have == nil || n.State() != pb.ValueState_CONFIGURED || len(x.missing(n)) == 0 {
			return nil
		}
		p := wasOf(n)
		return x.inherit(n, x.delete(x.mut(n), p, removing))
	}
	if _, busy := x.branch[key]; busy {
		return nil
	}
	if x.failedNow(n) {
		return x.inherit(n, n.info.err)
	}
	if n.have != nil && !n.is(broken) {
		if gained && len(x.unmet(n)) == 0 || !gained && x.mayStay(n) {
			return nil
		}
		p := wasOf(n)
		x.branch[key] = struct{}{}
		defer delete(x.branch, key)
		return x.inherit(n, x.postpone(x.mut(n), p, nil))
	}
	if x.about[n.baseKey()] == upcoming {
		return nil // its turn comes, with another value perhaps
	}
	switch n.State() {
	case pb.ValueState_INVALID, pb.ValueState_UNIMPLEMENTED:
		return nil
	case pb.ValueState_PENDING:
		if unmet := x.unmet(n); len(unmet) > 0 {
			if !slices.Equal(unmet, n.details()) {
				x.mut(n).info = &nodeInfo{details: unmet, derives: n.info.derives}
			}
			return nil
		}
	}
	if n.base != "" {
		if base := x.get(n.base); base == nil || base.have == nil || base.is(leaving) {
			return nil
		}
	}
	p := wasOf(n)
	return x.inherit(n, x.reconcile(x.mut(n), p))
}

// inherit decides if the failure of n also stops what caused it: only if the
// transaction is about n.
func (x *exec) inherit(n *node, err error) error {
	if err == nil || x.abort {
		return err
	}
	if x.about[n.baseKey()] != applied {
		return nil
	}
	return err
}
