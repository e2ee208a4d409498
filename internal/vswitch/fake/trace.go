package fake

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
)

// Verdict is the result of a trace.
type Verdict int

const (
	// Dropped: Trace.Reason holds the cause.
	Dropped Verdict = iota
	// Delivered: the host behind Trace.Interface of Trace.Node receives the packet.
	Delivered
	// Local: Trace.Node itself receives it.
	Local
	// Outside: it leaves the network through Trace.Interface of Trace.Node.
	Outside
)

func (v Verdict) String() string {
	return [...]string{"dropped", "delivered", "local", "outside"}[v]
}

// Trace is the path of a packet.
type Trace struct {
	Verdict Verdict
	// Node and Interface are the end of the path.
	Node, Interface string
	// Reason of a drop.
	Reason string
	// Src is the source address that the receiver sees. Dst and DstPort are the final destination.
	Src     netip.Addr
	Dst     netip.Addr
	DstPort uint16
	// MAC is the last destination MAC address, nil if it was not resolved.
	MAC  net.HardwareAddr
	Hops []Hop
}

// Hop is one decision on the path.
type Hop struct {
	Node string
	What string // for people
}

// String is the path, one hop a line.
func (t Trace) String() string {
	var b strings.Builder
	for _, h := range t.Hops {
		fmt.Fprintf(&b, "%s: %s\n", h.Node, h.What)
	}
	fmt.Fprintf(&b, "%s: %v", t.Node, t.Verdict)
	if t.Interface != "" {
		fmt.Fprintf(&b, " on %s", t.Interface)
	}
	if t.Reason != "" {
		fmt.Fprintf(&b, ": %s", t.Reason)
	}
	return b.String()
}

const maxHops = 64

// TracePacket traces a packet that enters the node on the interface ("": sent by the node) through
// the vswitches of the network. Access lists apply wherever it enters and leaves an interface.
//
//  1. Destination NAT. An address of the node in the packet's VRF: Local.
//  2. The longest matching route of the VRF, including connected networks. DROP routes
//     drop, INTER_VRF routes repeat it, and Local, in another VRF.
//  3. Source NAT, if the output interface has the output feature, or twice-NAT applies.
//  4. The neighbour. Behind a bridged virtual interface it must be configured, and
//     the L2 FIB leads on, perhaps into a VXLAN tunnel: then the packet enters the
//     peer that has a tunnel back, through the bridge domain there.
//  5. What is behind the interface: a host (TAP), another node or the outside (an
//     existing device), nothing (any other).
func (n *Node) TracePacket(from string, src, dst netip.Addr) Trace {
	return n.Trace(from, Packet{Src: src, Dst: dst})
}

type tracer struct {
	Trace
	dst     netip.Addr
	packet  Packet // its addresses are in Src and dst
	headers []header
	twice   *twiceNAT
}

func (t *tracer) hop(n *Node, format string, args ...any) {
	t.Hops = append(t.Hops, Hop{Node: n.name, What: fmt.Sprintf(format, args...)})
}

func (t *tracer) end(n *Node, v Verdict, iface string) {
	t.Verdict, t.Node, t.Interface = v, n.name, iface
}

func (t *tracer) drop(n *Node, format string, args ...any) {
	t.end(n, Dropped, "")
	t.Reason = fmt.Sprintf(format, args...)
}

// enter processes the packet at layer 3.
func (t *tracer) enter(n *Node, in string) {
	if len(t.Hops) > maxHops {
		t.drop(n, "the packet goes round in circles")
		return
	}
	if in != "" {
		i := n.ifaces[in]
		if i == nil || !i.value.GetEnabled() {
			t.drop(n, "interface %q does not exist or is down", in)
			return
		}
		if !t.inRanges(n, in) || !t.passes(n, in, false) {
			return
		}
	}
	if !t.translateDestination(n, in) {
		return
	}
	if t.local(n, n.vrf(in, t.dst.Is6())) {
		return
	}
	if t.segment(n, in, n.vrf(in, t.dst.Is6())) {
		return
	}
	path, ok := t.route(n, n.vrf(in, t.dst.Is6()), t.dst)
	if !ok {
		return
	}
	t.forward(n, in, path)
}

// local ends the trace if the destination is an address of the node in the VRF.
func (t *tracer) local(n *Node, vrf uint32) bool {
	owner := n.ownerIn(vrf, t.dst)
	if owner == "" {
		return false
	}
	t.hop(n, "%s is an address of %s", t.dst, owner)
	t.end(n, Local, owner)
	return true
}

func (n *Node) ownerIn(vrf uint32, addr netip.Addr) string {
	for name, i := range n.all() {
		for prefix := range i.addrs {
			if prefix.Addr() == addr && n.vrf(name, addr.Is6()) == vrf {
				return name
			}
		}
	}
	return ""
}

