package unimplemented

import (
	vpp_dns "github.com/contiv/contiv/api/ligato/vpp/dns"
	vpp_ipfix "github.com/contiv/contiv/api/ligato/vpp/ipfix"
	vpp_ipsec "github.com/contiv/contiv/api/ligato/vpp/ipsec"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
)

func validateVRRP(e *vpp_l3.VRRPEntry) error {
	switch n := len(e.GetIpAddresses()); {
	case e.GetInterface() == "":
		return descriptor.Invalid("interface", "name the interface of the virtual router")
	case n < 1 || n > 255:
		return descriptor.Invalid("ip_addresses", "%d addresses: give 1 to 255", n)
	case e.GetVrId() < 1 || e.GetVrId() > 255:
		return descriptor.Invalid("vr_id", "%d is out of range: use 1 to 255", e.GetVrId())
	case e.GetPriority() < 1 || e.GetPriority() > 255:
		return descriptor.Invalid("priority", "%d is out of range: use 1 to 255", e.GetPriority())
	case e.GetInterval() < 10 || e.GetInterval() > 65535:
		return descriptor.Invalid("interval", "%d ms is out of range: use 10 to 65535", e.GetInterval())
	}
	for _, addr := range e.GetIpAddresses() {
		if err := descriptor.ValidAddrOf("ip_addresses", addr, descriptor.IsIPv6(e.GetIpAddresses()[0])); err != nil {
			return err
		}
	}
	return nil
}

func validateSPD(s *vpp_ipsec.SecurityPolicyDatabase) error {
	//lint:ignore SA1019 to tell who still uses them
	if len(s.GetPolicyEntries()) > 0 {
		return descriptor.Invalid("policy_entries", "policies are values of their own: make SecurityPolicy values with spd_index %d of them", s.GetIndex())
	}
	for _, i := range s.GetInterfaces() {
		if err := descriptor.Required("interfaces.name", i.GetName(), "name the interface"); err != nil {
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
		if err := descriptor.ValidAddr(field, addr); err != nil {
			return err
		}
	}
	return descriptor.FirstError(
		descriptor.ValidPort("remote_port_start", p.GetRemotePortStart()), descriptor.ValidPort("remote_port_stop", p.GetRemotePortStop()),
		descriptor.ValidPort("local_port_start", p.GetLocalPortStart()), descriptor.ValidPort("local_port_stop", p.GetLocalPortStop()),
	)
}

func validateTunnelProtection(p *vpp_ipsec.TunnelProtection) error {
	switch {
	case p.GetInterface() == "":
		return descriptor.Invalid("interface", "name the tunnel interface")
	case len(p.GetSaOut()) == 0:
		return descriptor.Invalid("sa_out", "give the index of a security association for packets that are sent")
	case len(p.GetSaIn()) == 0:
		return descriptor.Invalid("sa_in", "give the index of a security association for packets that are received")
	}
	return nil
}

func validateDNSCache(c *vpp_dns.DNSCache) error {
	if len(c.GetUpstreamDnsServers()) == 0 {
		return descriptor.Invalid("upstream_dns_servers", "a DNS cache needs a server to ask")
	}
	for _, s := range c.GetUpstreamDnsServers() {
		if err := descriptor.ValidAddr("upstream_dns_servers", s); err != nil {
			return err
		}
	}
	return nil
}

func validateIPFIX(c *vpp_ipfix.IPFIX) error {
	if mtu := c.GetPathMtu(); mtu != 0 && (mtu < 68 || mtu > 1450) {
		return descriptor.Invalid("path_mtu", "%d is out of range: use 68 to 1450, or 0 for the default", mtu)
	}
	return descriptor.FirstError(
		descriptor.ValidAddr("collector.address", c.GetCollector().GetAddress()),
		descriptor.ValidAddr("source_address", c.GetSourceAddress()),
		descriptor.ValidPort("collector.port", c.GetCollector().GetPort()),
	)
}

func validateFlowProbeParams(p *vpp_ipfix.FlowProbeParams) error {
	if !p.GetRecordL2() && !p.GetRecordL3() && !p.GetRecordL4() {
		return descriptor.Invalid("record_l3", "nothing is recorded: set record_l2, record_l3 or record_l4")
	}
	return nil
}

func validateFlowProbeFeature(p *vpp_ipfix.FlowProbeFeature) error {
	if !p.GetL2() && !p.GetIp4() && !p.GetIp6() {
		return descriptor.Invalid("ip4", "no flows are recorded: set l2, ip4 or ip6")
	}
	return descriptor.Required("interface", p.GetInterface(), "name the interface for recording flows")
}
