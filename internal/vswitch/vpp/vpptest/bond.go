package vpptest

import (
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/bond"
	"go.fd.io/govpp/binapi/ethernet_types"
	interfaces "go.fd.io/govpp/binapi/interface"
)

type bondIf struct {
	bond.SwBondInterfaceDetails
	custom bool // its MAC
}

// membership is an interface's state as a member of a bond.
type membership struct {
	bond          index
	passive, long bool
	own           ethernet_types.MacAddress
}

func handleBonds() {
	interfaceDeleted = append(interfaceDeleted, func(c *call, i index) {
		c.ifs.all(func(m *swInterface) {
			if m.member != nil && (m.member.bond == i || m.SwIfIndex == i) {
				c.detach(m)
			}
		})
	})
	on(func(c *call, req *bond.BondCreate2, reply *bond.BondCreate2Reply) api.VPPApiError {
		reply.SwIfIndex = noIndex
		if req.Mode < bond.BOND_API_MODE_ROUND_ROBIN || req.Mode > bond.BOND_API_MODE_LACP || req.Lb > bond.BOND_API_LB_ALGO_L23 {
			return api.INVALID_ARGUMENT
		}
		n, ok := c.ifs.instanceOf("BondEthernet", req.ID)
		if !ok {
			return api.INSTANCE_IN_USE
		}
		mac := req.MacAddress
		if !req.UseCustomMac {
			mac = c.ifs.randomMAC()
		}
		i := c.addInterface(&swInterface{prefix: "BondEthernet", instance: n, SwInterfaceDetails: interfaces.SwInterfaceDetails{
			InterfaceName: name("BondEthernet", n), InterfaceDevType: "bond", L2Address: mac, Flags: linkUp,
		}})
		d := bond.SwBondInterfaceDetails{SwIfIndex: i.SwIfIndex, ID: n, Mode: req.Mode, Lb: req.Lb, NumaOnly: req.NumaOnly, InterfaceName: i.InterfaceName}
		switch req.Mode {
		case bond.BOND_API_MODE_ROUND_ROBIN:
			d.Lb = bond.BOND_API_LB_ALGO_RR
		case bond.BOND_API_MODE_BROADCAST:
			d.Lb = bond.BOND_API_LB_ALGO_BC
		case bond.BOND_API_MODE_ACTIVE_BACKUP:
			d.Lb = bond.BOND_API_LB_ALGO_AB
		}
		i.kind = bondIf{d, req.UseCustomMac}
		reply.SwIfIndex = i.SwIfIndex
		return 0
	})
	onInterface(func(r *bond.BondDelete) index { return r.SwIfIndex }, deleteKind[bondIf, *bond.BondDelete, *bond.BondDeleteReply])
	onInterface(func(r *bond.BondAddMember) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *bond.BondAddMember, _ *bond.BondAddMemberReply) api.VPPApiError {
			at := c.ifs.iface(req.BondSwIfIndex)
			if at == nil {
				return api.INVALID_INTERFACE
			}
			b, ok := at.kind.(bondIf)
			_, isBond := i.kind.(bondIf)
			switch {
			case !ok, isBond:
				return api.INVALID_INTERFACE
			case i.member != nil:
				return api.VALUE_EXIST
			}
			i.member = &membership{bond: req.BondSwIfIndex, passive: req.IsPassive, long: req.IsLongTimeout, own: i.L2Address}
			if !b.custom && c.members(at.SwIfIndex) == 1 {
				at.L2Address = i.L2Address
			}
			i.L2Address = at.L2Address
			return 0
		})
	onInterface(func(r *bond.BondDetachMember) index { return r.SwIfIndex },
		func(c *call, i *swInterface, _ *bond.BondDetachMember, _ *bond.BondDetachMemberReply) api.VPPApiError {
			if i.member == nil {
				return api.INVALID_INTERFACE
			}
			c.detach(i)
			return 0
		})
	onDump(func(c *call, req *bond.SwBondInterfaceDump, send func(*bond.SwBondInterfaceDetails)) {
		dumpKind(c, req.SwIfIndex, func(i *swInterface, b bondIf) {
			b.Members = c.members(i.SwIfIndex)
			send(&b.SwBondInterfaceDetails)
		})
	})
	onDump(func(c *call, req *bond.SwMemberInterfaceDump, send func(*bond.SwMemberInterfaceDetails)) {
		c.ifs.all(func(i *swInterface) {
			if m := i.member; m != nil && m.bond == req.SwIfIndex {
				send(&bond.SwMemberInterfaceDetails{SwIfIndex: i.SwIfIndex, InterfaceName: i.InterfaceName, IsPassive: m.passive, IsLongTimeout: m.long})
			}
		})
	})
}

// members returns the number of a bond's members.
func (c *call) members(b index) (n uint32) {
	c.ifs.all(func(i *swInterface) {
		if i.member != nil && i.member.bond == b {
			n++
		}
	})
	return n
}

func (c *call) detach(i *swInterface) { i.L2Address, i.member = i.member.own, nil }
