package election

import (
	"context"
	"fmt"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/kubernetes/ksr"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Store writes to etcd in batches and, during a term of leadership, only while it lasts. It reads
// as etcd.Store. The caller owns the etcd.Store, so Close does nothing.
type Store struct {
	*etcd.Store
	// guard must hold for each write, if not empty.
	guard []clientv3.Cmp
}

var _ store.Batcher = (*Store)(nil)

// Alone returns the store of a single instance.
func Alone(s *etcd.Store) *Store { return &Store{Store: s} }

// Close does nothing.
func (s *Store) Close() error { return nil }

// Put sets the value of a key.
func (s *Store) Put(ctx context.Context, key string, value []byte) error {
	return s.write(ctx, "put "+key, clientv3.OpPut(key, string(value)))
}

// Delete succeeds for a missing key.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.write(ctx, "delete "+key, clientv3.OpDelete(key))
}

// DeletePrefix deletes all keys with the prefix in one transaction.
func (s *Store) DeletePrefix(ctx context.Context, prefix string) error {
	return s.write(ctx, "delete all of "+prefix, clientv3.OpDelete(prefix, clientv3.WithPrefix()))
}

// Batch makes the changes in one transaction. etcd rejects two changes of a key and more than
// max-txn-ops (default 128) changes.
func (s *Store) Batch(ctx context.Context, changes []store.Change) error {
	ops := make([]clientv3.Op, len(changes))
	for i, c := range changes {
		if c.Deleted {
			ops[i] = clientv3.OpDelete(c.Key)
		} else {
			ops[i] = clientv3.OpPut(c.Key, string(c.Value))
		}
	}
	return s.write(ctx, fmt.Sprintf("make %d changes", len(changes)), ops...)
}

// PutIfNotExists atomically puts the value unless the key exists.
func (s *Store) PutIfNotExists(ctx context.Context, key string, value []byte) (bool, error) {
	return s.writeIf(ctx, "put "+key, clientv3.Compare(clientv3.CreateRevision(key), "=", 0), clientv3.OpPut(key, string(value)))
}

// CompareAndSwap atomically replaces the value if it equals old.
func (s *Store) CompareAndSwap(ctx context.Context, key string, old, new []byte) (bool, error) {
	return s.writeIf(ctx, "change "+key, clientv3.Compare(clientv3.Value(key), "=", string(old)), clientv3.OpPut(key, string(new)))
}

// CompareAndDelete atomically deletes the key if its value equals old.
func (s *Store) CompareAndDelete(ctx context.Context, key string, old []byte) (bool, error) {
	return s.writeIf(ctx, "delete "+key, clientv3.Compare(clientv3.Value(key), "=", string(old)), clientv3.OpDelete(key))
}

func (s *Store) write(ctx context.Context, what string, ops ...clientv3.Op) error {
	response, err := s.Client().Txn(ctx).If(s.guard...).Then(ops...).Commit()
	switch {
	case err != nil:
		return fmt.Errorf("etcd: %s: %w", what, err)
	case !response.Succeeded:
		return fmt.Errorf("etcd: %s: %w", what, ksr.ErrNotLeader)
	}
	return nil
}

func (s *Store) writeIf(ctx context.Context, what string, condition clientv3.Cmp, op clientv3.Op) (bool, error) {
	inner := clientv3.OpTxn([]clientv3.Cmp{condition}, []clientv3.Op{op}, nil)
	response, err := s.Client().Txn(ctx).If(s.guard...).Then(inner).Commit()
	switch {
	case err != nil:
		return false, fmt.Errorf("etcd: %s: %w", what, err)
	case !response.Succeeded:
		return false, fmt.Errorf("etcd: %s: %w", what, ksr.ErrNotLeader)
	}
	return response.Responses[0].GetResponseTxn().Succeeded, nil
}
