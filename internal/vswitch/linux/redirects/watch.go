package redirects

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/contiv/contiv/internal/netlink/nft"
)

// Watcher detects foreign changes of the tables. It belongs to one goroutine.
type Watcher struct {
	redirects *Redirects
	report    func(reason string, keys ...string)
	events    nft.Events
	suspects  []nft.Change
	lost      bool
}

// Watcher returns a watcher that calls report for wrong values.
func (r *Redirects) Watcher(report func(reason string, keys ...string)) *Watcher {
	return &Watcher{redirects: r, report: report}
}

// Notice handles nftables messages of the agent's namespace and reports whether Check is needed.
func (w *Watcher) Notice(messages []syscall.NetlinkMessage) bool {
	for _, m := range messages {
		w.suspects = append(w.suspects, w.events.Next(m)...)
	}
	return len(w.suspects) > 0
}

// Lost marks everything as possibly changed.
func (w *Watcher) Lost() { w.lost = true }

// Check reports foreign changes.
func (w *Watcher) Check() {
	by, foreign := w.redirects.conn.Foreign(w.suspects, "ip "+tableName, "ip6 "+tableName)
	check := foreign || w.lost
	w.suspects, w.lost = nil, false
	if !check {
		return
	}
	if keys := w.redirects.wrong(); len(keys) > 0 {
		w.report(fmt.Sprintf("nftables table %q was changed%s", tableName, by), keys...)
	}
}

// wrong returns the keys of the values that differ from their configuration, sorted; all keys if
// that cannot be determined.
func (r *Redirects) wrong() (keys []string) {
	_ = r.conn.Locked(func() error {
		if len(r.wanted) == 0 {
			return nil
		}
		var readErr error
		for _, t := range r.tables {
			t.known = false
			if err := t.load(r.conn); err != nil && !isUnsupported(err) {
				readErr = err
			}
		}
		for key, v := range r.wanted {
			entries := entriesOf(v)
			if readErr != nil || slices.ContainsFunc(r.tables, func(t *table) bool { return !t.has(v.GetLabel(), entries) }) {
				keys = append(keys, key)
			}
		}
		return nil
	})
	slices.Sort(keys)
	return keys
}
