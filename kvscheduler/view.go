package kvscheduler

import (
	"slices"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/graph"
)

// view is the graph of values as a transaction, or a reader, sees it. A transaction changes its own
// versions of the nodes. ready.go and cycle.go decide whether dependencies are met.
type view struct {
	reg *registry
	g   *graph.Graph[*node]
	*keySets
	// The fields below are for transactions only.
	epoch     uint64
	seq       uint64
	job       *job
	reverting bool
	changes   []change // in the order of the first change
}

// get returns the node or nil. The node is immutable: see mutable.
func (v *view) get(key string) *node {
	n, _ := v.g.Get(key)
	return n
}

// mutable returns the version of the node that this transaction may change.
func (v *view) mutable(n *node) *node {
	if n.epoch == v.epoch {
		return n
	}
	c := *n
	c.epoch, c.txn, c.op = v.epoch, v.seq, -1
	v.g.Set(&c)
	v.changes = append(v.changes, change{n, &c})
	return &c
}

func (v *view) add(key string) *node {
	n := &node{key: key, epoch: v.epoch, txn: v.seq, op: -1}
	v.g.Set(n)
	v.changes = append(v.changes, change{nil, n})
	return n
}

func (v *view) drop(n *node) {
	n = v.mutable(n)
	v.setDeps(n, nil)
	v.cycleCache.invalidate()
	v.g.Delete(n.key)
	n.setState(pb.ValueState_NONEXISTENT)
	n.want, n.have = nil, nil
}

// takeOwnership turns an OBTAINED value and its derived values into requested ones.
func (v *view) takeOwnership(n *node) {
	n.clear(fromSB)
	v.setDepsOfExisting(n)
	for _, key := range n.derived() {
		if d := v.get(key); d != nil && d.is(fromSB) {
			d = v.mutable(d)
			d.want = nil
			d.clear(fromSB)
			d.setState(pb.ValueState_DISCOVERED)
			v.setDepsOfExisting(d)
		}
	}
}

// setDepsOfExisting sets the dependencies of the existing version of the value.
func (v *view) setDepsOfExisting(n *node) {
	if deps, err := n.desc.dependencies(n.key, n.have); err == nil {
		v.setDeps(n, deps)
	}
}

// storeRetryPolicy stores the retry policy of the transaction in the node.
func (v *view) storeRetryPolicy(n *node) {
	if !v.setsRetryPolicy() || v.reverting {
		return
	}
	if v.job.opts.retry == nil && n.retry() != nil {
		v.stopRetries(n)
	}
	n.setRetry(v.job.opts.retry)
}

// stopRetries stops the retries of derived values: if the base value fails, they are not reached.
func (v *view) stopRetries(base *node) {
	for _, key := range base.derived() {
		if d := v.get(key); d != nil && d.State() == pb.ValueState_RETRYING {
			d = v.mutable(d)
			d.setState(pb.ValueState_FAILED)
			d.setInfo(&nodeInfo{err: d.info().err, seq: d.info().seq})
		}
	}
}

// setsRetryPolicy reports whether the values of the transaction get its retry policy, or none. Otherwise,
// they keep the policy of an earlier transaction.
func (v *view) setsRetryPolicy() bool {
	return v.job.typ == NBTransaction && (v.job.opts.retry != nil || v.job.opts.resync != DownstreamResync)
}

// failedInTxn reports whether an operation of the value failed in this transaction. Failures before
// a revert do not count in the revert. INVALID values did not fail, because nothing was tried.
func (v *view) failedInTxn(n *node) bool {
	return n.info() != nil && n.info().err != nil && n.info().seq == v.seq && !v.reverting && !n.is(invalid)
}

// addWantedDeps adds the dependencies of the wanted version to a broken value after its re-creation was
// stopped. Dependents rely on the wanted version, not on the existing one.
func (v *view) addWantedDeps(n *node, deps []Dependency) {
	if n.is(broken) {
		v.setDepsKeepingOld(n, deps, n.deps)
	}
}

// setDepsKeepingOld sets the dependencies of the wanted version, and keeps the ones of the existing one.
func (v *view) setDepsKeepingOld(n *node, deps, before []Dependency) {
	v.replaceDeps(n, slices.Concat(deps, before), len(before))
}

func (v *view) setDeps(n *node, deps []Dependency) { v.replaceDeps(n, deps, 0) }

func (v *view) replaceDeps(n *node, deps []Dependency, oldCount int) {
	if len(n.deps) == 0 && len(deps) == 0 {
		n.deps = nil
		n.setOldDepCount(0)
		return
	}
	if len(n.oldDeps()) == oldCount && sameTargets(n.deps, deps) {
		n.deps = deps
		return
	}
	n.setOldDepCount(0) // restored when deps and count match again
	v.cycleCache.invalidate()
	for i := range n.deps {
		d := &n.deps[i]
		if d.Key != "" {
			v.g.Unneed(d.Key, n.key)
		}
		for _, p := range d.AnyOf.prefixes() {
			v.g.UnneedPrefix(p, n.key)
		}
	}
	for i := range deps {
		d := &deps[i]
		if d.Key != "" {
			v.g.Need(d.Key, n.key)
		}
		for _, p := range d.AnyOf.prefixes() {
			v.g.NeedPrefix(p, n.key)
		}
	}
	n.deps = deps
	n.setOldDepCount(oldCount)
}

// retryPolicy returns the retry policy of the value, or nil. Derived values inherit the policy of their
// base value. In a revert, the policy of the transaction takes precedence.
func (v *view) retryPolicy(n *node) *Retry {
	switch v.scope.get(n.baseKey()) {
	case applied, skippedByRevert:
		if v.reverting && v.job.opts.retry != nil {
			return v.job.opts.retry
		}
	case upcoming:
		if v.setsRetryPolicy() {
			return v.job.opts.retry
		}
	}
	if n.base() != "" {
		if base := v.get(n.base()); base != nil {
			return base.retry()
		}
	}
	return n.retry()
}
