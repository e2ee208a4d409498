package links

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// Types of interfaces that are one kernel device of a specific kind:
//
//	GRE tunnel      gre, ip6gre (L3); gretap, ip6gretap (TEB)
//	IPIP tunnel     sit for IPv4 and IPv6 over IPv4; ip6tnl over IPv6
//	sub-interface   vlan
//	bond            bond
//	WireGuard       wireguard
//
// Kernels may lack some kinds. Creating the device loads the module, or fails with an unknown kind.

func deviceKind(iface *vpp_interfaces.Interface) (kind, module string) {
	switch iface.GetType() {
	case vpp_interfaces.Interface_GRE_TUNNEL:
		return greKind(iface.GetGre())
	case vpp_interfaces.Interface_IPIP_TUNNEL:
		if is6(iface.GetIpip().GetSrcAddr()) {
			return "ip6tnl", "ip6_tunnel"
		}
		return "sit", "sit"
	case vpp_interfaces.Interface_SUB_INTERFACE:
		return "vlan", "8021q"
	case vpp_interfaces.Interface_BOND_INTERFACE:
		return "bond", "bonding"
	case vpp_interfaces.Interface_WIREGUARD_TUNNEL:
		return "wireguard", "wireguard"
	}
	return "", ""
}

func supportedKind(iface *vpp_interfaces.Interface) error {
	if own.IsL3(iface) && iface.GetPhysAddress() != "" {
		return vswitch.Unsupported("phys_address: an interface of type %v carries IP packets and has none: leave it out", iface.GetType())
	}
	switch iface.GetType() {
	case vpp_interfaces.Interface_GRE_TUNNEL:
		return supportedGRE(iface.GetGre())
	case vpp_interfaces.Interface_IPIP_TUNNEL:
		if iface.GetIpip().GetTunnelMode() != vpp_interfaces.IPIPLink_POINT_TO_POINT {
			return vswitch.Unsupported("ipip.tunnel_mode POINT_TO_MULTIPOINT: make a tunnel to each peer")
		}
		return own.OnlyMain(iface.GetVrf(), "an IPIP tunnel")
	case vpp_interfaces.Interface_SUB_INTERFACE:
		return supportedVLAN(iface.GetSub())
	case vpp_interfaces.Interface_BOND_INTERFACE:
		return supportedBond(iface.GetBond())
	}
	return nil
}

// optionsOf returns the options of an interface's device, and the index of its lower device; 0:
// none.
func (v *Driver) optionsOf(iface *vpp_interfaces.Interface) (lower int, options []rtnl.LinkOption, err error) {
	switch iface.GetType() {
	case vpp_interfaces.Interface_GRE_TUNNEL:
		return 0, greOptions(iface.GetGre()), nil
	case vpp_interfaces.Interface_IPIP_TUNNEL:
		return 0, ipipOptions(iface.GetIpip()), nil
	case vpp_interfaces.Interface_SUB_INTERFACE:
		parent, err := v.Link(iface.GetSub().GetParentName())
		if err != nil {
			return 0, nil, fmt.Errorf("parent of the sub-interface: %w", err)
		}
		return parent.Attrs().Index, vlanOptions(iface.GetSub()), nil
	case vpp_interfaces.Interface_BOND_INTERFACE:
		return 0, bondOptions(iface.GetBond()), nil
	}
	return 0, nil, nil
}

func (v interfaces) createKind(iface *vpp_interfaces.Interface) error {
	kind, module := deviceKind(iface)
	lower, options, err := v.optionsOf(iface)
	if err != nil {
		return err
	}
	name, alias := own.DeviceName(own.DevInterface, iface.GetName()), own.AliasInterface+iface.GetName()
	device := rtnl.NewLink{Name: name, Kind: kind, Group: own.DeviceGroup, Mtu: iface.GetMtu(), Mac: own.ParseMAC(iface.GetPhysAddress()), Lower: lower, Options: options}
	err = v.Net.AddLink(device)
	if rtnl.Exists(err) {
		link, lookupErr := v.LinkNamed(name)
		if rtnl.IsGone(lookupErr) {
			return fmt.Errorf("another device of kind %s has the same parameters: remove that (see `ip -d link show type %s`)", kind, kind)
		}
		if lookupErr == nil && link.Attrs().Alias == alias {
			if v.isAsWanted(link, iface) {
				v.Dev.Put(iface.GetName(), link.Attrs().Index)
				return errors.Join(v.configureKind(iface), v.adjust(link, iface))
			}
			v.Dev.Forget(iface.GetName())
			err = rtnl.IgnoreGone(v.DelLink(link.Attrs().Index))
		} else {
			_, err = v.Clear(name, alias, name)
		}
		if err != nil {
			return err
		}
		err = v.Net.AddLink(device)
	}
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return vswitch.Unsupported("interfaces of type %v: this kernel has no devices of kind %s (module %s), or not here: "+
			"load the module, or use a kernel that has it", iface.GetType(), kind, module)
	case err != nil:
		return fmt.Errorf("adding device %s of kind %s: %w", name, kind, err)
	}
	return v.finishKind(iface, name, alias)
}

