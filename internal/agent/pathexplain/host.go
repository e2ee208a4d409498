package pathexplain

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/lib/ping"
	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/nft/foreign"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// vxlanPort is the port of tunnels between nodes.
const vxlanPort = 4789

// host adds the kernel's handling of the packets.
func (e *Explainer) host(ctx context.Context, r *Report, q Question, from, to end) {
	where := "node " + e.o.Node
	local, _ := localAddresses()
	r.LocalConflict = to.ofPods() && local[to.addr].device != 0 && !slices.Contains(e.gateways(), to.addr)
	request := flow{what: fmt.Sprintf("packets from %v to %v", from.addr, to.addr), unrouted: r.translated, anyTable: anyTable(from, to), Packet: foreign.Packet{
		Src: q.From, Dst: q.To, Protocol: q.protocol(), SrcPort: q.sourcePort(), DstPort: q.Port, Size: e.o.MTU(),
		Untranslated: !q.OfService && !r.translated && from.ofPods() && to.ofPods(), KeepsSource: from.ofPods() && to.ofPods()}}
	diversions, err := e.policyRules()
	if err != nil {
		r.find(where, fmt.Sprintf("reading policy rules of other programs failed: %v", err))
	}
	reply := request.answers().Packet
	if to.pod != nil {
		reply.In = to.pod.Device
	}
	request.In = e.route(r, to, from, reply, local, diversions) // the return path
	if from.out != nil && request.In != "" {
		request.In = from.out.Device
	}
	if !r.translated {
		sent := request.Packet
		if from.pod != nil {
			sent.In = from.pod.Device
		}
		request.Out = e.route(r, from, to, sent, local, diversions)
		request.unrouted = request.Out == "" && !to.isNode()
	}
	var flows []flow
	if request.In != "" || from.isNode() {
		flows = append(flows, request)
		if !request.unrouted {
			answers := request.answers()
			if to.out != nil && answers.In != "" {
				answers.In = to.out.Device
			}
			if from.pod != nil && answers.Out != "" {
				answers.Out = from.pod.Device
			}
			flows = append(flows, answers)
		}
	}
	var peers []Node
	for _, x := range []struct{ this, peer end }{{from, to}, {to, from}} {
		if x.this.here && x.peer.node != nil && !x.peer.here {
			e.underlay(ctx, r, *x.peer.node, diversions)
			peers = append(peers, *x.peer.node)
		}
	}
	for _, peer := range peers {
		for _, f := range e.tunnelFlows(peer) {
			f.what = strings.Replace(f.what, peerName, "node "+peer.Name, 1)
			flows = append(flows, f)
		}
	}
	rules, err := e.foreign()
	if err != nil {
		r.find(where, fmt.Sprintf("reading filters of other programs failed: %v", err))
	}
	through := bridges()
	for _, f := range flows {
		if text := divert(diversions, f.Packet, f.anyTable); text != "" && !r.translated {
			r.find(where, f.what+" "+text)
		} else if text := f.reversed(); text != "" {
			r.find(where, f.what+" "+text)
		}
		if err == nil {
			r.findAll(where, f.effects(rules, through))
		}
		if err == nil && rules.MayMark(f.Packet) {
			for _, text := range divertIfMarked(diversions, f.Packet) {
				r.addUnjudged(where, []string{f.what + " " + text})
			}
		}
	}
	if err == nil {
		r.addUnjudged(where, unjudged(flows, rules, through))
	}
	if h, err := netlink.NewHandle(unix.NETLINK_ROUTE); err == nil {
		defer h.Close()
		for _, device := range passed(flows, through) {
			r.addUnjudged(where, e.programs(h, device))
		}
	}
}

// anyTable reports whether the host's administrator decides which table routes the packets: between
// nodes (source routing, a VPN) and to addresses outside the cluster.
func anyTable(from, to end) bool {
	return !from.ofPods() && !to.ofPods() || from.outside() || to.outside()
}

func (q Question) protocol() uint8 {
	switch {
	case q.Protocol == "tcp":
		return unix.IPPROTO_TCP
	case q.Protocol == "udp":
		return unix.IPPROTO_UDP
	case q.Protocol == "sctp":
		return unix.IPPROTO_SCTP
	case q.To.Is6():
		return unix.IPPROTO_ICMPV6
	}
	return unix.IPPROTO_ICMP
}

