package l3

import (
	"testing"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
)

func TestDependenciesOfDHCPProxy(t *testing.T) {
	deps := dhcpProxyDescriptor().Dependencies("", &vpp_l3.DHCPProxy{SourceIpAddress: "10.0.0.1", RxVrfId: 1, Servers: []*vpp_l3.DHCPProxy_DHCPServer{
		{IpAddress: "10.0.1.1", VrfId: 2}, {IpAddress: "10.0.1.2", VrfId: 2}, {IpAddress: "10.0.1.3"}}})
	if len(deps) != 2 || deps[0].Key != models.VRFTableKey(1, false) || deps[1].Key != models.VRFTableKey(2, false) {
		t.Errorf("depends on %v", deps)
	}
}
