package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func decapsulate4(sid, iface, nextHop string) *vpp_srv6.LocalSID {
	return &vpp_srv6.LocalSID{Sid: sid, EndFunction: &vpp_srv6.LocalSID_EndFunctionDx4{
		EndFunctionDx4: &vpp_srv6.LocalSID_EndDX4{OutgoingInterface: iface, NextHop: nextHop}}}
}

func wayOver(bsid string, segments ...string) *vpp_srv6.Policy {
	return &vpp_srv6.Policy{Bsid: bsid, SrhEncapsulation: true, SegmentLists: []*vpp_srv6.Policy_SegmentList{{Segments: segments}}}
}

func steerInto(name, bsid, network string) *vpp_srv6.Steering {
	return &vpp_srv6.Steering{Name: name, PolicyRef: &vpp_srv6.Steering_PolicyBsid{PolicyBsid: bsid}, Traffic: &vpp_srv6.Steering_L3Traffic_{
		L3Traffic: &vpp_srv6.Steering_L3Traffic{PrefixAddress: network}}}
}

func segments(t *testing.T, n *node) (*VSwitch, *vpp_srv6.LocalSID, *vpp_srv6.Policy, *vpp_srv6.Steering, *vpp_srv6.SRv6Global) {
	t.Helper()
	v := openKernel(t, n)
	iface := tap("a")
	sid, policy := decapsulate4("fc00:1::4", "a", "10.50.0.1"), wayOver("fc00:1::b", "fc00:2::1", "fc00:2::2")
	steering, global := steerInto("s", "fc00:1::b", "10.60.0.0/16"), &vpp_srv6.SRv6Global{EncapSourceAddress: "fd00::9"}
	check(t, v.Interfaces().Create(t.Context(), iface))
	check(t, v.SRv6().LocalSIDs().Create(t.Context(), sid))
	check(t, v.SRv6().Policies().Create(t.Context(), policy))
	check(t, v.SRv6().Steerings().Create(t.Context(), steering))
	check(t, v.SRv6().Globals().Create(t.Context(), global))
	return v, sid, policy, steering, global
}

func TestSegmentsLeaveNothing(t *testing.T) {
	n := newNode(t)
	v, sid, policy, steering, global := segments(t, n)
	if out := n.Exec(t, "ip sr tunsrc show"); !strings.Contains(out, "fd00::9") {
		t.Errorf("source of encapsulated packets: %s", out)
	}
	check(t, v.SRv6().LocalSIDs().Create(t.Context(), decapsulate4("fc00:1::5", "a", "10.50.0.2")))
	for range 2 {
		check(t, v.SRv6().Globals().Delete(t.Context(), global))
		check(t, v.SRv6().Steerings().Delete(t.Context(), steering))
		check(t, v.SRv6().Policies().Delete(t.Context(), policy))
		check(t, v.SRv6().LocalSIDs().Delete(t.Context(), sid))
	}
	if out := n.Exec(t, "ip sr tunsrc show"); strings.Contains(out, "fd00::9") {
		t.Errorf("left: %s", out)
	}
	found, err := v.SRv6().LocalSIDs().List(t.Context(), nil)
	if err != nil || len(found) != 1 || found[0].GetSid() != "fc00:1::5" || found[0].GetEndFunctionDx4().GetNextHop() != "10.50.0.2" {
		t.Errorf("left: %v, %v; want the other SID", found, err)
	}
	check(t, v.SRv6().LocalSIDs().Delete(t.Context(), found[0]))
	for _, command := range []string{
		"ip nexthop show", "ip -6 route show table all proto 124", "ip -4 route show table all proto 124", "ip -o link show type veth",
	} {
		if out := n.Exec(t, command); strings.Contains(out, "contiv-sr0") || out != "" && !strings.Contains(command, "link") {
			t.Errorf("%s: %s", command, out)
		}
	}
}

// A pod's SID may be created before the route to the pod, while another device has the network of
// all pods.
func TestSegmentsOfNeighbourElsewhere(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	check(t, v.Interfaces().Create(t.Context(), tap("a")))
	n.Exec(t, "ip link add pods type bridge")
	n.Exec(t, "ip addr add fd70::1/64 dev pods nodad")
	n.Exec(t, "ip link set dev pods up")
	sid := &vpp_srv6.LocalSID{Sid: "fc00:1::6", EndFunction: &vpp_srv6.LocalSID_EndFunctionDx6{
		EndFunctionDx6: &vpp_srv6.LocalSID_EndDX6{OutgoingInterface: "a", NextHop: "fd70::2"}}}
	for range 2 {
		check(t, v.SRv6().LocalSIDs().Create(t.Context(), sid))
	}
	found, err := v.SRv6().LocalSIDs().List(t.Context(), nil)
	if err != nil || len(found) != 1 || !proto.Equal(found[0], sid) {
		t.Errorf("listed %v, %v; want %v", found, err, sid)
	}
	check(t, v.SRv6().LocalSIDs().Delete(t.Context(), sid))
	if out := n.Exec(t, "ip -6 route show table all proto 124"); out != "" {
		t.Errorf("left: %s", out)
	}
}

