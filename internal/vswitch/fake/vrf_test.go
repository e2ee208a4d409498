package fake_test

import (
	"net/netip"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/fake"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/models"
)

func (s site) VRFAccidents() (accidents []vswitchtest.Accident) {
	for _, v := range vswitchtest.VRFValues(nic) {
		key := models.Key(v)
		accidents = append(accidents, vswitchtest.Accident{Name: key, Keys: []string{key}, Do: func(t testing.TB) {
			if !s.Break(key) {
				t.Errorf("%s does not exist", key)
			}
		}})
	}
	return accidents
}

func TestTraceKeepsVRFsApart(t *testing.T) {
	n := fake.NewNetwork().NewNode("n", kernelLike, nic)
	tap := func(name, addr string, vrf uint32) *vpp_interfaces.Interface {
		return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true, Vrf: vrf, IpAddresses: []string{addr}}
	}
	inter := func(from uint32, dst string, to uint32) *vpp_l3.Route {
		return &vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, VrfId: from, DstNetwork: dst, ViaVrfId: to}
	}
	configure(t, n, &vpp_l3.VrfTable{Id: 5}, &vpp_l3.VrfTable{Id: 6}, &vpp_l3.VrfTable{Id: 7},
		tap("a", "10.50.0.9/24", 5), tap("c", "10.51.0.9/24", 5), tap("b", "10.50.0.9/24", 6), tap("d", "10.51.0.8/24", 6),
		tap("m", "10.60.0.9/24", 0), tap("e", "10.62.0.9/24", 7),
		inter(5, "0.0.0.0/0", 0), inter(0, "10.62.0.0/24", 7), &vpp_l3.Route{Type: vpp_l3.Route_DROP, VrfId: 5, DstNetwork: "10.60.0.128/25"},
	)
	for _, test := range []struct {
		from, dst string
		verdict   fake.Verdict
		iface     string
	}{
		{"a", "10.50.0.9", fake.Local, "a"},
		{"b", "10.50.0.9", fake.Local, "b"},
		{"a", "10.51.0.8", fake.Delivered, "c"},
		{"b", "10.51.0.8", fake.Local, "d"},
		{"b", "10.51.0.2", fake.Delivered, "d"},
		{"b", "10.60.0.9", fake.Dropped, ""},
		{"m", "10.50.0.9", fake.Dropped, ""},
		{"", "10.50.0.9", fake.Dropped, ""},
		{"a", "10.60.0.2", fake.Delivered, "m"},
		{"a", "10.60.0.9", fake.Local, "m"},
		{"a", "10.60.0.130", fake.Dropped, ""},
		{"a", "10.62.0.2", fake.Delivered, "e"},
	} {
		trace := n.TracePacket(test.from, netip.MustParseAddr("10.50.0.2"), netip.MustParseAddr(test.dst))
		if trace.Verdict != test.verdict || trace.Interface != test.iface {
			t.Errorf("from %q to %s: want %v on %q, got\n%s", test.from, test.dst, test.verdict, test.iface, trace)
		}
	}
}
