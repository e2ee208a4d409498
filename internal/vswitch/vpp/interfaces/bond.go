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
	"go.fd.io/govpp/binapi/bond"
)

var bondModule = session.NewModule("", "bonds",
	&bond.BondCreate2{}, &bond.BondCreate2Reply{}, &bond.BondDelete{}, &bond.BondDeleteReply{},
	&bond.BondAddMember{}, &bond.BondAddMemberReply{}, &bond.BondDetachMember{}, &bond.BondDetachMemberReply{},
	&bond.SwBondInterfaceDump{}, &bond.SwBondInterfaceDetails{},
	&bond.SwMemberInterfaceDump{}, &bond.SwMemberInterfaceDetails{},
)

// balances reports whether a bond mode has a choice of load balancing.
func balances(mode vpp_interfaces.BondLink_Mode) bool {
	return mode == vpp_interfaces.BondLink_XOR || mode == vpp_interfaces.BondLink_LACP
}

func (v *Interfaces) makeBond(ctx context.Context, iface *vpp_interfaces.Interface) (ownership.Index, error) {
	link := iface.GetBond()
	req := &bond.BondCreate2{Mode: bond.BondMode(link.GetMode()), ID: link.GetId()}
	if balances(link.GetMode()) {
		req.Lb = bond.BondLbAlgo(link.GetLb())
	}
	if mac, err := convert.ParseMAC(iface.GetPhysAddress()); err == nil {
		req.UseCustomMac, req.MacAddress = true, mac
	}
	var reply bond.BondCreate2Reply
	err := v.vpp.Call(ctx, bondModule, req, &reply)
	switch {
	case vppapi.Refused(err, api.FEATURE_DISABLED):
		return 0, vswitch.Unsupported("bond.mode LACP: VPP has not loaded its plugin lacp_plugin.so; enable it in the section plugins of VPP's start-up configuration and restart VPP")
	case vppapi.Refused(err, api.INSTANCE_IN_USE):
		return v.takeBond(ctx, req)
	case err != nil:
		return 0, fmt.Errorf("making bond %d: %w", link.GetId(), err)
	}
	return reply.SwIfIndex, nil
}

// takeBond takes the bond of an earlier attempt.
func (v *Interfaces) takeBond(ctx context.Context, req *bond.BondCreate2) (ownership.Index, error) {
	what := fmt.Sprintf("bond.id %d", req.ID)
	all, err := session.Dump[bond.SwBondInterfaceDetails](ctx, v.vpp, bondModule, &bond.SwBondInterfaceDump{SwIfIndex: ^ownership.Index(0)})
	if err != nil {
		return 0, err
	}
	for _, d := range all {
		if d.ID == req.ID && d.Mode == req.Mode {
			return v.takeUntagged(ctx, d.SwIfIndex, what)
		}
	}
	return 0, fmt.Errorf("%s is in use by another bond of VPP: choose another one", what)
}

func (v *Interfaces) removeBond(ctx context.Context, i ownership.Index) error {
	return v.vpp.Call(ctx, bondModule, &bond.BondDelete{SwIfIndex: i}, &bond.BondDeleteReply{})
}

func (inv *inventory) describeBond(d *bond.SwBondInterfaceDetails, expected *vpp_interfaces.BondLink) *vpp_interfaces.BondLink {
	link := &vpp_interfaces.BondLink{Id: d.ID, Mode: vpp_interfaces.BondLink_Mode(d.Mode), Lb: expected.GetLb()}
	if balances(link.GetMode()) {
		link.Lb = vpp_interfaces.BondLink_LoadBalance(d.Lb)
	}
	for _, m := range inv.members[d.SwIfIndex] {
		link.BondedInterfaces = append(link.BondedInterfaces, &vpp_interfaces.BondLink_BondedInterface{
			Name: inv.nameOf(m.SwIfIndex), IsPassive: m.IsPassive, IsLongTimeout: m.IsLongTimeout,
		})
	}
	return link
}

// AddBondMember: VPP copies the bond's MAC to the member, or the reverse.
func (v *Interfaces) AddBondMember(ctx context.Context, bondName string, member *vpp_interfaces.BondLink_BondedInterface) error {
	if err := v.addBondMember(ctx, bondName, member); err != nil {
		return fmt.Errorf("making interface %q a member of bond %q: %w", member.GetName(), bondName, err)
	}
	return nil
}

func (v *Interfaces) addBondMember(ctx context.Context, bondName string, member *vpp_interfaces.BondLink_BondedInterface) error {
	at, err := v.ifs.Index(ctx, bondName)
	if err != nil {
		return err
	}
	i, err := v.ifs.Index(ctx, member.GetName())
	if err != nil {
		return err
	}
	add := func() error {
		return v.vpp.Call(ctx, bondModule, &bond.BondAddMember{
			SwIfIndex: i, BondSwIfIndex: at, IsPassive: member.GetIsPassive(), IsLongTimeout: member.GetIsLongTimeout(),
		}, &bond.BondAddMemberReply{})
	}
	if err = add(); !vppapi.Refused(err, api.VALUE_EXIST) {
		return err
	}
	members, err := session.Dump[bond.SwMemberInterfaceDetails](ctx, v.vpp, bondModule, &bond.SwMemberInterfaceDump{SwIfIndex: at})
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.SwIfIndex == i && m.IsPassive == member.GetIsPassive() && m.IsLongTimeout == member.GetIsLongTimeout() {
			return nil
		}
	}
	if err := v.detach(ctx, i); err != nil {
		return err
	}
	return add()
}

func (v *Interfaces) detach(ctx context.Context, i ownership.Index) error {
	err := v.vpp.Call(ctx, bondModule, &bond.BondDetachMember{SwIfIndex: i}, &bond.BondDetachMemberReply{})
	if vppapi.Refused(err, api.INVALID_INTERFACE) { // it was none
		return nil
	}
	return err
}

// RemoveBondMember restores the interface's own MAC.
func (v *Interfaces) RemoveBondMember(ctx context.Context, bondName string, member *vpp_interfaces.BondLink_BondedInterface) error {
	err := v.ifs.OnExisting(ctx, member.GetName(), func(i ownership.Index) error { return v.detach(ctx, i) })
	if err != nil {
		return fmt.Errorf("taking interface %q out of bond %q: %w", member.GetName(), bondName, err)
	}
	return nil
}
