package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"golang.org/x/sys/unix"
)

// Watcher detects foreign changes of iptables tables. It belongs to one goroutine. iptables-legacy
// sends no events; the next resync finds its changes.
type Watcher struct {
	chains  *Chains
	report  func(reason string, keys ...string)
	touched map[namespaces.ID]bool
}

// Watcher returns a watcher that calls report for changed chains.
func (c *Chains) Watcher(report func(reason string, keys ...string)) *Watcher {
	return &Watcher{chains: c, report: report, touched: map[namespaces.ID]bool{}}
}

// Notice handles nftables messages from a namespace and reports whether Check is needed. iptables
// is based on nftables.
func (w *Watcher) Notice(ns namespaces.ID, messages []syscall.NetlinkMessage) bool {
	for _, m := range messages {
		if w.touched[ns] {
			break
		}
		if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES {
			continue
		}
		family, table := nftTableOf(m.Data)
		if (family == unix.NFPROTO_IPV4 || family == unix.NFPROTO_IPV6) && slices.Contains(firewallTables, table) {
			w.touched[ns] = true
		}
	}
	return len(w.touched) > 0
}

// Lost marks everything as possibly changed.
func (w *Watcher) Lost() {
	for ns := range w.chains.known.namespaces() {
		w.touched[ns] = true
	}
}

// Check reports the rule chains that differ from their configuration.
func (w *Watcher) Check(ctx context.Context) {
	touched := w.touched
	w.touched = map[namespaces.ID]bool{}
	for ns := range touched {
		keys, err := w.changed(ctx, ns)
		if err != nil && !errors.Is(err, namespaces.ErrGone) && ctx.Err() == nil {
			w.chains.Log.Warn("checking rule chains failed", "err", err)
		}
		if len(keys) > 0 {
			slices.Sort(keys)
			reason := "rule chain of iptables was changed"
			if len(keys) > 1 {
				reason = fmt.Sprintf("%d rule chains of iptables were changed", len(keys))
			}
			w.report(reason, keys...)
		}
	}
}

func (w *Watcher) changed(ctx context.Context, ns namespaces.ID) ([]string, error) {
	w.chains.mu.Lock()
	defer w.chains.mu.Unlock()
	chains := w.chains.In(ns)
	if len(chains) == 0 {
		return nil, nil
	}
	var items []ruleChainItem
	for key, v := range chains {
		items = append(items, ruleChainItem{Key: key, Value: v})
	}
	found, err := w.chains.read(ctx, items, map[namespaces.ID]*linux_namespace.NetNamespace{})
	if err != nil {
		return nil, err
	}
	for _, item := range found {
		if want := chains[item.Key]; want != nil && equivalentRuleChains(item.Value, want) {
			delete(chains, item.Key)
		}
	}
	return slices.Collect(maps.Keys(chains)), nil
}
