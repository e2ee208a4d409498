package controller

import (
	"errors"
	"fmt"
	"sync"
)

// health is what the probes ask about.
type health struct {
	mu sync.Mutex
	// resynced: the startup resync was processed.
	resynced bool
	// degraded is why the startup resync, or a healing, failed, until a resync does not.
	degraded error
	failure  error
}

func (h *health) started() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.resynced
}

// resync notes the outcome of a resync in which all handlers computed everything.
func (h *health) resync(err error, healing bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.degraded = nil
	case !h.resynced:
		h.degraded = fmt.Errorf("startup resync had errors and is to be healed: %w", err)
	case healing:
		h.degraded = fmt.Errorf("healing resync failed and will be repeated: %w", err)
	}
	h.resynced = true
}

func (h *health) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure == nil {
		h.failure = err
	}
}

// Ready returns nil when the node's network is in place: the startup resync, or
// the healing after it, succeeded, no healing has failed since, and events are
// processed.
func (c *Controller) Ready() error {
	if err := c.stalled(stalledUnready); err != nil {
		return err
	}
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	switch {
	case c.health.failure != nil:
		return c.health.failure
	case !c.health.resynced:
		return errors.New("startup resync is not done yet")
	}
	return c.health.degraded
}

// Synced reports whether the startup resync has been executed, or the healing of one that was incomplete; values may have
// failed. Before, the network is as an earlier agent left it.
func (c *Controller) Synced() bool { return c.synced.Load() }

// Alive returns nil unless only a restart of the agent can help.
func (c *Controller) Alive() error {
	c.health.mu.Lock()
	failure := c.health.failure
	c.health.mu.Unlock()
	if failure != nil {
		return failure
	}
	return c.stalled(stalledDead)
}
