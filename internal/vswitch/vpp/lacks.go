package vpp

import "github.com/contiv/contiv/internal/vswitch"

// lacks maps descriptors without port to the reason and the alternative.
var lacks = map[string]string{
	vswitch.VRRPDescriptor: "VRRP: run keepalived on the host, and hand it the packets for its address with an STN rule",
	vswitch.SPDDescriptor:  ipsec, vswitch.SPDescriptor: ipsec, vswitch.SADescriptor: ipsec, vswitch.TunnelProtectionDescriptor: ipsec,
	vswitch.DNSCacheDescriptor: "a DNS cache: run one in a pod or on the host, such as dnsmasq",
	vswitch.IPFIXDescriptor:    ipfix, vswitch.FlowProbeParamsDescriptor: ipfix, vswitch.FlowProbeFeatureDescriptor: ipfix,
}

const (
	ipsec = "IPsec: protect traffic with WireGuard (an interface of the type WIREGUARD_TUNNEL and its peers)"
	ipfix = "IPFIX: mirror the interface to a TAP (Span), and run an exporter such as softflowd there"
)

// Lacks returns why this driver does not configure a descriptor's values.
func (v *VSwitch) Lacks(descriptor string) string {
	if reason := lacks[descriptor]; reason != "" {
		return reason
	}
	return "values of " + descriptor + ": this driver of VPP does not configure them: leave them out"
}
