package stn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Watch follows the kernel's events about links, addresses and routes until ctx ends.
func (k *Keeper) Watch(ctx context.Context) error {
	socket, err := nl.SubscribeAt(k.NetNS, netns.None(), unix.NETLINK_ROUTE,
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		return fmt.Errorf("subscribing to changes of links, addresses and routes: %w", err)
	}
	defer socket.Close()
	if err := socket.SetReceiveTimeout(&unix.Timeval{Usec: 200_000}); err != nil { // to notice the end of ctx
		return err
	}
	changed := make(chan struct{}, 1)
	go func() {
		for range changed {
			k.checkCards()
		}
	}()
	defer close(changed)
	changed <- struct{}{} // earlier changes caused no event
	for ctx.Err() == nil {
		messages, _, err := socket.Receive()
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS): // some events were lost
		case err != nil && ctx.Err() == nil:
			return fmt.Errorf("reading changes of links, addresses and routes: %w", err)
		case !k.concerned(messages):
			continue
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return nil
}

// concerned reports whether any message may concern a card or the interconnect.
func (k *Keeper) concerned(messages []syscall.NetlinkMessage) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range messages {
		if r, ok := rtnl.ParseRouteEvent(m); ok {
			if r.Deleted || r.Table == unix.RT_TABLE_LOCAL {
				continue
			}
			if r.Device == 0 || k.isCard(r.Device) {
				return true
			}
			continue
		}
		switch m.Header.Type {
		case unix.RTM_NEWLINK, unix.RTM_DELLINK: // rare, and the device may be new
			return true
		case unix.RTM_NEWADDR, unix.RTM_DELADDR:
			if len(m.Data) >= unix.SizeofIfAddrmsg && k.isCard(int(binary.NativeEndian.Uint32(m.Data[4:8]))) {
				return true
			}
		}
	}
	return false
}

func (k *Keeper) isCard(index int) bool {
	for _, c := range k.cards {
		if c.State.Index == index {
			return true
		}
	}
	return false
}
