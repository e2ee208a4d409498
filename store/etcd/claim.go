package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Claim is a key that is there as long as its holder lives: it belongs to a lease,
// which Hold renews.
type Claim struct {
	store *Store
	key   string
	value []byte
	mine  func(value []byte) bool
	ttl   time.Duration

	lease clientv3.LeaseID // 0: none
	// held says that this claim has had the key: from then on nobody is taken for an
	// earlier life of its holder.
	held bool
}

// NewClaim returns a claim of the key, which does nothing yet. value tells others who
// holds the key. mine tells whether a value that is found there is that of an earlier life of
// the same holder, from which the key is taken over at once. ttl is how long the key
// outlives its holder. A claim is for one goroutine.
func (s *Store) NewClaim(key string, value []byte, mine func(value []byte) bool, ttl time.Duration) *Claim {
	return &Claim{store: s, key: key, value: value, mine: mine, ttl: ttl}
}

// Hold takes the key, or keeps it; it is to be called several times in each TTL. If
// another one holds the key, its value is returned. The key is taken when it is not
// there, as when the lease of the other one has ended.
func (c *Claim) Hold(ctx context.Context) (other []byte, err error) {
	ctx, cancel := c.store.callContext(ctx)
	defer cancel()
	other, err = c.hold(ctx)
	if err != nil {
		return nil, wrap("claim "+c.key, err)
	}
	return other, nil
}

// hold: a lease that is to hold nothing is not made.
func (c *Claim) hold(ctx context.Context) (other []byte, err error) {
	if err := c.renew(ctx); err != nil {
		return nil, err
	}
	for {
		response, err := c.store.client.Get(ctx, c.key)
		if err != nil {
			return nil, err
		}
		unchanged := clientv3.Compare(clientv3.CreateRevision(c.key), "=", 0)
		if len(response.Kvs) > 0 {
			kv := response.Kvs[0]
			if c.lease != 0 && kv.Lease == int64(c.lease) {
				c.held = true
				return nil, nil
			}
			if !c.isMine(kv) {
				return kv.Value, nil
			}
			unchanged = clientv3.Compare(clientv3.ModRevision(c.key), "=", kv.ModRevision)
		}
		if c.lease == 0 {
			granted, err := c.store.client.Grant(ctx, int64(c.ttl/time.Second))
			if err != nil {
				return nil, err
			}
			c.lease = granted.ID
		}
		put := clientv3.OpPut(c.key, string(c.value), clientv3.WithLease(c.lease))
		if _, err := c.store.client.Txn(ctx).If(unchanged).Then(put).Commit(); errors.Is(err, rpctypes.ErrLeaseNotFound) {
			c.lease = 0
		} else if err != nil {
			return nil, err
		}
	}
}

// isMine: while this claim lives, its own writes are recognised by their value, should
// the answer to one have been lost; others of its holder, by what mine says.
func (c *Claim) isMine(kv *mvccpb.KeyValue) bool {
	return string(kv.Value) == string(c.value) || !c.held && c.mine(kv.Value)
}

// renew renews the lease. One that has ended is forgotten.
func (c *Claim) renew(ctx context.Context) error {
	if c.lease == 0 {
		return nil
	}
	_, err := c.store.client.KeepAliveOnce(ctx, c.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		c.lease = 0
		return nil
	}
	return err
}

// Release gives the key up, if it is held.
func (c *Claim) Release(ctx context.Context) error {
	if c.lease == 0 {
		return nil
	}
	ctx, cancel := c.store.callContext(ctx)
	defer cancel()
	if _, err := c.store.client.Revoke(ctx, c.lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("release: %w", wrap("claim "+c.key, err))
	}
	c.lease = 0
	return nil
}
