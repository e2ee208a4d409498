package path

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/netlink/namespace"
	"github.com/contiv/contiv/netlink/nft/foreign"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// vxlanPort is the port of tunnels between nodes.
const vxlanPort = 4789

// host adds what the kernel of the node would do.
func (e *Explainer) host(ctx context.Context, r *Report, q Question, from, to end) {
	where := "node " + e.o.Node
	in, out := e.route(r, from), e.route(r, to) // the way back, and the way there
	rules, err := e.foreign()
	if err != nil {
		r.find(where, fmt.Sprintf("filters of others cannot be read: %v", err))
		rules = &foreign.Ruleset{}
	}
	drops := func(direction string, p foreign.Packet) {
		for _, by := range rules.Drops(p) {
			r.find(where, fmt.Sprintf("%s are dropped: %s", direction, by))
		}
	}
	packet := foreign.Packet{In: in, Out: out, Src: q.From, Dst: q.To, Protocol: q.protocol(), DstPort: q.Port, Size: e.o.MTU()}
	for hook, direction := range e.hooks(from, to) {
		packet.Hook = hook
		drops(direction, packet)
	}
	for _, x := range []struct{ this, peer end }{{from, to}, {to, from}} {
		if x.this.here && x.peer.node != nil && !x.peer.here {
			e.underlay(ctx, r, *x.peer.node, drops)
		}
	}
}

func (q Question) protocol() uint8 {
	switch {
	case q.Protocol == "tcp":
		return unix.IPPROTO_TCP
	case q.Protocol == "udp":
		return unix.IPPROTO_UDP
	case q.To.Is6():
		return unix.IPPROTO_ICMPV6
	}
	return unix.IPPROTO_ICMP
}

// hooks returns the hooks that packets from one end to the other pass on this node, with descriptions.
func (e *Explainer) hooks(from, to end) map[foreign.Hook]string {
	packets := fmt.Sprintf("packets from %v to %v", from.addr, to.addr)
	hooks := map[foreign.Hook]string{}
	switch {
	case from.here && from.pod == nil:
		hooks[foreign.Output] = packets
	default:
		hooks[foreign.Prerouting] = packets
	}
	switch {
	case to.here && to.pod == nil:
		hooks[foreign.Input] = packets
	case from.pod != nil || !from.here:
		hooks[foreign.Forward] = packets
	}
	hooks[foreign.Postrouting] = packets
	if to.here && to.pod == nil {
		delete(hooks, foreign.Postrouting)
	}
	return hooks
}

func (e *Explainer) foreign() (*foreign.Ruleset, error) {
	ns, err := namespace.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	return foreign.Read(ns, e.o.OurTable)
}

// route checks the route to an end, and returns the name of the device that leads there; "" for the
// node itself.
func (e *Explainer) route(r *Report, to end) string {
	where := "node " + e.o.Node
	if to.here && to.pod == nil {
		return ""
	}
	routes, err := netlink.RouteGetWithOptions(to.addr.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil || len(routes) == 0 {
		r.find(where, fmt.Sprintf("it has no route to %v: %v", to.addr, err))
		return ""
	}
	route, device := routes[0], ""
	link, err := netlink.LinkByIndex(route.LinkIndex)
	if err == nil {
		device = link.Attrs().Name
	}
	text := fmt.Sprintf("route %v dev %s %s", cmp.Or(network(route), "default"), cmp.Or(device, "-"), via(route))
	ofPods := to.pod != nil || to.node != nil && !slices.Contains(to.node.Addresses, to.addr)
	switch {
	case ofPods && !e.o.OurRoute(int(route.Protocol)) && route.Protocol != unix.RTPROT_KERNEL:
		r.find(where, fmt.Sprintf("%s is somebody else's (protocol %d) and takes the packets to %v: remove it", text, route.Protocol, to.addr))
	case route.Type != unix.RTN_UNICAST && route.Type != unix.RTN_LOCAL:
		r.find(where, fmt.Sprintf("packets to %v end at a route that leads nowhere (%s): the route of the pod, or to its node, is missing", to.addr, cmp.Or(network(route), "default")))
	case to.pod != nil && to.pod.Device != "" && device != to.pod.Device:
		r.find(where, fmt.Sprintf("%s takes the packets to pod %s, which is behind %s", text, to.pod.Name, to.pod.Device))
	}
	if link != nil && link.Attrs().Flags&net.FlagUp == 0 {
		r.find(where, fmt.Sprintf("device %s is down", device))
	}
	r.Way = append(r.Way, fmt.Sprintf("%s: to %v by %s", where, to.addr, text))
	return device
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

// underlay checks the way to another node: the device, the neighbour, filters of tunnels.
func (e *Explainer) underlay(ctx context.Context, r *Report, peer Node, drops func(string, foreign.Packet)) {
	where := "node " + e.o.Node
	own, _ := e.ownDevices(ctx)
	r.show(where, own)
	for _, addr := range peer.Addresses {
		routes, err := netlink.RouteGet(addr.AsSlice())
		if err != nil || len(routes) == 0 {
			r.find(where, fmt.Sprintf("it has no route to node %s (%v): %v", peer.Name, addr, err))
			continue
		}
		next := addr
		if gw, ok := netip.AddrFromSlice(routes[0].Gw); ok {
			next = gw.Unmap()
		}
		r.neighbour(where, routes[0].LinkIndex, next)
	}
	e.tunnels(peer, func(what string, p foreign.Packet) { drops(what+" node "+peer.Name, p) })
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
			r.find(where, fmt.Sprintf("nobody answers for %v on %s (neighbour %s)", addr, link.Attrs().Name, map[bool]string{true: "FAILED", false: "INCOMPLETE"}[n.State&netlink.NUD_FAILED != 0]))
			continue
		}
		r.Neighbours = append(r.Neighbours, Neighbour{addr.String(), link.Attrs().Name, n.HardwareAddr.String(), n.State&netlink.NUD_PERMANENT != 0})
	}
}
