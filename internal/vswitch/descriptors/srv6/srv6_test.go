package srv6

import (
	"slices"
	"testing"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor/descriptortest"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

type noValues[V proto.Message] struct{ vswitch.Values[V] }

func sid(s *vpp_srv6.LocalSID) *vpp_srv6.LocalSID {
	if s.Sid == "" {
		s.Sid = "fc00::1"
	}
	return s
}

func endDX4(iface, nextHop string) *vpp_srv6.LocalSID {
	return sid(&vpp_srv6.LocalSID{EndFunction: &vpp_srv6.LocalSID_EndFunctionDx4{
		EndFunctionDx4: &vpp_srv6.LocalSID_EndDX4{OutgoingInterface: iface, NextHop: nextHop}}})
}

func endDX6(iface, nextHop string) *vpp_srv6.LocalSID {
	return sid(&vpp_srv6.LocalSID{EndFunction: &vpp_srv6.LocalSID_EndFunctionDx6{
		EndFunctionDx6: &vpp_srv6.LocalSID_EndDX6{OutgoingInterface: iface, NextHop: nextHop}}})
}

func endX(iface, nextHop string) *vpp_srv6.LocalSID {
	return sid(&vpp_srv6.LocalSID{EndFunction: &vpp_srv6.LocalSID_EndFunctionX{
		EndFunctionX: &vpp_srv6.LocalSID_EndX{OutgoingInterface: iface, NextHop: nextHop}}})
}

func endAD(out, in, service string) *vpp_srv6.LocalSID {
	return sid(&vpp_srv6.LocalSID{InstallationVrfId: 7, EndFunction: &vpp_srv6.LocalSID_EndFunctionAd{
		EndFunctionAd: &vpp_srv6.LocalSID_EndAD{OutgoingInterface: out, IncomingInterface: in, L3ServiceAddress: service}}})
}

func endDX2(iface string) *vpp_srv6.LocalSID {
	return sid(&vpp_srv6.LocalSID{EndFunction: &vpp_srv6.LocalSID_EndFunctionDx2{EndFunctionDx2: &vpp_srv6.LocalSID_EndDX2{OutgoingInterface: iface}}})
}

func baseEnd(address string) *vpp_srv6.LocalSID {
	return &vpp_srv6.LocalSID{Sid: address, EndFunction: &vpp_srv6.LocalSID_BaseEndFunction{BaseEndFunction: &vpp_srv6.LocalSID_End{}}}
}

func policyVia(lists ...*vpp_srv6.Policy_SegmentList) *vpp_srv6.Policy {
	return &vpp_srv6.Policy{Bsid: "fc00::b", SegmentLists: lists}
}

func way(weight uint32, segments ...string) *vpp_srv6.Policy_SegmentList {
	return &vpp_srv6.Policy_SegmentList{Weight: weight, Segments: segments}
}

func steerL3(bsid, prefix string, vrf uint32) *vpp_srv6.Steering {
	return &vpp_srv6.Steering{Name: "s", PolicyRef: &vpp_srv6.Steering_PolicyBsid{PolicyBsid: bsid}, Traffic: &vpp_srv6.Steering_L3Traffic_{
		L3Traffic: &vpp_srv6.Steering_L3Traffic{PrefixAddress: prefix, InstallationVrfId: vrf}}}
}

func steerL2(bsid, iface string) *vpp_srv6.Steering {
	return &vpp_srv6.Steering{Name: "s", PolicyRef: &vpp_srv6.Steering_PolicyBsid{PolicyBsid: bsid}, Traffic: &vpp_srv6.Steering_L2Traffic_{
		L2Traffic: &vpp_srv6.Steering_L2Traffic{InterfaceName: iface}}}
}

func TestSRv6Validation(t *testing.T) {
	for _, test := range []struct {
		name  string
		err   error
		field string
	}{
		{"End", validateLocalSID(baseEnd("fc00::1")), ""},
		{"IPv4 SID", validateLocalSID(baseEnd("10.0.0.1")), "sid"},
		{"mapped SID", validateLocalSID(baseEnd("::ffff:10.0.0.1")), "sid"},
		{"SID with a zone", validateLocalSID(baseEnd("fe80::1%eth0")), "sid"},
		{"no SID", validateLocalSID(baseEnd("")), "sid"},
		{"no function", validateLocalSID(sid(&vpp_srv6.LocalSID{})), "end_function"},
		{"X", validateLocalSID(endX("if", "fc00::2")), ""},
		{"X without next hop", validateLocalSID(endX("if", "")), "end_function_x.next_hop"},
		{"X to IPv4", validateLocalSID(endX("if", "10.0.0.1")), "end_function_x.next_hop"},
		{"DX2", validateLocalSID(endDX2("if")), ""},
		{"DX2 nowhere", validateLocalSID(endDX2("")), "end_function_dx2.outgoing_interface"},
		{"DX4", validateLocalSID(endDX4("if", "10.0.0.1")), ""},
		{"DX4 to IPv6", validateLocalSID(endDX4("if", "fc00::2")), "end_function_dx4.next_hop"},
		{"DX6", validateLocalSID(endDX6("if", "fc00::2")), ""},
		{"DX6 to IPv4", validateLocalSID(endDX6("if", "10.0.0.1")), "end_function_dx6.next_hop"},
		{"DX6 without interface", validateLocalSID(endDX6("", "fc00::2")), "end_function_dx6.outgoing_interface"},
		{"AD of frames", validateLocalSID(endAD("a", "b", "")), ""},
		{"AD without a way back", validateLocalSID(endAD("a", "", "")), "end_function_ad.incoming_interface"},
		{"AD with garbage", validateLocalSID(endAD("a", "b", "x")), "end_function_ad.l3_service_address"},

		{"policy", validatePolicy(policyVia(way(1, "fc00::1"), way(1, "fc00::1", "fc00::2"))), ""},
		{"policy without lists", validatePolicy(policyVia()), "segment_lists"},
		{"policy with an empty list", validatePolicy(policyVia(way(1))), "segment_lists[0].segments"},
		{"policy over IPv4", validatePolicy(policyVia(way(1, "10.0.0.1"))), "segment_lists[0].segments"},
		{"policy twice the same way", validatePolicy(policyVia(way(1, "fc00::1"), way(2, "FC00:0::1"))), "segment_lists[1].segments"},

		{"steering", validateSteering(steerL3("fc00::b", "10.0.0.0/8", 0)), ""},
		{"steering of frames", validateSteering(steerL2("fc00::b", "if")), ""},
		{"steering nobody", validateSteering(steerL2("fc00::b", "")), "l2_traffic.interface_name"},
		{"steering host bits", validateSteering(steerL3("fc00::b", "10.0.0.1/8", 0)), "l3_traffic.prefix_address"},
		{"steering nowhere", validateSteering(&vpp_srv6.Steering{Name: "s"}), "policy_bsid"},
		{"steering by number", validateSteering(&vpp_srv6.Steering{Name: "s", PolicyRef: &vpp_srv6.Steering_PolicyIndex{}}), "policy_index"},
		{"steering nothing", validateSteering(&vpp_srv6.Steering{Name: "s", PolicyRef: &vpp_srv6.Steering_PolicyBsid{PolicyBsid: "fc00::b"}}), "traffic"},
	} {
		descriptortest.WantInvalid(t, test.name, test.err, test.field)
	}
}

func TestSRv6Dependencies(t *testing.T) {
	withVRFs := endDX4("if", "10.0.0.1")
	withVRFs.InstallationVrfId = 2
	lookup := func(vrf uint32, v4 bool) *vpp_srv6.LocalSID {
		if v4 {
			return sid(&vpp_srv6.LocalSID{EndFunction: &vpp_srv6.LocalSID_EndFunctionDt4{EndFunctionDt4: &vpp_srv6.LocalSID_EndDT4{VrfId: vrf}}})
		}
		return sid(&vpp_srv6.LocalSID{EndFunction: &vpp_srv6.LocalSID_EndFunctionDt6{EndFunctionDt6: &vpp_srv6.LocalSID_EndDT6{VrfId: vrf}}})
	}
	for _, test := range []struct {
		name string
		deps []kvscheduler.Dependency
		keys []string
	}{
		{"in VRF 0, which always exists", dependenciesOfLocalSID(baseEnd("fc00::1")), nil},
		{"DT4 in VRF 0", dependenciesOfLocalSID(lookup(0, true)), nil},
		{"DT4", dependenciesOfLocalSID(lookup(3, true)), []string{"config/vpp/v2/vrf-table/id/3/protocol/IPV4"}},
		{"DT6", dependenciesOfLocalSID(lookup(3, false)), []string{"config/vpp/v2/vrf-table/id/3/protocol/IPV6"}},
		{"DX4 in a VRF", dependenciesOfLocalSID(withVRFs), []string{"config/vpp/v2/vrf-table/id/2/protocol/IPV6", "config/vpp/v2/interfaces/if"}},
		{"AD ignores its VRF", dependenciesOfLocalSID(endAD("a", "b", "")), []string{"config/vpp/v2/interfaces/a", "config/vpp/v2/interfaces/b"}},
		{"steering of IPv4", dependenciesOfSteering(steerL3("fc00::b", "10.0.0.0/8", 4)), []string{"", "config/vpp/v2/vrf-table/id/4/protocol/IPV4"}},
		{"steering of frames", dependenciesOfSteering(steerL2("fc00::b", "if")), []string{"", "config/vpp/v2/interfaces/if"}},
	} {
		var keys []string
		for _, d := range test.deps {
			keys = append(keys, d.Key)
		}
		if !slices.Equal(keys, test.keys) {
			t.Errorf("%s: depends on %v, want %v", test.name, keys, test.keys)
		}
	}
	policy := dependenciesOfSteering(steerL3("FC00:0::B", "10.0.0.0/8", 0))[0].AnyOf
	if !policy.KeySelector("config/vpp/srv6/v2/policy/fc00::b") || policy.KeySelector("config/vpp/srv6/v2/policy/fc00::c") {
		t.Error("a policy is not found by its address")
	}
}

func TestSRv6Equivalence(t *testing.T) {
	sids := localSIDDescriptor(noValues[*vpp_srv6.LocalSID]{}).Equivalent
	if !sids("", endDX6("if", "FC00::2"), endDX6("if", "fc00:0::2")) || sids("", endDX6("if", "fc00::2"), endX("if", "fc00::2")) {
		t.Error("equivalence of local SIDs")
	}
	one, other := endAD("a", "b", ""), endAD("a", "b", "")
	if other.InstallationVrfId = 0; !sids("", one, other) {
		t.Error("END.AD does not ignore its VRF")
	}
	a, b := policyVia(way(0, "fc00::1"), way(3, "fc00::2")), policyVia(way(3, "FC00::2"), way(1, "fc00::1"))
	if !equivalentPolicies(a, b) {
		t.Error("the order of segment lists matters")
	}
	if b.SegmentLists[0].Weight = 4; equivalentPolicies(a, b) {
		t.Error("weights do not matter")
	}
	recreate := srPolicyDescriptor(noValues[*vpp_srv6.Policy]{}).UpdateWithRecreate
	if recreate("", a, b, descriptor.NoMeta{}) {
		t.Error("other segment lists need a new policy")
	}
	if b.SprayBehaviour = true; !recreate("", a, b, descriptor.NoMeta{}) {
		t.Error("another behaviour needs no new policy")
	}
	if !srSteeringDescriptor(noValues[*vpp_srv6.Steering]{}).Equivalent("", steerL3("FC00::B", "FD00::/8", 0), steerL3("fc00::b", "fd00::/8", 0)) {
		t.Error("equivalence of steerings")
	}
	if !srv6GlobalDescriptor(noValues[*vpp_srv6.SRv6Global]{}).Equivalent("", &vpp_srv6.SRv6Global{}, &vpp_srv6.SRv6Global{EncapSourceAddress: "::"}) {
		t.Error("no address is not the unspecified one")
	}
}
