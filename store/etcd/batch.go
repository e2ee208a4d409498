package etcd

import (
	"context"
	"fmt"

	"github.com/contiv/contiv/store"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var _ store.Batcher = (*Store)(nil)

// Batch makes the changes in one transaction; of several of the same key, the last
// one. etcd refuses more of them than its option max-txn-ops says (128 unless changed).
func (s *Store) Batch(ctx context.Context, changes []store.Change) error {
	last := make(map[string]int, len(changes))
	for i, c := range changes {
		last[c.Key] = i
	}
	ops := make([]clientv3.Op, 0, len(last))
	for i, c := range changes {
		switch {
		case last[c.Key] != i:
		case c.Deleted:
			ops = append(ops, clientv3.OpDelete(c.Key))
		default:
			ops = append(ops, clientv3.OpPut(c.Key, string(c.Value)))
		}
	}
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	_, err := s.client.Txn(ctx).Then(ops...).Commit()
	return wrap(fmt.Sprintf("make %d changes", len(changes)), err)
}
