package path

import (
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/netlink/nft/foreign"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// flow is one direction of a connection through the kernel of this node. It passes these hooks, those of
// bridges where a device is a port of one:
//
//	ingress ── bridge ── ingress ── prerouting ──┬── forward ──┬── postrouting ── egress ── bridge ── egress
//	tunnel               device In               │             │                  device Out          tunnel
//	                                           input        output
//	                                             └── node ─────┘
type flow struct {
	// what are the packets, such as "packets from 10.1.1.2 to 10.1.2.2".
	what string
	// Packet at any hook; In and Out are "" where the node itself receives or sends it.
	foreign.Packet
	// unrouted: it is only known until it is routed, because it is translated then.
	unrouted bool
	// anyTable: which one routes the packets is the host's own business.
	anyTable bool
}

// answers returns the flow of the answers.
func (f flow) answers() flow {
	p := f.Packet
	p.In, p.Out, p.Src, p.Dst, p.SrcPort, p.DstPort = p.Out, p.In, p.Dst, p.Src, p.DstPort, p.SrcPort
	p.Answer = true
	return flow{what: fmt.Sprintf("answers from %v to %v", p.Src, p.Dst), Packet: p, anyTable: f.anyTable}
}

// hooks returns the packet as it is at each hook on its way.
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

// harms says what rules of others do to the packets: to the first one, or if that passes, to later ones.
func (f flow) harms(rules *foreign.Ruleset, bridges map[string]bridged) (found []string) {
	if found = f.each(bridges, rules.Harms); len(found) == 0 {
		found = f.later().each(bridges, rules.Harms)
	}
	return found
}

// doubts says what rules of others may do to packets, and why they are not judged: each rule once, with the first of the flows that it
// may concern.
func doubts(flows []flow, rules *foreign.Ruleset, bridges map[string]bridged) (found []string) {
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

// later returns the flow of what follows the first packet.
func (f flow) later() flow {
	f.what, f.Later = laterWord+f.what, true
	return f
}

// reversed says that the kernel drops the packets where they come in, since it would send answers elsewhere (rp_filter); "" if it does
// not.
func (f flow) reversed() string {
	if f.In == "" || f.Src.Is6() {
		return ""
	}
	if !strictReversePath(f.In) {
		return ""
	}
	device, _, err := routeTo(f.Src)
	if _, refused := lookup(f.Src, f.Dst, f.In); refused == nil || device == f.In {
		return ""
	}
	back := "its route back leads to " + device
	if err != nil {
		back = "there is no route back"
	}
	return fmt.Sprintf("are dropped as they come in at device %s, because its rp_filter is 1, and %s: mend the routes, or set net.ipv4.conf.%s.rp_filter to 2", f.In, back, f.In)
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

// bridged is a device whose frames go through a bridge, into a tunnel.
type bridged struct {
	// port of the bridge that the device is connected to; "": the device is the bridge.
	port   string
	tunnel string
}

// pass calls at with the hooks of the bridge.
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

// bridges returns the devices whose frames go through a bridge into a tunnel, by name.
func bridges() map[string]bridged {
	links, _ := netlink.LinkList() // what a changing list lacks is not checked
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

// tunnelFlows are the packets of the tunnel between this node and another.
func (e *Explainer) tunnelFlows(peer Node) (flows []flow) {
	for _, addr := range peer.Addresses {
		own, ok := sameVersion(e.ownAddresses(), addr)
		if !ok || e.o.Overhead(addr) == 0 {
			continue
		}
		device, _, err := routeTo(addr)
		tunnel := foreign.Packet{Protocol: unix.IPPROTO_UDP, SrcPort: ephemeral, DstPort: vxlanPort, Size: e.o.MTU() + e.o.Overhead(addr)}
		sent, received := tunnel, tunnel
		sent.Out, sent.Src, sent.Dst = device, own, addr
		received.In, received.Src, received.Dst = device, addr, own
		flows = append(flows, flow{what: "tunnel packets to " + peerName, Packet: sent, anyTable: true})
		if err == nil { // else a policy rule may say why
			flows = append(flows, flow{what: "tunnel packets from " + peerName, Packet: received, anyTable: true})
		}
	}
	return flows
}

// strictReversePath reports whether a device of the thread's network namespace only takes IPv4 packets to whose source it leads itself.
func strictReversePath(device string) bool {
	const settings = "ipv4/conf/"
	return max(number(settings+"all/rp_filter"), number(settings+device+"/rp_filter")) == 1
}
