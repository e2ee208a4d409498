package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/contiv/contiv/internal/netlink/events"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// linkDelay is how long link changes are collected.
const linkDelay = 200 * time.Millisecond

var linkGroups = []uint{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE}

// WatchLinks calls changed once at the start and whenever the foreign devices of the agent's own
// network namespace, their addresses, or foreign default routes may have changed; the caller reads them with Links. Changes
// within linkDelay cause one call. It returns nil when ctx ends, and an error if listening fails.
func (p *Plugin) WatchLinks(ctx context.Context, changed func()) error {
	own := p.namespaces.Own
	socket, err := events.Subscribe(own.Handle(), unix.NETLINK_ROUTE, events.Options{Groups: linkGroups, Fault: p.eventFault})
	if err != nil {
		return fmt.Errorf("watch links: %w", err)
	}
	defer socket.Close()
	defer context.AfterFunc(ctx, socket.Close)()
	foreign, err := newForeignDevices(own, isOurs)
	if err != nil {
		return fmt.Errorf("watch links: %w", err)
	}
	due, certain := time.Now(), true
	for {
		d, err := socket.Receive(due)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			due = time.Time{}
			if foreign.changed() || certain {
				changed()
			}
			certain = false
			continue
		case errors.Is(err, events.ErrLost):
			certain = true // further events came
		case err != nil:
			return fmt.Errorf("watch links: %w", err)
		}
		for _, m := range d.Messages {
			foreign.handle(m)
			certain = certain || isForeignDefaultRoute(m)
		}
		if due.IsZero() {
			due = time.Now().Add(linkDelay)
		}
	}
}

// isForeignDefaultRoute reports whether an event is about a default route of the main table that Contiv did not make.
func isForeignDefaultRoute(m syscall.NetlinkMessage) bool {
	if t := m.Header.Type; t != unix.RTM_NEWROUTE && t != unix.RTM_DELROUTE || len(m.Data) < unix.SizeofRtMsg {
		return false
	}
	r := nl.DeserializeRtMsg(m.Data)
	return r.Dst_len == 0 && r.Type == unix.RTN_UNICAST && r.Table == unix.RT_TABLE_MAIN && r.Protocol != ownProtocol && r.Protocol != vswitchProtocol
}
