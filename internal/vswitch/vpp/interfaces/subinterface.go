package interfaces

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/l2"
)

var subModule = session.NewModule("", "sub-interfaces",
	&interfaces_api.CreateVlanSubif{}, &interfaces_api.CreateVlanSubifReply{},
	&interfaces_api.CreateSubif{}, &interfaces_api.CreateSubifReply{},
	&interfaces_api.DeleteSubif{}, &interfaces_api.DeleteSubifReply{},
	&l2.L2InterfaceVlanTagRewrite{}, &l2.L2InterfaceVlanTagRewriteReply{},
)

func supportedSub(sub *vpp_interfaces.SubInterface) error {
	if sub.GetSubId() == 0 || sub.GetSubId() > 4095 {
		return vswitch.Unsupported("sub.sub_id %d is no VLAN: use 1 to 4095", sub.GetSubId())
	}
	return nil
}

// makeSub creates a sub-interface. In a bridge domain, its tags are rewritten.
func (v *Interfaces) makeSub(ctx context.Context, iface *vpp_interfaces.Interface) (ownership.Index, error) {
	sub := iface.GetSub()
	i, tags, err := v.addSub(ctx, sub)
	if err != nil || sub.GetTagRwOption() == vpp_interfaces.SubInterface_DISABLED {
		return i, err
	}
	req := &l2.L2InterfaceVlanTagRewrite{SwIfIndex: i, VtrOp: uint32(sub.GetTagRwOption()), Tag1: sub.GetTag1(), Tag2: sub.GetTag2()}
	if sub.GetPushDot1Q() {
		req.PushDot1q = 1
	}
	if tags == 2 && sub.GetTagRwOption() == vpp_interfaces.SubInterface_POP1 {
		req.VtrOp = uint32(vpp_interfaces.SubInterface_POP2) // the parent's tag is removed with it
	}
	if err := v.vpp.Call(ctx, subModule, req, &l2.L2InterfaceVlanTagRewriteReply{}); err != nil {
		return 0, errors.Join(fmt.Errorf("rewriting tags by %v: %w", sub.GetTagRwOption(), err), v.removeIndex(ctx, i))
	}
	return i, nil
}

// addSub creates a sub-interface, or takes an existing one, and returns its number of tags. Its
// number is its VLAN. In VPP, a sub-interface of a sub-interface belongs to the hardware interface
// and has two tags.
func (v *Interfaces) addSub(ctx context.Context, sub *vpp_interfaces.SubInterface) (i ownership.Index, tags uint8, err error) {
	parent, err := v.ifs.Index(ctx, sub.GetParentName())
	if err != nil {
		return 0, 0, fmt.Errorf("parent of the sub-interface: %w", err)
	}
	outer, err := v.ifs.Details(ctx, parent)
	if err != nil {
		return 0, 0, err
	}
	id, tags, what := sub.GetSubId(), uint8(1), fmt.Sprintf("VLAN %d of interface %q", sub.GetSubId(), sub.GetParentName())
	if outer != nil && isSub(outer) {
		if outer.SubNumberOfTags != 1 {
			return 0, 0, vswitch.Unsupported("%s: VPP knows two tags at most: give the sub-interface a parent with one", what)
		}
		parent, id, tags = ownership.Index(outer.SupSwIfIndex), idOfInner(outer.SubOuterVlanID, sub.GetSubId()), 2
		var reply interfaces_api.CreateSubifReply
		err = v.vpp.Call(ctx, subModule, &interfaces_api.CreateSubif{
			SwIfIndex: parent, SubID: id, OuterVlanID: outer.SubOuterVlanID, InnerVlanID: uint16(sub.GetSubId()),
			SubIfFlags: interface_types.SUB_IF_API_FLAG_TWO_TAGS | interface_types.SUB_IF_API_FLAG_EXACT_MATCH,
		}, &reply)
		i = reply.SwIfIndex
	} else {
		var reply interfaces_api.CreateVlanSubifReply
		err = v.vpp.Call(ctx, subModule, &interfaces_api.CreateVlanSubif{SwIfIndex: parent, VlanID: id}, &reply)
		i = reply.SwIfIndex
	}
	if vppapi.Refused(err, api.VLAN_ALREADY_EXISTS) {
		if i, err = v.subOf(ctx, parent, id); err == nil {
			i, err = v.takeUntagged(ctx, i, what)
		}
		return i, tags, err
	}
	if err != nil {
		return 0, 0, fmt.Errorf("making %s: %w", what, err)
	}
	return i, tags, nil
}

