package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// largestBatch is the maximum number of operations per call.
const largestBatch = 512

// batch collects independent operations of one kind and one descriptor for a single call of the
// descriptor. No other operation may run before flush has executed the collected ones.
type batch struct {
	x     *exec
	op    pb.TxnOperation
	h     *handler
	items []batchItem
	errs  error // failures of flushed items that propagate to the caller
}

type batchItem struct {
	n       *node
	p       prior
	derived []KeyValue
}

// prepareFor flushes the batch if it cannot take the key. Call it before the key's value is
// prepared: the collected operations must not see the future state of the value.
func (b *batch) prepareFor(key string) {
	if len(b.items) == 0 {
		return
	}
	h := b.x.reg.find(key)
	if b.h != h || len(b.items) >= largestBatch {
		b.flush()
	}
}

// create adds the creation of a wanted value, or flushes the batch and executes the creation alone.
func (b *batch) create(n *node, p prior) {
	x := b.x
	if n.desc == nil && n.base() == "" {
		n.desc = x.reg.find(n.key)
	}
	if b.h != n.desc {
		b.flush() // may create n, too
	}
	if n.have != nil {
		return
	}
	derived, ok := b.creatable(n)
	if !ok {
		b.flush()
		b.addErr(n, x.reconcile(n, p))
		return
	}
	b.append(n, p, derived)
}

// accepts reports whether the PENDING value may be created as part of a batch.
func (b *batch) accepts(n *node) bool {
	if n.desc == nil || n.desc.createBatch == nil || n.base() != "" || b.x.isInProgress(n.key) {
		return false
	}
	if b.h != n.desc {
		b.flush()
		n = b.x.get(n.key)
	}
	return n != nil && n.State() == pb.ValueState_PENDING && b.x.scope.get(n.key) != upcoming
}

// creatable reports whether only the call of the descriptor is missing for the value to exist. It
// returns the values to derive.
func (b *batch) creatable(n *node) ([]KeyValue, bool) {
	x, h := b.x, n.desc
	if h == nil || h.createBatch == nil || n.have != nil || n.is(unknown|fromSB|deleting) || x.unreadable[n.key] != nil || x.failedInTxn(n) || x.abort {
		return nil, false
	}
	if x.isInProgress(n.key) || h.validate(n.key, n.want) != nil {
		return nil, false
	}
	deps, derived, err := x.describe(n)
	if err != nil {
		return nil, false
	}
	x.setDeps(n, deps)
	_ = x.commitBefore(n) // a failed value does not exist and is unmet below
	if x.abort {
		return nil, false
	}
	for i := range n.deps {
		if !x.met(&n.deps[i]) {
			return nil, false
		}
	}
	return derived, true
}

// delete adds the deletion of an unwanted value, or flushes the batch and executes the deletion
// alone.
func (b *batch) delete(n *node, p prior) {
	x, h := b.x, n.desc
	if h == nil || h.deleteBatch == nil || n.have == nil || n.is(unknown|fromSB) || len(n.derived()) > 0 ||
		x.failedInTxn(n) || x.abort || x.g.HasNeeders(n.key) {
		b.flush()
		b.addErr(n, x.delete(n, p, removing))
		return
	}
	b.append(n, p, nil)
}

func (b *batch) append(n *node, p prior, derived []KeyValue) {
	if b.h != n.desc || len(b.items) >= largestBatch {
		b.flush()
	}
	b.h = n.desc
	b.items = append(b.items, batchItem{n, p, derived})
}

func (b *batch) addErr(n *node, err error) {
	if err = b.x.propagate(n, err); err != nil {
		b.errs = errors.Join(b.errs, err)
	}
}

