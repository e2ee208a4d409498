package vswitch

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
)

// SameACLRules reports whether two lists have the same rules.
func SameACLRules(a, b *vpp_acl.ACL) bool {
	left, errA := ACLRules(a)
	right, errB := ACLRules(b)
	return errA == nil && errB == nil && IsMACIP(a) == IsMACIP(b) && slices.Equal(left, right)
}

// IP protocol numbers.
const (
	ProtocolICMP   = 1
	ProtocolTCP    = 6
	ProtocolUDP    = 17
	ProtocolICMPv6 = 58
	ProtocolSCTP   = 132
)

// ACLRule is a normalized rule of an access list: it matches packets of one IP version that match
// all of its fields.
type ACLRule struct {
	Action vpp_acl.ACL_Rule_Action
	// Src and Dst are networks of the same IP version.
	Src, Dst netip.Prefix
	// Protocol numbers: one or, with AnyProtocol, all.
	Protocol Range
	// Ports of TCP and UDP, types and codes of ICMP. They apply to these protocols only.
	SrcPortsOrTypes, DstPortsOrCodes Range
	// TCPFlags are the required values of the flags in the mask.
	TCPFlagsMask, TCPFlags uint8
	// MAC is the source MAC address under the mask. MAC-IP rules only.
	MAC, MACMask [6]byte
}

// Range is an inclusive range of numbers.
type Range struct{ First, Last uint16 }

// Ranges of everything.
var (
	AnyProtocol = Range{0, 255}
	AnyPort     = Range{0, 65535}
	AnyICMP     = Range{0, 255}
)

// Has reports whether the number is in the range.
func (r Range) Has(n uint16) bool { return r.First <= n && n <= r.Last }