// idOfInner is the number of a sub-interface with two tags, above all VLANs.
func idOfInner(outer uint16, inner uint32) uint32 { return uint32(outer)<<12 | inner }

// subOf finds a sub-interface by the hardware interface and its number.
func (v *Interfaces) subOf(ctx context.Context, parent ownership.Index, id uint32) (ownership.Index, error) {
	all, err := v.ifs.All(ctx)
	for _, d := range all {
		if isSub(d) && ownership.Index(d.SupSwIfIndex) == parent && d.SubID == id {
			return d.SwIfIndex, nil
		}
	}
	return 0, errors.Join(err, fmt.Errorf("VPP says that it has sub-interface %d already, and does not list it", id))
}

func isSub(d *interfaces_api.SwInterfaceDetails) bool {
	return ownership.Index(d.SupSwIfIndex) != d.SwIfIndex
}

func (v *Interfaces) removeSub(ctx context.Context, i ownership.Index) error {
	return v.vpp.Call(ctx, subModule, &interfaces_api.DeleteSubif{SwIfIndex: i}, &interfaces_api.DeleteSubifReply{})
}

func (inv *inventory) describeSub(d *interfaces_api.SwInterfaceDetails, expected *vpp_interfaces.SubInterface) *vpp_interfaces.SubInterface {
	sub := &vpp_interfaces.SubInterface{
		ParentName: inv.nameOf(ownership.Index(d.SupSwIfIndex)), SubId: d.SubID, TagRwOption: vpp_interfaces.SubInterface_TagRewriteOptions(d.VtrOp),
	}
	if d.SubNumberOfTags == 2 {
		sub.ParentName, sub.SubId = inv.nameOf(inv.outerOf(d)), uint32(d.SubInnerVlanID)
		if pops := sub.GetTagRwOption() == vpp_interfaces.SubInterface_POP2; pops && expected.GetTagRwOption() != vpp_interfaces.SubInterface_POP2 {
			sub.TagRwOption = vpp_interfaces.SubInterface_POP1
		}
	}
	// VPP does not report tags that it does not push.
	sub.PushDot1Q, sub.Tag1, sub.Tag2 = expected.GetPushDot1Q(), expected.GetTag1(), expected.GetTag2()
	switch sub.GetTagRwOption() {
	case vpp_interfaces.SubInterface_PUSH2, vpp_interfaces.SubInterface_TRANSLATE12, vpp_interfaces.SubInterface_TRANSLATE22:
		sub.PushDot1Q, sub.Tag1, sub.Tag2 = d.VtrPushDot1q != 0, d.VtrTag1, d.VtrTag2
	case vpp_interfaces.SubInterface_PUSH1, vpp_interfaces.SubInterface_TRANSLATE11, vpp_interfaces.SubInterface_TRANSLATE21:
		sub.PushDot1Q, sub.Tag1 = d.VtrPushDot1q != 0, d.VtrTag1
	}
	return sub
}

// outerOf returns the sub-interface with the outer tag of a doubly tagged one; noIndex if none.
func (inv *inventory) outerOf(d *interfaces_api.SwInterfaceDetails) ownership.Index {
	for _, o := range inv.details {
		if isSub(o) && o.SupSwIfIndex == d.SupSwIfIndex && o.SubNumberOfTags == 1 && o.SubOuterVlanID == d.SubOuterVlanID {
			return o.SwIfIndex
		}
	}
	return ownership.NoIndex
}
