package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// largestBatch bounds the operations in one call.
const largestBatch = 512

// batch collects operations of one kind and one descriptor that do not depend
// on each other, until they are handed over together. Nothing else may be
// executed while it is not empty.
type batch struct {
	x     *exec
	op    pb.TxnOperation
	h     *handler
	items []batchItem
	errs  error // of flushed items, as far as they are inherited
}

type batchItem struct {
	n       *node
	p       prior
	derived []KeyValue
}

// makeRoom executes the collected operations if the key cannot be added to them. It must be called
// before the key's value is prepared, because those operations must not rely on its future state.
func (b *batch) makeRoom(key string) {
	if len(b.items) == 0 {
		return
	}
	h := b.x.reg.find(key)
	if b.h != h || len(b.items) >= largestBatch {
		b.flush()
	}
}

// create adds the creation of a wanted value to the batch, or executes it after the collected
// operations.
func (b *batch) create(n *node, p prior) {
	x := b.x
	if n.desc == nil && n.base() == "" {
		n.desc = x.reg.find(n.key)
	}
	if b.h != n.desc {
		b.flush() // which may create this one, too
	}
	if n.have != nil {
		return
	}
	derived, ok := b.creatable(n)
	if !ok {
		b.flush()
		b.add(n, x.reconcile(n, p))
		return
	}
	b.append(n, p, derived)
}

// takes reports whether a PENDING value may be created together with others. One that is being worked on is looked at
// again later.
func (b *batch) takes(n *node) bool {
	if n.desc == nil || n.desc.createBatch == nil || n.base() != "" || b.x.isBusy(n.key) {
		return false
	}
	if b.h != n.desc {
		b.flush()
		n = b.x.get(n.key)
	}
	return n != nil && n.State() == pb.ValueState_PENDING && b.x.about.get(n.key) != upcoming
}

// creatable reports whether nothing but the call of the descriptor stands between the
// value and its existence.
func (b *batch) creatable(n *node) ([]KeyValue, bool) {
	x, h := b.x, n.desc
	if h == nil || h.createBatch == nil || n.have != nil || n.is(unknown|fromSB|leaving) || x.unread[n.key] != nil || x.failedNow(n) || x.abort {
		return nil, false
	}
	if x.isBusy(n.key) || h.validate(n.key, n.want) != nil {
		return nil, false
	}
	deps, derived, err := x.describe(n)
	if err != nil {
		return nil, false
	}
	x.setDeps(n, deps)
	_ = x.inEffect(n) // what is not does not exist
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

// delete adds the deletion of an unwanted value to the batch, or executes it after the collected
// operations.
func (b *batch) delete(n *node, p prior) {
	x, h := b.x, n.desc
	if h == nil || h.deleteBatch == nil || n.have == nil || n.is(unknown|fromSB) || len(n.derived()) > 0 ||
		x.failedNow(n) || x.abort || x.g.HasNeeders(n.key) {
		b.flush()
		b.add(n, x.delete(n, p, removing))
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

func (b *batch) add(n *node, err error) {
	if err = b.x.inherit(n, err); err != nil {
		b.errs = errors.Join(b.errs, err)
	}
}

// flush executes the collected operations.
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
	var all error // all of them failed
	before := make([]stagedOp, len(items))
	if x.caller != nil {
		for i, it := range items {
			if all == nil {
				all = x.inEffect(it.n)
			}
			before[i] = x.beforeStaged(it.n)
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
				err = x.prepared(it.n, before[i])
			}
		}
		switch {
		case err != nil:
			b.add(it.n, x.fail(it.n, it.p, b.op, err, false))
		case b.op == pb.TxnOperation_DELETE:
			x.deleted(it.n, it.p, removing)
		default:
			it.n.setMeta(c.outItems[i].Metadata)
			x.created(it.n, it.p, false)
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
		x.branch.set(it.n.key, following)
		b.add(it.n, x.follow(it.n, it.derived))
		x.branch.delete(it.n.key)
	}
}

func callCreateBatch(c *call) { c.outItems, c.outErrs = c.h.createBatch(c.ctx, c.items) }
func callDeleteBatch(c *call) { c.outErrs = c.h.deleteBatch(c.ctx, c.items) }

// wrapBatch wraps the callbacks for batches.
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
	// checked returns one error per item, whatever the descriptor returned.
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