// The remains of an interrupted call are removed by the next one, or with the last value.
func TestHalfMadeSegmentsAreSwept(t *testing.T) {
	n := newNode(t)
	v, _, policy, _, _ := segments(t, n)
	before := n.Exec(t, "ip nexthop show")
	n.Exec(t, "ip -6 nexthop add id 2046820353 dev contiv-sr0 proto 124 encap seg6 mode encap segs fc00:9::1")
	check(t, v.SRv6().Policies().Create(t.Context(), policy))
	if after := n.Exec(t, "ip nexthop show"); after != before {
		t.Errorf("was\n%sis\n%s", before, after)
	}
}

func TestForeignSegmentsStay(t *testing.T) {
	n := newNode(t)
	v, _, policy, steering, _ := segments(t, n)
	n.Exec(t, "ip link set dev eth0 up")
	n.Exec(t, "ip -6 route add fc00:5::5/128 encap seg6local action End dev eth0")
	n.Exec(t, "ip -6 nexthop add id 7 dev eth0 encap seg6 mode encap segs fc00:9::1")
	n.Exec(t, "ip route add 10.61.0.0/16 dev eth0")
	sids, err := v.SRv6().LocalSIDs().List(t.Context(), nil)
	if err != nil || len(sids) != 1 {
		t.Errorf("listed: %v, %v; want one", sids, err)
	}
	err = v.SRv6().LocalSIDs().Create(t.Context(), decapsulate4("fc00:5::5", "a", "10.50.0.1"))
	if err == nil || !strings.Contains(err.Error(), "another route") {
		t.Errorf("SID of another program: %v", err)
	}
	if err := v.SRv6().Steerings().Create(t.Context(), steerInto("t", "fc00:1::b", "10.61.0.0/16")); err == nil || !strings.Contains(err.Error(), "another route") {
		t.Errorf("route of another program: %v", err)
	}
	if err := v.SRv6().Steerings().Create(t.Context(), steerInto("t", "fc00:1::b", "10.60.0.0/16")); err == nil || !strings.Contains(err.Error(), `"s"`) {
		t.Errorf("steering the same twice: %v", err)
	}
	if err := v.SRv6().Steerings().Create(t.Context(), steerInto("t", "fc00:1::c", "10.62.0.0/16")); err == nil {
		t.Error("steering into a policy that is not there succeeds")
	}
	if err := v.SRv6().Policies().Create(t.Context(), wayOver("fc00:1::4", "fc00:2::1")); err == nil {
		t.Error("a binding SID takes the place of a local SID")
	}
	check(t, v.SRv6().Steerings().Delete(t.Context(), steering))
	check(t, v.SRv6().Policies().Delete(t.Context(), policy))
	if out := n.Exec(t, "ip nexthop show id 7"); !strings.Contains(out, "fc00:9::1") {
		t.Errorf("nexthop of another program: %q", out)
	}
	if out := n.Exec(t, "ip -6 route show fc00:5::5"); !strings.Contains(out, "End") {
		t.Errorf("SID of another program: %q", out)
	}
}

func TestDamagedSegmentsAreReported(t *testing.T) {
	n := newNode(t)
	v, sid, policy, steering, _ := segments(t, n)
	reports := make(chan []string, 16)
	check(t, v.Watch(t.Context(), func(_ string, keys ...string) { reports <- keys }))
	helper := helperOf(t, n, "fc00:1::4")
	for _, damage := range []struct {
		command string
		want    proto.Message
	}{
		{"ip route del 10.60.0.0/16", steering},
		{"ip -6 route del fc00:1::b", policy},
		{"ip route del " + helper, sid},
		{"ip -6 route del fc00:1::4", sid},
		{"ip link del dev contiv-sr0", policy},
	} {
		n.Exec(t, damage.command)
		deadline := time.After(time.Minute)
		for found := false; !found; {
			select {
			case keys := <-reports:
				found = slices.Contains(keys, models.Key(damage.want))
			case <-deadline:
				t.Fatalf("%s: %s is not reported", damage.command, models.Key(damage.want))
			}
		}
		check(t, v.SRv6().LocalSIDs().Create(t.Context(), sid))
		check(t, v.SRv6().Policies().Create(t.Context(), policy))
		check(t, v.SRv6().Steerings().Create(t.Context(), steering))
	}
	sids, err := v.SRv6().LocalSIDs().List(t.Context(), []*vpp_srv6.LocalSID{sid})
	if err != nil || len(sids) != 1 || !proto.Equal(sids[0], sid) {
		t.Errorf("after the repair: %v, %v", sids, err)
	}
}

