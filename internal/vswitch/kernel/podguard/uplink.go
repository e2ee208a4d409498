package podguard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Without tunnels, packets of pods on other nodes arrive by a network card. The route to their subnet
// has a next hop, and only this neighbour may send with their addresses:
//
//	routes of the vswitch to pod subnets ─┐
//	                                      ├─> behind:     pod subnets of other nodes
//	kernel's neighbour table ─────────────┴─> neighbours: device, MAC address, pod subnet
//
// An element follows the neighbour table, and stays while the table has no MAC address of the next hop.

// Keys end with a range of addresses. The field before it in behind is the IP version, because only
// sets of several fields have ranges with an end.
var (
	behind4     = rangeSet("behind4", nftables.TypeNFProto, nftables.TypeIPAddr)
	behind6     = rangeSet("behind6", nftables.TypeNFProto, nftables.TypeIP6Addr)
	neighbours4 = rangeSet("neighbours4", nftables.TypeIFName, nftables.TypeEtherAddr, nftables.TypeIPAddr)
	neighbours6 = rangeSet("neighbours6", nftables.TypeIFName, nftables.TypeEtherAddr, nftables.TypeIP6Addr)
)

var uplinkSets = []*nftables.Set{behind4, behind6, neighbours4, neighbours6}

func rangeSet(name string, fields ...nftables.SetDatatype) *nftables.Set {
	return &nftables.Set{Table: inet, Name: name, KeyType: concat(fields...), Interval: true, Concatenation: true}
}

func uplinkRules() (list []rule) {
	for _, f := range []struct {
		family         byte
		name           string
		source, length uint32
		behind, from   *nftables.Set
	}{{unix.NFPROTO_IPV4, "IPv4", 12, 4, behind4, neighbours4}, {unix.NFPROTO_IPV6, "IPv6", 8, 16, behind6, neighbours6}} {
		list = append(list,
			rule{chainSources, f.name + " from a pod of the neighbour", join(ofFamily(f.family), fromOthers(), onEthernet(), fromDevice(), senderMAC(), network(f.source, f.length, afterMAC), inSet(f.from), accept())},
			rule{chainSources, f.name + " from a pod of another neighbour", join(ofFamily(f.family), fromOthers(), meta(expr.MetaKeyNFPROTO, first), network(f.source, f.length, first+1), inSet(f.behind), counted(dropped[vswitch.DropUplink]))},
		)
	}
	return list
}

// hop is a next hop of a pod subnet.
type hop struct {
	index  int
	device string
	via    netip.Addr
	subnet netip.Prefix
}

func (h hop) behind() nft.Element {
	set, version := behind4, byte(unix.NFPROTO_IPV4)
	if h.subnet.Addr().Is6() {
		set, version = behind6, unix.NFPROTO_IPV6
	}
	return h.ranged(set, string([]byte{version, 0, 0, 0}))
}

func (h hop) neighbour(mac net.HardwareAddr) nft.Element {
	set := neighbours4
	if h.subnet.Addr().Is6() {
		set = neighbours6
	}
	return h.ranged(set, nameKey(h.device)+paddedMAC(mac))
}

func (h hop) ranged(set *nftables.Set, fields string) nft.Element {
	return nft.Element{Set: set.Name, Key: fields + string(h.subnet.Addr().AsSlice()), End: fields + string(lastOf(h.subnet).AsSlice())}
}

// sameHop reports whether an element of neighbours is of the hop, with any MAC address.
func (h hop) sameHop(e nft.Element) bool {
	like := h.neighbour(make(net.HardwareAddr, 6))
	return e.Set == like.Set && len(e.Key) == len(like.Key) && e.Key[:nameLen] == like.Key[:nameLen] && e.Key[nameLen+8:] == like.Key[nameLen+8:]
}

func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(bytes); i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// GuardNeighbours sets the networks of all pods. Within them, only next hops of the vswitch's routes may
// send with the addresses behind them. Without networks, no neighbours are compared.
func (g *Guards) GuardNeighbours(networks []netip.Prefix) {
	g.mu.Lock()
	g.networks = slices.Clone(networks)
	g.mu.Unlock()
	g.look()
}

func (g *Guards) comparesNothing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.networks) == 0
}

func (g *Guards) look() {
	select {
	case g.moved <- struct{}{}:
	default:
	}
}

// Notice looks at the neighbours again after an event about routes with a next hop, or about neighbours.
// Guards themselves are not in rtnetlink.
func (g *Guards) Notice(m syscall.NetlinkMessage, _ func(drift.Notice)) {
	if g.comparesNothing() {
		return
	}
	switch m.Header.Type {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if len(m.Data) < unix.SizeofRtMsg || m.Data[5] != own.ProtoOurs { // rtm_protocol
			return
		}
		for attr := range nlattr.All(m.Data[unix.SizeofRtMsg:]) {
			if attr == unix.RTA_GATEWAY || attr == unix.RTA_MULTIPATH {
				g.look()
				return
			}
		}
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		n, ok := rtnl.ParseNeighbour(m.Data)
		g.mu.Lock()
		isHop := ok && g.vias[neighbourID{n.Index, n.Ip.Unmap()}]
		g.mu.Unlock()
		if isHop {
			g.look()
		}
	}
}

// neighbourPeriod is the period at which FollowNeighbours looks without an event, and asks again for
// neighbours that did not answer.
const neighbourPeriod = 30 * time.Second