func (n *Node) ownerOf(addr netip.Addr) string {
	for name, i := range n.all() {
		for prefix := range i.addrs {
			if prefix.Addr() == addr {
				return name
			}
		}
	}
	return ""
}

func (n *Node) all() map[string]*iface {
	all := map[string]*iface{}
	used := map[*iface]bool{}
	for name, i := range n.ifaces {
		all[name], used[i] = i, true
	}
	for name, d := range n.devices {
		if !used[d] {
			all[name] = d
		}
	}
	return all
}

type path struct {
	out     string
	nextHop netip.Addr
}

// route finds the path to the address; it ends the trace if none exists.
func (t *tracer) route(n *Node, vrf uint32, addr netip.Addr) (path, bool) {
	for range maxHops {
		best, p := n.lookup(vrf, addr)
		switch {
		case best == nil && p.out == "":
			t.drop(n, "no route to %s in VRF %d", addr, vrf)
			return path{}, false
		case best == nil:
			t.hop(n, "%s is in a network of %s", addr, p.out)
			return p, true
		case best.GetType() == vpp_l3.Route_DROP:
			t.drop(n, "route to %s drops", best.GetDstNetwork())
			return path{}, false
		case best.GetType() == vpp_l3.Route_INTER_VRF:
			t.hop(n, "route to %s leads to VRF %d", best.GetDstNetwork(), best.GetViaVrfId())
			vrf = best.GetViaVrfId()
			if hop, err := netip.ParseAddr(best.GetNextHopAddr()); err == nil && !hop.IsUnspecified() {
				addr = hop
			} else if t.local(n, vrf) {
				return path{}, false
			}
		case best.GetOutgoingInterface() == "":
			t.hop(n, "route to %s via %s", best.GetDstNetwork(), best.GetNextHopAddr())
			addr, _ = netip.ParseAddr(best.GetNextHopAddr())
		default:
			t.hop(n, "route to %s via %s on %s", best.GetDstNetwork(), best.GetNextHopAddr(), best.GetOutgoingInterface())
			hop, err := netip.ParseAddr(best.GetNextHopAddr())
			if err != nil || hop.IsUnspecified() {
				hop = addr
			}
			return path{out: best.GetOutgoingInterface(), nextHop: hop}, true
		}
	}
	t.drop(n, "routes to %s go round in circles", addr)
	return path{}, false
}

// lookup returns the longest matching route, or the path into a connected network if that is as
// long.
func (n *Node) lookup(vrf uint32, addr netip.Addr) (best *vpp_l3.Route, connected path) {
	bits := -1
	for _, r := range n.routes {
		dst, err := netip.ParsePrefix(r.GetDstNetwork())
		if err != nil || r.GetVrfId() != vrf || !dst.Contains(addr) || dst.Bits() < bits {
			continue
		}
		if dst.Bits() == bits && best.GetPreference() <= r.GetPreference() {
			continue
		}
		best, bits = r, dst.Bits()
	}
	for name, i := range n.all() {
		for prefix := range i.addrs {
			inVRF := n.vrf(name, addr.Is6()) == vrf
			if inVRF && i.value.GetEnabled() && prefix.Contains(addr) && prefix.Bits() >= bits {
				best, bits, connected = nil, prefix.Bits(), path{out: name, nextHop: addr}
			}
		}
	}
	return best, connected
}

func (t *tracer) forward(n *Node, in string, p path) {
	out := n.all()[p.out]
	if out == nil || !out.value.GetEnabled() {
		t.drop(n, "outgoing interface %q does not exist or is down", p.out)
		return
	}
	if in != "" && !t.judged(n) {
		return
	}
	if !t.passes(n, p.out, true) {
		return
	}
	if !t.translateSource(n, in, p.out) {
		return
	}
	t.MAC = n.macOf(p.out, p.nextHop)
	switch out.value.GetType() {
	case vpp_interfaces.Interface_TAP:
		t.end(n, Delivered, p.out)
	case vpp_interfaces.Interface_DPDK, vpp_interfaces.Interface_AF_PACKET:
		t.leave(n, p)
	default:
		for name, b := range n.bridges {
			if b.bound[p.out].GetBridgedVirtualInterface() {
				t.bridge(n, name, b, p)
				return
			}
		}
		t.drop(n, "nothing is connected to interface %s", p.out)
	}
}

func (n *Node) macOf(iface string, addr netip.Addr) net.HardwareAddr {
	for _, e := range n.neighbours {
		if a, err := netip.ParseAddr(e.GetIpAddress()); err == nil && a == addr && e.GetInterface() == iface {
			mac, _ := net.ParseMAC(e.GetPhysAddress())
			return mac
		}
	}
	return nil
}

