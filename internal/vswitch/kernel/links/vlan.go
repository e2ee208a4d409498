package links

import (
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

// A sub-interface is a VLAN device: it removes the tag sub_id from frames that its parent receives,
// and adds it to frames that it sends. A sub-interface of a sub-interface has two tags.

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

func vlanOptions(sub *vpp_interfaces.SubInterface) []rtnl.LinkOption {
	return []rtnl.LinkOption{{Attr: nl.IFLA_VLAN_ID, Value: nl.Uint16Attr(uint16(sub.GetSubId()))}}
}

// describeVLAN takes the tag rewrite mode from the expected value, because both modes use the same
// device.
func describeVLAN(iface *vpp_interfaces.Interface, link *netlink.Vlan, parent string, expected *vpp_interfaces.SubInterface) {
	iface.Type = vpp_interfaces.Interface_SUB_INTERFACE
	iface.Link = &vpp_interfaces.Interface_Sub{Sub: &vpp_interfaces.SubInterface{
		ParentName: parent, SubId: uint32(link.VlanId),
		TagRwOption: expected.GetTagRwOption(), PushDot1Q: expected.GetPushDot1Q(), Tag1: expected.GetTag1(), Tag2: expected.GetTag2(),
	}}
}
