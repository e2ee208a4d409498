package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/contiv/contiv/linux/iptables"
	"github.com/contiv/contiv/netlink/events"
	"github.com/contiv/contiv/netlink/nlattr"
	"golang.org/x/sys/unix"
)

const (
	// retryDelay is after how long obtained values are pushed again that the
	// scheduler did not take.
	retryDelay = time.Second
	// maxSettling bounds how often a difference is looked at again while events
	// keep coming.
	maxSettling = 10
)

// rtmNewNSID and rtmDelNSID are message types of linux/rtnetlink.h.
const (
	rtmNewNSID = 88
	rtmDelNSID = 89
)

var eventGroups = []uint{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE,
	unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_NSID,
}

// Watch reports changes by others to our objects until ctx ends. It also keeps the scheduler
// informed about foreign devices. It returns nil when ctx ended, and an error if it cannot listen
// (any more). report must not block.
//
//	                       one socket in the agent's namespace
//	pod's namespace ─nsid─┐  (NETLINK_LISTEN_ALL_NSID)
//	pod's namespace ─nsid─┼─> event ─> batch ──after DriftDelay──> compare with the inventory
//	agent's namespace ────┘                                          ├─> report(reason, keys of base values)
//	                                                                 └─> PushSBNotification(host names)
//
// A second socket like this one receives events of nftables, on which iptables is based, and a third one those of the agent's
// own namespace, for redirects.
//
// Collected events are compared with the inventory, so that our own changes are not reported. When
// a device or an address is removed, routes and neighbours go without events of their own; then all
// keys on the device are reported.
func (p *Plugin) Watch(ctx context.Context, report func(reason string, keys ...string)) error {
	socket, err := p.listen(unix.NETLINK_ROUTE, eventGroups...)
	if err != nil {
		return fmt.Errorf("listen to changes of the network: %w", err)
	}
	defer socket.Close()
	rules, err := p.listen(unix.NETLINK_NETFILTER, iptables.Group)
	if err != nil {
		return fmt.Errorf("listen to changes of nftables: %w", err)
	}
	own, err := events.Subscribe(p.namespaces.Own.Handle(), unix.NETLINK_NETFILTER, events.Options{Groups: []uint{iptables.Group}, Fault: p.eventFault})
	if err != nil {
		rules.Close()
		return fmt.Errorf("listen to changes of nftables: %w", err)
	}
	defer context.AfterFunc(ctx, func() { socket.Close() })()
	foreign, err := newForeignDevices(p.namespaces.Own, isVSwitchs)
	if err != nil {
		rules.Close()
		own.Close()
		return fmt.Errorf("listen to changes of the network: %w", err)
	}
	w := &watcher{p: p, report: report, socket: socket, batch: newBatch(), foreign: foreign}
	w.batch.hostNames = true // push all
	w.updateOwnNSID()
	ruleErr := make(chan error, 2)
	go func() {
		ruleErr <- p.chains.Watch(ctx, rules, report)
		socket.Close() // without one of them, Watch ends
	}()
	go func() {
		ruleErr <- p.redirects.Watch(own, p.driftDelay, report)
		socket.Close()
	}()
	err = w.run()
	rules.Close()
	own.Close()
	err = errors.Join(err, <-ruleErr, <-ruleErr)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("listen to changes of the network: %w", err)
}

// listen subscribes to the events of all namespaces that are tracked. A socket in each of
// them would keep them alive.
func (p *Plugin) listen(protocol int, groups ...uint) (*events.Subscription, error) {
	s, err := events.Subscribe(p.namespaces.Own.Handle(), protocol, events.Options{Groups: groups, AllNamespaces: true, Fault: p.eventFault})
	if err == nil && !s.AllNamespaces {
		p.log.Warn("this kernel reports only changes in the agent's own network namespace")
	}
	return s, err
}

