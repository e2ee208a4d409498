package fake

import (
	"net/netip"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
)

// Node 1 steers a packet, which passes a segment of node 2 and is decapsulated there.
func TestTraceThroughSegments(t *testing.T) {
	net := NewNetwork()
	n1, n2 := net.NewNode("n1", vswitch.Capabilities{}, "eth0"), net.NewNode("n2", vswitch.Capabilities{}, "eth0")
	n1.SetDevice("eth0", netip.MustParsePrefix("fd16::1/64"))
	n2.SetDevice("eth0", netip.MustParsePrefix("fd16::2/64"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, v1, v2 := t.Context(), n1.Open(), n2.Open()
	for _, v := range []*VSwitch{v1, v2} {
		must(v.Interfaces().Create(ctx, &vpp_interfaces.Interface{Name: "eth0", Type: vpp_interfaces.Interface_DPDK, Enabled: true}))
		must(v.Interfaces().Create(ctx, &vpp_interfaces.Interface{Name: "tap", Type: vpp_interfaces.Interface_TAP, Enabled: true}))
	}
	must(v1.Routes().Create(ctx, &vpp_l3.Route{DstNetwork: "fc00:2::/64", NextHopAddr: "fd16::2", OutgoingInterface: "eth0"}))
	must(v1.SRv6().Globals().Create(ctx, &vpp_srv6.SRv6Global{EncapSourceAddress: "fd16::1"}))
	policy := &vpp_srv6.Policy{Bsid: "fc00:1::b", SrhEncapsulation: true, SegmentLists: []*vpp_srv6.Policy_SegmentList{
		{Segments: []string{"fc00:2::bad"}}, {Weight: 2, Segments: []string{"fc00:2::e", "fc00:2::d4"}},
	}}
	must(v1.SRv6().Policies().Create(ctx, policy))
	must(v1.SRv6().Steerings().Create(ctx, &vpp_srv6.Steering{
		Name: "s", PolicyRef: &vpp_srv6.Steering_PolicyBsid{PolicyBsid: "FC00:1::B"},
		Traffic: &vpp_srv6.Steering_L3Traffic_{L3Traffic: &vpp_srv6.Steering_L3Traffic{PrefixAddress: "10.2.0.0/16"}},
	}))
	must(v2.SRv6().LocalSIDs().Create(ctx, &vpp_srv6.LocalSID{Sid: "fc00:2::e", EndFunction: &vpp_srv6.LocalSID_BaseEndFunction{}}))
	must(v2.SRv6().LocalSIDs().Create(ctx, &vpp_srv6.LocalSID{Sid: "fc00:2::d4", EndFunction: &vpp_srv6.LocalSID_EndFunctionDx4{
		EndFunctionDx4: &vpp_srv6.LocalSID_EndDX4{OutgoingInterface: "tap", NextHop: "10.2.0.1"}}}))
	src, dst := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.2.0.7")

	trace := n1.TracePacket("tap", src, dst)
	if trace.Verdict != Delivered || trace.Node != "n2" || trace.Interface != "tap" || trace.Src != src {
		t.Errorf("got\n%v", trace)
	}
	must(v2.SRv6().LocalSIDs().Delete(ctx, &vpp_srv6.LocalSID{Sid: "fc00:2::e"}))
	if trace := n1.TracePacket("tap", src, dst); trace.Verdict != Dropped {
		t.Errorf("without a segment of the way, got\n%v", trace)
	}
	must(v1.SRv6().Steerings().Delete(ctx, &vpp_srv6.Steering{Name: "s"}))
	if trace := n1.TracePacket("tap", src, dst); trace.Verdict != Dropped || len(trace.Hops) > 0 {
		t.Errorf("without steering, got\n%v", trace)
	}
}
