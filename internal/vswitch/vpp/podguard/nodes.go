package podguard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
	ip_api "go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/vxlan"
)

// Interfaces without a guard, such as network cards and the one to the host, have policed tables
// against packets that claim to come from nodes or pods:
//
//	VXLAN to an end of a tunnel    only by the interface of the underlay, and only to the node
//	the source of a pod            not by an uplink, unless pods send without tunnels
//
// VPP finds the tunnel of a packet by both ends, so other senders on the underlay are dropped and
// counted by its VXLAN nodes. The interface of the underlay is the one with the tunnel's own
// address, and the one of the route to the peer. VXLAN from a node's own interface to a peer is
// dropped, because NAT would give it the node's source.

var addressModule = session.NewModule("", "addresses and routes",
	&ip_api.IPAddressDump{}, &ip_api.IPAddressDetails{}, &ip_api.IPRouteLookupV2{}, &ip_api.IPRouteLookupV2Reply{},
)

// network is what interfaces without a guard must know of pods.
type network struct {
	uplinks map[string]bool // names of interfaces by which no packet of a pod comes
	inside  []netip.Prefix  // pods of this node
	overlay []netip.Prefix  // behind tunnels
}

// tunnelEnds are the ends of tunnels.
type tunnelEnds struct {
	own, peers []netip.Addr
	underlay   map[ownership.Index]bool
}

var (
	transport6 = span{at: 54, n: 1} // next header of a fragment
	firstPort6 = span{at: 64, n: 2} // of the destination, in a first fragment
)

// nodeTables returns the policed tables of an interface without a guard.
func nodeTables(e tunnelEnds, underlay, uplink bool, n *network) (list []*table) {
	if !underlay && len(e.own) > 0 {
		list = append(list, tunnelTables(e)...)
	}
	if uplink {
		list = append(list, uplinkTables(n)...)
	}
	return list
}

// tunnelTables drop VXLAN to the ends of tunnels.
func tunnelTables(e tunnelEnds) (list []*table) {
	for _, c := range []chain{chainIP4, chainIP6} {
		protocol, source, destination, port := protocol4, source4, destination4, port4
		if c == chainIP6 {
			protocol, source, destination, port = next6, source6, destination6, port6
		}
		fromPeer := &table{chain: c, spans: []span{protocol, source, destination, port}, policed: true, room: 4096}
		others := &table{chain: c, spans: []span{protocol, destination, port}, policed: true, room: 4096}
		fragments := &table{chain: c, spans: append([]span{next6, destination6, transport6, firstPort6}, fragmentOffset6...), policed: true, room: 4096}
		extended := &table{chain: c, spans: []span{next6, destination6}, policed: true}
		udp, vxlan := one(protocolUDP), two(portVXLAN)
		for _, own := range e.own {
			if own.Is4() != (c == chainIP4) {
				continue
			}
			for _, peer := range e.peers {
				if peer.Is4() == own.Is4() {
					fromPeer.addNew(dropVXLANInterface, udp, ip(peer), ip(own), vxlan)
				}
			}
			others.addNew(dropVXLAN, udp, ip(own), vxlan)
			if c == chainIP6 { // VPP takes the datagram out of fragments, and from behind some headers
				fragments.addNew(dropVXLAN, one(fragment), ip(own), udp, vxlan, one(0), one(0))
				for _, header := range []byte{hopByHop, routingHeader, destinationOptions} {
					extended.addNew(dropVXLAN, one(header), ip(own))
				}
			}
		}
		for _, peer := range e.peers {
			if peer.Is4() == (c == chainIP4) {
				others.addNew(dropVXLANTranslated, udp, ip(peer), vxlan)
			}
		}
		for _, t := range []*table{fromPeer, others, fragments, extended} {
			if len(t.entries) > 0 {
				list = append(list, t)
			}
		}
	}
	return list
}

// uplinkTables drop packets from pods of this node, and packets to them from behind tunnels. Pods of
// other nodes may send to the node itself outside of tunnels.
func uplinkTables(n *network) (list []*table) {
	type form struct {
		chain    chain
		from, to int // prefix lengths; to is 0 for any destination
	}
	tables := map[form]*table{}
	var order []form
	add := func(from, to netip.Prefix) {
		f := form{chain: chainIP4, from: from.Bits()}
		source, destination := source4, destination4
		if from.Addr().Is6() {
			f.chain, source, destination = chainIP6, source6, destination6
		}
		spans, values := prefixAt(source, from)
		if to.IsValid() {
			f.to = to.Bits()
			more, bytes := prefixAt(destination, to)
			spans, values = append(spans, more...), append(values, bytes...)
		}
		if tables[f] == nil {
			tables[f] = &table{chain: f.chain, spans: spans, policed: true}
			order = append(order, f)
		}
		tables[f].add(dropUplink, values...)
	}
	for _, p := range n.inside {
		add(p, netip.Prefix{})
	}
	for _, from := range n.overlay {
		for _, to := range n.inside {
			if from.Addr().Is4() == to.Addr().Is4() {
				add(from, to)
			}
		}
	}
	for _, f := range order {
		list = append(list, tables[f])
	}
	return list
}

// SetNetwork sets the interfaces by which no packet of a pod comes, the networks of the pods of
// this node, and those whose packets come by tunnels.
func (g *Guards) SetNetwork(ctx context.Context, uplinks []string, inside, overlay []netip.Prefix) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := &network{map[string]bool{}, inside, overlay}
	for _, name := range uplinks {
		n.uplinks[name] = true
	}
	g.network = n
	if err := g.learn(ctx); err != nil {
		return err
	}
	return session.Wrap("keeping packets of others from tunnels and pods", g.policeNodes(ctx))
}