// watcher is one call of Watch. It belongs to one goroutine.
type watcher struct {
	p      *Plugin
	report func(reason string, keys ...string)
	socket *events.Subscription
	// ownNSID is the number of the agent's namespace in itself, if one was assigned.
	ownNSID int
	batch   *batch
	foreign *foreignDevices // of the agent's namespace
	flushAt time.Time       // zero: nothing to flush
	// pushed are the keys of the obtained values that the scheduler knows of.
	pushed map[string]bool
}

// run reads events and flushes them, until the subscription fails or is closed.
func (w *watcher) run() error {
	w.flushAt = time.Now()
	for {
		d, err := w.socket.Receive(w.flushAt)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			w.flush()
			continue
		case errors.Is(err, events.ErrLost):
			w.batch.lost = true
		case err != nil:
			return err
		default:
			w.handle(d)
		}
		if w.flushAt.IsZero() && !w.batch.empty() {
			w.flushAt = time.Now().Add(w.p.driftDelay)
		}
		if !w.flushAt.IsZero() && time.Now().After(w.flushAt) { // events keep coming
			w.flush()
		}
	}
}

// handle adds the messages of a datagram to the batch.
func (w *watcher) handle(d events.Datagram) {
	own := d.Namespace == events.OwnNamespace || d.Namespace == w.ownNSID
	ns, known := w.p.namespaces.Own.ID, true
	if !own {
		ns, known = w.p.namespaces.ByNumber(d.Namespace)
	}
	for _, m := range d.Messages {
		switch {
		case m.Header.Type == rtmNewNSID && own:
			w.updateOwnNSID()
		case m.Header.Type == rtmDelNSID && own:
			if gone, ok := w.p.namespaces.ForgetNumber(deletedNSID(m.Data)); ok {
				w.batch.gone[gone] = true
			}
		case known:
			w.batch.add(ns, m)
			if own {
				w.foreign.handle(m)
			}
		}
	}
}

func (w *watcher) updateOwnNSID() {
	num, err := w.p.namespaces.Number(w.p.namespaces.Own)
	if err != nil || num < 0 {
		num = -1
	}
	w.ownNSID = num
}

// deletedNSID returns the number in a message about the end of a namespace.
func deletedNSID(data []byte) int {
	const headerLen, netnsaNSID = 4, 1 // struct rtgenmsg, padded
	if len(data) < headerLen {
		return -1
	}
	for attr, value := range nlattr.All(data[headerLen:]) {
		if attr == netnsaNSID && len(value) >= 4 {
			return int(int32(binary.NativeEndian.Uint32(value)))
		}
	}
	return -1
}

// drift compares the batch with the inventory. A difference may be what we did
// ourselves since: the inventory knows it already, but its event is still to be
// read. It has been queued before the inventory knew, so that a second comparison
// settles it.
func (w *watcher) drift() *drift {
	for range maxSettling {
		if d := w.batch.drift(w.p.inventory, w.p.chains); len(d.keys) == 0 || !w.readQueued() {
			return d
		}
	}
	return w.batch.drift(w.p.inventory, w.p.chains)
}

// readQueued adds the waiting events to the batch, and reports whether there were any. It leaves
// errors of the socket to Receive.
func (w *watcher) readQueued() (any bool) {
	for {
		d, some, err := w.socket.Queued()
		switch {
		case errors.Is(err, events.ErrLost):
			w.batch.lost = true
			return true
		case err != nil || !some:
			return any
		}
		any = true
		w.handle(d)
	}
}

// flush reports what the batch shows to differ and begins a new one.
func (w *watcher) flush() {
	d := w.drift()
	b := w.batch
	w.batch, w.flushAt = newBatch(), time.Time{}
	if len(d.keys) > 0 {
		w.report(d.reason(), d.sortedKeys()...)
	}
	if w.foreign.changed() || b.hostNames || b.lost {
		if err := w.pushHostNames(); err != nil {
			w.p.log.Warn("devices of others cannot be reported, trying again", "err", err)
			w.batch.hostNames = true
			w.flushAt = time.Now().Add(retryDelay)
		}
	}
}
