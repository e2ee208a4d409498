package vpp

import (
	"context"
	"errors"
	"fmt"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/l2"
)

var subModule = newModule("", "sub-interfaces",
	&interfaces_api.CreateVlanSubif{}, &interfaces_api.CreateVlanSubifReply{},
	&interfaces_api.DeleteSubif{}, &interfaces_api.DeleteSubifReply{},
	&l2.L2InterfaceVlanTagRewrite{}, &l2.L2InterfaceVlanTagRewriteReply{},
)

func supportedSub(sub *vpp_interfaces.SubInterface) error {
	if sub.GetSubId() == 0 || sub.GetSubId() > 4095 {
		return vswitch.Unsupported("sub.sub_id %d is no VLAN: use 1 to 4095", sub.GetSubId())
	}
	return nil
}

// makeSub: the number of a sub-interface is its VLAN. Tags are rewritten when it is in a
// bridge domain.
func (v interfaces) makeSub(ctx context.Context, iface *vpp_interfaces.Interface) (index, error) {
	sub := iface.GetSub()
	parent, err := v.ifs.index(ctx, sub.GetParentName())
	if err != nil {
		return 0, fmt.Errorf("parent of the sub-interface: %w", err)
	}
	var reply interfaces_api.CreateVlanSubifReply
	err = v.call(ctx, subModule, &interfaces_api.CreateVlanSubif{SwIfIndex: parent, VlanID: sub.GetSubId()}, &reply)
	i := reply.SwIfIndex
	switch {
	case vppapi.Refused(err, api.VLAN_ALREADY_EXISTS):
		what := fmt.Sprintf("VLAN %d of interface %q", sub.GetSubId(), sub.GetParentName())
		if i, err = v.subOf(ctx, parent, sub.GetSubId()); err == nil {
			i, err = v.takeUntagged(ctx, i, what)
		}
		if err != nil {
			return 0, err
		}
	case err != nil:
		return 0, fmt.Errorf("making VLAN %d of interface %q: %w", sub.GetSubId(), sub.GetParentName(), err)
	}
	if sub.GetTagRwOption() == vpp_interfaces.SubInterface_DISABLED {
		return i, nil
	}
	req := &l2.L2InterfaceVlanTagRewrite{SwIfIndex: i, VtrOp: uint32(sub.GetTagRwOption()), Tag1: sub.GetTag1(), Tag2: sub.GetTag2()}
	if sub.GetPushDot1Q() {
		req.PushDot1q = 1
	}
	if err := v.call(ctx, subModule, req, &l2.L2InterfaceVlanTagRewriteReply{}); err != nil {
		return 0, errors.Join(fmt.Errorf("rewriting tags by %v: %w", sub.GetTagRwOption(), err), v.removeIndex(ctx, i))
	}
	return i, nil
}

// subOf finds a sub-interface by its parent and VLAN.
func (v interfaces) subOf(ctx context.Context, parent index, vlan uint32) (index, error) {
	all, err := dump[interfaces_api.SwInterfaceDetails](ctx, v.VSwitch, ifModule, &interfaces_api.SwInterfaceDump{SwIfIndex: ^index(0)})
	for _, d := range all {
		if isSub(d) && index(d.SupSwIfIndex) == parent && d.SubID == vlan {
			return d.SwIfIndex, nil
		}
	}
	return 0, errors.Join(err, fmt.Errorf("VPP says that it has VLAN %d already, and does not list it", vlan))
}

func isSub(d *interfaces_api.SwInterfaceDetails) bool { return index(d.SupSwIfIndex) != d.SwIfIndex }

func (v interfaces) removeSub(ctx context.Context, i index) error {
	return v.call(ctx, subModule, &interfaces_api.DeleteSubif{SwIfIndex: i}, &interfaces_api.DeleteSubifReply{})
}

func (inv *inventory) describeSub(d *interfaces_api.SwInterfaceDetails, expected *vpp_interfaces.SubInterface) *vpp_interfaces.SubInterface {
	sub := &vpp_interfaces.SubInterface{
		ParentName: inv.nameOf(index(d.SupSwIfIndex)), SubId: d.SubID, TagRwOption: vpp_interfaces.SubInterface_TagRewriteOptions(d.VtrOp),
	}
	// VPP says nothing of tags that it does not push.
	sub.PushDot1Q, sub.Tag1, sub.Tag2 = expected.GetPushDot1Q(), expected.GetTag1(), expected.GetTag2()
	switch sub.GetTagRwOption() {
	case vpp_interfaces.SubInterface_PUSH2, vpp_interfaces.SubInterface_TRANSLATE12, vpp_interfaces.SubInterface_TRANSLATE22:
		sub.PushDot1Q, sub.Tag1, sub.Tag2 = d.VtrPushDot1q != 0, d.VtrTag1, d.VtrTag2
	case vpp_interfaces.SubInterface_PUSH1, vpp_interfaces.SubInterface_TRANSLATE11, vpp_interfaces.SubInterface_TRANSLATE21:
		sub.PushDot1Q, sub.Tag1 = d.VtrPushDot1q != 0, d.VtrTag1
	}
	return sub
}