// FollowNeighbours keeps the neighbours current until closing is closed.
func (g *Guards) FollowNeighbours(closing <-chan struct{}) {
	tick := time.NewTicker(neighbourPeriod)
	defer tick.Stop()
	asked := map[hop]bool{}
	for {
		select {
		case <-closing:
			return
		case <-g.moved:
		case <-tick.C:
			if g.comparesNothing() {
				continue
			}
			clear(asked)
		}
		if err := g.setNeighbours(asked); err != nil {
			g.host.Log.Warn("Neighbours that may send packets of other nodes' pods are not current: their packets may be dropped", "error", err)
		}
	}
}

func (g *Guards) setNeighbours(asked map[hop]bool) error {
	g.mu.Lock()
	networks := g.networks
	g.mu.Unlock()
	hops, err := g.hops(networks)
	if err != nil {
		return err
	}
	vias := map[neighbourID]bool{}
	for _, h := range hops {
		vias[neighbourOf(h)] = true
	}
	g.mu.Lock()
	g.vias = vias // before the neighbours are read, so that no event is missed
	g.mu.Unlock()
	macs, err := g.neighbours()
	if err != nil {
		return err
	}
	for _, h := range hops {
		if macs[neighbourOf(h)] == nil && !asked[h] {
			asked[h] = true
			if err := g.host.Net.AskNeighbour(h.index, h.via); err != nil {
				return fmt.Errorf("asking for the MAC address of %v: %w", h.via, err)
			}
		}
	}
	return g.change(len(hops) > 0, func(t transaction) error {
		have, err := g.uplinkElements()
		if err != nil {
			return err
		}
		wanted := map[nft.Element]bool{}
		for _, h := range hops {
			wanted[h.behind()] = true
			if mac := macs[neighbourOf(h)]; mac != nil {
				wanted[h.neighbour(mac)] = true
				continue
			}
			for e := range have {
				if h.sameHop(e) {
					wanted[e] = true
				}
			}
		}
		var old, added []nft.Element
		for e := range have {
			if !wanted[e] {
				old = append(old, e)
			}
		}
		for e := range wanted {
			if !have[e] {
				added = append(added, e)
			}
		}
		t.inet.DeleteElements(nft.Sorted(old))
		t.inet.AddElements(nft.Sorted(added))
		return nil
	}, func() {})
}

func (g *Guards) uplinkElements() (map[nft.Element]bool, error) {
	found := map[nft.Element]bool{}
	for _, set := range uplinkSets {
		list, err := g.nft.Elements(byte(inet.Family), TableName, set.Name)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			found[nft.Element{Set: set.Name, Key: e.Key, End: e.End}] = true
		}
	}
	return found, nil
}

type neighbourID struct {
	index int
	ip    netip.Addr
}

func neighbourOf(h hop) neighbourID { return neighbourID{h.index, h.via} }

// neighbours returns the MAC addresses that the kernel knows.
func (g *Guards) neighbours() (map[neighbourID]net.HardwareAddr, error) {
	list, err := g.host.Net.Neighbours()
	if err != nil {
		return nil, fmt.Errorf("reading neighbours: %w", err)
	}
	const known = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT
	macs := map[neighbourID]net.HardwareAddr{}
	for _, n := range list {
		if n.State&known != 0 && len(n.Mac) == 6 {
			macs[neighbourID{n.Index, n.Ip.Unmap()}] = n.Mac
		}
	}
	return macs, nil
}

// hops returns the next hops of the vswitch's routes in the networks, by Ethernet devices that are not
// the vswitch's. Of overlapping subnets, the largest are left out.
func (g *Guards) hops(networks []netip.Prefix) (list []hop, err error) {
	if len(networks) == 0 {
		return nil, nil
	}
	devices := map[int]netlink.Link{}
	links, err := g.host.Net.Links()
	if err != nil {
		return nil, fmt.Errorf("reading links: %w", err)
	}
	for _, l := range links {
		devices[l.Attrs().Index] = l
	}
	routes, err := g.routes()
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		subnet, ok := prefixOf(r.Dst)
		if !ok || !slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Bits() <= subnet.Bits() && n.Contains(subnet.Addr()) }) {
			continue
		}
		paths := []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw}}
		if len(r.MultiPath) > 0 {
			paths = r.MultiPath
		}
		for _, p := range paths {
			via, ok := netip.AddrFromSlice(p.Gw)
			device := devices[p.LinkIndex]
			if ok && device != nil && device.Attrs().Group != own.DeviceGroup && device.Attrs().EncapType == "ether" {
				list = append(list, hop{p.LinkIndex, device.Attrs().Name, via.Unmap(), subnet})
			}
		}
	}
	slices.SortFunc(list, func(a, b hop) int { return b.subnet.Bits() - a.subnet.Bits() })
	var narrow []hop
	for _, h := range list {
		if !slices.ContainsFunc(narrow, func(n hop) bool { return n.subnet != h.subnet && n.subnet.Overlaps(h.subnet) }) {
			narrow = append(narrow, h)
		}
	}
	return narrow, nil
}

func (g *Guards) routes() (all []netlink.Route, err error) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := rtnl.Dump(func() ([]netlink.Route, error) {
			return g.host.Net.RouteListFiltered(family, &netlink.Route{Protocol: own.ProtoOurs, Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
		})
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) {
			return nil, fmt.Errorf("reading routes: %w", err)
		}
		all = append(all, routes...)
	}
	return all, nil
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addr, bits).Masked(), ok
}
