package nat

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/netlink/nft"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// staleFlows are connections that a changed mapping would handle differently, by the address that
// clients send to and the backend that it was translated to: connections to removed backends, and
// those that began untranslated before there was a mapping. TCP is among them only where setReset
// asks for it. Clients that keep their source port would otherwise never use the mapping.
// Connections to backends that stay go on.
type staleFlows map[flowKey][]netip.AddrPort

// flowKey identifies the packets that a mapping translates. Without a protocol: all but TCP;
// without a port: all ports. Once a TCP connection has been forgotten, the client's next packet
// counts as a new connection, is translated again, and is answered with a reset by its new
// receiver.
type flowKey struct {
	external netip.Addr
	protocol uint8
	port     uint16
}

// flowOf reads an element that names a backend. reset are services with setReset.
func (f *natFamily) flowOf(e nft.Element, reset map[string]bool) (key flowKey, backend netip.AddrPort, ok bool) {
	class, isClass := classNamed(e.Set)
	if !isClass && e.Set != mapStatic && e.Set != mapProtocol && e.Set != mapAddress {
		return key, backend, false
	}
	addr, _, port := f.claimed(e)
	key = flowKey{external: addr, port: port}
	n := f.addressLength()
	if len(e.Key) > n {
		key.protocol = e.Key[n]
	}
	data := e.Data
	if class.timeout != 0 {
		data = strings.TrimPrefix(data, f.nothing)
	}
	to, _ := netip.AddrFromSlice([]byte(data[:n]))
	if len(data) > n {
		port = uint16(data[n])<<8 | uint16(data[n+1])
	}
	return key, netip.AddrPortFrom(to, port), key.protocol != unix.IPPROTO_TCP || reset[e.Key[:min(len(e.Key), f.serviceLength)]]
}

// compare adds what a value leaves behind when it changes.
func (s staleFlows) compare(f *natFamily, before, after []nft.Element) {
	reset := resetsIn(before, after)
	was, is := staleFlows{}, staleFlows{}
	was.collect(f, before, reset)
	is.collect(f, after, reset)
	for key, backends := range was {
		for _, b := range backends {
			if !slices.Contains(is[key], b) {
				s.add(key, b)
			}
		}
	}
	for key := range is {
		if was[key] == nil && key.protocol != unix.IPPROTO_TCP {
			s.add(key, netip.AddrPortFrom(key.external, key.port))
		}
	}
}

func (s staleFlows) add(key flowKey, backend netip.AddrPort) {
	if !slices.Contains(s[key], backend) {
		s[key] = append(s[key], backend)
	}
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

func (s staleFlows) collect(f *natFamily, list []nft.Element, reset map[string]bool) {
	for _, e := range list {
		if key, backend, ok := f.flowOf(e, reset); ok {
			s.add(key, backend)
		}
	}
}

// endFlows makes the kernel forget connections.
func (v dnat) endFlows(stale staleFlows) error {
	if len(stale) == 0 {
		return nil
	}
	if err := v.forget(netlink.InetFamily(v.family.proto), stale); err != nil {
		return fmt.Errorf("ending connections of mappings that changed: %w", err)
	}
	return nil
}

func (v *Driver) forgetConnections(family netlink.InetFamily, which netlink.CustomConntrackFilter) error {
	h, err := netlink.NewHandleAt(v.NS.Handle, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("opening netlink for connections: %w", err)
	}
	defer h.Close()
	_, err = h.ConntrackDeleteFilters(netlink.ConntrackTable, family, which)
	return err
}

// MatchConntrackFlow reports whether a connection is to end.
func (s staleFlows) MatchConntrackFlow(c *netlink.ConntrackFlow) bool {
	external, _ := netip.AddrFromSlice(c.Forward.DstIP)
	target, _ := netip.AddrFromSlice(c.Reverse.SrcIP)
	external, target = external.Unmap(), target.Unmap()
	keys := []flowKey{{external, c.Forward.Protocol, c.Forward.DstPort}, {external, c.Forward.Protocol, 0}, {external, 0, 0}}
	if c.Forward.Protocol == unix.IPPROTO_TCP {
		keys = keys[:1]
	}
	for _, key := range keys {
		port := c.Reverse.SrcPort
		if key.port == 0 {
			port = 0
		}
		if slices.Contains(s[key], netip.AddrPortFrom(target, port)) {
			return true
		}
	}
	return false
}
