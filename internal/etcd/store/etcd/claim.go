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

// Claim is a key that exists while its holder lives: it has a lease, which Hold renews.
type Claim struct {
	store *Store
	key   string
	value []byte
	mine  func(value []byte) bool
	ttl   time.Duration

	lease clientv3.LeaseID // 0: none
	// held: this claim has held the key, so keys of other holders are not from a predecessor.
	held bool
}

// NewClaim returns a claim of the key; call Hold to take it. value identifies the holder to others.
// mine reports whether a value is from a predecessor of the same holder, whose key may be taken at
// once. ttl is how long the key outlives its holder. A claim is not safe for concurrent use.
func (s *Store) NewClaim(key string, value []byte, mine func(value []byte) bool, ttl time.Duration) *Claim {
	return &Claim{store: s, key: key, value: value, mine: mine, ttl: ttl}
}

// Hold takes or keeps the key. Call it several times per TTL. If another holder has the key, Hold
// returns its value; the key can be taken after the other lease has expired.
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

// get returns the pair of the key, or nil.
func (c *Claim) get(ctx context.Context) (*mvccpb.KeyValue, error) {
	ctx, cancel := c.store.callContext(ctx)
	defer cancel()
	response, err := c.store.client.Get(ctx, c.key)
	if err != nil || len(response.Kvs) == 0 {
		return nil, err
	}
	return response.Kvs[0], nil
}

// take puts the key if it is still as found (nil: missing).
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

// grant grants a lease if the claim has none. It is called only before taking the key.
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

// isMine reports whether this holder wrote the value. A living claim recognises its own writes by
// value, in case an answer was lost; mine recognises its predecessors. A key without a lease is not
// a claim and would never expire.
func (c *Claim) isMine(kv *mvccpb.KeyValue) bool {
	return kv.Lease == 0 || string(kv.Value) == string(c.value) || !c.held && c.mine(kv.Value)
}

// renew renews the lease, if it has not expired.
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

// Release deletes the key if this claim holds it.
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
