package fake_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/guard"
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/fake"
)

// Source ranges restrict traced packets to a frontend from guarded interfaces, and from the one
// without a guard.
func TestTraceOfSourceRanges(t *testing.T) {
	n := fake.NewNetwork().NewNode("n", kernelLike)
	tap := func(name, addr string) *vpp_interfaces.Interface {
		return &vpp_interfaces.Interface{
			Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true, IpAddresses: []string{addr}, Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
		}
	}
	type mapping = contiv_nat.DNat66_StaticMapping
	service := func(protocol contiv_nat.DNat66_Protocol) *mapping {
		return &mapping{ExternalIp: "fd99::1", ExternalPort: 80, Protocol: protocol, LocalIps: []*contiv_nat.DNat66_StaticMapping_LocalIP{{LocalIp: "fd10::2", LocalPort: 8080}}}
	}
	configure(t, n, tap("endpoint", "fd10::1/64"), tap("pod", "fd11::1/64"), tap("host", "fd12::1/64"), tap("outside", "fd13::1/64"),
		&contiv_nat.DNat66{Label: "web", StMappings: []*mapping{service(contiv_nat.DNat66_TCP), service(contiv_nat.DNat66_UDP)}})
	v := n.Open()
	if err := v.SourceGuards().Create(t.Context(), &guard.SourceGuard{Interface: "pod", MacAddress: "02:fe:00:00:00:01", IpAddresses: []string{"fd11::2", "fd11::3"}}); err != nil {
		t.Fatal(err)
	}
	ranges := &guard.SourceRanges{Interface: "host", Frontends: []*guard.SourceRanges_Frontend{{Address: "fd99::1", Port: 80, Sources: []string{"fd11::3/128", "fd12::8/125"}}}}
	if err := v.SourceRanges().Create(t.Context(), ranges); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		in, src  string
		protocol uint8
		may      bool
	}{
		{"pod", "fd11::2", vswitch.ProtocolTCP, false},
		{"pod", "fd11::3", vswitch.ProtocolTCP, true},
		{"pod", "fd11::2", vswitch.ProtocolUDP, true},
		{"host", "fd12::2", vswitch.ProtocolTCP, false},
		{"host", "fd12::9", vswitch.ProtocolTCP, true},
		{"outside", "fd13::2", vswitch.ProtocolTCP, true},
	}
	check := func(when string, restricted bool) {
		t.Helper()
		for _, test := range tests {
			trace := n.Trace(test.in, fake.Packet{Src: netip.MustParseAddr(test.src), Dst: netip.MustParseAddr("fd99::1"), Protocol: test.protocol, DstPort: 80})
			switch may := test.may || !restricted; {
			case may && (trace.Verdict != fake.Delivered || trace.Dst != netip.MustParseAddr("fd10::2")):
				t.Errorf("%s: packets of %s with protocol %d do not arrive at the endpoint\n%s", when, test.src, test.protocol, trace)
			case !may && (trace.Verdict != fake.Dropped || !strings.Contains(trace.Reason, "may not use")):
				t.Errorf("%s: packets of %s with protocol %d are not dropped\n%s", when, test.src, test.protocol, trace)
			}
		}
	}
	check("with ranges", true)
	if err := v.SourceRanges().Delete(t.Context(), ranges); err != nil {
		t.Fatal(err)
	}
	check("without", false)

	scoped := kernelLike
	scoped.ClientScopes = true
	if fake.NewNetwork().NewNode("n", scoped).Open().SourceRanges() != nil {
		t.Error("a vswitch with source ranges of mappings also has source ranges of interfaces")
	}
}