// AnyNetwork is the network of all addresses of an IP version.
func AnyNetwork(ipv6 bool) netip.Prefix {
	if ipv6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// IsMACIP reports whether a list has MAC-IP rules.
func IsMACIP(acl *vpp_acl.ACL) bool {
	return len(acl.GetRules()) > 0 && acl.GetRules()[0].GetMacipRule() != nil
}

// ACLRules returns the rules of a valid list, in order. A rule for both IP versions becomes two.
func ACLRules(acl *vpp_acl.ACL) ([]ACLRule, error) {
	rules := make([]ACLRule, 0, len(acl.GetRules()))
	for i, r := range acl.GetRules() {
		var list []ACLRule
		var err error
		switch {
		case r.GetIpRule() != nil && r.GetMacipRule() != nil:
			err = fmt.Errorf("it has an ip_rule and a macip_rule: make two rules of it, in lists of their own")
		case r.GetMacipRule() != nil:
			list, err = macIPRules(r)
		case r.GetIpRule() != nil:
			list, err = ipRules(r)
		default:
			err = fmt.Errorf("no match: set ip_rule (ip_rule: {} matches every packet) or macip_rule")
		}
		if err == nil && (r.GetMacipRule() != nil) != IsMACIP(acl) {
			err = fmt.Errorf("it is of another kind than rule 1: a list has IP rules or MAC-IP rules, make two lists of it")
		}
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		rules = append(rules, list...)
	}
	return rules, nil
}

func ipRules(r *vpp_acl.ACL_Rule) ([]ACLRule, error) {
	ip := r.GetIpRule()
	rule := ACLRule{Action: r.GetAction(), SrcPortsOrTypes: AnyPort, DstPortsOrCodes: AnyPort}
	if _, ok := vpp_acl.ACL_Rule_Action_name[int32(rule.Action)]; !ok {
		return nil, fmt.Errorf("action %d is none of DENY, PERMIT and REFLECT", rule.Action)
	}
	versions, err := ipVersions(ip)
	if err == nil {
		err = rule.setTransport(ip)
	}
	if err != nil {
		return nil, err
	}
	var rules []ACLRule
	for _, ipv6 := range versions {
		rule.Src, rule.Dst = AnyNetwork(ipv6), AnyNetwork(ipv6)
		if text := ip.GetIp().GetSourceNetwork(); text != "" {
			rule.Src = netip.MustParsePrefix(text).Masked()
		}
		if text := ip.GetIp().GetDestinationNetwork(); text != "" {
			rule.Dst = netip.MustParsePrefix(text).Masked()
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// ipVersions returns the IP versions of the rule: true is IPv6.
func ipVersions(ip *vpp_acl.ACL_Rule_IpRule) ([]bool, error) {
	version := map[bool]string{}
	for field, text := range map[string]string{
		"source_network": ip.GetIp().GetSourceNetwork(), "destination_network": ip.GetIp().GetDestinationNetwork(),
	} {
		if text == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("%s %q is no network: write it like 10.1.0.0/16 or fd00::/64", field, text)
		}
		version[prefix.Addr().Is6()] = fmt.Sprintf("%s %s", field, text)
	}
	if icmp := ip.GetIcmp(); icmp != nil {
		version[icmp.GetIcmpv6()] = map[bool]string{false: "ICMP (set icmpv6 for ICMPv6)", true: "ICMPv6"}[icmp.GetIcmpv6()]
	}
	switch {
	case len(version) == 2:
		return nil, fmt.Errorf("%s is about IPv4, %s about IPv6: no packet is both", version[false], version[true])
	case version[true] != "":
		return []bool{true}, nil
	case version[false] != "":
		return []bool{false}, nil
	}
	return []bool{false, true}, nil
}

func (rule *ACLRule) setTransport(ip *vpp_acl.ACL_Rule_IpRule) (err error) {
	given := ip.GetIp().GetProtocol()
	if given > 255 {
		return fmt.Errorf("protocol %d is greater than 255", given)
	}
	number := given
	icmp, tcp, udp := ip.GetIcmp(), ip.GetTcp(), ip.GetUdp()
	if (icmp != nil && tcp != nil) || (icmp != nil && udp != nil) || (tcp != nil && udp != nil) {
		return fmt.Errorf("it has more than one of icmp, tcp and udp: no packet is both, make two rules of it")
	}
	switch {
	case icmp != nil:
		number = ProtocolICMP
		if icmp.GetIcmpv6() {
			number = ProtocolICMPv6
		}
		if rule.SrcPortsOrTypes, err = icmpRange("icmp_type_range", icmp.GetIcmpTypeRange()); err == nil {
			rule.DstPortsOrCodes, err = icmpRange("icmp_code_range", icmp.GetIcmpCodeRange())
		}
	case tcp != nil:
		number = ProtocolTCP
		rule.TCPFlagsMask, rule.TCPFlags = uint8(tcp.GetTcpFlagsMask()), uint8(tcp.GetTcpFlagsValue())
		switch mask, value := tcp.GetTcpFlagsMask(), tcp.GetTcpFlagsValue(); {
		case mask > 255:
			return fmt.Errorf("tcp_flags_mask %d is greater than 255", mask)
		case value&^mask != 0:
			return fmt.Errorf("tcp_flags_value %d has flags that tcp_flags_mask %d has not: add them to the mask", value, mask)
		}
		err = rule.setPorts(tcp.GetSourcePortRange(), tcp.GetDestinationPortRange())
	case udp != nil:
		number = ProtocolUDP
		err = rule.setPorts(udp.GetSourcePortRange(), udp.GetDestinationPortRange())
	}
	if err == nil && given != 0 && given != number {
		err = fmt.Errorf("protocol %d contradicts the rest of the rule, which is about protocol %d: leave protocol out", given, number)
	}
	rule.Protocol = Range{uint16(number), uint16(number)}
	if number == 0 {
		rule.Protocol = AnyProtocol
	}
	return err
}

func (rule *ACLRule) setPorts(src, dst *vpp_acl.ACL_Rule_IpRule_PortRange) (err error) {
	if rule.SrcPortsOrTypes, err = portRange("source_port_range", src); err == nil {
		rule.DstPortsOrCodes, err = portRange("destination_port_range", dst)
	}
	return err
}

func portRange(field string, r *vpp_acl.ACL_Rule_IpRule_PortRange) (Range, error) {
	switch {
	case r == nil:
		return AnyPort, nil
	case r.GetUpperPort() > 65535 || r.GetLowerPort() > r.GetUpperPort():
		return Range{}, fmt.Errorf("%s %d to %d is none: lower_port is at most upper_port, and that at most 65535 (leave %[1]s out for any port)",
			field, r.GetLowerPort(), r.GetUpperPort())
	}
	return Range{uint16(r.GetLowerPort()), uint16(r.GetUpperPort())}, nil
}

func icmpRange(field string, r *vpp_acl.ACL_Rule_IpRule_Icmp_Range) (Range, error) {
	switch {
	case r == nil:
		return AnyICMP, nil
	case r.GetLast() > 255 || r.GetFirst() > r.GetLast():
		return Range{}, fmt.Errorf("%s %d to %d is none: first is at most last, and that at most 255 (leave %[1]s out for any)", field, r.GetFirst(), r.GetLast())
	}
	return Range{uint16(r.GetFirst()), uint16(r.GetLast())}, nil
}

func macIPRules(r *vpp_acl.ACL_Rule) ([]ACLRule, error) {
	m := r.GetMacipRule()
	rule := ACLRule{Action: r.GetAction(), Protocol: AnyProtocol, SrcPortsOrTypes: AnyPort, DstPortsOrCodes: AnyPort}
	if rule.Action != vpp_acl.ACL_Rule_DENY && rule.Action != vpp_acl.ACL_Rule_PERMIT {
		return nil, fmt.Errorf("action %v: MAC-IP rules know DENY and PERMIT only", rule.Action)
	}
	var err error
	if rule.MAC, rule.MACMask, err = maskedMAC(m.GetSourceMacAddress(), m.GetSourceMacAddressMask()); err != nil {
		return nil, err
	}
	versions := []bool{false, true}
	var src netip.Prefix
	if text := m.GetSourceAddress(); text != "" {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Is4In6() || addr.Zone() != "" {
			return nil, fmt.Errorf("source_address %q is no IP address: write it like 10.1.1.1 or fd00::1, and the length in source_address_prefix", text)
		}
		if src, err = addr.Prefix(int(m.GetSourceAddressPrefix())); err != nil {
			return nil, fmt.Errorf("source_address_prefix %d is longer than an address", m.GetSourceAddressPrefix())
		}
		versions = []bool{addr.Is6()}
	} else if m.GetSourceAddressPrefix() != 0 {
		return nil, fmt.Errorf("source_address_prefix %d without source_address: give both", m.GetSourceAddressPrefix())
	}
	var rules []ACLRule
	for _, ipv6 := range versions {
		rule.Src, rule.Dst = AnyNetwork(ipv6), AnyNetwork(ipv6)
		if src.IsValid() {
			rule.Src = src
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// maskedMAC defaults to a full mask, or without a MAC address to an empty one.
func maskedMAC(mac, mask string) (addr, bits [6]byte, err error) {
	parse := func(field, text string) (b [6]byte, err error) {
		hw, err := net.ParseMAC(text)
		if err != nil || len(hw) != 6 {
			return b, fmt.Errorf("%s %q is no MAC address: write it like 02:fe:12:34:56:78", field, text)
		}
		return [6]byte(hw), nil
	}
	if mac == "" && mask == "" {
		return addr, bits, nil
	}
	bits = [6]byte{255, 255, 255, 255, 255, 255}
	if mask != "" {
		if bits, err = parse("source_mac_address_mask", mask); err != nil {
			return addr, bits, err
		}
	}
	if mac == "" && bits != [6]byte{} {
		return addr, bits, fmt.Errorf("source_mac_address_mask %s without source_mac_address: give both", mask)
	}
	if mac != "" {
		addr, err = parse("source_mac_address", mac)
	}
	for i := range addr {
		addr[i] &= bits[i]
	}
	return addr, bits, err
}
