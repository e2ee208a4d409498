package acl

import (
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"go.fd.io/govpp/binapi/acl_types"
	"go.fd.io/govpp/binapi/ip_types"
)

var aclActions = map[vpp_acl.ACL_Rule_Action]acl_types.ACLAction{
	vpp_acl.ACL_Rule_DENY:    acl_types.ACL_ACTION_API_DENY,
	vpp_acl.ACL_Rule_PERMIT:  acl_types.ACL_ACTION_API_PERMIT,
	vpp_acl.ACL_Rule_REFLECT: acl_types.ACL_ACTION_API_PERMIT_REFLECT,
}

func actionOf(a acl_types.ACLAction) vpp_acl.ACL_Rule_Action {
	for action, theirs := range aclActions {
		if theirs == a {
			return action
		}
	}
	return vpp_acl.ACL_Rule_DENY
}

// ipACLRules returns the rules of a list in VPP's form, where protocol 0 is any.
func ipACLRules(list *vpp_acl.ACL) ([]acl_types.ACLRule, error) {
	rules, err := vswitch.ACLRules(list)
	if err != nil {
		return nil, err
	}
	result := make([]acl_types.ACLRule, len(rules))
	for i, r := range rules {
		result[i] = acl_types.ACLRule{
			IsPermit: aclActions[r.Action], SrcPrefix: convert.Prefix(r.Src), DstPrefix: convert.Prefix(r.Dst),
			SrcportOrIcmptypeFirst: r.SrcPortsOrTypes.First, SrcportOrIcmptypeLast: r.SrcPortsOrTypes.Last,
			DstportOrIcmpcodeFirst: r.DstPortsOrCodes.First, DstportOrIcmpcodeLast: r.DstPortsOrCodes.Last,
			TCPFlagsMask: r.TCPFlagsMask, TCPFlagsValue: r.TCPFlags,
		}
		if r.Protocol != vswitch.AnyProtocol {
			result[i].Proto = ip_types.IPProto(r.Protocol.First)
		}
	}
	return result, nil
}

// northboundRule is the reverse of ipACLRules.
func northboundRule(r acl_types.ACLRule) *vpp_acl.ACL_Rule {
	ip := &vpp_acl.ACL_Rule_IpRule{Ip: &vpp_acl.ACL_Rule_IpRule_Ip{
		SourceNetwork: convert.NetipPrefix(r.SrcPrefix).String(), DestinationNetwork: convert.NetipPrefix(r.DstPrefix).String(), Protocol: uint32(r.Proto),
	}}
	ports := func(first, last uint16) *vpp_acl.ACL_Rule_IpRule_PortRange {
		return &vpp_acl.ACL_Rule_IpRule_PortRange{LowerPort: uint32(first), UpperPort: uint32(last)}
	}
	icmp := func(first, last uint16) *vpp_acl.ACL_Rule_IpRule_Icmp_Range {
		return &vpp_acl.ACL_Rule_IpRule_Icmp_Range{First: uint32(min(first, 255)), Last: uint32(min(last, 255))}
	}
	v6 := r.SrcPrefix.Address.Af == ip_types.ADDRESS_IP6
	switch r.Proto {
	case vswitch.ProtocolTCP:
		ip.Tcp = &vpp_acl.ACL_Rule_IpRule_Tcp{
			SourcePortRange: ports(r.SrcportOrIcmptypeFirst, r.SrcportOrIcmptypeLast), DestinationPortRange: ports(r.DstportOrIcmpcodeFirst, r.DstportOrIcmpcodeLast),
			TcpFlagsMask: uint32(r.TCPFlagsMask), TcpFlagsValue: uint32(r.TCPFlagsValue),
		}
	case vswitch.ProtocolUDP:
		ip.Udp = &vpp_acl.ACL_Rule_IpRule_Udp{
			SourcePortRange: ports(r.SrcportOrIcmptypeFirst, r.SrcportOrIcmptypeLast), DestinationPortRange: ports(r.DstportOrIcmpcodeFirst, r.DstportOrIcmpcodeLast),
		}
	case vswitch.ProtocolICMP, vswitch.ProtocolICMPv6:
		if (r.Proto == vswitch.ProtocolICMPv6) == v6 {
			ip.Icmp = &vpp_acl.ACL_Rule_IpRule_Icmp{
				Icmpv6: v6, IcmpTypeRange: icmp(r.SrcportOrIcmptypeFirst, r.SrcportOrIcmptypeLast), IcmpCodeRange: icmp(r.DstportOrIcmpcodeFirst, r.DstportOrIcmpcodeLast),
			}
		}
	}
	return &vpp_acl.ACL_Rule{Action: actionOf(r.IsPermit), IpRule: ip}
}

func northboundMACIPRule(r acl_types.MacipACLRule) *vpp_acl.ACL_Rule {
	src := convert.NetipPrefix(r.SrcPrefix)
	return &vpp_acl.ACL_Rule{Action: actionOf(r.IsPermit), MacipRule: &vpp_acl.ACL_Rule_MacIpRule{
		SourceAddress: src.Addr().String(), SourceAddressPrefix: uint32(src.Bits()),
		SourceMacAddress: r.SrcMac.String(), SourceMacAddressMask: r.SrcMacMask.String(),
	}}
}
