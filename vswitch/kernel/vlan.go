package kernel

import (
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/vswitch"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

// A sub-interface is a VLAN device: it takes the tag sub_id off what its parent
// receives, and puts it on what it sends. A sub-interface of a sub-interface has two.

func supportedVLAN(sub *vpp_interfaces.SubInterface) error {
	switch {
	case sub.GetSubId() == 0 || sub.GetSubId() > 4094:
		return vswitch.Unsupported("sub.sub_id %d: it is the VLAN of the sub-interface: use 1 to 4094", sub.GetSubId())
	case sub.GetTagRwOption() != vpp_interfaces.SubInterface_DISABLED && sub.GetTagRwOption() != vpp_interfaces.SubInterface_POP1:
		return vswitch.Unsupported("sub.tag_rw_option %v: VLAN devices of the Linux kernel take their tag off (POP1): use that, "+
			"or a sub-interface of a sub-interface for two tags", sub.GetTagRwOption())
	}
	return nil
}

// bridgeable says why an interface cannot be in a bridge domain.
func bridgeable(iface *vpp_interfaces.Interface) error {
	switch {
	case isL3(iface):
		return vswitch.Unsupported("an interface of type %v carries IP packets, not frames: use VXLAN, or GRE of type TEB", iface.GetType())
	case iface.GetType() == vpp_interfaces.Interface_SUB_INTERFACE && iface.GetSub().GetTagRwOption() != vpp_interfaces.SubInterface_POP1:
		return vswitch.Unsupported("sub-interface %q would take the VLAN tag off frames: say so with sub.tag_rw_option POP1", iface.GetName())
	}
	return nil
}

func vlanOptions(sub *vpp_interfaces.SubInterface) []linkOption {
	return []linkOption{{nl.IFLA_VLAN_ID, nl.Uint16Attr(uint16(sub.GetSubId()))}}
}

// describeVLAN: how tags are rewritten is for the expected value to say; both ways are
// the same device.
func describeVLAN(iface *vpp_interfaces.Interface, link *netlink.Vlan, parent string, expected *vpp_interfaces.SubInterface) {
	iface.Type = vpp_interfaces.Interface_SUB_INTERFACE
	iface.Link = &vpp_interfaces.Interface_Sub{Sub: &vpp_interfaces.SubInterface{
		ParentName: parent, SubId: uint32(link.VlanId),
		TagRwOption: expected.GetTagRwOption(), PushDot1Q: expected.GetPushDot1Q(), Tag1: expected.GetTag1(), Tag2: expected.GetTag2(),
	}}
}