func helperOf(t *testing.T, n *node, sid string) string {
	t.Helper()
	out := n.Exec(t, "ip -6 route show "+sid+"/128")
	_, rest, ok := strings.Cut(out, "nhid ")
	var id uint32
	if _, err := fmt.Sscanf(rest, "%d", &id); !ok || err != nil {
		t.Fatalf("no SID %s: %s", sid, out)
	}
	return netip.AddrFrom4([4]byte{250, byte(id >> 16), byte(id >> 8), byte(id)}).String()
}

func TestSegmentsOfDisabledInterface(t *testing.T) {
	n := newNode(t)
	v, sid, _, _, _ := segments(t, n)
	up, down := tap("a"), tap("a")
	down.Enabled = false
	helper := helperOf(t, n, sid.GetSid())
	for _, step := range []struct {
		from, to *vpp_interfaces.Interface
		want     string
	}{{up, down, "blackhole"}, {down, up, "via 10.50.0.1"}} {
		check(t, v.Interfaces().Update(t.Context(), step.from, step.to))
		if out := n.Exec(t, "ip route show "+helper); !strings.HasPrefix(strings.TrimSpace(out), step.want) && !strings.Contains(strings.Split(out, "\n")[0], step.want) {
			t.Errorf("enabled=%v: %s, want first %s", step.to.GetEnabled(), out, step.want)
		}
	}
}

func TestSegmentsThatTheKernelLacks(t *testing.T) {
	v := openKernel(t, newNode(t))
	sids, policies := v.SRv6().LocalSIDs(), v.SRv6().Policies()
	spray, other := wayOver("fc00::b", "fc00::1"), wayOver("fc00::b", "fc00::1")
	spray.SprayBehaviour, other.InstallationVrfId = true, 3
	heavy := wayOver("fc00::b", "fc00::1")
	heavy.SegmentLists[0].Weight = 257
	for name, err := range map[string]error{
		"AD": sids.Create(t.Context(), &vpp_srv6.LocalSID{Sid: "fc00::1", EndFunction: &vpp_srv6.LocalSID_EndFunctionAd{
			EndFunctionAd: &vpp_srv6.LocalSID_EndAD{}}}),
		"VLAN": sids.Create(t.Context(), &vpp_srv6.LocalSID{Sid: "fc00::1", EndFunction: &vpp_srv6.LocalSID_EndFunctionDx2{
			EndFunctionDx2: &vpp_srv6.LocalSID_EndDX2{VlanTag: 7}}}),
		"PSP": sids.Create(t.Context(), &vpp_srv6.LocalSID{Sid: "fc00::1", EndFunction: &vpp_srv6.LocalSID_EndFunctionX{
			EndFunctionX: &vpp_srv6.LocalSID_EndX{Psp: true}}}),
		"VRF": sids.Create(t.Context(), &vpp_srv6.LocalSID{Sid: "fc00::1", EndFunction: &vpp_srv6.LocalSID_EndFunctionDt4{
			EndFunctionDt4: &vpp_srv6.LocalSID_EndDT4{VrfId: 1}}}),
		"spray":         policies.Create(t.Context(), spray),
		"VRF of policy": policies.Create(t.Context(), other),
		"weight":        policies.Create(t.Context(), heavy),
		"frames": v.SRv6().Steerings().Create(t.Context(), &vpp_srv6.Steering{Traffic: &vpp_srv6.Steering_L2Traffic_{
			L2Traffic: &vpp_srv6.Steering_L2Traffic{InterfaceName: "a"}}}),
	} {
		if !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("%s: %v, want %v", name, err, kvscheduler.ErrUnsupported)
		}
	}
	if out := newNode(t).Exec(t, "ip nexthop show"); out != "" {
		t.Errorf("half-made: %s", out)
	}
}
