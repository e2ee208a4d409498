package service

import (
	"log/slog"
	"strings"
	"sync"
)

// tracking applies the settings of connection tracking while the vswitch replaces kube-proxy in the host's
// network stack. It is used by several goroutines.
type tracking struct {
	apply func() error // nil: none to apply
	log   *slog.Logger

	mu     sync.Mutex
	failed string // what apply returned last
}

// set applies the settings if the vswitch translates services.
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
		t.log.Warn("Connection tracking has settings of its own, not those of service.conf", "error", text)
	}
	t.failed = text
}

// retry applies what could not be set.
func (t *tracking) retry() {
	if t.note() != "" {
		t.set(true)
	}
}

// note says what could not be set; "" if all was.
func (t *tracking) note() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == "" {
		return ""
	}
	return "connection tracking lacks settings of service.conf (conntrack): " + t.failed
}
