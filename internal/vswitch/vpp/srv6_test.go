package vpp

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/binapi/sr"
	"google.golang.org/protobuf/proto"
)

func loopbacks(t testing.TB, v *VSwitch, names ...string) {
	t.Helper()
	for _, name := range names {
		loop := &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true}
		if err := v.Interfaces().Create(t.Context(), loop); err != nil {
			t.Fatal(err)
		}
	}
}

// wantValues fails the test if the port lists other values.
func wantValues[V proto.Message](t testing.TB, port vswitch.Values[V], expected []V, want ...V) {
	t.Helper()
	got, err := port.List(t.Context(), expected)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range slices.Concat(got, want) { // their order says nothing
		if p, ok := any(v).(*vpp_srv6.Policy); ok {
			slices.SortFunc(p.SegmentLists, func(a, b *vpp_srv6.Policy_SegmentList) int {
				return strings.Compare(a.String(), b.String())
			})
		}
	}
	byKey := func(a, b V) int { return strings.Compare(models.Key(a), models.Key(b)) }
	want = slices.Clone(want)
	slices.SortFunc(got, byKey)
	slices.SortFunc(want, byKey)
	if !slices.EqualFunc(got, want, func(a, b V) bool { return proto.Equal(a, b) }) {
		t.Errorf("listed:\n%v\nwant:\n%v", got, want)
	}
}

func createTwice[V proto.Message](t testing.TB, port vswitch.Values[V], values ...V) {
	t.Helper()
	for range 2 {
		for _, v := range values {
			if err := port.Create(t.Context(), v); err != nil {
				t.Fatalf("%s: %v", models.Key(v), err)
			}
		}
		wantValues(t, port, values, values...)
	}
}

func deleteTwice[V proto.Message](t testing.TB, port vswitch.Values[V], values ...V) {
	t.Helper()
	for range 2 {
		for _, v := range values {
			if err := port.Delete(t.Context(), v); err != nil {
				t.Fatalf("%s: %v", models.Key(v), err)
			}
		}
		wantValues(t, port, nil)
	}
}

func end(sid string, psp bool) *vpp_srv6.LocalSID {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_BaseEndFunction{BaseEndFunction: &vpp_srv6.LocalSID_End{Psp: psp}}}
}

func endDX4(sid, iface, nextHop string) *vpp_srv6.LocalSID {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_EndFunctionDx4{
		EndFunctionDx4: &vpp_srv6.LocalSID_EndDX4{OutgoingInterface: iface, NextHop: nextHop}}}
}

func endDX6(sid, iface, nextHop string) *vpp_srv6.LocalSID {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_EndFunctionDx6{
		EndFunctionDx6: &vpp_srv6.LocalSID_EndDX6{OutgoingInterface: iface, NextHop: nextHop}}}
}

func endX(sid, iface, nextHop string) *vpp_srv6.LocalSID {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_EndFunctionX{
		EndFunctionX: &vpp_srv6.LocalSID_EndX{OutgoingInterface: iface, NextHop: nextHop, Psp: true}}}
}

func endDT4(sid string) *vpp_srv6.LocalSID {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_EndFunctionDt4{EndFunctionDt4: &vpp_srv6.LocalSID_EndDT4{}}}
}

func endDT6(sid string) *vpp_srv6.LocalSID {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_EndFunctionDt6{EndFunctionDt6: &vpp_srv6.LocalSID_EndDT6{}}}
}

// way has the segments, separated by spaces.
func srWay(weight uint32, segments string) *vpp_srv6.Policy_SegmentList {
	return &vpp_srv6.Policy_SegmentList{Weight: weight, Segments: strings.Fields(segments)}
}

func srPolicyTo(bsid string, ways ...*vpp_srv6.Policy_SegmentList) *vpp_srv6.Policy {
	return &vpp_srv6.Policy{Bsid: bsid, SrhEncapsulation: true, SegmentLists: ways}
}

func steerL3(name, network, bsid string) *vpp_srv6.Steering {
	return &vpp_srv6.Steering{Name: name, PolicyRef: &vpp_srv6.Steering_PolicyBsid{PolicyBsid: bsid}, Traffic: &vpp_srv6.Steering_L3Traffic_{
		L3Traffic: &vpp_srv6.Steering_L3Traffic{PrefixAddress: network}}}
}

func TestLocalSIDs(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		loopbacks(t, v, "a", "b")
		sids := []*vpp_srv6.LocalSID{
			end("fc00::e", false), end("FC00:0::E0", true), endX("fc00::a", "a", "fd50::1"),
			endDX4("fc00::d4", "a", "10.0.0.1"), endDX6("fc00::d6", "a", "fd50::1"), endDT4("fc00::4"), endDT6("fc00::6"),
			{Sid: "fc00::7", EndFunction: &vpp_srv6.LocalSID_EndFunctionT{EndFunctionT: &vpp_srv6.LocalSID_EndT{}}},
			{Sid: "fc00::d2", EndFunction: &vpp_srv6.LocalSID_EndFunctionDx2{EndFunctionDx2: &vpp_srv6.LocalSID_EndDX2{OutgoingInterface: "b"}}},
		}
		port := v.SRv6().LocalSIDs()
		createTwice(t, port, sids...)
		wantValues(t, open(t, s).SRv6().LocalSIDs(), sids, sids...)
		sids[3] = endDX4("fc00::d4", "b", "10.0.0.2")
		createTwice(t, port, sids...)
		deleteTwice(t, port, sids...)

		err := port.Create(t.Context(), &vpp_srv6.LocalSID{Sid: "fc00::1", EndFunction: &vpp_srv6.LocalSID_EndFunctionAd{}})
		if !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("END.AD: got %v", err)
		}
		lost := end("fc00::2", false)
		lost.InstallationVrfId = 77
		if err := port.Create(t.Context(), lost); err == nil || !strings.Contains(err.Error(), "table") {
			t.Errorf("in a table that is not there: %v", err)
		}
		if err := port.Create(t.Context(), endDX4("fc00::3", "nowhere", "10.0.0.1")); err == nil || !strings.Contains(err.Error(), "nowhere") {
			t.Errorf("to an interface that is not there: %v", err)
		}
		if err := v.SRv6().Policies().Create(t.Context(), srPolicyTo("fc00::b", srWay(1, "fc01::1"))); err != nil {
			t.Fatal(err)
		}
		if err := port.Create(t.Context(), end("fc00::b", false)); err == nil || !strings.Contains(err.Error(), "another route") {
			t.Errorf("at a binding SID: %v", err)
		}
		wantValues(t, port, nil)
	})
}

