package nat

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/contiv/contiv/internal/netlink/nft"
	"golang.org/x/sys/unix"
)

// After a change of a mapping, connections remain that it would handle differently: connections to
// removed backends, and connections that were opened before the mapping existed. They end, because
// clients that keep their source port would never use the mapping otherwise. TCP connections end
// only with setReset. Connections to remaining backends stay.

// flowOf parses an element that names a backend. reset holds the services in setReset.
func (f *natFamily) flowOf(e nft.Element, reset map[string]bool) (key conntrack.Destination, backend netip.AddrPort, ok bool) {
	class, isClass := classNamed(e.Set)
	if !isClass && e.Set != mapStatic && e.Set != mapProtocol && e.Set != mapAddress {
		return key, backend, false
	}
	c := f.claimed(e)
	key = conntrack.Destination{Addr: c.addr, Protocol: c.protocol, Port: c.port}
	n, port, data := f.addressLength(), c.port, e.Data
	if class.timeout != 0 {
		data = strings.TrimPrefix(data, f.nothing())
	}
	to, _ := netip.AddrFromSlice([]byte(data[:n]))
	if len(data) > n {
		port = uint16(data[n])<<8 | uint16(data[n+1])
	}
	return key, netip.AddrPortFrom(to, port), key.Protocol != unix.IPPROTO_TCP || reset[e.Key[:min(len(e.Key), f.serviceLength())]]
}

func (f *natFamily) noteStale(stale conntrack.Stale, before, after []nft.Element) {
	reset := resetsIn(before, after)
	was, is := f.flows(before, reset), f.flows(after, reset)
	for to, backends := range was {
		for _, b := range backends {
			if !slices.Contains(is[to], b) {
				stale.Add(to, b)
			}
		}
	}
	for to := range is {
		if was[to] == nil && to.Protocol != unix.IPPROTO_TCP {
			stale.Add(to, netip.AddrPortFrom(to.Addr, to.Port))
		}
	}
}

func (f *natFamily) flows(list []nft.Element, reset map[string]bool) conntrack.Stale {
	flows := conntrack.Stale{}
	for _, e := range list {
		if to, backend, ok := f.flowOf(e, reset); ok {
			flows.Add(to, backend)
		}
	}
	return flows
}

func resetsIn(lists ...[]nft.Element) map[string]bool {
	reset := map[string]bool{}
	for _, list := range lists {
		for _, e := range list {
			if e.Set == setReset {
				reset[e.Key] = true
			}
		}
	}
	return reset
}

func (v dnat) endFlows(stale conntrack.Stale) error {
	if len(stale) == 0 {
		return nil
	}
	if err := v.forget(stale); err != nil {
		return fmt.Errorf("ending connections of mappings that changed: %w", err)
	}
	return nil
}
