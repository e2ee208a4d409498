package own

import (
	"net/netip"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// LeadsAway reports whether a route only names another VRF: type INTER_VRF, without interface or
// next hop.
func LeadsAway(route *vpp_l3.Route) bool {
	if route.GetType() != vpp_l3.Route_INTER_VRF || route.GetOutgoingInterface() != "" {
		return false
	}
	gw, err := netip.ParseAddr(route.GetNextHopAddr())
	return err != nil || gw.IsUnspecified()
}

func FamilyOfRoute(route *vpp_l3.Route) int {
	return rtnl.Family(netip.MustParsePrefix(route.GetDstNetwork()).Addr())
}

// IsL3 reports whether devices of the type carry IP packets, not frames.
func IsL3(iface *vpp_interfaces.Interface) bool {
	switch iface.GetType() {
	case vpp_interfaces.Interface_GRE_TUNNEL:
		return iface.GetGre().GetTunnelType() == vpp_interfaces.GreLink_L3
	case vpp_interfaces.Interface_IPIP_TUNNEL, vpp_interfaces.Interface_WIREGUARD_TUNNEL:
		return true
	}
	return false
}

func CrossConnectInVRF() error {
	return vswitch.Unsupported("an L3 cross-connect of an interface in a VRF other than 0: give the VRF a route for all packets instead")
}

// DefaultMetric6 replaces metric 0 in the kernel for IPv6.
const DefaultMetric6 = 1024

// MaxWeight is the limit of rtnh_hops.
const MaxWeight = 256

func Destination(r *netlink.Route) netip.Prefix {
	if r.Dst == nil {
		if r.Family == unix.AF_INET6 {
			return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	bits, _ := r.Dst.Mask.Size()
	addr, _ := netip.AddrFromSlice(r.Dst.IP)
	if r.Family != unix.AF_INET6 {
		addr = addr.Unmap()
	}
	return netip.PrefixFrom(addr, bits)
}
