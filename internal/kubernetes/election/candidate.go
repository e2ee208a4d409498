package election

import (
	"context"
	"fmt"
	"time"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// candidate is one attempt to lead. Its key lives as long as its lease. The candidate with the
// oldest key leads. The keys have the format of etcdctl elect and concurrency.Election.
type candidate struct {
	*Elector
	lease    clientv3.LeaseID
	key      string
	revision int64
}

func (c *candidate) campaign(ctx context.Context, waiting func()) error {
	if err := c.stand(ctx); err != nil {
		return fmt.Errorf("stand for election: %w", err)
	}
	told := ""
	for {
		leader, revision, err := c.leader(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("read the leader: %w", err)
		case leader == nil:
			return fmt.Errorf("key %s is gone: %w", c.key, ksr.ErrNotLeader)
		case string(leader.Key) == c.key:
			c.revision = leader.CreateRevision
			return nil
		}
		if told != string(leader.Key) {
			told = string(leader.Key)
			c.log.Info("another instance is the leader, standing by", "leader", string(leader.Value))
			waiting()
		}
		c.awaitChange(ctx, told, revision)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (c *candidate) stand(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	_, err := c.opts.Store.Client().Put(ctx, c.key, c.opts.Name, clientv3.WithLease(c.lease))
	return err
}

// leader returns the leader's key, or nil, and the revision of the read.
func (c *candidate) leader(ctx context.Context) (*mvccpb.KeyValue, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	response, err := c.opts.Store.Client().Get(ctx, c.opts.Prefix+"/", clientv3.WithFirstCreate()...)
	if err != nil {
		return nil, 0, err
	}
	if len(response.Kvs) == 0 {
		return nil, response.Header.Revision, nil
	}
	return response.Kvs[0], response.Header.Revision, nil
}

// awaitLoss returns an error once the candidate no longer leads, or nil when ctx ends. The lease
// expires if etcd is unreachable or has lost its data.
func (c *candidate) awaitLoss(ctx context.Context) error {
	for ctx.Err() == nil {
		leader, revision, err := c.leader(ctx)
		switch {
		case err != nil:
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		case leader == nil || string(leader.Key) != c.key || leader.CreateRevision != c.revision:
			return fmt.Errorf("key %s is gone: %w", c.key, ksr.ErrNotLeader)
		default:
			c.awaitChange(ctx, c.key, revision)
		}
	}
	return nil
}

// awaitChange returns when the key was deleted after the revision, when that is no longer known, or
// when ctx ends.
func (c *candidate) awaitChange(ctx context.Context, key string, revision int64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for batch := range c.opts.Store.Client().Watch(ctx, key, clientv3.WithRev(revision+1), clientv3.WithFilterPut()) {
		if len(batch.Events) > 0 || batch.Err() != nil {
			return
		}
	}
}