func (b *batch) flush() {
	items := b.items
	if len(items) == 0 {
		return
	}
	b.items = nil
	x := b.x
	c := call{h: b.h, key: items[0].n.key, items: make([]item, len(items))}
	for i, it := range items {
		v := it.n.want
		if b.op == pb.TxnOperation_DELETE {
			v = it.n.have
		}
		c.items[i] = item{it.n.key, v, it.n.meta(), FromNB}
	}
	c.name, c.run = "CreateBatch", callCreateBatch
	if b.op == pb.TxnOperation_DELETE {
		c.name, c.run = "DeleteBatch", callDeleteBatch
	}
	var each time.Duration
	var all error // failure of the whole call
	before := make([]committedState, len(items))
	if x.caller != nil {
		for i, it := range items {
			if all == nil {
				all = x.commitBefore(it.n)
			}
			before[i] = x.committedStateOf(it.n)
		}
		if all == nil {
			all = x.caller.do(&c)
		}
		each = x.caller.last / time.Duration(len(items))
	} else {
		c.outErrs = make([]error, len(items))
		c.outItems = c.items
	}
	for i, it := range items {
		err := all
		if err == nil {
			err = c.outErrs[i]
		}
		if x.caller != nil {
			x.caller.last = each
			if err == nil {
				err = x.addPrepared(it.n, before[i])
			}
		}
		switch {
		case err != nil:
			b.addErr(it.n, x.markFailed(it.n, it.p, b.op, err, false))
		case b.op == pb.TxnOperation_DELETE:
			x.markDeleted(it.n, it.p, removing)
		default:
			it.n.setMeta(c.outItems[i].Metadata)
			x.markCreated(it.n, it.p, false)
		}
	}
	if b.op == pb.TxnOperation_DELETE {
		return
	}
	for _, it := range items {
		if it.n.have == nil || it.n.info() != nil {
			continue
		}
		if x.abort {
			b.errs = errAborted
			return
		}
		x.inProgress.set(it.n.key, followingUp)
		b.addErr(it.n, x.followUp(it.n, it.derived))
		x.inProgress.delete(it.n.key)
	}
}

func callCreateBatch(c *call) { c.outItems, c.outErrs = c.h.createBatch(c.ctx, c.items) }
func callDeleteBatch(c *call) { c.outErrs = c.h.deleteBatch(c.ctx, c.items) }

func wrapBatch[V proto.Message, M any](h *handler, d Descriptor[V, M], pack func(M) any) {
	typed := func(items []item) ([]Item[V, M], error) {
		out := make([]Item[V, M], len(items))
		for i, it := range items {
			v, err := valueOf[V](d.Name, it.Key, it.Value)
			if err != nil {
				return nil, err
			}
			out[i] = Item[V, M]{it.Key, v, metaOf[M](it.Metadata), it.Origin}
		}
		return out, nil
	}
	// checked returns one error per item even if the descriptor returned another number of them.
	checked := func(callback string, n int, errs []error) []error {
		if len(errs) == n {
			return errs
		}
		all := make([]error, n)
		if errs == nil {
			return all
		}
		for i := range all {
			all[i] = fmt.Errorf("%s of descriptor %s returned %d errors for %d values", callback, d.Name, len(errs), n)
		}
		return all
	}
	if d.CreateBatch != nil {
		h.createBatch = func(ctx context.Context, items []item) ([]item, []error) {
			values, err := typed(items)
			if err != nil {
				return items, checked("CreateBatch", len(items), []error{err, err})
			}
			metas, errs := d.CreateBatch(ctx, values)
			errs = checked("CreateBatch", len(items), errs)
			out := make([]item, len(items))
			for i := range out {
				if i < len(metas) {
					out[i].Metadata = pack(metas[i])
				} else if h.metadata != nil && errs[i] == nil {
					errs[i] = fmt.Errorf("CreateBatch of descriptor %s returned metadata of %d for %d values", d.Name, len(metas), len(items))
				}
			}
			return out, errs
		}
	}
	if d.DeleteBatch != nil {
		h.deleteBatch = func(ctx context.Context, items []item) []error {
			values, err := typed(items)
			if err != nil {
				return checked("DeleteBatch", len(items), []error{err, err})
			}
			return checked("DeleteBatch", len(items), d.DeleteBatch(ctx, values))
		}
	}
}
