package fake

import (
	"maps"
	"net/netip"
	"slices"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
)

type staticMapping = vpp_nat.DNat44_StaticMapping

// client identifies a client of a port of a value.
type client struct {
	addr     netip.Addr
	label    string
	ipv6     bool
	protocol uint8
	port     uint32
}

// twiceNAT is a translated packet's input for source translation.
type twiceNAT struct {
	mapping *staticMapping
	backend netip.Addr
}

func sameExternal(a, b *staticMapping) bool {
	return a.GetExternalIp() == b.GetExternalIp() && a.GetExternalInterface() == b.GetExternalInterface() &&
		a.GetExternalPort() == b.GetExternalPort() && a.GetProtocol() == b.GetProtocol()
}

func protocolNumber(p vpp_nat.DNat44_Protocol) uint8 {
	switch p {
	case vpp_nat.DNat44_UDP:
		return vswitch.ProtocolUDP
	case vpp_nat.DNat44_ICMP:
		return vswitch.ProtocolICMP
	case vswitch.DNATProtocolSCTP:
		return vswitch.ProtocolSCTP
	}
	return vswitch.ProtocolTCP
}

func (n *Node) isExternal(iface, ip string, addr netip.Addr) bool {
	if iface == "" {
		external, err := netip.ParseAddr(ip)
		return err == nil && external == addr
	}
	i := n.all()[iface]
	if i == nil {
		return false
	}
	for prefix := range i.addrs {
		if prefix.Addr() == addr {
			return true
		}
	}
	return false
}

func (n *Node) isIdentity(addr netip.Addr, protocol uint8, port uint16) bool {
	for _, v := range n.nat.dnat {
		for _, id := range v.GetIdMappings() {
			if n.isExternal(id.GetInterface(), id.GetIpAddress(), addr) && covers(uint16(id.GetPort()), id.GetProtocol(), port, protocol) {
				return true
			}
		}
	}
	return false
}

// covers reports whether the port and protocol of a mapping match a packet.
func covers(mapped uint16, protocol vpp_nat.DNat44_Protocol, port uint16, of uint8) bool {
	number := protocolNumber(protocol)
	if mapped == 0 {
		return number != vswitch.ProtocolICMP || of == number
	}
	return mapped == port && number == of
}

// translateDestination translates packets from outside, or from the node, to a backend of their
// service. If the packet is dropped, it ends the trace and returns false.
func (t *tracer) translateDestination(n *Node, in string) bool {
	t.twice = nil
	if !t.dst.Is6() && (n.nat.global == nil || !n.translates(in, false) || n.isIdentity(t.dst, t.packet.Protocol, t.packet.DstPort)) {
		return true
	}
	own := in == ""
	inside := own || n.isInside(t.Src)
	var best *staticMapping
	var label string
	rank := func(m *staticMapping) int {
		switch {
		case m == nil:
			return 0
		case m.GetClients() == vpp_nat.DNat44_StaticMapping_NODE:
			return 4
		case m.GetExternalPort() != 0:
			return 3
		case m.GetProtocol() == vpp_nat.DNat44_ICMP:
			return 2
		}
		return 1
	}
	for _, v := range n.dnatFor(t.dst) {
		for _, m := range v.GetStMappings() {
			if n.isExternal(m.GetExternalInterface(), m.GetExternalIp(), t.dst) &&
				covers(uint16(m.GetExternalPort()), m.GetProtocol(), t.packet.DstPort, t.packet.Protocol) && isFor(m, inside, own) && rank(m) > rank(best) {
				best, label = m, v.GetLabel()
			}
		}
	}
	if best == nil {
		return t.isNoClusterIP(n)
	}
	if !t.mayUse(n, best) {
		return false
	}
	backend, ok := t.pick(n, label, best)
	if !ok {
		return true
	}
	t.hop(n, "%s port %d becomes %s", t.dst, t.packet.DstPort, backend)
	t.dst = backend.Addr()
	if backend.Port() != 0 {
		t.packet.DstPort = backend.Port()
	}
	t.twice = &twiceNAT{best, backend.Addr()}
	return true
}

