package nodesync

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// ClaimTTL is how long the claim of a name outlives its agent.
	ClaimTTL      = 15 * time.Second
	claimInterval = ClaimTTL / 3
	claimRetry    = time.Second
)

// ClaimedKey is a key in etcd that lives as long as its holder.
type ClaimedKey interface {
	// Hold acquires or renews the key, or returns the value of its holder.
	Hold(ctx context.Context) (other []byte, err error)
	// Release deletes the key.
	Release(ctx context.Context) error
}

// Claim is this agent's claim of the node's name:
//
//	            etcd does not answer ──> work without the claim
//	start ──────free ──────────────────> work
//	            held from this place ──> work: the agent before this one has ended
//	            held by another agent ─> wait until it ends
//
// So of two agents with the same name, the second one waits. It recognises the first one by its
// claim, not by its addresses. The claim ends with the agent or, after a crash, within ClaimTTL. An
// agent that loses its name while etcd is unreachable keeps its pods, is not ready, and publishes
// nothing.
type Claim struct {
	nodeName string
	key      ClaimedKey
	log      *slog.Logger

	mu       sync.Mutex
	answered bool
	taken    error
	// changed is closed and replaced on each answer.
	changed chan struct{}
}

// NewClaim returns the claim of the node's name. open returns the database key of the given name
// and value. mine reports whether a value belongs to an earlier agent in the same place.
func NewClaim(nodeName string, log *slog.Logger, open func(key string, value []byte, mine func([]byte) bool, ttl time.Duration) ClaimedKey) (*Claim, error) {
	self, err := thisAgent()
	if err != nil {
		return nil, err
	}
	mine := func(value []byte) bool {
		other, err := decodeHolder(value)
		return err == nil && self.samePlace(other)
	}
	return &Claim{
		nodeName: nodeName, log: log, changed: make(chan struct{}),
		key: open(ClaimKey(nodeName), self.encode(), mine, ClaimTTL),
	}, nil
}

// Run holds the claim until ctx ends, and then releases it.
func (c *Claim) Run(ctx context.Context) {
	for ctx.Err() == nil {
		other, err := c.key.Hold(ctx)
		wait := claimInterval
		if err == nil {
			c.note(other)
		} else {
			c.log.Debug("Renewing the claim of the node name failed", "error", err)
			wait = claimRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimRetry)
	defer cancel()
	if err := c.key.Release(ctx); err != nil {
		c.log.Debug("Releasing the claim of the node name failed; it expires", "in", ClaimTTL, "error", err)
	}
}

// note records the holder, which is nil for this agent.
func (c *Claim) note(other []byte) {
	var taken error
	if other != nil {
		who := "an agent of an unknown version: " + string(other)
		if h, err := decodeHolder(other); err == nil {
			who = h.String()
		}
		taken = fmt.Errorf("an agent is running on %s with the name %s: %w; set the name of this node with --node-name, or stop the other one",
			who, c.nodeName, ErrNameTaken)
	}
	c.mu.Lock()
	before := c.taken
	c.answered, c.taken = true, taken
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	switch {
	case taken != nil && before == nil:
		c.log.Error("Node name used by another machine", "error", taken)
	case taken == nil && before != nil:
		c.log.Info("Node name available again")
	}
}

// Err returns an error that wraps ErrNameTaken if another agent has the name.
func (c *Claim) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

// Admitted returns nil once this agent has the name, or once the database has not answered for the
// duration patience. It waits while another agent has the name.
func (c *Claim) Admitted(ctx context.Context, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	late := false
	for {
		c.mu.Lock()
		answered, taken, changed := c.answered, c.taken, c.changed
		c.mu.Unlock()
		if answered && taken == nil || !answered && late {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			late = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
