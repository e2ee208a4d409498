package ksr

import (
	"bytes"
	"context"

	"github.com/contiv/contiv/internal/etcd/store"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Limits of a transaction. By default, etcd allows 128 changes and 1.5 MiB.
const (
	maxBatch      = 128
	maxBatchBytes = 512 << 10
	maxValue      = 1 << 20
)

// batch collects changes and writes them in order in few transactions. It skips changes that the
// store already contains.
type batch struct {
	*writer
	changes []store.Change
	kinds   []*kind // of the changes; nil: not reflected
	bytes   int
}

func (b *batch) put(ctx context.Context, k *kind, key string, value []byte) error {
	old, exists := b.stored[key]
	if exists && sameValue(k, old, value) {
		b.stored[key] = value // share the memory of equal values
		return nil
	}
	return b.add(ctx, k, store.Change{KV: store.KV{Key: key, Value: value}})
}

// delete removes a stored key and, for a node, all data of the node. The node's key is removed
// last, so that an interrupted removal is repeated, but together with its IDs, because a node
// without an ID would get a new one. In that transaction, the node's key precedes its IDs, because
// an agent restores a removed ID while its node exists.
func (b *batch) delete(ctx context.Context, k *kind, key string) error {
	if _, exists := b.stored[key]; !exists {
		return nil
	}
	changes := []store.Change{{KV: store.KV{Key: key}, Deleted: true}}
	if k.kind == Node {
		ids, err := b.removeNode(ctx, nodeOfKey(key))
		if err != nil {
			b.count(k.kind, func(s *Stats) { s.DelErrors++ })
			return err
		}
		for _, id := range ids {
			changes = append(changes, store.Change{KV: store.KV{Key: id}, Deleted: true})
		}
	}
	return b.add(ctx, k, changes...)
}

// add adds changes of one transaction: a change of the kind's key and related ones.
func (b *batch) add(ctx context.Context, k *kind, changes ...store.Change) error {
	size := 0
	for _, c := range changes {
		size += len(c.Key) + len(c.Value)
	}
	if len(b.changes)+len(changes) > maxBatch || b.bytes+size > maxBatchBytes {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	for _, c := range changes {
		b.changes, b.kinds = append(b.changes, c), append(b.kinds, k)
		k = nil
	}
	b.bytes += size
	return nil
}

func (b *batch) flush(ctx context.Context) error {
	if len(b.changes) == 0 {
		return nil
	}
	ctx, cancel := b.call(ctx)
	defer cancel()
	err := store.Apply(ctx, b.store, b.changes)
	for i, c := range b.changes {
		if b.kinds[i] == nil {
			continue
		}
		_, existed := b.stored[c.Key]
		b.countWrite(b.kinds[i].kind, c.Deleted, existed, err)
	}
	if err != nil {
		return errWrite(b.changes, err)
	}
	for _, c := range b.changes {
		if c.Deleted {
			delete(b.stored, c.Key)
		} else {
			b.stored[c.Key] = c.Value
		}
		b.log.Debug("written", "key", c.Key, "deleted", c.Deleted)
	}
	b.changes, b.kinds, b.bytes = b.changes[:0], b.kinds[:0], 0
	return nil
}

func (r *Reflector) countWrite(k Kind, deleted, existed bool, err error) {
	r.count(k, func(s *Stats) {
		switch {
		case deleted && err != nil:
			s.DelErrors++
		case deleted:
			s.Deletes++
		case existed && err != nil:
			s.UpdErrors++
		case existed:
			s.Updates++
		case err != nil:
			s.AddErrors++
		default:
			s.Adds++
		}
	})
}

// sameValue ignores formatting, which may differ between versions.
func sameValue(k *kind, stored, wanted []byte) bool {
	if bytes.Equal(stored, wanted) {
		return true
	}
	a, b := k.message(), k.message()
	return protojson.Unmarshal(stored, a) == nil && protojson.Unmarshal(wanted, b) == nil && proto.Equal(a, b)
}
