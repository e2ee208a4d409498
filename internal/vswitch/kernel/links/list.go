package links

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/internal/vswitch/kernel/vrf"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/vishvananda/netlink"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

type inventory struct {
	*own.Devices
	addrs     map[int][]rtnl.Address
	tunnels   []netlink.Neigh
	permitted map[own.Tunnel]bool
	expected  map[string]*vpp_interfaces.Interface
	// wireGuard reads the keys of a device.
	wireGuard func(device string) (*wgtypes.Device, error)
	ip6nd     map[int]*vpp_interfaces.Interface_IP6ND
	clients   map[string]bool
	hostSides map[int]string
	// lenders: interfaces by their own addresses.
	lenders map[netip.Addr][]string
	vrfs    vrf.View
	names   map[string]string
}

func (v interfaces) List(_ context.Context, expected []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error) {
	inv, err := v.takeInventory(expected)
	if err != nil {
		return nil, err
	}
	var list []*vpp_interfaces.Interface
	list = append(list, v.listMade(inv)...)
	list = append(list, v.listTunnels(inv)...)
	list = append(list, v.listExisting(inv)...)
	slices.SortFunc(list, func(a, b *vpp_interfaces.Interface) int { return strings.Compare(a.GetName(), b.GetName()) })
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func (v interfaces) Find(ctx context.Context, expected []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error) {
	if inv := v.inventoryByName(expected); inv != nil {
		if list := v.listMade(inv); len(list) == len(expected) {
			own.Settle(v.Reg, expected, list)
			return list, nil
		}
	}
	return own.FindIn(ctx, v.List, expected)
}

func (v interfaces) takeInventory(expected []*vpp_interfaces.Interface) (*inventory, error) {
	devs, err := v.Devices()
	if err != nil {
		return nil, err
	}
	inv := v.newInventory(devs, expected)
	for _, iface := range expected {
		if iface.GetType() == vpp_interfaces.Interface_AF_PACKET {
			if link := inv.HostSide(iface); link != nil {
				inv.hostSides[link.Attrs().Index] = iface.GetName()
			}
		}
	}
	addrs, err := v.Net.Addresses(0)
	if err != nil {
		return nil, fmt.Errorf("reading addresses: %w", err)
	}
	inv.addAddresses(addrs)
	if err := v.readIP6ND(inv); err != nil {
		return nil, err
	}
	if inv.vrfs, err = v.vrf.ViewVRFs(); err != nil {
		return nil, err
	}
	for _, link := range devs.ByIndex {
		if _, ok := own.ParseVXLANAlias(link.Attrs().Alias); ok {
			if inv.permitted, err = v.guards.Tunnels(); err != nil {
				return nil, err
			}
			inv.tunnels, err = v.Fdb(0)
			return inv, err
		}
	}
	return inv, nil
}

func (v *Driver) newInventory(devs *own.Devices, expected []*vpp_interfaces.Interface) *inventory {
	inv := &inventory{
		Devices: devs, wireGuard: v.wireGuardDevice, clients: v.dhcp.running(), addrs: map[int][]rtnl.Address{},
		expected: map[string]*vpp_interfaces.Interface{}, hostSides: map[int]string{}, lenders: map[netip.Addr][]string{}, names: map[string]string{},
	}
	for _, iface := range expected {
		inv.expected[iface.GetName()] = iface
	}
	return inv
}

func (inv *inventory) addAddresses(addrs []rtnl.Address) {
	for _, a := range addrs {
		inv.addrs[a.Index] = append(inv.addrs[a.Index], a)
		name, ok := inv.nameOf(a.Index)
		if link := inv.ByIndex[a.Index]; ok && link != nil {
			inv.names[name] = link.Attrs().Name
		}
		if ok && (a.Proto == own.ProtoLeased || isOf(a, own.AddressTexts(inv.expected[name]))) {
			inv.lenders[a.Prefix.Addr()] = append(inv.lenders[a.Prefix.Addr()], name)
		}
	}
}

func (inv *inventory) nameOf(index int) (string, bool) {
	if name, ok := inv.hostSides[index]; ok {
		return name, true
	}
	return inv.Logical(index)
}

func (v interfaces) listMade(inv *inventory) (list []*vpp_interfaces.Interface) {
	parked := map[string]bool{}
	for _, link := range inv.ByIndex {
		if name, ok := strings.CutPrefix(link.Attrs().Alias, own.AliasPort); ok {
			parked[name] = true
		}
	}
	for _, link := range inv.ByIndex {
		name, ok := strings.CutPrefix(link.Attrs().Alias, own.AliasInterface)
		_, isBridge := link.(*netlink.Bridge)
		switch {
		case ok:
			v.Dev.Put(name, link.Attrs().Index)
		case own.IsUnmarked(link) && !isBridge:
			name = own.UnknownPrefix + link.Attrs().Name
		default:
			continue
		}
		iface := inv.describe(name, link)
		switch {
		case inv.describeKind(iface, link, inv.expected[name]):
			v.bindMembers(iface)
		case parked[name]:
			iface.Type = vpp_interfaces.Interface_SOFTWARE_LOOPBACK
		default:
			iface.Type = vpp_interfaces.Interface_TAP
			iface.Link = &vpp_interfaces.Interface_Tap{Tap: v.tapLink(inv.expected[name], link)}
		}
		list = append(list, iface)
	}
	return list
}

func (inv *inventory) describe(name string, link netlink.Link) *vpp_interfaces.Interface {
	attrs := link.Attrs()
	expected := inv.expected[name]
	iface := &vpp_interfaces.Interface{
		Name: name, Enabled: attrs.Flags&net.FlagUp != 0,
		PhysAddress: hardwareAddr(attrs), Mtu: uint32(attrs.MTU),
		SetDhcpClient: inv.clients[name], Ip6Nd: inv.ip6nd[attrs.Index],
	}
	iface.Vrf = inv.vrfs.Of(attrs.Name, expected.GetVrf())
	wanted := own.AddressTexts(expected)
	var borrowed []netip.Addr
	leaks := false
	for _, a := range inv.addrs[attrs.Index] {
		switch {
		case isOf(a, wanted) && expected != nil && !inv.vrfs.Intact(link, a):
			// it is assigned again
		case isOf(a, wanted):
			iface.IpAddresses = append(iface.IpAddresses, a.Prefix.String())
		case a.Proto == own.ProtoBorrowed:
			borrowed = append(borrowed, a.Prefix.Addr())
			leaks = leaks || inv.vrfs.Leaks(link, a)
		case a.Proto == own.ProtoLeased && !expected.GetSetDhcpClient():
			iface.SetDhcpClient = true // a lease of an earlier process needs to be released
		}
	}
	if len(borrowed) > 0 {
		lender := inv.lender(name, borrowed)
		if leaks || !inv.vrfs.Together(attrs.Name, inv.names[lender]) {
			lender = ""
		}
		iface.Vrf, iface.Unnumbered = 0, &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: lender}
	}
	return iface
}

