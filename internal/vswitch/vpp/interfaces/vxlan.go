package interfaces

import (
	"context"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/vxlan"
)

var vxlanModule = session.NewModule("vxlan_plugin.so", "VXLAN tunnels",
	&vxlan.VxlanAddDelTunnelV3{}, &vxlan.VxlanAddDelTunnelV3Reply{},
	&vxlan.VxlanTunnelV2Dump{}, &vxlan.VxlanTunnelV2Details{},
)

func supportedVXLAN(link *vpp_interfaces.VxlanLink) error {
	if link.GetGpe() != nil {
		return vswitch.Unsupported("vxlan.gpe: use plain VXLAN")
	}
	return nil
}

// vxlanRequest returns a request about the tunnel of a valid value.
func (v *Interfaces) vxlanRequest(ctx context.Context, iface *vpp_interfaces.Interface) (*vxlan.VxlanAddDelTunnelV3, error) {
	link := iface.GetVxlan()
	src, err := ip_types.ParseAddress(link.GetSrcAddress())
	if err != nil {
		return nil, err
	}
	dst, err := ip_types.ParseAddress(link.GetDstAddress())
	if err != nil {
		return nil, err
	}
	req := &vxlan.VxlanAddDelTunnelV3{
		IsAdd: true, Instance: ^uint32(0), SrcAddress: src, DstAddress: dst, Vni: link.GetVni(), EncapVrfID: iface.GetVrf(),
		McastSwIfIndex: ^ownership.Index(0), DecapNextIndex: ^uint32(0),
	}
	if link.GetMulticast() != "" {
		if req.McastSwIfIndex, err = v.ifs.Index(ctx, link.GetMulticast()); err != nil {
			return nil, fmt.Errorf("vxlan.multicast: %w", err)
		}
	}
	return req, nil
}

func (v *Interfaces) makeVXLAN(ctx context.Context, iface *vpp_interfaces.Interface) (ownership.Index, error) {
	req, err := v.vxlanRequest(ctx, iface)
	if err != nil {
		return 0, err
	}
	what := fmt.Sprintf("the VXLAN tunnel %v → %v, VNI %d", req.SrcAddress, req.DstAddress, req.Vni)
	var reply vxlan.VxlanAddDelTunnelV3Reply
	err = v.vpp.Call(ctx, vxlanModule, req, &reply)
	if !vppapi.Refused(err, api.TUNNEL_EXIST) {
		if err != nil {
			err = fmt.Errorf("making %s: %w", what, err)
		}
		return reply.SwIfIndex, err
	}
	all, err := session.Dump[vxlan.VxlanTunnelV2Details](ctx, v.vpp, vxlanModule, &vxlan.VxlanTunnelV2Dump{SwIfIndex: ^ownership.Index(0)})
	if err != nil {
		return 0, err
	}
	for _, t := range all {
		if t.Vni == req.Vni && t.EncapVrfID == req.EncapVrfID && convert.SameAddress(t.SrcAddress, req.SrcAddress) && convert.SameAddress(t.DstAddress, req.DstAddress) {
			return v.takeUntagged(ctx, t.SwIfIndex, what)
		}
	}
	return 0, fmt.Errorf("making %s: VPP has one to the same address with another source: delete that", what)
}

// removeVXLAN identifies the tunnel by VPP's own parameters.
func (v *Interfaces) removeVXLAN(ctx context.Context, i ownership.Index) error {
	found, err := session.Dump[vxlan.VxlanTunnelV2Details](ctx, v.vpp, vxlanModule, &vxlan.VxlanTunnelV2Dump{SwIfIndex: i})
	if err != nil || len(found) == 0 {
		return err
	}
	t := found[0]
	err = v.vpp.Call(ctx, vxlanModule, &vxlan.VxlanAddDelTunnelV3{
		SrcAddress: t.SrcAddress, DstAddress: t.DstAddress, SrcPort: t.SrcPort, DstPort: t.DstPort, Vni: t.Vni,
		EncapVrfID: t.EncapVrfID, Instance: t.Instance, DecapNextIndex: t.DecapNextIndex,
		// A group's interface only has to exist, and the tunnel's may be gone. local0 always
		// exists.
		McastSwIfIndex: 0,
	}, &vxlan.VxlanAddDelTunnelV3Reply{})
	if vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return nil
	}
	return err
}

// describeVXLAN returns the parameters of a tunnel.
func (inv *inventory) describeVXLAN(d *vxlan.VxlanTunnelV2Details, expected *vpp_interfaces.VxlanLink) *vpp_interfaces.VxlanLink {
	link := &vpp_interfaces.VxlanLink{
		SrcAddress: addrText(d.SrcAddress, expected.GetSrcAddress()), DstAddress: addrText(d.DstAddress, expected.GetDstAddress()), Vni: d.Vni,
	}
	if d.McastSwIfIndex != ^ownership.Index(0) {
		link.Multicast = inv.nameOf(d.McastSwIfIndex)
	}
	return link
}
