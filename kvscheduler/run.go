package kvscheduler

import (
	"slices"
	"sort"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// runner executes a transaction, by its type.
type runner struct{ *exec }

// run executes the transaction up to and including its last operation.
func (r runner) run() {
	switch r.job.typ {
	case SBNotification:
		r.runNotification()
	case RetryFailedOps:
		r.retried = r.job.retryValues(&r.view)
		r.readUnknown(r.retried)
		r.applyAll(r.retried)
	case RetryUnimplOps:
		r.retried = r.newlyImplemented()
		r.applyAll(r.retried)
	default:
		switch r.job.opts.resync {
		case NotResync:
			r.applyAll(r.job.values)
		case DownstreamResync:
			r.runDownstream()
		default:
			r.runFull(r.job.opts.resync == FullResync)
		}
	}
	r.settle()
	if !r.abort {
		r.commitAll()
		r.readBackAll()
	}
	if r.abort {
		back := reversal(r)
		back.revert()
		r.commitAll()
		r.readBackAll()
		back.reportNotReverted()
	}
	r.dropRemoved()
}

// readBackAll reads failed values from the southbound and executes the operations that the result
// requires, until no new operation fails or a failure aborts the transaction.
func (r runner) readBackAll() {
	rounds := 16 // forward, a failed operation is not repeated
	if r.reverting {
		rounds = 2 // a failed undo is repeated
	}
	for range rounds {
		r.readBackFailed(true)
		if r.settle(); r.abort {
			return
		}
		if more := r.commitAll(); r.abort {
			return
		} else if !more && len(r.toReadBack) == 0 {
			break
		}
	}
	// Values that keep failing stay failed, and no value relies on them.
	for round := 0; round < 4 && (r.commitAll() || len(r.toReadBack) > 0); round++ {
		r.readBackFailed(false)
		r.reread.x = r.exec
		r.reread.deleteNeedersOfLost()
		if round < 2 {
			r.settle()
		}
		if r.abort {
			return
		}
	}
	r.commitAll()
}

// runFull replaces the intent of the northbound by the values of the transaction.
func (r runner) runFull(read bool) {
	fresh := refresh{x: r.exec, requested: r.job.values}
	if read {
		fresh.readAll()
		fresh.deleteNeedersOfLost()
	}
	values := r.job.values
	var all []KeyValue // the values, and deletions of all other requested values
	r.g.Ascend("", func(key string, n *node) bool {
		for len(values) > 0 && values[0].Key < key {
			all = append(all, values[0])
			values = values[1:]
		}
		if len(values) > 0 && values[0].Key == key {
			if !r.unchanged(n, values[0].Value) {
				all = append(all, values[0])
			}
			values = values[1:]
		} else if n.base() == "" && !n.is(fromSB) {
			all = append(all, KeyValue{Key: key})
		}
		return true
	})
	r.applyAll(append(all, values...))
	fresh.createNeedersOfGained()
}

// runDownstream reads all values, or the given keys, and repairs the differences from the intent.
func (r runner) runDownstream() {
	fresh := refresh{x: r.exec}
	var values []KeyValue
	intent := func(n *node) {
		if n.base() == "" && !n.is(fromSB) && !r.unchanged(n, n.want) {
			values = append(values, KeyValue{Key: n.key, Value: n.want})
		}
	}
	if keys := r.job.opts.keys; keys != nil {
		keys = r.baseKeys(keys)
		fresh.readKeys(slices.Clone(keys))
		fresh.deleteNeedersOfLost()
		for _, key := range keys {
			if n := r.get(key); n != nil {
				intent(n)
			}
		}
	} else {
		fresh.readAll()
		fresh.deleteNeedersOfLost()
		r.g.Ascend("", func(_ string, n *node) bool { intent(n); return true })
	}
	r.applyAll(values)
	fresh.createNeedersOfGained()
}

// baseKeys returns the base keys of the given keys, sorted and without duplicates.
func (v *view) baseKeys(keys []string) []string {
	base := make([]string, 0, len(keys))
	for _, key := range keys {
		if n := v.get(key); n != nil {
			key = n.baseKey()
		}
		base = append(base, key)
	}
	slices.Sort(base)
	return slices.Compact(base)
}

// unchanged reports whether the value is already as wanted.
func (x *exec) unchanged(n *node, want proto.Message) bool {
	if want == nil || n.want == nil || n.is(fromSB|drifted|unknown|broken) || !stable(n) {
		return false
	}
	if !x.equal(n.want, want) {
		return false
	}
	for _, key := range n.derived() {
		if d := x.get(key); d == nil || d.want == nil || d.is(drifted|unknown|broken) || !stable(d) {
			return false
		}
	}
	return x.job.typ != NBTransaction || x.job.opts.retry == nil && n.retry() == nil ||
		x.job.opts.resync == DownstreamResync && x.job.opts.retry == nil ||
		x.job.opts.retry != nil && n.retry() != nil && *x.job.opts.retry == *n.retry()
}

func stable(n *node) bool {
	switch n.State() {
	case pb.ValueState_CONFIGURED:
		return true
	case pb.ValueState_PENDING:
		return n.have == nil
	case pb.ValueState_INVALID:
		return true
	}
	return false
}

// applyAll applies the values, which are sorted by key: deletions, then re-creations, then updates that
// release something, then creations, then other updates.
func (r runner) applyAll(values []KeyValue) {
	if len(values) == 1 {
		if n := r.get(values[0].Key); n == nil || !r.unchanged(n, values[0].Value) {
			_ = r.apply(n, values[0].Key, values[0].Value)
		}
		return
	}
	const (
		deletes = iota
		recreates
		releases
		creates
		updates
		groups
		nothing
	)
	group := make([]uint8, len(values))
	for i, kv := range values {
		n := r.get(kv.Key)
		switch {
		case kv.Value == nil:
			group[i] = deletes
		case n == nil || n.have == nil && !r.unchanged(n, kv.Value):
			group[i] = creates
		case r.unchanged(n, kv.Value):
			group[i] = nothing
		default:
			group[i] = updates
			if !n.is(fromSB) {
				if eq, err := n.desc.equivalent(kv.Key, n.have, kv.Value, r.equal); err == nil && !eq {
					if re, err := n.desc.recreate(kv.Key, n.have, kv.Value, n.meta()); err == nil && re {
						group[i] = recreates
					} else if err == nil && n.desc.releases(kv.Key, n.have, kv.Value) {
						group[i] = releases
					}
				}
			}
		}
	}
	concerned := 0
	for _, g := range group {
		if g != nothing {
			concerned++
		}
	}
	// Usually, neither has to grow again.
	r.scope.positions.grow(concerned)
	r.changes = slices.Grow(r.changes, concerned)
	number := 0
	for g := uint8(0); g < groups; g++ {
		for i, kv := range values {
			if group[i] == g {
				number++
				r.scope.expect(kv.Key, number)
			}
		}
	}
	for g := uint8(0); g < groups; g++ {
		together := batch{x: r.exec, op: pb.TxnOperation_CREATE}
		if g == deletes {
			together.op = pb.TxnOperation_DELETE
		}
		for i, kv := range values {
			if group[i] != g {
				continue
			}
			if r.abort {
				return
			}
			together.prepareFor(kv.Key)
			r.scope.reached++
			n, p, _ := r.prepare(r.get(kv.Key), kv.Key, kv.Value) // failures are in x.errs
			switch {
			case n == nil:
			case g == deletes:
				together.delete(n, p)
			case g == creates:
				together.create(n, p)
			default:
				_ = r.reconcile(n, p)
			}
		}
		together.flush()
	}
}

func (r runner) runNotification() {
	if r.job.fetch != nil {
		r.job.fetchNotifications(r.log)
	}
	for _, nf := range r.job.notifications {
		r.scope.apply(nf.Key)
		n := r.get(nf.Key)
		if n != nil && !n.is(fromSB) || n != nil && n.base() != "" {
			r.log.Debug("notification ignored: the value is requested", "key", nf.Key)
			continue
		}
		if nf.Value == nil {
			if n != nil {
				p := priorOf(n)
				n = r.mutable(n)
				n.want = nil
				_ = r.delete(n, p, removing)
			}
			continue
		}
		if n == nil {
			n = r.add(nf.Key)
			n.desc = r.reg.find(nf.Key)
			n.set(fromSB)
		}
		sameMetadata := n.meta() == nil && nf.Metadata == nil || n.desc != nil && n.desc.sameMetadata(n.meta(), nf.Metadata)
		if sameMetadata && n.have != nil && proto.Equal(n.have, nf.Value) {
			continue
		}
		p := priorOf(n)
		n = r.mutable(n)
		n.want = nf.Value
		n.setMeta(nf.Metadata)
		_ = r.reconcile(n, p)
	}
}

// newlyImplemented returns the values that waited for the new descriptor.
func (v *view) newlyImplemented() []KeyValue {
	var values []KeyValue
	h := v.job.unimplemented
	v.g.Ascend(h.keys.Prefix, func(key string, n *node) bool {
		if n.desc == nil && n.base() == "" && n.want != nil && !n.is(fromSB) && h.owns(key) {
			values = append(values, KeyValue{Key: key, Value: n.want})
		}
		return true
	})
	return values
}

// retryValues returns the values that still wait for this retry.
func (j *job) retryValues(v *view) []KeyValue {
	waiting := func(n *node) bool {
		return n.State() == pb.ValueState_RETRYING && n.info() != nil && n.info().seq == j.retryOf && n.info().attempt == j.attempt
	}
	var values []KeyValue
	for key := range j.retryKeys {
		n := v.get(key)
		if n == nil {
			continue
		}
		retry := waiting(n)
		for _, d := range n.derived() {
			if dn := v.get(d); dn != nil && waiting(dn) {
				retry = true
			}
		}
		if retry {
			values = append(values, KeyValue{Key: key, Value: n.want})
		}
	}
	sort.Slice(values, func(a, b int) bool { return values[a].Key < values[b].Key })
	return values
}

func (j *job) isRetryOf(baseKey string) bool {
	if j.typ != RetryFailedOps {
		return false
	}
	_, ok := j.retryKeys[baseKey]
	return ok
}