// lender returns the interface with exactly the borrowed addresses; "" if none.
func (inv *inventory) lender(borrower string, borrowed []netip.Addr) string {
	counts := map[string]int{}
	for _, addr := range borrowed {
		for _, name := range inv.lenders[addr] {
			counts[name]++
		}
	}
	lends := map[string]int{}
	for _, names := range inv.lenders {
		for _, name := range names {
			lends[name]++
		}
	}
	full := func(name string) bool { return counts[name] == len(borrowed) && lends[name] == len(borrowed) }
	if wanted := inv.expected[borrower].GetUnnumbered().GetInterfaceWithIp(); wanted != "" && full(wanted) {
		return wanted
	}
	var found []string
	for name := range counts {
		if full(name) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

// listTunnels names tunnels after the expected ones with the same identity.
func (v interfaces) listTunnels(inv *inventory) (list []*vpp_interfaces.Interface) {
	names := map[own.Tunnel]*vpp_interfaces.Interface{}
	for _, iface := range inv.expected {
		if iface.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL {
			names[own.TunnelOf(iface)] = iface
		}
	}
	peers := map[int][]netip.Addr{}
	for _, e := range inv.tunnels {
		if dst, ok := netip.AddrFromSlice(e.IP); ok && own.IsTunnelEntry(e) {
			peers[e.LinkIndex] = append(peers[e.LinkIndex], dst.Unmap())
		}
	}
	for _, link := range inv.ByIndex {
		id, ok := own.ParseVXLANAlias(link.Attrs().Alias)
		if !ok {
			continue
		}
		up := link.Attrs().Flags&net.FlagUp != 0
		multicast := ""
		if group := groupOf(link); group != nil {
			multicast, _ = inv.nameOf(group.via)
		}
		if len(peers[link.Attrs().Index]) == 0 {
			list = append(list, describeTunnel(own.UnknownPrefix+link.Attrs().Name, own.Tunnel{VXLANID: id}, multicast, up))
		}
		for _, dst := range peers[link.Attrs().Index] {
			t, up := own.Tunnel{VXLANID: id, Dst: dst}, up
			name := fmt.Sprintf("%svxlan/%d/%s/%s", own.UnknownPrefix, id.Vni, id.Src, dst)
			if expected := names[t]; expected != nil {
				name = expected.GetName()
				// A tunnel with dropped packets counts as down.
				up = up && (!t.OfTwo() || inv.permitted[t])
			}
			list = append(list, describeTunnel(name, t, multicast, up))
		}
	}
	return list
}

func describeTunnel(name string, t own.Tunnel, multicast string, up bool) *vpp_interfaces.Interface {
	link := &vpp_interfaces.VxlanLink{SrcAddress: t.Src.String(), Vni: t.Vni, Multicast: multicast}
	if t.Dst.IsValid() {
		link.DstAddress = t.Dst.String()
	}
	return &vpp_interfaces.Interface{
		Name: name, Type: vpp_interfaces.Interface_VXLAN_TUNNEL, Enabled: up,
		Link: &vpp_interfaces.Interface_Vxlan{Vxlan: link},
	}
}

// listExisting returns the expected existing devices, and devices with an address of ours.
func (v interfaces) listExisting(inv *inventory) (list []*vpp_interfaces.Interface) {
	listed := map[int]bool{}
	for name, expected := range inv.expected {
		var link netlink.Link
		switch expected.GetType() {
		case vpp_interfaces.Interface_DPDK:
			link = inv.Named(name)
		case vpp_interfaces.Interface_AF_PACKET:
			link = inv.HostSide(expected)
		}
		if link == nil || own.IsOurs(link) {
			continue
		}
		iface := inv.describe(name, link)
		if !adopted(iface, expected) {
			continue
		}
		iface.Type, iface.Link = expected.GetType(), expected.GetLink()
		iface.Enabled = iface.Enabled && expected.GetEnabled()
		listed[link.Attrs().Index] = true
		v.Dev.Put(name, link.Attrs().Index)
		list = append(list, iface)
	}
	for index, addrs := range inv.addrs {
		link := inv.ByIndex[index]
		ours := slices.ContainsFunc(addrs, func(a rtnl.Address) bool {
			return a.Proto == own.ProtoOurs || a.Proto == own.ProtoBorrowed || a.Proto == own.ProtoLeased
		})
		if link == nil || !ours || listed[index] || own.IsOurs(link) {
			continue
		}
		iface := inv.describe(link.Attrs().Name, link)
		iface.Type = vpp_interfaces.Interface_DPDK
		list = append(list, iface)
	}
	return list
}

// adopted reports whether an existing device is in use: it is up, and has some of its addresses, as
// far as the value requires them. Otherwise it counts as missing, so that it is created before its
// dependents.
func adopted(iface, expected *vpp_interfaces.Interface) bool {
	return (iface.GetEnabled() || !expected.GetEnabled()) &&
		(len(iface.GetIpAddresses()) > 0 || len(expected.GetIpAddresses()) == 0)
}
