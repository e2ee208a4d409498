package controller

import (
	"errors"
	"fmt"
	"sync"
)

// health holds the state of the readiness and liveness probes.
type health struct {
	mu sync.Mutex
	// resynced: the startup resync was processed
	resynced bool
	// degraded is the error of the last startup or healing resync; nil after a successful resync.
	degraded error
	failure  error
}

func (h *health) started() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.resynced
}

// resync records the outcome of a resync in which the handlers computed the configuration.
func (h *health) resync(err error, healing bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.degraded = nil
	case !h.resynced:
		h.degraded = fmt.Errorf("startup resync had errors, a healing resync follows: %w", err)
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

// Ready returns nil if the startup resync or a later healing succeeded, no healing has failed
// since, and events are being processed.
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

// Synced reports whether a startup resync was committed, possibly with failed values. Before, the
// network is as an earlier agent left it.
func (c *Controller) Synced() bool { return c.synced.Load() }

// Alive returns an error if only a restart of the agent can help.
func (c *Controller) Alive() error {
	c.health.mu.Lock()
	failure := c.health.failure
	c.health.mu.Unlock()
	if failure != nil {
		return failure
	}
	return c.stalled(stalledDead)
}
