package interfaces

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/hostdev"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/binapi/af_packet"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ip_types"
	"google.golang.org/protobuf/proto"
)

func (v *Interfaces) List(ctx context.Context, expected []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error) {
	inv, err := v.takeInventory(ctx, expected)
	if err != nil {
		return nil, fmt.Errorf("listing interfaces: %w", err)
	}
	var list []*vpp_interfaces.Interface
	for _, d := range inv.details {
		if ownership.LogicalName(d) != "" {
			list = append(list, inv.describe(d))
		}
	}
	slices.SortFunc(list, func(a, b *vpp_interfaces.Interface) int { return strings.Compare(a.GetName(), b.GetName()) })
	v.events.settle(expected, list)
	return list, nil
}

func (v *Interfaces) Find(ctx context.Context, expected []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error) {
	return findIn(ctx, v.List, expected)
}

// findIn selects the expected values from a full list.
func findIn[V proto.Message](ctx context.Context, list func(context.Context, []V) ([]V, error), expected []V) ([]V, error) {
	keys := make(map[string]bool, len(expected))
	for _, v := range expected {
		keys[models.Key(v)] = true
	}
	all, err := list(ctx, expected)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(v V) bool { return !keys[models.Key(v)] }), nil
}

// isAsWanted reports whether an existing interface has the value's type-specific parameters.
func (v *Interfaces) isAsWanted(ctx context.Context, iface *vpp_interfaces.Interface) (bool, error) {
	found, err := v.Find(ctx, []*vpp_interfaces.Interface{iface})
	if err != nil || len(found) == 0 {
		return false, err
	}
	return found[0].GetType() == iface.GetType() && sameLink(found[0], iface), nil
}

func (inv *inventory) nameOf(i ownership.Index) string {
	if name := inv.names[i]; name != "" {
		return name
	}
	return fmt.Sprintf("%s%d", ownership.UnknownPrefix, i)
}

// describe returns the value of an interface.
func (inv *inventory) describe(d *interfaces_api.SwInterfaceDetails) *vpp_interfaces.Interface {
	name := ownership.LogicalName(d)
	expected := inv.expected[name]
	iface := &vpp_interfaces.Interface{
		Name: name, Enabled: d.Flags&interface_types.IF_STATUS_API_FLAG_ADMIN_UP != 0, Vrf: inv.vrfOf(d.SwIfIndex, expected),
	}
	iface.Type = typeOf(d)
	if d.L2Address != [6]byte{} {
		iface.PhysAddress = d.L2Address.String()
	}
	if _, member := inv.bondOf[d.SwIfIndex]; member && expected.GetPhysAddress() != "" {
		iface.PhysAddress = expected.GetPhysAddress() // it has the bond's while it is a member
	}
	if len(d.Mtu) > 0 {
		iface.Mtu = d.Mtu[0]
	}
	iface.Ip6Nd = expected.GetIp6Nd() // not reported by VPP
	iface.RxModes = rxModesOf(inv.queues[d.SwIfIndex], expected.GetRxModes())
	iface.RxPlacements = rxPlacementsOf(inv.queues[d.SwIfIndex], expected.GetRxPlacements())
	_, iface.SetDhcpClient = inv.leased[d.SwIfIndex]
	for _, addr := range inv.addrs[d.SwIfIndex] {
		if text := addr.String(); slices.Contains(expected.GetIpAddresses(), text) || !inv.isObtained(d.SwIfIndex, addr, expected) {
			iface.IpAddresses = append(iface.IpAddresses, text)
		}
	}
	if text, ok := linkLocal(expected.GetIpAddresses(), inv.locals[d.SwIfIndex]); ok {
		iface.IpAddresses = append(iface.IpAddresses, text)
	}
	if lender, ok := inv.lenders[d.SwIfIndex]; ok {
		iface.Unnumbered = &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: inv.nameOf(lender.IPSwIfIndex)}
	}
	inv.describeLink(iface, d, expected)
	return iface
}

// isObtained reports whether VPP assigned an address by itself: leased, or advertised by routers.
func (inv *inventory) isObtained(i ownership.Index, addr netip.Prefix, expected *vpp_interfaces.Interface) bool {
	if leased, ok := inv.leased[i]; ok && leased == addr {
		return true
	}
	return addr.Addr().Is6() && expected.GetIp6Nd() != nil
}