// AddressAdded notices the address of a tunnel.
func (g *Guards) AddressAdded(ctx context.Context, _ ownership.Index, addr netip.Addr) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.learn(ctx); err != nil {
		return err
	}
	tunnels, err := g.tunnels(ctx)
	if err != nil || !slices.ContainsFunc(tunnels, func(t *vxlan.VxlanTunnelV2Details) bool { return convert.Addr(t.SrcAddress) == addr }) {
		return err
	}
	return g.policeNodes(ctx)
}

// policeNodes sets the policed tables of all interfaces without a guard.
func (g *Guards) policeNodes(ctx context.Context) error {
	all, err := g.ifs.All(ctx)
	if err != nil {
		return err
	}
	e, err := g.tunnelEnds(ctx, all)
	if err != nil {
		return err
	}
	for _, d := range all {
		if err := g.policeNode(ctx, d, e); err != nil {
			return err
		}
	}
	return nil
}

// policeOne sets the policed tables of an interface, unless it has a guard.
func (g *Guards) policeOne(ctx context.Context, i ownership.Index) error {
	d, err := g.ifs.Details(ctx, i)
	if err != nil || d == nil {
		return err
	}
	all, err := g.ifs.All(ctx)
	if err != nil {
		return err
	}
	e, err := g.tunnelEnds(ctx, all)
	if err != nil {
		return err
	}
	return g.policeNode(ctx, d, e)
}

func (g *Guards) policeNode(ctx context.Context, d *interfaces_api.SwInterfaceDetails, e tunnelEnds) error {
	iface := ownership.LogicalName(d)
	if iface == "" || !isDevice(d) || g.hasRecord(iface) {
		return nil
	}
	n := g.network
	if n == nil {
		if g.policed[d.SwIfIndex] == nil && len(g.unpoliced[d.SwIfIndex]) > 0 {
			return nil
		}
		n = &network{}
	}
	underlay := len(e.underlay) == 0 || e.underlay[d.SwIfIndex]
	return g.police(ctx, d.SwIfIndex, policedPort{iface: iface}, nodeTables(e, underlay, n.uplinks[iface], n))
}

// hasRecord reports whether an interface has a guard. Records of long names have the tag until the
// name is known.
func (g *Guards) hasRecord(iface string) bool {
	return g.records[iface] != nil || g.records[recordTagOf(iface)] != nil
}

// isDevice reports whether frames of an interface begin with an Ethernet header without VLAN tags.
func isDevice(d *interfaces_api.SwInterfaceDetails) bool {
	switch d.InterfaceDevType {
	case "Loopback", "VXLAN", "GRE tunnel device", "IPIP tunnel device", "Wireguard Tunnel", "local":
		return false
	}
	return d.Type == interface_types.IF_API_TYPE_HARDWARE && d.L2Address != [6]uint8{}
}

func (g *Guards) tunnels(ctx context.Context) ([]*vxlan.VxlanTunnelV2Details, error) {
	all, err := session.Dump[vxlan.VxlanTunnelV2Details](ctx, g.vpp, tunnelModule, &vxlan.VxlanTunnelV2Dump{SwIfIndex: ownership.NoIndex})
	return all, session.IgnoreUnsupported("reading VXLAN tunnels", err)
}

// tunnelEnds reads the ends of tunnels, and the interfaces that lead to peers or have a tunnel's
// address.
func (g *Guards) tunnelEnds(ctx context.Context, all []*interfaces_api.SwInterfaceDetails) (tunnelEnds, error) {
	tunnels, err := g.tunnels(ctx)
	if err != nil || len(tunnels) == 0 {
		return tunnelEnds{}, err
	}
	own, peers := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	var lookups []api.Message
	for _, t := range tunnels {
		peer := convert.Addr(t.DstAddress)
		own[convert.Addr(t.SrcAddress)] = true
		if peer.IsMulticast() {
			continue
		}
		peers[peer] = true
		lookups = append(lookups, &ip_api.IPRouteLookupV2{TableID: t.EncapVrfID, Prefix: convert.Prefix(netip.PrefixFrom(peer, peer.BitLen()))})
	}
	e := tunnelEnds{
		own: slices.SortedFunc(maps.Keys(own), netip.Addr.Compare), peers: slices.SortedFunc(maps.Keys(peers), netip.Addr.Compare), underlay: map[ownership.Index]bool{},
	}
	routes, errs := session.CallAll[ip_api.IPRouteLookupV2Reply](ctx, g.vpp, addressModule, lookups)
	for n, r := range routes {
		if errs[n] != nil {
			if _, refused := errors.AsType[*vppapi.ReplyError](errs[n]); !refused {
				return e, fmt.Errorf("asking for the route to a peer: %w", errs[n])
			}
			continue // no route
		}
		for _, p := range r.Route.Paths {
			e.underlay[ownership.Index(p.SwIfIndex)] = true
		}
	}
	for _, d := range all {
		if !isDevice(d) || ownership.LogicalName(d) == "" || g.hasRecord(ownership.LogicalName(d)) {
			continue
		}
		for _, v6 := range []bool{false, true} {
			addrs, err := session.Dump[ip_api.IPAddressDetails](ctx, g.vpp, addressModule, &ip_api.IPAddressDump{SwIfIndex: d.SwIfIndex, IsIPv6: v6})
			if err != nil {
				return e, fmt.Errorf("reading addresses of an interface: %w", err)
			}
			for _, a := range addrs {
				if own[convert.Addr(a.Prefix.Address)] {
					e.underlay[d.SwIfIndex] = true
				}
			}
		}
	}
	delete(e.underlay, ownership.NoIndex)
	return e, nil
}
