package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/contiv/contiv/internal/netlink/events"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"golang.org/x/sys/unix"
)

const (
	// retryDelay is the delay before obtained values refused by the scheduler are pushed again.
	retryDelay = time.Second
	// maxSettling bounds the repeated comparisons while events keep coming.
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

// Watch reports foreign changes to our objects, and pushes foreign devices to the scheduler, until
// ctx ends. It returns nil when ctx ends, and an error if listening fails. report must not block.
//
//	                       one socket in the agent's namespace
//	pod's namespace ─nsid─┐  (NETLINK_LISTEN_ALL_NSID)
//	pod's namespace ─nsid─┼─> event ─> batch ──after DriftDelay──> compare with the inventory
//	agent's namespace ────┘                                          ├─> report(reason, keys of base values)
//	                                                                 └─> PushSBNotification(host names)
//
// A second socket receives nftables events once we have rule chains or redirects.
//
// Events are compared with the inventory, so that our own changes are not reported. If a device or
// an address is removed, its routes and neighbours disappear without events; all keys on the device
// are then reported.
func (p *Plugin) Watch(ctx context.Context, report func(reason string, keys ...string)) error {
	socket, err := p.listen(unix.NETLINK_ROUTE, eventGroups...)
	if err != nil {
		return fmt.Errorf("listen to changes of the network: %w", err)
	}
	defer socket.Close()
	foreign, err := newForeignDevices(p.namespaces.Own, isVSwitchDevice)
	if err != nil {
		return fmt.Errorf("listen to changes of the network: %w", err)
	}
	w := &watcher{p: p, report: report, socket: socket, batch: newBatch(), foreign: foreign}
	w.batch.hostNames = true // push all
	p.namespaces.TrackOwn()
	both, cancel := context.WithCancel(ctx) // if one ends, Watch ends
	defer cancel()
	defer context.AfterFunc(both, socket.Close)()
	rulesetErr := make(chan error, 1)
	go func() {
		defer cancel()
		rulesetErr <- p.watchRuleset(both, report)
	}()
	err = socket.Collect(p.driftDelay, w.note, w.flush)
	cancel()
	err = errors.Join(err, <-rulesetErr)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("listen to changes of the network: %w", err)
}

// watchRuleset reports foreign changes of rule chains and redirects. It waits until one exists and
// returns when ctx ends or the subscription fails.
func (p *Plugin) watchRuleset(ctx context.Context, report func(reason string, keys ...string)) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.inRuleset:
	}
	socket, err := p.listen(unix.NETLINK_NETFILTER, nft.NfnlGroupNFTables)
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	defer socket.Close()
	defer context.AfterFunc(ctx, socket.Close)()
	chains, redirects := p.chains.Watcher(report), p.redirects.Watcher(report)
	lost := func() {
		chains.Lost()
		redirects.Lost()
	}
	lost() // check changes made before the subscription
	return socket.Collect(p.driftDelay, func(d events.Datagram, some bool) bool {
		if some {
			lost()
			return true
		}
		ns, known := p.sender(d)
		check := known && chains.Notice(ns, d.Messages)
		return known && ns == p.namespaces.Own.ID && redirects.Notice(d.Messages) || check
	}, func() time.Duration {
		chains.Check(ctx)
		redirects.Check()
		return 0
	})
}

// sender returns the namespace of the event, if known.
func (p *Plugin) sender(d events.Datagram) (namespaces.ID, bool) {
	if d.Namespace == events.OwnNamespace {
		return p.namespaces.Own.ID, true
	}
	return p.namespaces.ByNumber(d.Namespace)
}

// listen subscribes to the events of all tracked namespaces. A socket in each namespace would keep
// it alive.
func (p *Plugin) listen(protocol int, groups ...uint) (*events.Subscription, error) {
	s, err := events.Subscribe(p.namespaces.Own.Handle(), protocol, events.Options{Groups: groups, AllNamespaces: true, Fault: p.eventFault})
	if err == nil && !s.AllNamespaces {
		p.log.Warn("kernel cannot report changes in other network namespaces")
	}
	return s, err
}

// watcher is one call of Watch. It belongs to one goroutine.
type watcher struct {
	p       *Plugin
	report  func(reason string, keys ...string)
	socket  *events.Subscription
	batch   *batch
	foreign *foreignDevices // of the agent's namespace
	// pushed holds the keys of the obtained values known to the scheduler.
	pushed map[string]bool
}

// note adds events to the batch and reports whether the batch is non-empty.
func (w *watcher) note(d events.Datagram, lost bool) bool {
	w.batch.lost = w.batch.lost || lost
	w.handle(d)
	return !w.batch.empty()
}

func (w *watcher) handle(d events.Datagram) {
	ns, known := w.p.sender(d)
	own := ns == w.p.namespaces.Own.ID
	for _, m := range d.Messages {
		switch {
		case !known:
		case m.Header.Type == rtmNewNSID && own:
			w.p.namespaces.TrackOwn()
		case m.Header.Type == rtmDelNSID && own:
			if gone, ok := w.p.namespaces.ForgetNumber(deletedNSID(m.Data)); ok {
				w.batch.gone[gone] = true
			}
		default:
			w.batch.add(ns, m)
			if own {
				w.foreign.handle(m)
			}
		}
	}
}

// deletedNSID returns the number of the deleted namespace.
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

// drift compares the batch with the inventory. A difference may be our own recent change: the
// inventory has it already but its event is still unread. Such an event was queued before the
// inventory changed, so a second comparison settles it.
func (w *watcher) drift() *drift {
	for range maxSettling {
		if d := w.batch.drift(w.p.inventory, w.p.chains); len(d.keys) == 0 || !w.readQueued() {
			return d
		}
	}
	return w.batch.drift(w.p.inventory, w.p.chains)
}

// readQueued adds the queued events to the batch and reports whether it found any. It leaves socket
// errors to Receive.
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

// flush reports the drift of the batch and starts a new batch. It returns the delay until the next
// call, 0 for none.
func (w *watcher) flush() (again time.Duration) {
	d := w.drift()
	b := w.batch
	w.batch = newBatch()
	if len(d.keys) > 0 {
		w.report(d.reason(), d.sortedKeys()...)
	}
	if w.foreign.changed() || b.hostNames || b.lost {
		if err := w.pushHostNames(); err != nil {
			w.p.log.Warn("reporting devices of other programs failed, retrying", "err", err)
			w.batch.hostNames = true
			return retryDelay
		}
	}
	return 0
}
