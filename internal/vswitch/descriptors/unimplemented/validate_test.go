package unimplemented

import (
	"testing"

	vpp_dns "github.com/contiv/contiv/api/ligato/vpp/dns"
	vpp_ipfix "github.com/contiv/contiv/api/ligato/vpp/ipfix"
	vpp_ipsec "github.com/contiv/contiv/api/ligato/vpp/ipsec"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor/descriptortest"
)

func TestLackingValidation(t *testing.T) {
	for name, err := range map[string]error{
		"VRRP without address":     validateVRRP(&vpp_l3.VRRPEntry{Interface: "a", VrId: 1, Priority: 1, Interval: 10}),
		"VRRP with mixed address":  validateVRRP(&vpp_l3.VRRPEntry{Interface: "a", VrId: 1, Priority: 1, Interval: 10, IpAddresses: []string{"1.0.0.1", "::1"}}),
		"VRRP with big ID":         validateVRRP(&vpp_l3.VRRPEntry{Interface: "a", VrId: 256, Priority: 1, Interval: 10, IpAddresses: []string{"1.0.0.1"}}),
		"VRRP in a hurry":          validateVRRP(&vpp_l3.VRRPEntry{Interface: "a", VrId: 1, Priority: 1, Interval: 9, IpAddresses: []string{"1.0.0.1"}}),
		"tunnel protection, no SA": validateTunnelProtection(&vpp_ipsec.TunnelProtection{Interface: "a", SaIn: []uint32{1}}),
		"DNS without server":       validateDNSCache(&vpp_dns.DNSCache{}),
		"IPFIX, long packets":      validateIPFIX(&vpp_ipfix.IPFIX{PathMtu: 1451}),
		"flow probe of nothing":    validateFlowProbeFeature(&vpp_ipfix.FlowProbeFeature{Interface: "a"}),
		"flow records of nothing":  validateFlowProbeParams(&vpp_ipfix.FlowProbeParams{}),
	} {
		descriptortest.WantField(t, name, err)
	}
}
