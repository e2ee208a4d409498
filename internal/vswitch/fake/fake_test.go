package fake_test

import (
	"net/netip"
	"testing"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/fake"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const nic = "eth0"

var kernelLike = vswitch.Capabilities{HostStackShared: true, IPv6SourceNAT: true, IPv6DNAT: true, SourceGuards: true, ConnectionLimits: true}

type site struct{ *fake.Node }

func (s site) Open(testing.TB) vswitch.VSwitch { return s.Node.Open() }
func (site) NIC() string                       { return nic }

// Foreign: the fake knows only addresses of foreign objects.
func (s site) Foreign(testing.TB) func() []string {
	foreign := netip.MustParsePrefix("10.201.0.1/24")
	s.SetDevice(nic, foreign)
	return func() []string {
		if s.TracePacket("", netip.Addr{}, foreign.Addr()).Verdict != fake.Local {
			return []string{"address " + foreign.String()}
		}
		return nil
	}
}

func (s site) Accidents() (accidents []vswitchtest.Accident) {
	topo := vswitchtest.Topology{Node: 1, NIC: nic, Pods: 2, NAT66: true, DNAT66: true}
	for _, v := range topo.Values() {
		if vrf, ok := v.(*vpp_l3.VrfTable); ok && vrf.GetId() == 0 {
			continue
		}
		key := models.Key(v)
		accidents = append(accidents, vswitchtest.Accident{Name: key, Keys: []string{key}, Do: func(t testing.TB) {
			if !s.Break(key) {
				t.Errorf("%s does not exist", key)
			}
		}})
	}
	return accidents
}

func (s site) SetCable(t testing.TB, tap *vpp_interfaces.Interface, plugged bool) {
	t.Helper()
	if err := s.SetLink(tap.GetName(), plugged); err != nil {
		t.Error(err)
	}
}

func TestConformance(t *testing.T) {
	vswitchtest.Run(t, vswitchtest.Config{NewSite: func(testing.TB) vswitchtest.Site {
		return site{fake.NewNetwork().NewNode("n", kernelLike, nic)}
	}})
}

func cluster(t *testing.T) (one, two *fake.Node) {
	t.Helper()
	network := fake.NewNetwork()
	nodes := []*fake.Node{network.NewNode("node1", kernelLike, nic), network.NewNode("node2", kernelLike, nic)}
	for i, n := range nodes {
		configure(t, n, vswitchtest.Topology{Node: i + 1, NIC: nic, Pods: 2}.Values()...)
	}
	return nodes[0], nodes[1]
}

func configure(t *testing.T, n *fake.Node, values ...proto.Message) {
	t.Helper()
	s := kvscheduler.New(kvscheduler.Options{})
	defer s.Close()
	vs := n.Open()
	defer vs.Close()
	if err := descriptors.Register(s, vs); err != nil {
		t.Fatal(err)
	}
	txn := s.NewTransaction()
	for _, v := range values {
		txn.Put(models.Key(v), v)
	}
	if _, err := txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync)); err != nil {
		t.Fatal(err)
	}
}

func TestTrace(t *testing.T) {
	topo1, topo2 := vswitchtest.Topology{Node: 1}, vswitchtest.Topology{Node: 2}
	addr := netip.MustParseAddr
	for _, test := range []struct {
		name, from, src, dst string
		verdict              fake.Verdict
		node, iface          string
		seen                 string
	}{
		{"pod to pod on one node", topo1.Tap(1), topo1.PodIP(1), topo1.PodIP(2), fake.Delivered, "node1", topo1.Tap(2), topo1.PodIP(1)},
		{"pod to pod across nodes", topo1.Tap(1), topo1.PodIP(1), topo2.PodIP(2), fake.Delivered, "node2", topo2.Tap(2), topo1.PodIP(1)},
		{"pod to its gateway", topo1.Tap(1), topo1.PodIP(1), topo1.Gateway(), fake.Local, "node1", "podGwLoop", topo1.PodIP(1)},
		{"node to pod", "", topo1.Gateway(), topo1.PodIP(1), fake.Delivered, "node1", topo1.Tap(1), topo1.Gateway()},
		{"node to node", "", topo1.NodeIP(), topo2.NodeIP(), fake.Local, "node2", nic, topo1.NodeIP()},
		{"pod to other node is translated", topo1.Tap(1), topo1.PodIP(1), topo2.NodeIP(), fake.Local, "node2", nic, topo1.NodeIP()},
		{"pod to the outside is translated", topo1.Tap(1), topo1.PodIP(1), "192.168.16.77", fake.Outside, "node1", nic, topo1.NodeIP()},
		{"the node's own packets are not", "", topo1.Gateway(), "192.168.16.77", fake.Outside, "node1", nic, topo1.Gateway()},
		{"route without interface", topo1.Tap(1), topo1.PodIP(1), "172.30.1.1", fake.Outside, "node1", nic, topo1.NodeIP()},
		{"unknown pod", topo1.Tap(1), topo1.PodIP(1), "10.1.77.1", fake.Dropped, "node1", "", topo1.PodIP(1)},
		{"unknown pod of this node", topo1.Tap(1), topo1.PodIP(1), "10.1.1.200", fake.Dropped, "node1", "", topo1.PodIP(1)},
		{"no route", topo1.Tap(1), topo1.PodIP(1), "8.8.8.8", fake.Dropped, "node1", "", topo1.PodIP(1)},
		{"node that is not there", topo1.Tap(1), topo1.PodIP(1), "10.1.3.2", fake.Dropped, "node1", "", topo1.PodIP(1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			one, _ := cluster(t)
			trace := one.TracePacket(test.from, addr(test.src), addr(test.dst))
			if trace.Verdict != test.verdict || trace.Node != test.node || trace.Interface != test.iface || trace.Src != addr(test.seen) {
				t.Errorf("got %v on %s %s from %s, want %v on %s %s from %s\n%s",
					trace.Verdict, trace.Node, trace.Interface, trace.Src, test.verdict, test.node, test.iface, test.seen, trace)
			}
		})
	}
}