// describeLink sets the type-specific part.
func (inv *inventory) describeLink(iface *vpp_interfaces.Interface, d *interfaces_api.SwInterfaceDetails, expected *vpp_interfaces.Interface) {
	switch iface.GetType() {
	case vpp_interfaces.Interface_TAP:
		if tap := inv.taps[d.SwIfIndex]; tap != nil {
			iface.Link = &vpp_interfaces.Interface_Tap{Tap: inv.describeTap(tap, expected)}
		} else {
			iface.Type = vpp_interfaces.Interface_DPDK // virtio without TAP is a device of the machine
		}
	case vpp_interfaces.Interface_AF_PACKET:
		inv.describeAFPacket(iface, inv.afPackets[d.SwIfIndex], expected)
	case vpp_interfaces.Interface_VXLAN_TUNNEL:
		if t := inv.tunnels[d.SwIfIndex]; t != nil {
			iface.Vrf = t.EncapVrfID
			iface.Link = &vpp_interfaces.Interface_Vxlan{Vxlan: inv.describeVXLAN(t, expected.GetVxlan())}
		}
	case vpp_interfaces.Interface_SUB_INTERFACE:
		iface.Link = &vpp_interfaces.Interface_Sub{Sub: inv.describeSub(d, expected.GetSub())}
	case vpp_interfaces.Interface_GRE_TUNNEL:
		if t := inv.gres[d.SwIfIndex]; t != nil {
			iface.Link = &vpp_interfaces.Interface_Gre{Gre: describeGRE(t, expected.GetGre())}
		}
	case vpp_interfaces.Interface_IPIP_TUNNEL:
		if t := inv.ipips[d.SwIfIndex]; t != nil {
			iface.Vrf = t.Tunnel.TableID
			iface.Link = &vpp_interfaces.Interface_Ipip{Ipip: describeIPIP(t, expected.GetIpip())}
		}
	case vpp_interfaces.Interface_WIREGUARD_TUNNEL:
		if t := inv.wgs[d.SwIfIndex]; t != nil {
			iface.Link = &vpp_interfaces.Interface_Wireguard{Wireguard: describeWireGuard(t, expected.GetWireguard())}
		}
	case vpp_interfaces.Interface_MEMIF:
		if m := inv.memifs[d.SwIfIndex]; m != nil {
			iface.Link = &vpp_interfaces.Interface_Memif{Memif: inv.describeMemif(m, expected.GetMemif())}
		}
	case vpp_interfaces.Interface_BOND_INTERFACE:
		if b := inv.bonds[d.SwIfIndex]; b != nil {
			iface.Link = &vpp_interfaces.Interface_Bond{Bond: inv.describeBond(b, expected.GetBond())}
		}
	case vpp_interfaces.Interface_DPDK:
		// A failed device counts as down.
		iface.Enabled = iface.Enabled && !inv.broken[d.SwIfIndex] && (expected == nil || expected.GetEnabled())
	}
}

// describeAFPacket: a host device that was taken over is a network card.
func (inv *inventory) describeAFPacket(iface *vpp_interfaces.Interface, d *af_packet.AfPacketDetails, expected *vpp_interfaces.Interface) {
	if d == nil {
		return
	}
	isNIC := expected.GetType() == vpp_interfaces.Interface_DPDK && strings.TrimPrefix(expected.GetName(), hostPrefix) == d.HostIfName
	linux := expected.GetAfpacket().GetLinuxInterface()
	switch attached := inv.attached(d.HostIfName, linux); {
	case isNIC && attached:
		iface.Type = vpp_interfaces.Interface_DPDK
		return
	case attached && (linux != "" || expected.GetAfpacket().GetHostIfName() == d.HostIfName):
		iface.Link = expected.GetLink()
	case attached:
		iface.Link = &vpp_interfaces.Interface_Afpacket{Afpacket: &vpp_interfaces.AfpacketLink{HostIfName: d.HostIfName}}
	default:
		iface.Link = &vpp_interfaces.Interface_Afpacket{Afpacket: &vpp_interfaces.AfpacketLink{HostIfName: ownership.UnknownPrefix + d.HostIfName}}
	}
}

// attachments returns a function that reports whether a packet socket is bound to a host device. It
// returns false for a new device with the name of a removed one. linux is the Linux interface that
// the device should be, "" for any.
func (v *Interfaces) attachments() func(device, linux string) bool {
	yes := func(string, string) bool { return true }
	h, err := hostdev.Of(v.vpp)
	if err != nil || h == nil {
		return yes
	}
	defer h.Close()
	bound, err := h.PacketSockets()
	if err != nil || len(bound) == 0 {
		return yes
	}
	devices, err := h.LinkList()
	if err != nil {
		return yes
	}
	alias := map[string]string{}
	for _, dev := range devices {
		if bound[dev.Attrs().Index] {
			alias[dev.Attrs().Name] = dev.Attrs().Alias
		}
	}
	return func(device, linux string) bool {
		has, ok := alias[device]
		return ok && (linux == "" || has == hostdev.AliasLinux+linux)
	}
}

// vrfOf returns an interface's VRF for the IP versions of its addresses. If they differ, it is not
// the wanted one.
func (inv *inventory) vrfOf(i ownership.Index, expected *vpp_interfaces.Interface) uint32 {
	tables := inv.vrfs[i]
	var found []uint32
	for n, v6 := range []bool{false, true} {
		if slices.ContainsFunc(inv.addrs[i], func(p netip.Prefix) bool { return p.Addr().Is6() == v6 }) {
			found = append(found, tables[n])
		}
	}
	if found == nil {
		found = tables[:]
	}
	for _, vrf := range found {
		if vrf != expected.GetVrf() {
			return vrf
		}
	}
	return found[0]
}

// sameLink compares the type-specific parameters. Equal found ones are written like the wanted
// ones.
func sameLink(found, wanted *vpp_interfaces.Interface) bool {
	a, b := &vpp_interfaces.Interface{Link: found.GetLink()}, &vpp_interfaces.Interface{Link: wanted.GetLink()}
	switch wanted.GetType() {
	case vpp_interfaces.Interface_VXLAN_TUNNEL, vpp_interfaces.Interface_IPIP_TUNNEL:
		a.Vrf, b.Vrf = found.GetVrf(), wanted.GetVrf()
	case vpp_interfaces.Interface_BOND_INTERFACE: // members come and go
		a, b = proto.CloneOf(a), proto.CloneOf(b)
		for _, iface := range []*vpp_interfaces.Interface{a, b} {
			if link := iface.GetBond(); link != nil {
				link.BondedInterfaces = nil
			}
		}
	}
	return proto.Equal(a, b)
}

// addrText formats an address, keeping an equal existing notation.
func addrText(a ip_types.Address, written string) string {
	addr := convert.Addr(a)
	if was, err := netip.ParseAddr(written); err == nil && was == addr {
		return written
	}
	return addr.String()
}
