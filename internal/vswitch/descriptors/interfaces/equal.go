package interfaces

import (
	"cmp"
	"slices"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// equivalentInterfaces reports whether a change needs no operation on the interface itself. It also
// compares derived parts that are read back with the interface.
func equivalentInterfaces(old, new *vpp_interfaces.Interface) bool {
	return old.GetType() == new.GetType() &&
		old.GetEnabled() == new.GetEnabled() &&
		(new.GetPhysAddress() == "" || descriptor.SameMACText(old.GetPhysAddress(), new.GetPhysAddress())) &&
		(ignoresMTU(new) || old.GetMtu() == new.GetMtu()) &&
		sameAddressing(old, new) &&
		sameBondMembers(old.GetBond(), new.GetBond()) &&
		sameLink(old, new)
}

// needsNewInterface reports whether the change needs a new interface.
func needsNewInterface(old, new *vpp_interfaces.Interface) bool {
	switch {
	case old.GetType() != new.GetType(), !sameLink(old, new):
		return true
	case isTunnelInVRF(new):
		return old.GetVrf() != new.GetVrf()
	case new.GetType() == vpp_interfaces.Interface_AF_PACKET:
		return new.GetPhysAddress() != "" && !descriptor.SameMACText(old.GetPhysAddress(), new.GetPhysAddress())
	}
	return false
}

// ignoresMTU: an unset MTU matches any MTU, and tunnels have their carrier's.
func ignoresMTU(iface *vpp_interfaces.Interface) bool {
	return iface.GetMtu() == 0 || iface.GetType() == vpp_interfaces.Interface_VXLAN_TUNNEL
}

// sameAddressing reports whether both interfaces have the same addresses, in any order and
// notation, from the same sources and in the same VRF.
func sameAddressing(old, new *vpp_interfaces.Interface) bool {
	return (new.GetUnnumbered() != nil || old.GetVrf() == new.GetVrf()) &&
		old.GetUnnumbered().GetInterfaceWithIp() == new.GetUnnumbered().GetInterfaceWithIp() &&
		old.GetSetDhcpClient() == new.GetSetDhcpClient() &&
		sameAddresses(old, new)
}

func sameAddresses(old, new *vpp_interfaces.Interface) bool {
	a, b := addressesOf(old), addressesOf(new)
	byText := func(x, y ownAddress) int { return cmp.Or(cmp.Compare(x.source, y.source), cmp.Compare(x.text, y.text)) }
	slices.SortFunc(a, byText)
	slices.SortFunc(b, byText)
	return slices.Equal(a, b)
}

// sameLink compares the type-specific parameters.
func sameLink(old, new *vpp_interfaces.Interface) bool {
	switch new.GetType() {
	case vpp_interfaces.Interface_TAP:
		return proto.Equal(normalTap(old), normalTap(new))
	case vpp_interfaces.Interface_VXLAN_TUNNEL:
		a, b := old.GetVxlan(), new.GetVxlan()
		return a.GetVni() == b.GetVni() && a.GetMulticast() == b.GetMulticast() &&
			descriptor.SameAddrText(a.GetSrcAddress(), b.GetSrcAddress()) &&
			descriptor.SameAddrText(a.GetDstAddress(), b.GetDstAddress()) &&
			proto.Equal(a.GetGpe(), b.GetGpe())
	case vpp_interfaces.Interface_GRE_TUNNEL:
		a, b := old.GetGre(), new.GetGre()
		return a.GetTunnelType() == b.GetTunnelType() && a.GetOuterFibId() == b.GetOuterFibId() && a.GetSessionId() == b.GetSessionId() &&
			descriptor.SameAddrText(a.GetSrcAddr(), b.GetSrcAddr()) && descriptor.SameAddrText(a.GetDstAddr(), b.GetDstAddr())
	case vpp_interfaces.Interface_IPIP_TUNNEL:
		a, b := old.GetIpip(), new.GetIpip()
		return a.GetTunnelMode() == b.GetTunnelMode() &&
			descriptor.SameAddrText(a.GetSrcAddr(), b.GetSrcAddr()) && descriptor.SameAddrText(a.GetDstAddr(), b.GetDstAddr())
	case vpp_interfaces.Interface_BOND_INTERFACE:
		return sameBond(old.GetBond(), new.GetBond())
	}
	strip := func(iface *vpp_interfaces.Interface) proto.Message {
		return &vpp_interfaces.Interface{Link: iface.GetLink()}
	}
	return proto.Equal(strip(old), strip(new))
}

// normalTap fills in the defaults of a TAP.
func normalTap(iface *vpp_interfaces.Interface) *vpp_interfaces.TapLink {
	tap := proto.CloneOf(iface.GetTap())
	if tap == nil {
		tap = &vpp_interfaces.TapLink{}
	}
	if tap.Version == 0 {
		tap.Version = 2
	}
	if tap.HostIfName == "" {
		tap.HostIfName = models.TapHostIfName(iface.GetName())
	}
	if tap.GetHostNamespace().GetType() == linux_namespace.NetNamespace_UNDEFINED {
		tap.HostNamespace = nil
	}
	return tap
}
