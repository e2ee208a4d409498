package links

import (
	"net"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink/nl"
)

// Options of all tunnels: packets do not inherit their TTL and are not fragmented. In IPv6 they
// carry no encapsulation limit, which few receivers support.
const (
	tunnelTTL      = 64
	ignoreEncapLim = 1 // IP6_TNL_F_IGN_ENCAP_LIMIT
)

func greKind(gre *vpp_interfaces.GreLink) (kind, module string) {
	kind, module = "gre", "ip_gre"
	if is6(gre.GetSrcAddr()) {
		kind, module = "ip6gre", "ip6_gre"
	}
	if gre.GetTunnelType() == vpp_interfaces.GreLink_TEB {
		kind += "tap"
	}
	return kind, module
}

func supportedGRE(gre *vpp_interfaces.GreLink) error {
	switch {
	case gre.GetTunnelType() == vpp_interfaces.GreLink_ERSPAN:
		return vswitch.Unsupported("gre.tunnel_type ERSPAN: use TEB, and mirror to the tunnel with a span")
	case gre.GetOuterFibId() != 0:
		return vswitch.Unsupported("gre.outer_fib_id %d: packets of tunnels are routed in VRF 0", gre.GetOuterFibId())
	case gre.GetSessionId() != 0:
		return vswitch.Unsupported("gre.session_id: only ERSPAN tunnels have one: leave it out")
	}
	return nil
}

func greOptions(gre *vpp_interfaces.GreLink) []rtnl.LinkOption {
	options := []rtnl.LinkOption{
		{Attr: nl.IFLA_GRE_LOCAL, Value: addrBytes(gre.GetSrcAddr())},
		{Attr: nl.IFLA_GRE_REMOTE, Value: addrBytes(gre.GetDstAddr())},
		{Attr: nl.IFLA_GRE_TTL, Value: []byte{tunnelTTL}},
	}
	if is6(gre.GetSrcAddr()) {
		return append(options, rtnl.LinkOption{Attr: nl.IFLA_GRE_FLAGS, Value: nl.Uint32Attr(ignoreEncapLim)})
	}
	return append(options, rtnl.LinkOption{Attr: nl.IFLA_GRE_PMTUDISC, Value: []byte{1}})
}

func describeGRE(iface *vpp_interfaces.Interface, typ vpp_interfaces.GreLink_Type, local, remote net.IP, expected *vpp_interfaces.GreLink) {
	iface.Type = vpp_interfaces.Interface_GRE_TUNNEL
	iface.Link = &vpp_interfaces.Interface_Gre{Gre: &vpp_interfaces.GreLink{
		TunnelType: typ, SrcAddr: addrText(local, expected.GetSrcAddr()), DstAddr: addrText(remote, expected.GetDstAddr()),
	}}
}

func ipipOptions(ipip *vpp_interfaces.IPIPLink) []rtnl.LinkOption {
	options := []rtnl.LinkOption{
		{Attr: nl.IFLA_IPTUN_LOCAL, Value: addrBytes(ipip.GetSrcAddr())},
		{Attr: nl.IFLA_IPTUN_REMOTE, Value: addrBytes(ipip.GetDstAddr())},
		{Attr: nl.IFLA_IPTUN_TTL, Value: []byte{tunnelTTL}},
		{Attr: nl.IFLA_IPTUN_PROTO, Value: []byte{0}},
	}
	if is6(ipip.GetSrcAddr()) {
		return append(options, rtnl.LinkOption{Attr: nl.IFLA_IPTUN_FLAGS, Value: nl.Uint32Attr(ignoreEncapLim)})
	}
	return append(options, rtnl.LinkOption{Attr: nl.IFLA_IPTUN_PMTUDISC, Value: []byte{1}})
}

func describeIPIP(iface *vpp_interfaces.Interface, local, remote net.IP, expected *vpp_interfaces.IPIPLink) {
	iface.Type = vpp_interfaces.Interface_IPIP_TUNNEL
	iface.Link = &vpp_interfaces.Interface_Ipip{Ipip: &vpp_interfaces.IPIPLink{
		SrcAddr: addrText(local, expected.GetSrcAddr()), DstAddr: addrText(remote, expected.GetDstAddr()),
	}}
}
