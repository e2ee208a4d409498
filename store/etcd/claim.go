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
	// held says that this claim has had the key: from then on no other holder counts as its
	// predecessor.
	held bool
}

// NewClaim returns a claim of the key, which does nothing yet. value tells others who holds the
// key. mine reports whether a value found there is of a predecessor of the same holder, from which
// the key is taken over at once. ttl is how long the key outlives its holder. A claim is for one
// goroutine.
func (s *Store) NewClaim(key string, value []byte, mine func(value []byte) bool, ttl time.Duration) *Claim {
	return &Claim{store: s, key: key, value: value, mine: mine, ttl: ttl}
}

// Hold takes the key, or keeps it; it is to be called several times in each TTL. If
// another one holds the key, its value is returned. The key is taken when it is not
// there, as when the lease of the other one has ended.
func (c *Claim) Hold(ctx context.Context) (other []byte, err error) {
	for taken := false; !taken && err == nil; {
		if err = c.renew(ctx); err != nil {
			break
		}
		var kv *mvccpb.KeyValue
		if kv, err = c.get(ctx); err != nil {
			break
		}
		switch {
		case kv != nil && c.lease != 0 && kv.Lease == int64(c.lease):
			taken = true
		case kv != nil && !c.isMine(kv):
			return kv.Value, nil
		default:
			taken, err = c.take(ctx, kv)
		}
	}
	if err != nil {
		return nil, wrap("claim "+c.key, err)
	}
	c.held = true
	return nil, nil
}

// get returns what is under the key, nil if nothing.
func (c *Claim) get(ctx context.Context) (*mvccpb.KeyValue, error) {
	ctx, cancel := c.store.callContext(ctx)
	defer cancel()
	response, err := c.store.client.Get(ctx, c.key)
	if err != nil || len(response.Kvs) == 0 {
		return nil, err
	}
	return response.Kvs[0], nil
}

// take puts the key, if it is still as it was found; nil: not there.
func (c *Claim) take(ctx context.Context, found *mvccpb.KeyValue) (taken bool, err error) {
	if err := c.grant(ctx); err != nil {
		return false, err
	}
	unchanged := clientv3.Compare(clientv3.CreateRevision(c.key), "=", 0)
	if found != nil {
		unchanged = clientv3.Compare(clientv3.ModRevision(c.key), "=", found.ModRevision)
	}
	ctx, cancel := c.store.callContext(ctx)
	defer cancel()
	response, err := c.store.client.Txn(ctx).If(unchanged).
		Then(clientv3.OpPut(c.key, string(c.value), clientv3.WithLease(c.lease))).Commit()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		c.lease = 0
		return false, nil
	}
	return err == nil && response.Succeeded, err
}

// grant makes a lease, if there is none: none is made for a key that is another one's.
func (c *Claim) grant(ctx context.Context) error {
	if c.lease != 0 {
		return nil
	}
	ctx, cancel := c.store.callContext(ctx)
	defer cancel()
	granted, err := c.store.client.Grant(ctx, int64(c.ttl/time.Second))
	if err != nil {
		return err
	}
	c.lease = granted.ID
	return nil
}

// isMine: while this claim lives, its own writes are recognised by their value, should the answer
// to one have been lost; others of its holder, by what mine says. A key without a lease is no
// claim, and would never expire.
func (c *Claim) isMine(kv *mvccpb.KeyValue) bool {
	return kv.Lease == 0 || string(kv.Value) == string(c.value) || !c.held && c.mine(kv.Value)
}

// renew renews the lease. One that has ended is forgotten.
func (c *Claim) renew(ctx context.Context) error {
	if c.lease == 0 {
		return nil
	}
	ctx, cancel := c.store.callContext(ctx)
	defer cancel()
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
