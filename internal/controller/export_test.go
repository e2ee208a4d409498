package controller

import "google.golang.org/protobuf/proto"

// GetConfig returns a copy of a key's value in the running transaction, or else the last committed
// one. It returns nil if the key has none.
func (c *Controller) GetConfig(key string) proto.Message {
	c.caches.mu.RLock()
	defer c.caches.mu.RUnlock()
	value := c.caches.internal[key]
	if c.caches.running != nil {
		if requested, ok := c.caches.running.lookup(key); ok {
			value = requested
		}
	}
	if isNil(value) {
		return nil
	}
	return proto.Clone(value)
}
