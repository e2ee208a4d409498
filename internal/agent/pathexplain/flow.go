package pathexplain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/netlink/nft/foreign"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// flow is one direction of a connection through this node's kernel. It passes these hooks, and a
// bridge's where a device is its port:
//
//	ingress ── bridge ── ingress ── prerouting ──┬── forward ──┬── postrouting ── egress ── bridge ── egress
//	tunnel               device In               │             │                  device Out          tunnel
//	                                           input        output
//	                                             └── node ─────┘
type flow struct {
	// what describes the packets, such as "packets from 10.1.1.2 to 10.1.2.2".
	what string
	// Packet at any hook. In and Out are "" where the node itself receives or sends it.
	foreign.Packet
	// unrouted: known only up to routing, because it is translated then.
	unrouted bool
	// anyTable: see anyTable.
	anyTable bool
}

// answers returns the flow of the replies.
func (f flow) answers() flow {
	p := f.Packet
	p.In, p.Out, p.Src, p.Dst, p.SrcPort, p.DstPort = p.Out, p.In, p.Dst, p.Src, p.DstPort, p.SrcPort
	p.Answer = true
	return flow{what: fmt.Sprintf("answers from %v to %v", p.Src, p.Dst), Packet: p, anyTable: f.anyTable}
}

// hooks returns the packet at each hook on its path.
func (f flow) hooks(bridges map[string]bridged) (list []foreign.Packet) {
	at := func(hook foreign.Hook, in, out string) {
		p := f.Packet
		p.Hook, p.In, p.Out = hook, in, out
		list = append(list, p)
	}
	if f.In != "" {
		if b, is := bridges[f.In]; is {
			at(foreign.Ingress, b.tunnel, "")
			b.pass(at, b.tunnel, b.port)
		}
		at(foreign.Ingress, f.In, "")
		at(foreign.Prerouting, f.In, "")
	}
	switch {
	case f.In == "":
		at(foreign.Output, "", f.Out)
	case f.unrouted:
	case f.Out == "":
		at(foreign.Input, f.In, "")
	default:
		at(foreign.Forward, f.In, f.Out)
	}
	if f.Out != "" && !f.unrouted {
		at(foreign.Postrouting, f.In, f.Out)
		at(foreign.Egress, "", f.Out)
		if b, is := bridges[f.Out]; is {
			b.pass(at, b.port, b.tunnel)
			at(foreign.Egress, "", b.tunnel)
		}
	}
	return list
}

// effects returns the effects of foreign rules on the first packet, or else on later ones.
func (f flow) effects(rules *foreign.Ruleset, bridges map[string]bridged) (found []string) {
	if found = f.each(bridges, rules.Harms); len(found) == 0 {
		found = f.later().each(bridges, rules.Harms)
	}
	return found
}

// unjudged lists foreign rules with an unknown effect and the reason, each rule once, with the
// first flow that it may concern.
func unjudged(flows []flow, rules *foreign.Ruleset, bridges map[string]bridged) (found []string) {
	named := map[string]bool{}
	add := func(f flow) {
		for _, text := range f.each(bridges, rules.Doubts) {
			if rule := strings.TrimPrefix(text, f.what); !named[rule] {
				found, named[rule] = append(found, text), true
			}
		}
	}
	for _, f := range flows {
		add(f)
	}
	for _, f := range flows {
		add(f.later())
	}
	return found
}

const laterWord = "later "

// later returns the flow of the packets after the first.
func (f flow) later() flow {
	f.what, f.Later = laterWord+f.what, true
	return f
}

// reversed returns a finding if rp_filter drops the packets because replies would take another
// route, or "".
func (f flow) reversed() string {
	if f.In == "" || f.Src.Is6() {
		return ""
	}
	if !strictReversePath(f.In) {
		return ""
	}
	device, _, err := routeTo(f.Src)
	if _, refused := lookup(f.Packet); refused == nil || device == f.In {
		return ""
	}
	back := "its route back leads to " + device
	if err != nil {
		back = "no return route"
	}
	return fmt.Sprintf("are dropped on arrival at device %s, because its rp_filter is 1, and %s: fix the routes, or set net.ipv4.conf.%s.rp_filter to 2", f.In, back, f.In)
}

