package fake_test

import (
	"errors"
	"net/netip"
	"testing"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/fake"
	"github.com/contiv/contiv/kvscheduler"
)

func TestTraceOfServicesOfIPv6(t *testing.T) {
	n := fake.NewNetwork().NewNode("n", kernelLike)
	tap := func(name, addr string) *vpp_interfaces.Interface {
		return &vpp_interfaces.Interface{
			Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true, IpAddresses: []string{addr}, Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
		}
	}
	type mapping = contiv_nat.DNat66_StaticMapping
	type local = contiv_nat.DNat66_StaticMapping_LocalIP
	service := func(port uint32, mode contiv_nat.DNat66_StaticMapping_TwiceNatMode) *mapping {
		m := &mapping{ExternalIp: "fd96:0::1", ExternalPort: port, Protocol: contiv_nat.DNat66_SCTP, TwiceNat: mode, LocalIps: []*local{
			{LocalIp: "fd10::2", LocalPort: 8080, Probability: 1}, {LocalIp: "fd11::2", LocalPort: 8080, Probability: 2},
		}}
		if mode != contiv_nat.DNat66_StaticMapping_DISABLED {
			m.TwiceNatIp = "fd10::fffe"
		}
		return m
	}
	configure(t, n, tap("a", "fd10::1/64"), tap("b", "fd11::1/64"), &contiv_nat.DNat66{Label: "web", StMappings: []*mapping{
		service(80, contiv_nat.DNat66_StaticMapping_DISABLED), service(81, contiv_nat.DNat66_StaticMapping_ENABLED), service(82, contiv_nat.DNat66_StaticMapping_SELF),
	}})
	for _, test := range []struct {
		name     string
		src      string
		protocol uint8
		port     uint16
		slot     int
		dst      string
		seen     string // source address
	}{
		{"first slot", "fd12::1", vswitch.ProtocolSCTP, 80, 0, "fd10::2", "fd12::1"},
		{"twice as many", "fd12::1", vswitch.ProtocolSCTP, 80, 2, "fd11::2", "fd12::1"},
		{"with another source", "fd12::1", vswitch.ProtocolSCTP, 81, 1, "fd11::2", "fd10::fffe"},
		{"only of its own", "fd12::1", vswitch.ProtocolSCTP, 82, 1, "fd11::2", "fd12::1"},
		{"to itself", "fd11::2", vswitch.ProtocolSCTP, 82, 1, "fd11::2", "fd10::fffe"},
		{"another protocol", "fd12::1", vswitch.ProtocolTCP, 80, 0, "", ""},
		{"another port", "fd12::1", vswitch.ProtocolSCTP, 83, 0, "", ""},
	} {
		trace := n.Trace("a", fake.Packet{
			Src: netip.MustParseAddr(test.src), Dst: netip.MustParseAddr("fd96::1"), Protocol: test.protocol, DstPort: test.port, Slot: test.slot,
		})
		if test.dst == "" {
			if trace.Verdict != fake.Dropped {
				t.Errorf("%s: want it dropped\n%s", test.name, trace)
			}
			continue
		}
		if trace.Verdict != fake.Delivered || trace.Dst != netip.MustParseAddr(test.dst) || trace.DstPort != 8080 || trace.Src != netip.MustParseAddr(test.seen) {
			t.Errorf("%s: want it at %s from %s\n%s", test.name, test.dst, test.seen, trace)
		}
	}
	without := fake.NewNetwork().NewNode("n", vswitch.Capabilities{}).Open()
	if err := without.DNAT66().Set(t.Context(), &contiv_nat.DNat66{Label: "web"}); !errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Errorf("without the capability: %v", err)
	}
}
