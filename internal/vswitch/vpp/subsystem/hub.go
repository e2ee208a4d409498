package subsystem

import (
	"context"
	"sync"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"
)

// Hub passes events to the subsystems and reports the affected keys to watchers. Subsystems get the
// Hub on creation and are added to it before the session starts.
type Hub struct {
	subsystems []Subsystem

	mu       sync.Mutex
	watchers map[*mailbox]struct{}
}

// NewHub returns a Hub without subsystems.
func NewHub() *Hub { return &Hub{watchers: map[*mailbox]struct{}{}} }

// Add adds subsystems. It must not be called once the session has started.
func (h *Hub) Add(all ...Subsystem) { h.subsystems = append(h.subsystems, all...) }

// Hooks returns the session's calls to the subsystems. Opened is called in the order of addition;
// the first error closes the connection.
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

// Publish asks every subsystem for the values affected by the event, and reports them.
func (h *Hub) Publish(e Event) {
	var keys []string
	for _, s := range h.subsystems {
		keys = append(keys, s.Concerns(e)...)
	}
	if len(keys) > 0 {
		h.report(e.String(), keys...)
	}
}

// report informs the watchers of changed keys; no keys: everything may have changed.
func (h *Hub) report(reason string, keys ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for b := range h.watchers {
		b.put(reason, keys...)
	}
}

// Watch calls report, from one goroutine, with the changes since the last call, until ctx ends or
// done is closed. A report without keys means that everything may have changed.
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
				// Changes during the last report were included in it.
				if reason, keys := b.take(); reason != "" {
					report(reason, keys...)
				}
			}
		}
	}()
}