func TestPoliciesAndSteering(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		loopbacks(t, v, "a")
		ctx, sr := t.Context(), v.SRv6()
		spray, insert := srPolicyTo("fc00::b3", srWay(1, "fc01::1"), srWay(1, "fc01::2")), srPolicyTo("fc00::b2", srWay(1, "fc01::1"))
		spray.SprayBehaviour, insert.SrhEncapsulation = true, false
		policies := []*vpp_srv6.Policy{srPolicyTo("fc00::b1", srWay(1, "fc01::1 fc01::2"), srWay(2, "fc01::3")), insert, spray}
		createTwice(t, sr.Policies(), policies...)
		frames := &vpp_srv6.Steering{Name: "frames", PolicyRef: &vpp_srv6.Steering_PolicyBsid{PolicyBsid: "fc00::b1"}, Traffic: &vpp_srv6.Steering_L2Traffic_{
			L2Traffic: &vpp_srv6.Steering_L2Traffic{InterfaceName: "a"}}}
		steerings := []*vpp_srv6.Steering{
			steerL3("v4", "10.52.0.0/16", "fc00::b1"), steerL3("v6", "fd52::/64", "fc00::b1"), steerL3("everything", "::/0", "fc00::b2"),
			steerL3("all of IPv4", "0.0.0.0/0", "fc00::b3"), frames,
		}
		createTwice(t, sr.Steerings(), steerings...)
		again := open(t, s).SRv6()
		wantValues(t, again.Policies(), policies, policies...)
		wantValues(t, again.Steerings(), steerings, steerings...)

		// Existing policies are changed in place and keep their steering.
		steerings[1] = steerL3("v6", "fd52::/64", "fc00::b3")
		createTwice(t, sr.Steerings(), steerings...)
		policies[0] = srPolicyTo("fc00::b1", srWay(5, "fc01::3"), srWay(1, "fc01::4"), srWay(1, "fc01::5"))
		createTwice(t, sr.Policies(), policies...)
		policies[2] = srPolicyTo("fc00::b3", srWay(1, "fc01::1"))
		createTwice(t, sr.Policies(), policies...)
		wantValues(t, sr.Steerings(), steerings, steerings...)

		for name, err := range map[string]error{
			"foreign traffic":      sr.Steerings().Create(ctx, steerL3("other", "10.52.0.0/16", "fc00::b1")),
			"a policy that is not": sr.Steerings().Create(ctx, steerL3("x", "10.53.0.0/16", "fc00::ff")),
			"IPv4 without tunnel":  sr.Steerings().Create(ctx, steerL3("y", "10.54.0.0/16", "fc00::b2")),
			"too many segments":    sr.Policies().Create(ctx, srPolicyTo("fc00::b9", srWay(1, strings.Repeat("fc01::1 ", 17)))),
		} {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		wantValues(t, sr.Steerings(), steerings, steerings...)

		// Deleting a policy deletes the steering into it.
		deleteTwice(t, sr.Policies(), policies...)
		deleteTwice(t, sr.Steerings(), steerings...)
	})
}

func TestSourceOfEncapsulatedPackets(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		policy := srPolicyTo("fc00::b1", srWay(1, "fc01::1 fc01::2"), srWay(2, "fc01::3"))
		if err := v.SRv6().Policies().Create(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
		wantSource := func(want string) {
			t.Helper()
			all, err := session.Dump[sr.SrPoliciesV2Details](t.Context(), v.vpp, session.Core, &sr.SrPoliciesV2Dump{})
			if err != nil || len(all) != 1 || all[0].EncapSrc.String() != want || len(all[0].SidLists) != 2 {
				t.Errorf("policies %v %v, want one from %s", all, err, want)
			}
		}
		for _, source := range []string{"fd00::1", "fd00::2"} {
			createTwice(t, v.SRv6().Globals(), &vpp_srv6.SRv6Global{EncapSourceAddress: source})
			wantSource(source)
			wantValues(t, v.SRv6().Policies(), nil, policy)
		}
		// A policy with another source is listed as different and repaired.
		if err := v.vpp.Call(t.Context(), session.Core, &sr.SrSetEncapSource{EncapsSource: netip.MustParseAddr("fd00::3").As16()}, &sr.SrSetEncapSourceReply{}); err != nil {
			t.Fatal(err)
		}
		if list, err := v.SRv6().Policies().List(t.Context(), nil); err != nil || len(list) != 1 || len(list[0].SegmentLists) != 0 {
			t.Errorf("listed %v %v", list, err)
		}
		createTwice(t, v.SRv6().Policies(), policy)
		wantSource("fd00::3")
		deleteTwice(t, v.SRv6().Globals(), &vpp_srv6.SRv6Global{EncapSourceAddress: "fd00::3"})
		wantSource("::")
	})
}
