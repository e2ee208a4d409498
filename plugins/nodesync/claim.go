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
	ClaimTTL = 15 * time.Second
	// claimInterval is how often it is renewed, or tried again.
	claimInterval = ClaimTTL / 3
	// claimRetry is the time until an unanswered attempt is repeated.
	claimRetry = time.Second
)

// ClaimedKey is a key of the cluster's database that is there as long as its holder
// lives.
type ClaimedKey interface {
	// Hold takes the key or keeps it, or returns the value of the one who has it.
	Hold(ctx context.Context) (other []byte, err error)
	// Release gives it up.
	Release(ctx context.Context) error
}

// Claim is the claim of a node's name by this agent:
//
//	            etcd does not answer ──> work: as well as possible
//	start ──────held by nobody ────────> work
//	            held from this place ──> work: the agent before this one has ended
//	            held by another agent ─> wait until it ends
//
// So of two agents with the same name, the second one does nothing. It recognises the
// first one by its claim, whatever addresses it has; the claim ends with the agent
// or, should it crash, ClaimTTL later. An agent whose name was taken while it could
// not reach etcd goes on with its pods, is not ready, and publishes nothing.
type Claim struct {
	nodeName string
	key      ClaimedKey
	log      *slog.Logger

	mu sync.Mutex
	// answered: the database has said who has the name.
	answered bool
	taken    error
	// changed is closed, and replaced, with each answer.
	changed chan struct{}
}

// NewClaim returns the claim of the node's name. open makes the key of the given name and value in
// the database; mine reports whether a value found there is of an agent that ran in the place of
// this one.
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

// Run holds the claim until ctx ends, and gives it up then.
func (c *Claim) Run(ctx context.Context) {
	for ctx.Err() == nil {
		other, err := c.key.Hold(ctx)
		wait := claimInterval
		if err == nil {
			c.note(other)
		} else {
			c.log.Debug("The claim of this node's name cannot be renewed", "error", err)
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
		c.log.Debug("The claim of this node's name ends by itself", "in", ClaimTTL, "error", err)
	}
}

// note notes who has the name: nil for this agent.
func (c *Claim) note(other []byte) {
	var taken error
	if other != nil {
		who := "an agent that this version cannot describe: " + string(other)
		if h, err := decodeHolder(other); err == nil {
			who = h.String()
		}
		taken = fmt.Errorf("an agent is running on %s with the name %s: %w; give this agent the name of its own node with --node-name, or stop the other one",
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
		c.log.Error("The name of this node is taken", "error", taken)
	case taken == nil && before != nil:
		c.log.Info("The name of this node is free again")
	}
}

// Err returns nil unless another agent has the name of this node: ErrNameTaken is
// wrapped then.
func (c *Claim) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

// Admitted returns nil when the agent may work: when it has the name, or when the
// database has not answered for so long. It waits as long as another one has it.
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
