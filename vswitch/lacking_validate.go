package vswitch

import (
	"encoding/base64"
	"net/netip"

	vpp_dns "github.com/contiv/contiv/api/ligato/vpp/dns"
	vpp_ipfix "github.com/contiv/contiv/api/ligato/vpp/ipfix"
	vpp_ipsec "github.com/contiv/contiv/api/ligato/vpp/ipsec"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
)

// required checks that a text is there; what it is for follows.
func required(field, value, what string) error {
	if value == "" {
		return invalid(field, "%s is missing: %s", field, what)
	}
	return nil
}

// firstError returns the first error.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// validAddrOf checks an address of the IP version.
func validAddrOf(field, addr string, ipv6 bool) error {
	if err := validAddr(field, addr); err != nil {
		return err
	}
	if isIPv6(addr) != ipv6 {
		return invalid(field, "%s is of the other IP version: give an %s address", addr, map[bool]string{false: "IPv4", true: "IPv6"}[ipv6])
	}
	return nil
}

func validPort(field string, port uint32) error {
	if port > 65535 {
		return invalid(field, "port %d is out of range: use at most 65535", port)
	}
	return nil
}

func validateProxyARP(p *vpp_l3.ProxyARP) error {
	for _, i := range p.GetInterfaces() {
		if err := required("interfaces.name", i.GetName(), "name the interface"); err != nil {
			return err
		}
	}
	for _, r := range p.GetRanges() {
		err := firstError(validAddrOf("ranges.first_ip_addr", r.GetFirstIpAddr(), false), validAddrOf("ranges.last_ip_addr", r.GetLastIpAddr(), false))
		if err != nil {
			return err
		}
		if addrLess(r.GetLastIpAddr(), r.GetFirstIpAddr()) {
			return invalid("ranges.last_ip_addr", "the range ends at %s, before its first address %s", r.GetLastIpAddr(), r.GetFirstIpAddr())
		}
	}
	return nil
}

func validateL3XConnect(x *vpp_l3.L3XConnect) error {
	if err := required("interface", x.GetInterface(), "name the interface that packets enter by"); err != nil {
		return err
	}
	if len(x.GetPaths()) == 0 {
		return invalid("paths", "an L3 cross-connect needs a path")
	}
	ipv6 := x.GetProtocol() == vpp_l3.L3XConnect_IPV6
	for _, p := range x.GetPaths() {
		if err := required("paths.outgoing_interface", p.GetOutgoingInterface(), "name the interface that packets leave by"); err != nil {
			return err
		}
		if gw := p.GetNextHopAddr(); gw != "" {
			if err := validAddrOf("paths.next_hop_addr", gw, ipv6); err != nil {
				return err
			}
		}
	}
	return nil
}

func validateVRRP(e *vpp_l3.VRRPEntry) error {
	switch n := len(e.GetIpAddresses()); {
	case e.GetInterface() == "":
		return invalid("interface", "name the interface of the virtual router")
	case n < 1 || n > 255:
		return invalid("ip_addresses", "there are %d addresses: give 1 to 255", n)
	case e.GetVrId() < 1 || e.GetVrId() > 255:
		return invalid("vr_id", "%d is out of range: use 1 to 255", e.GetVrId())
	case e.GetPriority() < 1 || e.GetPriority() > 255:
		return invalid("priority", "%d is out of range: use 1 to 255", e.GetPriority())
	case e.GetInterval() < 10 || e.GetInterval() > 65535:
		return invalid("interval", "%d ms is out of range: use 10 to 65535", e.GetInterval())
	}
	for _, addr := range e.GetIpAddresses() {
		if err := validAddrOf("ip_addresses", addr, isIPv6(e.GetIpAddresses()[0])); err != nil {
			return err
		}
	}
	return nil
}

func validateSPD(s *vpp_ipsec.SecurityPolicyDatabase) error {
	//lint:ignore SA1019 to tell who still uses them
	if len(s.GetPolicyEntries()) > 0 {
		return invalid("policy_entries", "policies are values of their own: make SecurityPolicy values with spd_index %d of them", s.GetIndex())
	}
	for _, i := range s.GetInterfaces() {
		if err := required("interfaces.name", i.GetName(), "name the interface"); err != nil {
			return err
		}
	}
	return nil
}