func TestTraceFailsWithoutAnyPart(t *testing.T) {
	topo1, topo2 := vswitchtest.Topology{Node: 1, NIC: nic, Pods: 2}, vswitchtest.Topology{Node: 2, NIC: nic, Pods: 2}
	for _, test := range []struct {
		node int
		key  string
	}{
		{1, "config/vpp/v2/route/if/vxlanBVI/vrf/0/dst/10.1.2.0/24/gw/192.168.30.2"},
		{1, "config/vpp/v2/arp/vxlanBVI/192.168.30.2"},
		{1, "config/vpp/l2/v2/fib/vxlanBD/mac/12:2b:00:00:00:02"},
		{1, "config/vpp/v2/interfaces/vxlan-default-2"},
		{1, "config/vpp/v2/interfaces/vxlanBVI"},
		{1, "config/vpp/v2/interfaces/" + nic},
		{1, "config/vpp/l2/v2/bridge-domain/vxlanBD"},
		{2, "config/vpp/v2/interfaces/vxlan-default-1"},
		{2, "config/vpp/v2/interfaces/vxlanBVI"},
		{2, "config/vpp/l2/v2/bridge-domain/vxlanBD"},
		{2, "config/vpp/v2/interfaces/" + topo2.Tap(1)},
		{2, "config/vpp/v2/route/if/" + topo2.Tap(1) + "/vrf/0/dst/" + topo2.PodIP(1) + "/32/gw/" + topo2.PodIP(1)},
	} {
		one, two := cluster(t)
		send := func() fake.Trace {
			return one.TracePacket(topo1.Tap(1), netip.MustParseAddr(topo1.PodIP(1)), netip.MustParseAddr(topo2.PodIP(1)))
		}
		if trace := send(); trace.Verdict != fake.Delivered {
			t.Fatal(trace)
		}
		if !map[int]*fake.Node{1: one, 2: two}[test.node].Break(test.key) {
			t.Errorf("%s does not exist", test.key)
		}
		if trace := send(); trace.Verdict != fake.Dropped || trace.Reason == "" {
			t.Errorf("node %d without %s:\n%s", test.node, test.key, trace)
		}
	}
}

func TestTraceThroughVRFs(t *testing.T) {
	n := fake.NewNetwork().NewNode("n", vswitch.Capabilities{MultipleVRFs: true}, nic)
	loop := func(name, addr string, vrf uint32) *vpp_interfaces.Interface {
		return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true, Vrf: vrf, IpAddresses: []string{addr}}
	}
	configure(t, n, &vpp_l3.VrfTable{Id: 1},
		loop("main", "192.168.1.1/24", 0), loop("pod", "10.1.1.1/24", 1),
		&vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, VrfId: 1, DstNetwork: "0.0.0.0/0", ViaVrfId: 0},
	)
	trace := n.TracePacket("pod", netip.MustParseAddr("10.1.1.2"), netip.MustParseAddr("192.168.1.9"))
	if trace.Verdict != fake.Delivered || trace.Interface != "main" {
		t.Error(trace)
	}
	// The reply has no route.
	if trace := n.TracePacket("main", netip.MustParseAddr("192.168.1.9"), netip.MustParseAddr("10.1.1.2")); trace.Verdict != fake.Dropped {
		t.Error(trace)
	}
}

// List returns TAPs as requested, including the namespace of the far end.
func TestTapIsListedAsRequested(t *testing.T) {
	n := fake.NewNetwork().NewNode("n", kernelLike, nic)
	vs := n.Open()
	defer vs.Close()
	tap := &vpp_interfaces.Interface{
		Name: "tap1", Type: vpp_interfaces.Interface_TAP, Enabled: true,
		Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{
			Version: 2, HostNamespace: &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_FD, Reference: "/run/netns/pod"},
		}},
	}
	if err := vs.Interfaces().Create(t.Context(), tap); err != nil {
		t.Fatal(err)
	}
	for _, expected := range [][]*vpp_interfaces.Interface{nil, {tap}} {
		list, err := vs.Interfaces().List(t.Context(), expected)
		if err != nil || len(list) != 1 || !proto.Equal(list[0].GetTap(), tap.GetTap()) {
			t.Errorf("listed as %v, error %v, want %v", list, err, tap)
		}
	}
}
