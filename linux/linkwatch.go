package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// linkDelay is for how long changes of links are collected.
const linkDelay = 200 * time.Millisecond

var linkGroups = []uint{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR}

// WatchLinks calls changed when something about the devices of the agent's own
// network namespace or their addresses may have changed, but for those that Contiv
// made, and once at the start; what, Links tells. Several changes that happen
// together are one call.
// It returns nil when ctx ended, and an error if it cannot listen (any more).
func (p *Plugin) WatchLinks(ctx context.Context, changed func()) error {
	socket, err := p.listenToLinks()
	if err != nil {
		return fmt.Errorf("listen to changes of links: %w", err)
	}
	defer socket.Close()
	defer context.AfterFunc(ctx, func() { socket.Close() })()
	foreign, err := newForeignDevices(p.namespaces.own, isOurs)
	if err != nil {
		return fmt.Errorf("watch links: %w", err)
	}
	due, certain := time.Now(), true
	buffer := make([]byte, 1<<16)
	for {
		if err := socket.SetReadDeadline(due); err != nil && ctx.Err() == nil {
			return fmt.Errorf("listen to changes of links: %w", err)
		}
		n, err := socket.Read(buffer)
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
		case errors.Is(err, unix.ENOBUFS):
			certain = true // there were more events
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("listen to changes of links: %w", err)
		default:
			messages, err := syscall.ParseNetlinkMessage(buffer[:n])
			if err != nil {
				certain = true
			}
			for _, m := range messages {
				foreign.handle(m)
			}
		}
		if due.IsZero() {
			due = time.Now().Add(linkDelay)
		}
	}
}

func (p *Plugin) listenToLinks() (*os.File, error) {
	fd := -1
	err := p.namespaces.own.enter(func() (err error) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, err
	}
	addr := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	for _, group := range linkGroups {
		addr.Groups |= 1 << (group - 1)
	}
	if err := unix.Bind(fd, addr); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "netlink link events"), nil
}
