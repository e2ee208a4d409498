// Package accesslist builds rules of access lists for ports of services.
package accesslist

import (
	"net/netip"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

const protocolSCTP = 132

// Rule returns a rule for packets of a protocol. A nil range stands for all ports. Access lists
// ignore SCTP ports: such a rule applies to the whole address.
func Rule(action vpp_acl.ACL_Rule_Action, ip *vpp_acl.ACL_Rule_IpRule_Ip, protocol processor.Protocol, from, to *vpp_acl.ACL_Rule_IpRule_PortRange) *vpp_acl.ACL_Rule {
	rule := &vpp_acl.ACL_Rule_IpRule{Ip: ip}
	switch protocol {
	case processor.TCP:
		rule.Tcp = &vpp_acl.ACL_Rule_IpRule_Tcp{SourcePortRange: from, DestinationPortRange: to}
	case processor.UDP:
		rule.Udp = &vpp_acl.ACL_Rule_IpRule_Udp{SourcePortRange: from, DestinationPortRange: to}
	case processor.SCTP:
		ip.Protocol = protocolSCTP
	}
	return &vpp_acl.ACL_Rule{Action: action, IpRule: rule}
}

// OnePort returns the range of one port.
func OnePort(addr netip.AddrPort) *vpp_acl.ACL_Rule_IpRule_PortRange {
	return &vpp_acl.ACL_Rule_IpRule_PortRange{LowerPort: uint32(addr.Port()), UpperPort: uint32(addr.Port())}
}