func validateSP(p *vpp_ipsec.SecurityPolicy) error {
	for field, addr := range map[string]string{
		"remote_addr_start": p.GetRemoteAddrStart(), "remote_addr_stop": p.GetRemoteAddrStop(),
		"local_addr_start": p.GetLocalAddrStart(), "local_addr_stop": p.GetLocalAddrStop(),
	} {
		if addr == "" {
			continue
		}
		if err := validAddr(field, addr); err != nil {
			return err
		}
	}
	return firstError(
		validPort("remote_port_start", p.GetRemotePortStart()), validPort("remote_port_stop", p.GetRemotePortStop()),
		validPort("local_port_start", p.GetLocalPortStart()), validPort("local_port_stop", p.GetLocalPortStop()),
	)
}

func validateTunnelProtection(p *vpp_ipsec.TunnelProtection) error {
	switch {
	case p.GetInterface() == "":
		return invalid("interface", "name the tunnel interface")
	case len(p.GetSaOut()) == 0:
		return invalid("sa_out", "give the index of a security association for packets that are sent")
	case len(p.GetSaIn()) == 0:
		return invalid("sa_in", "give the index of a security association for packets that are received")
	}
	return nil
}

func validateDNSCache(c *vpp_dns.DNSCache) error {
	if len(c.GetUpstreamDnsServers()) == 0 {
		return invalid("upstream_dns_servers", "a DNS cache needs a server to ask")
	}
	for _, s := range c.GetUpstreamDnsServers() {
		if err := validAddr("upstream_dns_servers", s); err != nil {
			return err
		}
	}
	return nil
}

func validateWireGuardPeer(p *vpp_wireguard.Peer) error {
	if key, err := base64.StdEncoding.DecodeString(p.GetPublicKey()); err != nil || len(key) != 32 {
		return invalid("public_key", "%q is no public key: give 32 bytes in base64, as `wg pubkey` prints them", p.GetPublicKey())
	}
	if p.GetPersistentKeepalive() > 65535 {
		return invalid("persistent_keepalive", "%d s is out of range: use at most 65535", p.GetPersistentKeepalive())
	}
	for _, text := range p.GetAllowedIps() {
		_, err := netip.ParsePrefix(text)
		if _, addrErr := netip.ParseAddr(text); err != nil && addrErr != nil {
			return invalid("allowed_ips", "%q is no network: write it like 10.1.0.0/16", text)
		}
	}
	return firstError(
		required("wg_if_name", p.GetWgIfName(), "name the WireGuard interface"),
		validAddr("endpoint", p.GetEndpoint()),
		validPort("port", p.GetPort()),
	)
}

func validateIPFIX(c *vpp_ipfix.IPFIX) error {
	if mtu := c.GetPathMtu(); mtu != 0 && (mtu < 68 || mtu > 1450) {
		return invalid("path_mtu", "%d is out of range: use 68 to 1450, or 0 for the default", mtu)
	}
	return firstError(
		validAddr("collector.address", c.GetCollector().GetAddress()),
		validAddr("source_address", c.GetSourceAddress()),
		validPort("collector.port", c.GetCollector().GetPort()),
	)
}

func validateFlowProbeParams(p *vpp_ipfix.FlowProbeParams) error {
	if !p.GetRecordL2() && !p.GetRecordL3() && !p.GetRecordL4() {
		return invalid("record_l3", "nothing is recorded: set record_l2, record_l3 or record_l4")
	}
	return nil
}

func validateFlowProbeFeature(p *vpp_ipfix.FlowProbeFeature) error {
	if !p.GetL2() && !p.GetIp4() && !p.GetIp6() {
		return invalid("ip4", "no flows are recorded: set l2, ip4 or ip6")
	}
	return required("interface", p.GetInterface(), "name the interface whose flows are recorded")
}
