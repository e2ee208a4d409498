package fake

import (
	"context"
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
)

// serviceNetworks stores the ServiceNetwork.

type serviceNetworks struct{ v *VSwitch }

func networkTable(n *Node) map[string]*contiv_nat.ServiceNetwork { return n.network }

func (p serviceNetworks) Create(ctx context.Context, s *contiv_nat.ServiceNetwork) error {
	return put(ctx, p.v, s, networkTable, nil)
}

func (p serviceNetworks) Delete(ctx context.Context, s *contiv_nat.ServiceNetwork) error {
	return drop(ctx, p.v, s, networkTable)
}

func (p serviceNetworks) List(ctx context.Context, _ []*contiv_nat.ServiceNetwork) ([]*contiv_nat.ServiceNetwork, error) {
	return list(ctx, p.v, networkTable)
}

func within(addr netip.Addr, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Contains(addr)
	})
}

func (n *Node) hasNetwork(ipv6 bool) bool {
	for _, s := range n.network {
		for _, text := range slices.Concat(s.GetInside(), s.GetServiceSubnets()) {
			if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is6() == ipv6 {
				return true
			}
		}
	}
	return false
}

// translates reports whether destinations are translated for packets that enter on an interface; ""
// is the node itself.
func (n *Node) translates(in string, ipv6 bool) bool {
	part := n.nat.partOf(in)
	return in == "" || part.outside || part.output || n.hasNetwork(ipv6)
}

func (n *Node) isInside(client netip.Addr) bool {
	for _, s := range n.network {
		if within(client, s.GetInside()) {
			return true
		}
	}
	return false
}

// isFor reports whether a mapping applies to clients inside, outside, or to the node's own
// processes. A mapping that refuses or drops applies to all.
func isFor(m *staticMapping, inside, own bool) bool {
	switch m.GetClients() {
	case vpp_nat.DNat44_StaticMapping_NODE:
		return own
	case vpp_nat.DNat44_StaticMapping_INSIDE:
		return inside
	case vpp_nat.DNat44_StaticMapping_OUTSIDE:
		return !inside
	}
	return true
}

// mayUse ends the trace of a packet if the mapping excludes its source or has no backend.
func (t *tracer) mayUse(n *Node, m *staticMapping) bool {
	switch {
	case len(m.GetSourceRanges()) > 0 && !within(t.Src, m.GetSourceRanges()):
		t.drop(n, "%s may not use %s port %d", t.Src, t.dst, t.packet.DstPort)
	case len(m.GetLocalIps()) > 0:
		return true
	case m.GetOtherwise() == vpp_nat.DNat44_StaticMapping_REFUSE:
		t.drop(n, "refused: %s port %d has no backend", t.dst, t.packet.DstPort)
	default:
		t.drop(n, "%s port %d has no backend", t.dst, t.packet.DstPort)
	}
	return false
}

// isNoClusterIP ends the trace of a packet to an unassigned cluster IP.
func (t *tracer) isNoClusterIP(n *Node) bool {
	for _, s := range n.network {
		if within(t.dst, s.GetServiceSubnets()) {
			t.drop(n, "refused: no service has %s port %d", t.dst, t.packet.DstPort)
			return false
		}
	}
	return true
}

// hides returns the address of the output interface if the mapping hides the client.
func (n *Node) hides(t *tracer, in, out string) (netip.Addr, bool) {
	if t.twice == nil || !n.hasNetwork(t.Src.Is6()) {
		return netip.Addr{}, false
	}
	outside := in != "" && !n.isInside(t.Src)
	if in != "" && !(outside && t.twice.mapping.GetMasqueradeOutside()) {
		return netip.Addr{}, false
	}
	if i := n.all()[out]; i != nil {
		for prefix := range i.addrs {
			if prefix.Addr().Is6() == t.Src.Is6() {
				return prefix.Addr(), true
			}
		}
	}
	return netip.Addr{}, false
}