// sourcePort returns a typical client port; 0 without a protocol.
func (q Question) sourcePort() uint16 {
	if q.Protocol == "" {
		return 0
	}
	return ephemeral
}

// ephemeral is a port in the range of client and tunnel source ports.
const ephemeral = 49999

func (e *Explainer) foreign() (*foreign.Ruleset, error) {
	ns, err := namespace.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	return foreign.Read(ns, e.o.OurTable)
}

// route checks the route of a packet between the ends and returns the outgoing device; "" for the
// node itself. local has the addresses of the node's devices.
func (e *Explainer) route(r *Report, from, to end, p foreign.Packet, local map[netip.Addr]localAddress, diversions []policyRule) string {
	where := "node " + e.o.Node
	if to.isNode() {
		return ""
	}
	routes, err := netlink.RouteGetWithOptions(to.addr.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil || len(routes) == 0 {
		if text := divert(diversions, p, anyTable(from, to)); text != "" {
			r.find(where, fmt.Sprintf("packets from %v to %v %s", from.addr, to.addr, text))
			return ""
		}
		family := netlink.FAMILY_V4
		if to.addr.Is6() {
			family = netlink.FAMILY_V6
		}
		if route, found := bestRoute(family, unix.RT_TABLE_MAIN, to.addr); found && to.ofPods() && leadsNowhere[route.Type] != "" && !e.o.OurRoute(int(route.Protocol)) {
			r.find(where, foreignRoute(route, routeText(route), to.addr))
			return ""
		}
		if !to.unused {
			r.find(where, fmt.Sprintf("it has no route to %v: %v", to.addr, err))
		}
		return ""
	}
	route, device := routes[0], ""
	if anyTable(from, to) {
		if taken, err := matchedRoute(p); err == nil { // else the plain route is the closest
			route = taken
		}
	}
	link, err := netlink.LinkByIndex(route.LinkIndex)
	if err == nil {
		device = link.Attrs().Name
	}
	text := routeText(route)
	ofPods := to.ofPods()
	switch {
	case ofPods && local[to.addr].device != 0:
		r.find(where, local[to.addr].conflict())
	case ofPods && !e.o.OurRoute(int(route.Protocol)) && route.Protocol != unix.RTPROT_KERNEL:
		r.find(where, foreignRoute(route, text, to.addr))
	case route.Type != unix.RTN_UNICAST && route.Type != unix.RTN_LOCAL:
		r.find(where, fmt.Sprintf("packets to %v end at a blackhole route (%s): the route to the pod or its node is missing", to.addr, cmp.Or(network(route), "default")))
	case to.pod != nil && to.pod.Device != "" && device != to.pod.Device:
		r.find(where, fmt.Sprintf("%s takes the packets to pod %s, which is behind %s", text, to.pod.Name, to.pod.Device))
	}
	if link != nil && link.Attrs().Flags&net.FlagUp == 0 {
		r.find(where, fmt.Sprintf("device %s is down", device))
	}
	r.Way = append(r.Way, fmt.Sprintf("%s: to %v by %s", where, to.addr, text))
	return device
}

func routeText(route netlink.Route) string {
	to := cmp.Or(network(route), "default")
	if nowhere := leadsNowhere[route.Type]; nowhere != "" {
		return fmt.Sprintf("route %s %s", nowhere, to)
	}
	device := "-"
	if link, err := netlink.LinkByIndex(route.LinkIndex); err == nil {
		device = link.Attrs().Name
	}
	return fmt.Sprintf("route %s dev %s %s", to, device, via(route))
}

// foreignRoute returns a finding if a foreign route carries packets to a pod address. The default
// route does so only where ours is missing.
func foreignRoute(route netlink.Route, text string, to netip.Addr) string {
	if network(route) == "" {
		return fmt.Sprintf("it has no specific route to %v and uses the default route (%s)", to, text)
	}
	table := ""
	if route.Table != unix.RT_TABLE_MAIN && route.Table != 0 {
		table = fmt.Sprintf(" table %d", route.Table)
	}
	family := ""
	if to.Is6() {
		family = "-6 "
	}
	return fmt.Sprintf("%s is foreign (%s) and diverts packets to %v: remove it with `ip %sroute del %s%s`", text, maker(route), to, family, network(route), table)
}

// maker describes the origin of a route from its protocol.
func maker(route netlink.Route) string {
	number := int(route.Protocol)
	names := map[int]string{
		unix.RTPROT_BOOT: "boot: made by hand, or by a script", unix.RTPROT_STATIC: "static",
		unix.RTPROT_RA: "router advertisement", unix.RTPROT_DHCP: "DHCP", unix.RTPROT_ZEBRA: "zebra", unix.RTPROT_BIRD: "bird",
		unix.RTPROT_BGP: "BGP, of FRR", unix.RTPROT_OSPF: "OSPF, of FRR", unix.RTPROT_KEEPALIVED: "keepalived",
	}
	if name := names[number]; name != "" {
		return fmt.Sprintf("protocol %d, %s", number, name)
	}
	return fmt.Sprintf("protocol %d", number)
}

func network(route netlink.Route) string {
	if route.Dst == nil {
		return ""
	}
	if ones, _ := route.Dst.Mask.Size(); ones == 0 {
		return ""
	}
	return route.Dst.String()
}

// underlay checks the path to another node: the device and the neighbour.
func (e *Explainer) underlay(ctx context.Context, r *Report, peer Node, diversions []policyRule) {
	where := "node " + e.o.Node
	own, _ := e.ownDevices(ctx)
	e.show(r, where, own)
	for _, addr := range peer.Addresses {
		packet := foreign.Packet{Dst: addr}
		if own, ok := sameVersion(e.ownAddresses(), addr); ok && e.o.Overhead(addr) > 0 {
			packet = e.tunnelPacket(own, addr)
		}
		route, err := lookup(packet)
		if err != nil {
			if packet.Src.IsValid() && divert(diversions, packet, true) != "" {
				continue // the tunnel's packets are judged there
			}
			r.find(where, fmt.Sprintf("it has no route to node %s (%v): %v", peer.Name, addr, err))
			continue
		}
		next := addr
		if gw, ok := netip.AddrFromSlice(route.Gw); ok {
			next = gw.Unmap()
		}
		if !resolved(route.LinkIndex, next) { // the kernel resolves it only when packets are sent
			e.resolve(ctx, addr)
		}
		r.neighbour(where, route.LinkIndex, next)
	}
}

// resolved reports whether the kernel has an entry for the next hop.
func resolved(device int, addr netip.Addr) bool {
	list, _ := netlink.NeighList(device, netlink.FAMILY_ALL)
	return slices.ContainsFunc(list, func(n netlink.Neigh) bool {
		ip, ok := netip.AddrFromSlice(n.IP)
		return ok && ip.Unmap() == addr
	})
}

// resolve sends a packet to an address and waits briefly for the answer.
func (e *Explainer) resolve(ctx context.Context, addr netip.Addr) {
	pinger, err := ping.Open(nil, netip.Addr{})
	if err != nil {
		return
	}
	defer pinger.Close()
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, _ = pinger.Ping(limited, addr, ping.Small) // only the neighbour entry matters
}

// neighbour checks the kernel's entry for the next hop.
func (r *Report) neighbour(where string, device int, addr netip.Addr) {
	link, err := netlink.LinkByIndex(device)
	if err != nil {
		return
	}
	list, _ := netlink.NeighList(device, netlink.FAMILY_ALL)
	for _, n := range list {
		if ip, ok := netip.AddrFromSlice(n.IP); !ok || ip.Unmap() != addr {
			continue
		}
		if n.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) != 0 {
			r.find(where, fmt.Sprintf("neighbour %v on %s is not reachable (entry %s)", addr, link.Attrs().Name, map[bool]string{true: "FAILED", false: "INCOMPLETE"}[n.State&netlink.NUD_FAILED != 0]))
			continue
		}
		r.Neighbours = append(r.Neighbours, Neighbour{addr.String(), link.Attrs().Name, n.HardwareAddr.String(), n.State&netlink.NUD_PERMANENT != 0})
	}
}
