package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/linux/namespaces"
	"github.com/contiv/contiv/netlink/events"
	"golang.org/x/sys/unix"
)

// watcher notices changes of iptables tables by others. It belongs to one goroutine.
// iptables-legacy sends no notifications; the next resync finds its changes.
type watcher struct {
	chains  *Chains
	report  func(reason string, keys ...string)
	touched map[namespaces.ID]bool
	flushAt time.Time // zero: nothing to check
}

// Watch reports what others change of the chains. It returns an error when the subscription, which is to
// Group of nfnetlink in all tracked namespaces, fails or is closed.
func (c *Chains) Watch(ctx context.Context, socket *events.Subscription, report func(reason string, keys ...string)) error {
	w := &watcher{chains: c, report: report, touched: map[namespaces.ID]bool{}}
	for {
		d, err := socket.Receive(w.flushAt)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			w.check(ctx)
			continue
		case errors.Is(err, events.ErrLost):
			for ns := range c.known.namespaces() {
				w.touched[ns] = true
			}
		case err != nil:
			return err
		default:
			w.handle(d)
		}
		if w.flushAt.IsZero() && len(w.touched) > 0 {
			w.flushAt = time.Now().Add(c.DriftDelay)
		}
		if !w.flushAt.IsZero() && time.Now().After(w.flushAt) { // events keep coming
			w.check(ctx)
		}
	}
}

// handle notes in which namespace tables of iptables have changed.
func (w *watcher) handle(d events.Datagram) {
	ns, known := w.chains.Namespaces.Own.ID, true
	if d.Namespace != events.OwnNamespace {
		ns, known = w.chains.Namespaces.ByNumber(d.Namespace)
	}
	if !known || w.touched[ns] {
		return
	}
	for _, m := range d.Messages {
		if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES {
			continue
		}
		family, table := nftTableOf(m.Data)
		if (family == unix.NFPROTO_IPV4 || family == unix.NFPROTO_IPV6) && slices.Contains(firewallTables, table) {
			w.touched[ns] = true
		}
	}
}

// check reports the rule chains that are not as they were set.
func (w *watcher) check(ctx context.Context) {
	touched := w.touched
	w.touched, w.flushAt = map[namespaces.ID]bool{}, time.Time{}
	for ns := range touched {
		keys, err := w.changed(ctx, ns)
		if err != nil && !errors.Is(err, namespaces.ErrGone) && ctx.Err() == nil {
			w.chains.Log.Warn("rule chains cannot be checked", "err", err)
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

// changed returns the keys of the chains in a namespace that differ.
func (w *watcher) changed(ctx context.Context, ns namespaces.ID) ([]string, error) {
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

// Group is NFNLGRP_NFTABLES: iptables is based on nftables.
const Group = 7
