package interfaces

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/gre"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/ipip"
	"go.fd.io/govpp/binapi/tunnel_types"
)

var (
	greModule = session.NewModule("gre_plugin.so", "GRE tunnels",
		&gre.GreTunnelAddDel{}, &gre.GreTunnelAddDelReply{}, &gre.GreTunnelDump{}, &gre.GreTunnelDetails{})
	ipipModule = session.NewModule("", "IPIP tunnels",
		&ipip.IpipAddTunnel{}, &ipip.IpipAddTunnelReply{}, &ipip.IpipDelTunnel{}, &ipip.IpipDelTunnelReply{},
		&ipip.IpipTunnelDump{}, &ipip.IpipTunnelDetails{})
)

// endpoints converts the addresses of a valid tunnel. An unset destination is all zeros of the same
// version.
func endpoints(src, dst string) (from, to ip_types.Address, err error) {
	a, err := convert.ParseAddr(src)
	if err != nil {
		return from, to, err
	}
	b := netip.IPv4Unspecified()
	if a.Is6() {
		b = netip.IPv6Unspecified()
	}
	if dst != "" {
		if b, err = convert.ParseAddr(dst); err != nil {
			return from, to, err
		}
	}
	return convert.Address(a), convert.Address(b), nil
}

func greTunnel(link *vpp_interfaces.GreLink) (gre.GreTunnel, error) {
	src, dst, err := endpoints(link.GetSrcAddr(), link.GetDstAddr())
	tunnel := gre.GreTunnel{
		Type: gre.GreTunnelType(link.GetTunnelType() - vpp_interfaces.GreLink_L3), Mode: tunnel_types.TUNNEL_API_MODE_P2P,
		Instance: ^uint32(0), OuterTableID: link.GetOuterFibId(), Src: src, Dst: dst,
	}
	if link.GetTunnelType() == vpp_interfaces.GreLink_ERSPAN { // other tunnels have none, and VPP drops it
		tunnel.SessionID = uint16(link.GetSessionId())
	}
	return tunnel, err
}

func supportedGRE(link *vpp_interfaces.GreLink) error {
	if link.GetTunnelType() == vpp_interfaces.GreLink_UNKNOWN {
		return vswitch.Unsupported("gre.tunnel_type %v: set L3, TEB or ERSPAN", link.GetTunnelType())
	}
	return nil
}

func (v *Interfaces) makeGRE(ctx context.Context, iface *vpp_interfaces.Interface) (ownership.Index, error) {
	tunnel, err := greTunnel(iface.GetGre())
	if err != nil {
		return 0, err
	}
	what := fmt.Sprintf("the GRE tunnel %v → %v", tunnel.Src, tunnel.Dst)
	var reply gre.GreTunnelAddDelReply
	err = v.vpp.Call(ctx, greModule, &gre.GreTunnelAddDel{IsAdd: true, Tunnel: tunnel}, &reply)
	if !vppapi.Refused(err, api.IF_ALREADY_EXISTS) {
		if err != nil {
			err = fmt.Errorf("making %s: %w", what, err)
		}
		return reply.SwIfIndex, err
	}
	all, err := session.Dump[gre.GreTunnelDetails](ctx, v.vpp, greModule, &gre.GreTunnelDump{SwIfIndex: ^ownership.Index(0)})
	if err != nil {
		return 0, err
	}
	for _, d := range all {
		found := d.Tunnel
		found.Instance, found.SwIfIndex, found.Flags = tunnel.Instance, tunnel.SwIfIndex, tunnel.Flags
		if !convert.SameAddress(found.Src, tunnel.Src) || !convert.SameAddress(found.Dst, tunnel.Dst) {
			continue
		}
		if found.Src, found.Dst = tunnel.Src, tunnel.Dst; found == tunnel {
			return v.takeUntagged(ctx, d.Tunnel.SwIfIndex, what)
		}
	}
	return 0, fmt.Errorf("making %s: VPP has one that differs in nothing but its session: delete that", what)
}

// removeGRE identifies the tunnel by VPP's own parameters.
func (v *Interfaces) removeGRE(ctx context.Context, i ownership.Index) error {
	found, err := session.Dump[gre.GreTunnelDetails](ctx, v.vpp, greModule, &gre.GreTunnelDump{SwIfIndex: i})
	if err != nil || len(found) == 0 {
		return err
	}
	return v.vpp.Call(ctx, greModule, &gre.GreTunnelAddDel{Tunnel: found[0].Tunnel}, &gre.GreTunnelAddDelReply{})
}

func describeGRE(d *gre.GreTunnelDetails, expected *vpp_interfaces.GreLink) *vpp_interfaces.GreLink {
	link := &vpp_interfaces.GreLink{
		TunnelType: vpp_interfaces.GreLink_Type(d.Tunnel.Type) + vpp_interfaces.GreLink_L3,
		SrcAddr:    addrText(d.Tunnel.Src, expected.GetSrcAddr()), DstAddr: addrText(d.Tunnel.Dst, expected.GetDstAddr()),
		OuterFibId: d.Tunnel.OuterTableID, SessionId: uint32(d.Tunnel.SessionID),
	}
	if link.TunnelType != vpp_interfaces.GreLink_ERSPAN {
		link.SessionId = expected.GetSessionId()
	}
	return link
}

func (v *Interfaces) makeIPIP(ctx context.Context, iface *vpp_interfaces.Interface) (ownership.Index, error) {
	link := iface.GetIpip()
	src, dst, err := endpoints(link.GetSrcAddr(), link.GetDstAddr())
	if err != nil {
		return 0, err
	}
	what := fmt.Sprintf("the IPIP tunnel %v → %v", src, dst)
	var reply ipip.IpipAddTunnelReply
	err = v.vpp.Call(ctx, ipipModule, &ipip.IpipAddTunnel{Tunnel: ipip.IpipTunnel{
		Instance: ^uint32(0), Src: src, Dst: dst, TableID: iface.GetVrf(), Mode: tunnel_types.TunnelMode(link.GetTunnelMode()),
	}}, &reply)
	switch {
	case vppapi.Refused(err, api.IF_ALREADY_EXISTS):
		return v.takeUntagged(ctx, reply.SwIfIndex, what)
	case err != nil:
		return 0, fmt.Errorf("making %s: %w", what, err)
	}
	return reply.SwIfIndex, nil
}

func (v *Interfaces) removeIPIP(ctx context.Context, i ownership.Index) error {
	err := v.vpp.Call(ctx, ipipModule, &ipip.IpipDelTunnel{SwIfIndex: i}, &ipip.IpipDelTunnelReply{})
	if vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return nil
	}
	return err
}

func describeIPIP(d *ipip.IpipTunnelDetails, expected *vpp_interfaces.IPIPLink) *vpp_interfaces.IPIPLink {
	link := &vpp_interfaces.IPIPLink{
		TunnelMode: vpp_interfaces.IPIPLink_Mode(d.Tunnel.Mode),
		SrcAddr:    addrText(d.Tunnel.Src, expected.GetSrcAddr()), DstAddr: addrText(d.Tunnel.Dst, expected.GetDstAddr()),
	}
	if convert.Addr(d.Tunnel.Dst).IsUnspecified() {
		link.DstAddr = expected.GetDstAddr()
	}
	return link
}
