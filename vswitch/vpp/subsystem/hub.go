package subsystem

import (
	"context"
	"sync"

	"github.com/contiv/contiv/vswitch/vpp/session"
)

// Hub hands events to the subsystems and reports the keys that they concern to watchers.
// Subsystems are given a Hub when they are made, and added to it before the session starts.
type Hub struct {
	subsystems []Subsystem

	mu       sync.Mutex
	watchers map[*mailbox]struct{}
}

// NewHub returns a Hub without subsystems.
func NewHub() *Hub { return &Hub{watchers: map[*mailbox]struct{}{}} }

// Add adds subsystems. It must not be called once the session has started.
func (h *Hub) Add(all ...Subsystem) { h.subsystems = append(h.subsystems, all...) }

// Hooks are the calls of the session to the subsystems. Opened are called in the order in which the
// subsystems were added; the first error gives the connection up.
func (h *Hub) Hooks() session.Hooks {
	hooks := session.Hooks{
		Changed: func(reason string) { h.report(reason) },
		Opened: func(ctx context.Context, l *session.Link) error {
			for _, s := range h.subsystems {
				if err := s.Opened(ctx, l); err != nil {
					return err
				}
			}
			return nil
		},
	}
	for _, s := range h.subsystems {
		hooks.Modules = append(hooks.Modules, s.Modules()...)
		hooks.Beside = append(hooks.Beside, s.Follow)
	}
	return hooks
}

// Publish asks every subsystem which values the event concerns, and reports those.
func (h *Hub) Publish(e Event) {
	var keys []string
	for _, s := range h.subsystems {
		keys = append(keys, s.Concerns(e)...)
	}
	if len(keys) > 0 {
		h.report(e.String(), keys...)
	}
}

// report tells the watchers what has changed; without keys: everything may have.
func (h *Hub) report(reason string, keys ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for b := range h.watchers {
		b.put(reason, keys...)
	}
}

// Watch calls report, from one goroutine, with what has changed since the last call, until
// ctx ends or done is closed. Reports without keys say that everything may have changed.
func (h *Hub) Watch(ctx context.Context, done <-chan struct{}, report func(reason string, keys ...string)) {
	b := &mailbox{full: make(chan struct{}, 1)}
	h.mu.Lock()
	h.watchers[b] = struct{}{}
	h.mu.Unlock()
	go func() {
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.watchers, b)
		}()
		for {
			select {
			case <-ctx.Done():
				return
			case <-done:
				return
			case <-b.full:
				// What came in while the last report was being taken was in it.
				if reason, keys := b.take(); reason != "" {
					report(reason, keys...)
				}
			}
		}
	}()
}
