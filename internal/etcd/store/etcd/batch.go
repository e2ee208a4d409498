package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/contiv/contiv/internal/etcd/store"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var _ store.Batcher = (*Store)(nil)

// Batch implements store.Batcher. Of several changes of a key, only the last one is made. etcd
// limits the number of changes by its option max-txn-ops (default 128).
func (s *Store) Batch(ctx context.Context, changes []store.Change) error {
	_, _, err := s.BatchIf(ctx, changes, Unchanged{})
	return err
}

// Unchanged is the condition that no pair with the prefix was put after Revision. Revision 0: no
// condition.
type Unchanged struct {
	Prefix   string
	Revision int64
}

// BatchIf is Batch under a condition. It returns the revision of the changes, or ok=false if the
// condition does not hold.
func (s *Store) BatchIf(ctx context.Context, changes []store.Change, condition Unchanged) (revision int64, ok bool, err error) {
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
	txn := s.client.Txn(ctx)
	if condition.Revision != 0 {
		txn = txn.If(clientv3.Compare(clientv3.ModRevision(condition.Prefix).WithPrefix(), "<", condition.Revision+1))
	}
	answer, err := txn.Then(ops...).Commit()
	if err != nil || answer.Succeeded && slices.ContainsFunc(ops, clientv3.Op.IsPut) {
		s.space.wrote(err)
	}
	if errors.Is(err, rpctypes.ErrTooManyOps) {
		err = fmt.Errorf("%w: make fewer changes at once, or start etcd with a larger --max-txn-ops", err)
	}
	if err != nil {
		return 0, false, wrap(fmt.Sprintf("make %d changes", len(changes)), err)
	}
	return answer.Header.Revision, answer.Succeeded, nil
}
