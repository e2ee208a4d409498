package fake_test

import (
	"net/netip"
	"testing"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/fake"
)

func TestAffinityOfPorts(t *testing.T) {
	n := fake.NewNetwork().NewNode("n", kernelLike)
	tap := func(name, addr string) *vpp_interfaces.Interface {
		return &vpp_interfaces.Interface{
			Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true, IpAddresses: []string{addr}, Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
		}
	}
	to := func(ip string, port uint32, locals ...string) *contiv_nat.DNat66_StaticMapping {
		m := &contiv_nat.DNat66_StaticMapping{ExternalIp: ip, ExternalPort: port, AffinityPort: 80, SessionAffinity: 60}
		for _, l := range locals {
			m.LocalIps = append(m.LocalIps, &contiv_nat.DNat66_StaticMapping_LocalIP{LocalIp: l, LocalPort: 8080, Probability: 1})
		}
		return m
	}
	apart := to("fd96::1", 81, "fd10::2", "fd11::2")
	apart.AffinityPort = 0
	configure(t, n, tap("a", "fd10::1/64"), tap("b", "fd11::1/64"), &contiv_nat.DNat66{Label: "web", StMappings: []*contiv_nat.DNat66_StaticMapping{
		to("fd96::1", 80, "fd10::2", "fd11::2"), to("fd97::1", 30080, "fd10::2", "fd11::2"), to("fd97::2", 80, "fd10::2"), apart,
	}})
	for i, step := range []struct {
		ip   string
		port uint16
		slot int
		want string
	}{
		{"fd97::1", 30080, 1, "fd11::2"}, {"fd96::1", 80, 0, "fd11::2"}, {"fd97::2", 80, 0, "fd10::2"}, {"fd96::1", 81, 0, "fd10::2"},
	} {
		trace := n.Trace("a", fake.Packet{
			Src: netip.MustParseAddr("fd12::1"), Dst: netip.MustParseAddr(step.ip), Protocol: vswitch.ProtocolTCP, DstPort: step.port, Slot: step.slot,
		})
		if trace.Dst != netip.MustParseAddr(step.want) {
			t.Errorf("step %d: want it at %s\n%s", i, step.want, trace)
		}
	}
}