func (v interfaces) finishKind(iface *vpp_interfaces.Interface, name, alias string) error {
	link, err := v.LinkNamed(name)
	if err != nil {
		return fmt.Errorf("looking up device %s: %w", name, err)
	}
	index := link.Attrs().Index
	err = v.IgnoreRouters(name)
	if err == nil {
		err = v.configureKind(iface)
	}
	if err == nil && iface.GetVrf() != 0 {
		err = v.vrf.IsolateAs(iface.GetName())
	}
	if err == nil {
		err = v.Net.SetLink(index, rtnl.LinkChange{Alias: alias, Up: iface.GetEnabled()})
	}
	if err != nil {
		return errors.Join(fmt.Errorf("preparing device %s: %w", name, err), rtnl.IgnoreGone(v.DelLink(index)))
	}
	v.Dev.Put(iface.GetName(), index)
	return nil
}

func (v interfaces) configureKind(iface *vpp_interfaces.Interface) error {
	if iface.GetType() == vpp_interfaces.Interface_WIREGUARD_TUNNEL {
		return v.configureWireGuard(iface)
	}
	return nil
}

func (v *Driver) isAsWanted(link netlink.Link, iface *vpp_interfaces.Interface) bool {
	devs, err := v.Devices()
	if err != nil {
		return false
	}
	inv := v.newInventory(devs, []*vpp_interfaces.Interface{iface})
	found := &vpp_interfaces.Interface{}
	if !inv.describeKind(found, link, iface) || found.GetType() != iface.GetType() {
		return false
	}
	if bond := found.GetBond(); bond != nil {
		bond.BondedInterfaces = iface.GetBond().GetBondedInterfaces() // members are added and removed individually
	}
	return proto.Equal(&vpp_interfaces.Interface{Link: found.GetLink()}, &vpp_interfaces.Interface{Link: iface.GetLink()})
}

// describeKind sets the type and parameters of the interface for a device of one of these kinds.
// Parameters that the kernel does not store come from the expected value, which may be nil. It
// returns false for other kinds.
func (inv *inventory) describeKind(iface *vpp_interfaces.Interface, link netlink.Link, expected *vpp_interfaces.Interface) bool {
	switch link := link.(type) {
	case *netlink.Gretun:
		describeGRE(iface, vpp_interfaces.GreLink_L3, link.Local, link.Remote, expected.GetGre())
	case *netlink.Gretap:
		describeGRE(iface, vpp_interfaces.GreLink_TEB, link.Local, link.Remote, expected.GetGre())
	case *netlink.Sittun:
		describeIPIP(iface, link.Local, link.Remote, expected.GetIpip())
	case *netlink.Ip6tnl:
		describeIPIP(iface, link.Local, link.Remote, expected.GetIpip())
	case *netlink.Vlan:
		parent, _ := inv.nameOf(link.ParentIndex)
		describeVLAN(iface, link, parent, expected.GetSub())
	case *netlink.Bond:
		inv.describeBond(iface, link, expected.GetBond())
	case *netlink.Wireguard:
		inv.describeWireGuard(iface, link, expected.GetWireguard())
	default:
		return false
	}
	return true
}

func is6(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.Is6()
}

func addrBytes(text string) []byte {
	addr, _ := netip.ParseAddr(text)
	return addr.AsSlice()
}

// addrText returns the address in its written form if that is equivalent.
func addrText(ip []byte, written string) string {
	addr, _ := netip.AddrFromSlice(ip)
	if was, err := netip.ParseAddr(written); err == nil && was == addr {
		return written
	}
	return addr.String()
}
