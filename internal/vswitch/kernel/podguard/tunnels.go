package podguard

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Rules for VXLAN packets of networks (VNI) with a vswitch tunnel. Other networks on the port are
// not filtered.
//
//	sources       from a peer to the node: notrack, so that NAT skips the tunnel
//	vxlan-sent    from the node to a peer: likewise
//	local         translated? drop ─> not from a peer? drop ─> not from the underlay? drop
//	sent          to a peer, from a device of the vswitch? drop
//	              to a peer, and translated? drop: the peer would accept it as the node's own
//
// A packet is from the underlay if the route to the peer uses its input interface, or if that
// interface has the node's tunnel address.

const portVXLAN = 4789

// Conntrack reassembles the fragments of a packet only if it tracks all of them.
func noFragment4() words {
	return join(masked16(6, 0x3fff), equals(0, 0))
}

func noFragment6() words {
	return join(of(&expr.Exthdr{DestRegister: scratch, Type: unix.IPPROTO_FRAGMENT, Len: 1, Flags: unix.NFT_EXTHDR_F_PRESENT}), equals(0))
}

func vni() words { return transport(12, 3, first) }

// routeBack matches packets received on the interface of the route to their source.
func routeBack() words {
	return join(of(&expr.Fib{Register: scratch, FlagSADDR: true, FlagIIF: true, ResultOIF: true, FlagPRESENT: true}), equals(1))
}

func addressOfDevice() words {
	return join(of(&expr.Fib{Register: scratch, FlagDADDR: true, FlagIIF: true, ResultADDRTYPE: true}), equals(native32(unix.RTN_LOCAL)...))
}

func fromGroup() words {
	return join(meta(expr.MetaKeyIIFGROUP, scratch), equals(native32(own.DeviceGroup)...))
}

func tunnelRules() (list []rule) {
	add := func(chain, what string, parts ...words) { list = append(list, rule{chain, what, join(parts...)}) }
	vxlan := join(ofProtocol(unix.IPPROTO_UDP), transport(2, 2, scratch), equals(big16(portVXLAN)...))
	ours := join(vni(), inSet(networks))
	notTracked := of(&expr.Notrack{})

	add(chainLocal, "VXLAN", vxlan, goTo(chainVXLAN))
	// Here, packets of the node may have its tunnel's device as their input device.
	add(chainSent, "no VXLAN", join(meta(expr.MetaKeyL4PROTO, scratch), differs(unix.IPPROTO_UDP)), accept())
	add(chainSent, "of the tunnel itself", inState(expr.CtStateBitUNTRACKED), accept())
	add(chainVXLAN, "translated", translated(), ours, counted(dropped[vswitch.DropVXLANTranslated]))
	add(chainUnderlay, "by the way to the peer", routeBack(), accept())
	add(chainUnderlay, "by the interface with the address", addressOfDevice(), accept())
	add(chainUnderlay, "by another interface", counted(dropped[vswitch.DropVXLANInterface]))
	for _, f := range []struct {
		family                      byte
		name                        string
		whole                       words
		source, destination, length uint32
		tunnels, peers              *nftables.Set
	}{
		{unix.NFPROTO_IPV4, "IPv4", noFragment4(), 12, 16, 4, tunnels4, peers4},
		{unix.NFPROTO_IPV6, "IPv6", noFragment6(), 8, 24, 16, tunnels6, peers6},
	} {
		behind := uint32(first + 1)
		ends := join(vni(), network(f.source, 2*f.length, behind), inSet(f.tunnels))
		back := join(vni(), network(f.destination, f.length, behind), network(f.source, f.length, behind+f.length/4), inSet(f.tunnels))
		toPeer := join(ofFamily(f.family), vxlan, vni(), network(f.destination, f.length, behind), inSet(f.peers))

		add(chainVXLAN, "from an "+f.name+" peer", ofFamily(f.family), ends, goTo(chainUnderlay))
		add(chainEnd, "VXLAN of an "+f.name+" peer", ofFamily(f.family), f.whole, vxlan, ends, notTracked, accept())
		add(chainUntracked, "to an "+f.name+" peer", ofFamily(f.family), vxlan, back, notTracked)
		add(chainSent, "VXLAN of a guarded interface to an "+f.name+" peer", toPeer, fromDevice(), inSet(guarded), counted(dropped[vswitch.DropVXLAN]))
		add(chainSent, "VXLAN of our devices to an "+f.name+" peer", toPeer, fromGroup(), counted(dropped[vswitch.DropVXLAN]))
		add(chainSent, "translated VXLAN to an "+f.name+" peer", toPeer, translated(), counted(dropped[vswitch.DropVXLANTranslated]))
	}
	// The kernel does not drop IPv6 packets with a source of the node itself.
	add(chainEnd, "other IPv4", ofFamily(unix.NFPROTO_IPV4), accept())
	add(chainEnd, "other IPv6, not of the node", typeOf(true), equals(native32(unix.RTN_UNICAST)...), accept())
	add(chainVXLAN, "from other sources", ours, counted(dropped[vswitch.DropVXLAN]))
	return list
}

