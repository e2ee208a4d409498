package proxy

import (
	"log/slog"
	"strings"
	"sync"
)

// Tracking applies conntrack settings while the vswitch replaces kube-proxy in the host's network
// stack. It is safe for concurrent use.
type Tracking struct {
	apply func() error // nil without settings
	log   *slog.Logger

	mu     sync.Mutex
	failed string
}

func (t *Tracking) set(translates bool) {
	if t.apply == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	text := ""
	if translates {
		if err := t.apply(); err != nil {
			text = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
	}
	if text != "" && text != t.failed {
		t.log.Warn("Applying conntrack settings of service.conf failed", "error", text)
	}
	t.failed = text
}

func (t *Tracking) retry() {
	if t.Problem() != "" {
		t.set(true)
	}
}

// Problem returns a text if the last attempt failed, or "".
func (t *Tracking) Problem() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == "" {
		return ""
	}
	return "connection tracking lacks settings of service.conf (conntrack): " + t.failed
}
