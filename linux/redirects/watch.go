package redirects

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/contiv/contiv/netlink/nft"
)

// Watcher notices what others change of the tables. It belongs to one goroutine.
type Watcher struct {
	redirects *Redirects
	report    func(reason string, keys ...string)
	events    nft.Events
	suspects  []nft.Change
	lost      bool
}

// Watcher returns a new one, which reports wrong values.
func (r *Redirects) Watcher(report func(reason string, keys ...string)) *Watcher {
	return &Watcher{redirects: r, report: report}
}

// Notice takes messages of nftables in the agent's namespace, and reports whether there is something to Check.
func (w *Watcher) Notice(messages []syscall.NetlinkMessage) bool {
	for _, m := range messages {
		w.suspects = append(w.suspects, w.events.Next(m)...)
	}
	return len(w.suspects) > 0
}

// Lost makes everything suspicious.
func (w *Watcher) Lost() { w.lost = true }

// Check reports what others have changed.
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

// wrong returns the keys of the values that are not as they were set, sorted; all if that cannot be told.
func (r *Redirects) wrong() (keys []string) {
	_ = r.conn.Locked(func() error {
		if len(r.wanted) == 0 {
			return nil
		}
		var readErr error
		for _, t := range r.tables {
			t.known = false
			if err := t.learn(r.conn); err != nil && !isUnsupported(err) {
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
