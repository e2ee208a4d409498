package vppapi

import (
	"slices"
	"sync"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/codec"
)

// subscription is a receiver of an event.
type subscription struct {
	deliver func(data []byte)
}

// Subscribe calls deliver for each event of type E on this connection, one at a time; deliver must
// not block. VPP must be asked for the events separately. end ends the subscription.
func Subscribe[E any, M interface {
	*E
	api.Message
}](c *Conn, deliver func(M)) (end func(), err error) {
	id, err := c.id(M(new(E)))
	if err != nil {
		return nil, err
	}
	s := &subscription{deliver: func(data []byte) {
		if event := M(new(E)); codec.DecodeMsg(data, event) == nil {
			deliver(event)
		}
	}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[id] = append(slices.Clone(c.events[id]), s) // the reader may still use the old slice
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		rest := slices.DeleteFunc(slices.Clone(c.events[id]), func(o *subscription) bool { return o == s })
		if c.events[id] = rest; len(rest) == 0 {
			delete(c.events, id)
		}
	}), nil
}
