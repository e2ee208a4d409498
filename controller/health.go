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
	// degraded is the error of the startup resync until it is healed.
	degraded error
	failure  error
}

func (h *health) started() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.resynced
}

// resync notes the outcome of a resync in which all handlers computed everything.
func (h *health) resync(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.resynced || err == nil {
		h.degraded = err
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
// the healing after it, succeeded, and no healing has failed since.
func (c *Controller) Ready() error {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	switch {
	case c.health.failure != nil:
		return c.health.failure
	case !c.health.resynced:
		return errors.New("startup resync is not done yet")
	case c.health.degraded != nil:
		return fmt.Errorf("startup resync had errors and is to be healed: %w", c.health.degraded)
	}
	return nil
}

// Alive returns nil unless only a restart of the agent can help.
func (c *Controller) Alive() error {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	return c.health.failure
}
