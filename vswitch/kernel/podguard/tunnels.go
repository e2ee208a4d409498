package podguard

import (
	"fmt"
	"maps"
	"net/netip"

	"github.com/contiv/contiv/netlink/nft"
	"github.com/contiv/contiv/vswitch/kernel/own"
)

// VXLAN packets of a network that has a tunnel are accepted between the ends of its tunnels.
// Packets of other networks are not ours to filter.

// networkOf is the VNI as it is in packets, in a register of 4 bytes.
func networkOf(t own.Tunnel) string {
	return string([]byte{byte(t.Vni >> 16), byte(t.Vni >> 8), byte(t.Vni), 0})
}

func tunnelElements(t own.Tunnel) (network, ends, peer element) {
	from, to := string(t.Dst.AsSlice()), string(t.Src.AsSlice())
	network = element{set: networks, key: networkOf(t)}
	ends, peer = element{set: tunnels4, key: networkOf(t) + from + to}, element{set: peers4, key: networkOf(t) + from}
	if t.Src.Is6() {
		ends.set, peer.set = tunnels6, peers6
	}
	return network, ends, peer
}

// PermitTunnel accepts the packets of a tunnel.
func (g *Guards) PermitTunnel(t own.Tunnel) error {
	if !t.OfTwo() {
		return nil
	}
	err := g.change(true, func(change transaction) error {
		network, ends, peer := tunnelElements(t)
		for _, e := range []element{network, ends, peer} {
			change.add(e, "")
		}
		return nil
	}, func() { g.tunnels[t] = true })
	if err != nil {
		return fmt.Errorf("permitting VXLAN packets of %v: %w", t.Dst, err)
	}
	return nil
}

// ForbidTunnel ends that.
func (g *Guards) ForbidTunnel(t own.Tunnel) error {
	if !t.OfTwo() {
		return nil
	}
	err := g.change(false, func(change transaction) error {
		if !g.tunnels[t] {
			return nil
		}
		network, ends, peer := tunnelElements(t)
		change.remove(ends)
		if !g.anyTunnel(func(o own.Tunnel) bool { return o != t && o.Vni == t.Vni && o.Dst == t.Dst }) {
			change.remove(peer)
		}
		if !g.anyTunnel(func(o own.Tunnel) bool { return o != t && o.Vni == t.Vni }) {
			change.remove(network)
		}
		return nil
	}, func() { delete(g.tunnels, t) })
	if err != nil {
		return fmt.Errorf("forbidding VXLAN packets of %v: %w", t.Dst, err)
	}
	return nil
}

func (g *Guards) anyTunnel(is func(own.Tunnel) bool) bool {
	for t := range g.tunnels {
		if is(t) {
			return true
		}
	}
	return false
}

// Tunnels returns the tunnels whose packets are accepted, as the kernel has them; none if
// the rules are not in order.
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

// tunnelsIn returns the tunnels all of whose elements are there.
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
		if network, ends, peer := tunnelElements(t); found[network] && found[ends] && found[peer] {
			tunnels[t] = true
		}
	}
	return tunnels
}