// networkOf returns the VNI as in packets, in a register of 4 bytes.
func networkOf(t own.Tunnel) string {
	return string([]byte{byte(t.Vni >> 16), byte(t.Vni >> 8), byte(t.Vni), 0})
}

// tunnelElements returns the elements of a tunnel. The first one is unique; tunnels may share the
// others.
func tunnelElements(t own.Tunnel) []element {
	from, to := string(t.Dst.AsSlice()), string(t.Src.AsSlice())
	tunnels, peers, ends := tunnels4, peers4, ends4
	if t.Src.Is6() {
		tunnels, peers, ends = tunnels6, peers6, ends6
	}
	return []element{
		{set: tunnels, key: networkOf(t) + from + to}, {set: networks, key: networkOf(t)}, {set: peers, key: networkOf(t) + from},
		{set: ends, key: from}, {set: ends, key: to},
	}
}

// PermitTunnel accepts the packets of a tunnel.
func (g *Guards) PermitTunnel(t own.Tunnel) error {
	if !t.OfTwo() {
		return nil
	}
	err := g.change(true, func(change transaction) error {
		for _, e := range tunnelElements(t) {
			change.add(e, "")
		}
		return nil
	}, func() { g.tunnels[t] = true })
	if err != nil {
		return fmt.Errorf("permitting VXLAN packets of %v: %w", t.Dst, err)
	}
	return nil
}

// ForbidTunnel reverses PermitTunnel.
func (g *Guards) ForbidTunnel(t own.Tunnel) error {
	if !t.OfTwo() {
		return nil
	}
	err := g.change(false, func(change transaction) error {
		if !g.tunnels[t] {
			return nil
		}
		shared := map[element]bool{}
		for other := range g.tunnels {
			if other != t {
				for _, e := range tunnelElements(other) {
					shared[e] = true
				}
			}
		}
		for _, e := range tunnelElements(t) {
			if !shared[e] {
				change.remove(e)
			}
		}
		return nil
	}, func() { delete(g.tunnels, t) })
	if err != nil {
		return fmt.Errorf("forbidding VXLAN packets of %v: %w", t.Dst, err)
	}
	return nil
}

// Tunnels returns the permitted tunnels from the kernel; none if the rules are damaged.
func (g *Guards) Tunnels() (map[own.Tunnel]bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var found map[own.Tunnel]bool
	err := g.nft.Locked(func() error {
		s, _, err := g.read()
		if s.intact {
			found = maps.Clone(g.tunnels)
		}
		return err
	})
	if err != nil {
		g.forget()
		return nil, fmt.Errorf("reading nftables table %q: %w", TableName, err)
	}
	return found, nil
}

func tunnelsIn(table *nft.Table) map[own.Tunnel]bool {
	found := map[element]bool{}
	for _, set := range tunnelSets {
		for _, item := range table.Sets[set.Name].Elements {
			found[element{set: set, key: item.Key}] = true
		}
	}
	tunnels := map[own.Tunnel]bool{}
	for e := range found {
		if e.set != tunnels4 && e.set != tunnels6 || len(e.key) < 4 {
			continue
		}
		half := (len(e.key) - 4) / 2
		remote, _ := netip.AddrFromSlice([]byte(e.key[4 : 4+half]))
		local, _ := netip.AddrFromSlice([]byte(e.key[4+half:]))
		t := own.Tunnel{VXLANID: own.VXLANID{Src: local, Vni: uint32(e.key[0])<<16 | uint32(e.key[1])<<8 | uint32(e.key[2])}, Dst: remote}
		if !slices.ContainsFunc(tunnelElements(t), func(e element) bool { return !found[e] }) {
			tunnels[t] = true
		}
	}
	return tunnels
}
