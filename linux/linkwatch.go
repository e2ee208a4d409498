package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/contiv/contiv/netlink/events"
	"golang.org/x/sys/unix"
)

// linkDelay is how long link changes are collected.
const linkDelay = 200 * time.Millisecond

var linkGroups = []uint{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR}

// WatchLinks calls changed once at the start and whenever the foreign devices of the agent's
// network namespace or their addresses may have changed; the caller reads them with Links. Changes
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
		}
		if due.IsZero() {
			due = time.Now().Add(linkDelay)
		}
	}
}
