package service

import (
	"log/slog"
	"strings"
	"sync"
)

// tracking applies conntrack settings while the vswitch replaces kube-proxy in the host's network
// stack. It is safe for concurrent use.
type tracking struct {
	apply func() error // nil without settings
	log   *slog.Logger

	mu     sync.Mutex
	failed string
}

func (t *tracking) set(translates bool) {
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

func (t *tracking) retry() {
	if t.note() != "" {
		t.set(true)
	}
}

func (t *tracking) note() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == "" {
		return ""
	}
	return "connection tracking lacks settings of service.conf (conntrack): " + t.failed
}
