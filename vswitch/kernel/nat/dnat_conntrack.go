package nat

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/netlink/conntrack"
	"github.com/contiv/contiv/netlink/nft"
	"golang.org/x/sys/unix"
)

// What a changed mapping leaves behind are connections that it would handle differently, by the address that clients send to and
// the backend that it was translated to: connections to removed backends, and those that began untranslated before there was a
// mapping. TCP is among them only where setReset asks for it. Clients that keep their source port would otherwise never use the
// mapping. Connections to backends that stay go on.

// flowOf reads an element that names a backend. reset are services with setReset.
func (f *natFamily) flowOf(e nft.Element, reset map[string]bool) (key conntrack.Destination, backend netip.AddrPort, ok bool) {
	class, isClass := classNamed(e.Set)
	if !isClass && e.Set != mapStatic && e.Set != mapProtocol && e.Set != mapAddress {
		return key, backend, false
	}
	addr, _, port := f.claimed(e)
	key = conntrack.Destination{Addr: addr, Port: port}
	n := f.addressLength()
	if len(e.Key) > n {
		key.Protocol = e.Key[n]
	}
	data := e.Data
	if class.timeout != 0 {
		data = strings.TrimPrefix(data, f.nothing)
	}
	to, _ := netip.AddrFromSlice([]byte(data[:n]))
	if len(data) > n {
		port = uint16(data[n])<<8 | uint16(data[n+1])
	}
	return key, netip.AddrPortFrom(to, port), key.Protocol != unix.IPPROTO_TCP || reset[e.Key[:min(len(e.Key), f.serviceLength)]]
}

// noteStale adds what a value leaves behind when it changes.
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

// flows are those that elements translate.
func (f *natFamily) flows(list []nft.Element, reset map[string]bool) conntrack.Stale {
	flows := conntrack.Stale{}
	for _, e := range list {
		if to, backend, ok := f.flowOf(e, reset); ok {
			flows.Add(to, backend)
		}
	}
	return flows
}

// resetsIn are the services that are in setReset.
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

// endFlows makes the kernel forget connections.
func (v dnat) endFlows(stale conntrack.Stale) error {
	if len(stale) == 0 {
		return nil
	}
	if err := v.forget(stale); err != nil {
		return fmt.Errorf("ending connections of mappings that changed: %w", err)
	}
	return nil
}