// each judges the packet at each hook.
func (f flow) each(bridges map[string]bridged, judge func(foreign.Packet) []string) (found []string) {
	for _, p := range f.hooks(bridges) {
		for _, text := range judge(p) {
			if text = f.what + " " + text; !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	return found
}

// bridged is a device whose frames pass a bridge into a tunnel.
type bridged struct {
	// port is the bridge port that the device connects to; "" if the device is the bridge.
	port   string
	tunnel string
}

// pass calls at for the hooks of the bridge.
func (b bridged) pass(at func(hook foreign.Hook, in, out string), in, out string) {
	switch {
	case b.port != "":
		at(foreign.Bridge+foreign.Prerouting, in, "")
		at(foreign.Bridge+foreign.Forward, in, out)
		at(foreign.Bridge+foreign.Postrouting, in, out)
	case in == "":
		at(foreign.Bridge+foreign.Output, "", out)
		at(foreign.Bridge+foreign.Postrouting, "", out)
	default:
		at(foreign.Bridge+foreign.Prerouting, in, "")
		at(foreign.Bridge+foreign.Input, in, "")
	}
}

// bridges returns the devices whose frames pass a bridge into a tunnel, by name.
func bridges() map[string]bridged {
	links, _ := netlink.LinkList() // entries missed in a changing list are not checked
	tunnels := map[int]string{}
	for _, l := range links {
		if l.Type() == "vxlan" && l.Attrs().MasterIndex != 0 {
			tunnels[l.Attrs().MasterIndex] = l.Attrs().Name
		}
	}
	found := map[string]bridged{}
	if len(tunnels) == 0 {
		return found
	}
	byIndex := map[int]netlink.Link{}
	for _, l := range links {
		byIndex[l.Attrs().Index] = l
	}
	for _, l := range links {
		if tunnel := tunnels[l.Attrs().Index]; tunnel != "" {
			found[l.Attrs().Name] = bridged{tunnel: tunnel}
		}
		peer := byIndex[l.Attrs().ParentIndex]
		if l.Type() != "veth" || l.Attrs().MasterIndex != 0 || peer == nil || peer.Attrs().ParentIndex != l.Attrs().Index {
			continue
		}
		if tunnel := tunnels[peer.Attrs().MasterIndex]; tunnel != "" {
			found[l.Attrs().Name] = bridged{port: peer.Attrs().Name, tunnel: tunnel}
		}
	}
	return found
}

// tunnelFlows returns the flows of the tunnel between this node and another.
func (e *Explainer) tunnelFlows(peer Node) (flows []flow) {
	for _, addr := range peer.Addresses {
		own, ok := sameVersion(e.ownAddresses(), addr)
		if !ok || e.o.Overhead(addr) == 0 {
			continue
		}
		sent := e.tunnelPacket(own, addr)
		received := e.tunnelPacket(addr, own)
		route, err := lookup(sent)
		if err == nil {
			sent.Out, err = deviceOf(route)
		}
		received.In = sent.Out
		flows = append(flows, flow{what: "tunnel packets to " + peerName, Packet: sent, anyTable: true})
		if err == nil { // otherwise a policy rule may be the reason
			flows = append(flows, flow{what: "tunnel packets from " + peerName, Packet: received, anyTable: true})
		}
	}
	return flows
}

func (e *Explainer) tunnelPacket(from, to netip.Addr) foreign.Packet {
	return foreign.Packet{Src: from, Dst: to, Protocol: unix.IPPROTO_UDP, SrcPort: ephemeral, DstPort: vxlanPort,
		Size: e.o.MTU() + e.o.Overhead(to), KeepsSource: true, Untracked: true}
}

// strictReversePath reports whether a device of the thread's network namespace accepts only IPv4
// packets whose source it routes to.
func strictReversePath(device string) bool {
	const settings = "ipv4/conf/"
	return max(number(settings+"all/rp_filter"), number(settings+device+"/rp_filter")) == 1
}
