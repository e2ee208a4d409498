package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// staleFlows are connections, but for TCP, that a changed mapping would handle in
// another way, by what clients send to and where it went: to backends that are gone,
// and what was not translated when there was no mapping. Clients that keep their
// source port would otherwise never meet the mapping. Connections to backends that
// stay go on.
type staleFlows map[flowKey][]netip.AddrPort

// flowKey is what a mapping translates; no protocol: any but TCP; no port: any.
type flowKey struct {
	external netip.Addr
	protocol uint8
	port     uint16
}

// flowOf reads an element that names a backend.
func flowOf(e natElement) (key flowKey, backend netip.AddrPort, ok bool) {
	class, isClass := classNamed(e.set)
	if !isClass && e.set != mapStatic && e.set != mapProtocol && e.set != mapAddress {
		return key, backend, false
	}
	addr, _, port := claimed(e)
	key = flowKey{external: addr, port: port}
	if len(e.key) > 4 {
		key.protocol = e.key[4]
	}
	data := e.data
	if class.timeout != 0 {
		data = strings.TrimPrefix(data, nothing)
	}
	to, _ := netip.AddrFromSlice([]byte(data[:4]))
	if len(data) > 4 {
		port = uint16(data[4])<<8 | uint16(data[5])
	}
	return key, netip.AddrPortFrom(to, port), key.protocol != unix.IPPROTO_TCP
}

// compare adds what a value leaves behind when it changes.
func (s staleFlows) compare(before, after []natElement) {
	was, is := staleFlows{}, staleFlows{}
	was.collect(before)
	is.collect(after)
	for key, backends := range was {
		for _, b := range backends {
			if !slices.Contains(is[key], b) {
				s[key] = append(s[key], b)
			}
		}
	}
	for key := range is {
		if was[key] == nil {
			s[key] = append(s[key], netip.AddrPortFrom(key.external, key.port))
		}
	}
}

func (s staleFlows) collect(list []natElement) {
	for _, e := range list {
		if key, backend, ok := flowOf(e); ok && !slices.Contains(s[key], backend) {
			s[key] = append(s[key], backend)
		}
	}
}

// endFlows makes the kernel forget connections.
func (v nat) endFlows(stale staleFlows) error {
	if len(stale) == 0 {
		return nil
	}
	h, err := netlink.NewHandleAt(v.ns.handle, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("opening netlink for connections: %w", err)
	}
	defer h.Close()
	if _, err := h.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, stale); err != nil {
		return fmt.Errorf("ending connections of mappings that changed: %w", err)
	}
	return nil
}

// MatchConntrackFlow tells if a connection is to end.
func (s staleFlows) MatchConntrackFlow(c *netlink.ConntrackFlow) bool {
	if c.Forward.Protocol == unix.IPPROTO_TCP {
		return false
	}
	external, _ := netip.AddrFromSlice(c.Forward.DstIP.To4())
	target, _ := netip.AddrFromSlice(c.Reverse.SrcIP.To4())
	for _, key := range []flowKey{
		{external, c.Forward.Protocol, c.Forward.DstPort}, {external, c.Forward.Protocol, 0}, {external, 0, 0},
	} {
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