func (n *Node) dnatFor(addr netip.Addr) (values []*vpp_nat.DNat44) {
	if addr.Is4() {
		return slices.Collect(maps.Values(n.nat.dnat))
	}
	for _, v := range n.dnat66 {
		values = append(values, vswitch.DNAT66AsDNAT44(v))
	}
	return values
}

// pick returns the backend in the packet's slot, or the client's backend of the port.
func (t *tracer) pick(n *Node, label string, m *staticMapping) (netip.AddrPort, bool) {
	var backends []netip.AddrPort
	var probabilities []uint32
	for _, l := range m.GetLocalIps() {
		if addr, err := netip.ParseAddr(l.GetLocalIp()); err == nil {
			backends = append(backends, netip.AddrPortFrom(addr, uint16(l.GetLocalPort())))
			probabilities = append(probabilities, l.GetProbability())
		}
	}
	slots := vswitch.Slots(probabilities)
	if len(slots) == 0 {
		return netip.AddrPort{}, false
	}
	backend := backends[slots[t.packet.Slot%len(slots)]]
	if m.GetSessionAffinity() == 0 {
		return backend, true
	}
	who := client{t.Src, label, t.dst.Is6(), t.packet.Protocol, vswitch.AffinityPort(m)}
	for _, had := range n.nat.clients[who] {
		if slices.Contains(backends, had) {
			return had, true
		}
	}
	n.nat.clients[who] = slices.Insert(n.nat.clients[who], 0, backend)
	return backend, true
}

// translateSource translates the source of a leaving packet, if required. If NAT without forwarding
// drops it, it ends the trace and returns false.
func (t *tracer) translateSource(n *Node, in, out string) bool {
	if addr, ok := n.hides(t, in, out); ok {
		t.hop(n, "source %s becomes %s", t.Src, addr)
		t.Src = addr
		return true
	}
	if t.Src.Is6() {
		if addr, ok := n.twiceSource(t.twice, t.Src); ok {
			t.hop(n, "source %s becomes %s", t.Src, addr)
			t.Src = addr
		} else if in != "" {
			t.translate66(n, out)
		}
		return true
	}
	if n.nat.global == nil {
		return true
	}
	from, to := n.nat.partOf(in), n.nat.partOf(out)
	if in != "" && !n.nat.global.GetForwarding() && t.twice == nil && (from.outside || from.output) {
		t.drop(n, "NAT without forwarding: nothing translates it")
		return false
	}
	become := func(addr netip.Addr) {
		t.hop(n, "source %s becomes %s", t.Src, addr)
		t.Src = addr
	}
	if addr, ok := n.twiceSource(t.twice, t.Src); ok {
		become(addr)
		return true
	}
	if in == "" || n.ownerOf(t.Src) != "" || n.isIdentity(t.Src, t.packet.Protocol, t.packet.SrcPort) {
		return true
	}
	if addr, ok := n.nat.firstOfPool(false); ok && (to.output || to.outside && from.inside && !from.outside) {
		become(addr)
	}
	return true
}

func (t *twiceNAT) isBackend(addr netip.Addr) bool {
	return addr == t.backend || slices.ContainsFunc(t.mapping.GetLocalIps(), func(l *vpp_nat.DNat44_StaticMapping_LocalIP) bool {
		return l.GetLocalIp() == t.backend.String() && l.GetClientIp() == addr.String()
	})
}

// twiceSource returns the source address of twice-NAT, if it applies.
func (n *Node) twiceSource(t *twiceNAT, src netip.Addr) (netip.Addr, bool) {
	if t == nil {
		return netip.Addr{}, false
	}
	switch mode := t.mapping.GetTwiceNat(); {
	case mode == vpp_nat.DNat44_StaticMapping_DISABLED, mode == vpp_nat.DNat44_StaticMapping_SELF && !t.isBackend(src):
		return netip.Addr{}, false
	case t.mapping.GetTwiceNatPoolIp() != "":
		addr, err := netip.ParseAddr(t.mapping.GetTwiceNatPoolIp())
		return addr, err == nil
	}
	return n.nat.firstOfPool(true)
}
