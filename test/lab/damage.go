package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Damage is a route that was deleted behind the agent's back.
type Damage struct {
	// Command is the equivalent command line of the deletion.
	Command string
	// Deleted and Restored are the times of the kernel's notifications that the route is gone, and
	// that a route to the destination exists again.
	Deleted, Restored time.Time
}

// DeleteRoute deletes the route to dst in the namespace of a pod or node and waits until a route to
// dst exists again. It returns ctx's error if ctx ends first.
func (l *Lab) DeleteRoute(ctx context.Context, where string, dst netip.Prefix) (Damage, error) {
	st, err := l.State()
	if err != nil {
		return Damage{}, err
	}
	e, err := st.Endpoint(where)
	if err != nil {
		return Damage{}, err
	}
	destination := dst.String()
	if dst.Bits() == 0 {
		destination = "default"
	}
	d := Damage{Command: fmt.Sprintf("ip netns exec %s ip route del %s", e.Netns, destination)}
	changes, stop, err := watchRoutes(e.Netns)
	if err != nil {
		return d, err
	}
	defer stop()
	if _, err := execIn(ctx, e.Netns, "ip", "route", "del", destination); err != nil {
		return d, err
	}
	for {
		select {
		case c := <-changes:
			switch {
			case c.dst != dst:
			case c.deleted:
				d.Deleted = c.at
			case !d.Deleted.IsZero():
				d.Restored = c.at
				return d, nil
			}
		case <-ctx.Done():
			return d, fmt.Errorf("after %q the route to %s did not come back: %w", d.Command, dst, ctx.Err())
		}
	}
}

type routeChange struct {
	dst     netip.Prefix
	deleted bool
	at      time.Time
}

// watchRoutes reports changes of routes in the main table of a namespace. The caller must call
// stop.
func watchRoutes(name string) (changes <-chan routeChange, stop func(), err error) {
	ns, err := netns.GetFromPath(NetnsPath(name))
	if err != nil {
		return nil, nil, fmt.Errorf("opening network namespace %s: %w", name, err)
	}
	defer ns.Close()
	updates := make(chan netlink.RouteUpdate)
	done := make(chan struct{})
	if err := netlink.RouteSubscribeAt(ns, updates, done); err != nil {
		return nil, nil, fmt.Errorf("watching routes in %s: %w", name, err)
	}
	out := make(chan routeChange, 100)
	go func() {
		defer close(out)
		// netlink closes updates after done; until then, its sender must not block.
		for u := range updates {
			if u.Table != unix.RT_TABLE_MAIN {
				continue
			}
			select {
			case out <- routeChange{routeDst(u.Route), u.Type == unix.RTM_DELROUTE, time.Now()}:
			case <-done:
			}
		}
	}()
	return out, func() { close(done) }, nil
}

func routeDst(r netlink.Route) netip.Prefix {
	if r.Dst == nil {
		if r.Family == netlink.FAMILY_V6 {
			return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netipPrefix(*r.Dst)
}

func netipPrefix(n net.IPNet) netip.Prefix {
	addr, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), bits)
}
