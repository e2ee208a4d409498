package etcd

import (
	"context"
	"fmt"
	"slices"

	"github.com/contiv/contiv/internal/etcd/store"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var _ store.Lister = (*Store)(nil)

// listsAtOnce is the number of prefixes per transaction. etcd's default limit is 128.
const listsAtOnce = 100

// ListEach implements store.Lister. It is for few keys per prefix, since they come in one answer.
func (s *Store) ListEach(ctx context.Context, prefixes []string) ([][]store.KV, error) {
	lists := make([][]store.KV, 0, len(prefixes))
	for some := range slices.Chunk(prefixes, listsAtOnce) {
		ops := make([]clientv3.Op, len(some))
		for i, prefix := range some {
			ops[i] = clientv3.OpGet(prefix, clientv3.WithPrefix())
		}
		answer, err := s.commit(ctx, ops)
		if err != nil {
			return nil, wrap(fmt.Sprintf("list %s and %d more", some[0], len(some)-1), err)
		}
		for _, response := range answer.Responses {
			var list []store.KV
			for _, kv := range response.GetResponseRange().GetKvs() {
				list = append(list, store.KV{Key: string(kv.Key), Value: kv.Value, Revision: kv.ModRevision})
			}
			lists = append(lists, list)
		}
	}
	return lists, nil
}

func (s *Store) commit(ctx context.Context, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	return s.client.Txn(ctx).Then(ops...).Commit()
}