// leave passes the packet to another node of the network, or to the outside.
func (t *tracer) leave(n *Node, p path) {
	for _, peer := range n.net.nodes {
		for name, i := range peer.ifaces {
			for prefix := range i.addrs {
				if peer != n && deviceOf(i.value) != "" && prefix.Addr() == p.nextHop {
					t.hop(n, "%s is node %s", p.nextHop, peer.name)
					t.enter(peer, name)
					return
				}
			}
		}
	}
	t.end(n, Outside, p.out)
}

// bridge forwards the packet in a bridge domain that it enters from its virtual interface.
func (t *tracer) bridge(n *Node, name string, b *bridge, p path) {
	if t.MAC == nil {
		t.drop(n, "the MAC address of %s on %s is not configured", p.nextHop, p.out)
		return
	}
	e := n.fibEntry(name, t.MAC)
	switch {
	case e == nil:
		t.drop(n, "bridge domain %s does not know %s", name, t.MAC)
	case e.GetAction() == vpp_l2.FIBEntry_DROP:
		t.drop(n, "bridge domain %s drops %s", name, t.MAC)
	default:
		t.hop(n, "bridge domain %s has %s on %s", name, t.MAC, e.GetOutgoingInterface())
		t.emit(n, e.GetOutgoingInterface())
	}
}

func (n *Node) fibEntry(bd string, mac net.HardwareAddr) *vpp_l2.FIBEntry {
	for _, e := range n.fib {
		if m, err := net.ParseMAC(e.GetPhysAddress()); err == nil && e.GetBridgeDomain() == bd && m.String() == mac.String() {
			return e
		}
	}
	return nil
}

func (t *tracer) emit(n *Node, out string) {
	i := n.ifaces[out]
	switch {
	case i == nil || !i.value.GetEnabled():
		t.drop(n, "interface %q does not exist or is down", out)
	case !t.passes(n, out, true):
	case i.value.GetType() == vpp_interfaces.Interface_TAP:
		t.end(n, Delivered, out)
	case i.value.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL:
		t.encapsulate(n, i.value.GetVxlan())
	default:
		t.end(n, Outside, out)
	}
}

func (t *tracer) encapsulate(n *Node, link *vpp_interfaces.VxlanLink) {
	src, _ := netip.ParseAddr(link.GetSrcAddress())
	dst, _ := netip.ParseAddr(link.GetDstAddress())
	if n.ownerOf(src) == "" {
		t.drop(n, "the tunnel's source %s is no address of the node", src)
		return
	}
	outer := &tracer{Trace: Trace{Src: src, Hops: t.Hops}, dst: dst, packet: Packet{Protocol: vswitch.ProtocolUDP, DstPort: 4789}}
	outer.hop(n, "encapsulated with VNI %d to %s", link.GetVni(), dst)
	outer.enter(n, "")
	t.Hops = outer.Hops
	peer := n.net.node(outer.Node)
	if outer.Verdict != Local || peer == nil || peer == n {
		t.drop(n, "the tunnel's destination %s is not reached: %v %s", dst, outer.Verdict, outer.Reason)
		return
	}
	t.decapsulate(peer, link, src, dst)
}

func (net *Network) node(name string) *Node {
	for _, n := range net.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// decapsulate takes a frame from the tunnel back to its source.
func (t *tracer) decapsulate(n *Node, link *vpp_interfaces.VxlanLink, src, dst netip.Addr) {
	for name, i := range n.ifaces {
		back := i.value.GetVxlan()
		backSrc, _ := netip.ParseAddr(back.GetSrcAddress())
		backDst, _ := netip.ParseAddr(back.GetDstAddress())
		if back == nil || !i.value.GetEnabled() || back.GetVni() != link.GetVni() || backSrc != dst || backDst != src {
			continue
		}
		for bd, b := range n.bridges {
			if b.bound[name] != nil {
				t.hop(n, "decapsulated from %s into bridge domain %s", name, bd)
				if t.passes(n, name, false) {
					t.bridged(n, bd, b)
				}
				return
			}
		}
		t.drop(n, "tunnel %s is in no bridge domain", name)
		return
	}
	t.drop(n, "no tunnel with VNI %d to %s", link.GetVni(), src)
}

// bridged forwards a decapsulated frame to the virtual interface or by the L2 FIB, but not to its
// split horizon group.
func (t *tracer) bridged(n *Node, bd string, b *bridge) {
	for name, port := range b.bound {
		if !port.GetBridgedVirtualInterface() {
			continue
		}
		if mac, err := net.ParseMAC(n.ifaces[name].value.GetPhysAddress()); err == nil && mac.String() == t.MAC.String() {
			t.enter(n, name)
			return
		}
	}
	e := n.fibEntry(bd, t.MAC)
	if e == nil || n.ifaces[e.GetOutgoingInterface()].value.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL {
		t.drop(n, "bridge domain %s does not know %s", bd, t.MAC)
		return
	}
	t.emit(n, e.GetOutgoingInterface())
}

func isIPv6(network string) bool {
	prefix, err := netip.ParsePrefix(network)
	return err == nil && prefix.Addr().Is6()
}
