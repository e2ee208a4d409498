package nat_test

import (
	"net/netip"
	"testing"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/plugins/service/renderer/nat"
)

// Node ports share the session affinity of the service port.
func TestNodePortsShareClients(t *testing.T) {
	service := func(affinity uint32, cluster, node, endpoint string) *processor.Service {
		frontend := func(kind processor.Kind, at string) processor.Frontend {
			endpoints := []processor.Endpoint{{Addr: netip.MustParseAddrPort(endpoint)}}
			return processor.Frontend{Kind: kind, Addr: netip.MustParseAddrPort(at), Protocol: processor.TCP, ServicePort: 80, Inside: endpoints, Outside: endpoints}
		}
		return &processor.Service{
			ID: processor.ID{Namespace: "default", Name: "web"}, Affinity: affinity,
			Frontends: []processor.Frontend{frontend(processor.ClusterIP, cluster), frontend(processor.NodePort, node)},
		}
	}
	for name, test := range map[string]struct {
		affinity uint32
		options  nat.Options
		want     uint32
	}{
		"affinity":                      {600, nat.Options{}, 80},
		"none":                          {0, nat.Options{}, 0},
		"a vswitch that remembers none": {600, nat.Options{OneScope: true}, 0},
	} {
		v4 := nat.Render(service(test.affinity, "10.96.0.1:80", "192.168.16.1:30080", "10.1.1.2:8080"), false, test.options).(*vpp_nat.DNat44).GetStMappings()
		v6 := nat.Render(service(test.affinity, "[fd96::1]:80", "[fd16::1]:30080", "[fd10::2]:8080"), true, test.options).(*contiv_nat.DNat66).GetStMappings()
		if len(v4) != 2 || v4[0].GetAffinityPort() != 0 || v4[1].GetAffinityPort() != test.want {
			t.Errorf("%s, IPv4: %v, want affinity_port %d at the node port only", name, v4, test.want)
		}
		if len(v6) != 2 || v6[0].GetAffinityPort() != 0 || v6[1].GetAffinityPort() != test.want {
			t.Errorf("%s, IPv6: %v, want affinity_port %d at the node port only", name, v6, test.want)
		}
	}
}
