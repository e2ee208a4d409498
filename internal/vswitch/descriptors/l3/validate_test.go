package l3

import (
	"testing"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor/descriptortest"
)

func TestFeatureValidation(t *testing.T) {
	for name, err := range map[string]error{
		"proxy ARP for IPv6":         validateProxyARP(&vpp_l3.ProxyARP{Ranges: []*vpp_l3.ProxyARP_Range{{FirstIpAddr: "::1", LastIpAddr: "::2"}}}),
		"proxy ARP backwards":        validateProxyARP(&vpp_l3.ProxyARP{Ranges: []*vpp_l3.ProxyARP_Range{{FirstIpAddr: "1.0.0.2", LastIpAddr: "1.0.0.1"}}}),
		"DHCP proxy, no servers":     validateDHCPProxy(&vpp_l3.DHCPProxy{SourceIpAddress: "1.0.0.1"}),
		"DHCP proxy, mixed versions": validateDHCPProxy(&vpp_l3.DHCPProxy{SourceIpAddress: "1.0.0.1", Servers: []*vpp_l3.DHCPProxy_DHCPServer{{IpAddress: "::1"}}}),
		"L3 cross-connect, no path":  validateL3XConnect(&vpp_l3.L3XConnect{Interface: "a"}),
		"L3 cross-connect, mixed": validateL3XConnect(&vpp_l3.L3XConnect{Interface: "a", Paths: []*vpp_l3.L3XConnect_Path{
			{OutgoingInterface: "b", NextHopAddr: "::1"}}}),
		"TEIB without peer": validateTEIB(&vpp_l3.TeibEntry{Interface: "a"}),
	} {
		descriptortest.WantField(t, name, err)
	}
}
