package ipnet_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

func vppNode(id uint32, name string, ips ...string) *vppnode.VppNode {
	return &vppnode.VppNode{Id: id, Name: name, IpAddresses: ips}
}

func ownStack(own bool, v *vppnode.VppNode) *vppnode.VppNode {
	v.OwnNetworkStack = &own
	return v
}

func kubeNode(name string, ips ...string) *node.Node {
	n := &node.Node{Name: name}
	for _, ip := range ips {
		n.Addresses = append(n.Addresses, &node.NodeAddress{Type: node.NodeAddress_NodeInternalIP, Address: ip})
	}
	return n
}

func request(name, container string) *cni.CNIRequest {
	return &cni.CNIRequest{ContainerId: container, NetworkNamespace: "/var/run/netns/" + name, InterfaceName: "eth0",
		ExtraArguments: "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + name}
}

func add(t *testing.T, n *plugintest.Node, name, container string) *cni.CNIReply {
	t.Helper()
	reply, err := n.Server.Add(ctx, request(name, container))
	if err != nil || reply.Result != 0 {
		t.Fatalf("ADD of %s: %v, %v", name, reply, err)
	}
	return reply
}

// The configuration of a node with a pod and another node, for each kind of vswitch, transport and
// IP version. See the golden files.
func TestConfiguration(t *testing.T) {
	others := plugintest.State(
		vppNode(1, "node1", "192.168.16.1/24"), kubeNode("node1", "192.168.16.1"),
		vppNode(2, "node2", "192.168.16.2/24"), kubeNode("node2", "192.168.16.2", "10.0.0.2"),
		vppNode(3, "node3"), kubeNode("node3", "192.168.16.3"),
	)
	// The host has its own NIC. Links of the runtime and of the vswitch are hidden from VPP.
	hostLinks := plugintest.Links{plugintest.Link("lo", "127.0.0.1/8"), plugintest.Link("eth0", "10.0.0.1/24", "fe80::1/64", "fd00:10::1/64"),
		plugintest.Link("docker0", "172.17.0.1/16"), plugintest.Link("virbr0", "192.168.122.1/24"), plugintest.Link("vpp1", "172.30.1.2/24")}
	vppOthers := plugintest.State(
		ownStack(true, vppNode(1, "node1", "192.168.16.1/24")), kubeNode("node1", "10.0.0.1"),
		ownStack(true, vppNode(2, "node2", "192.168.16.2/24")), kubeNode("node2", "10.0.0.2"),
		ownStack(true, vppNode(3, "node3")), kubeNode("node3", "10.0.0.3"),
		ownStack(true, vppNode(4, "node4", "192.168.16.4/24")),
	)
	othersV6 := plugintest.State(
		vppNode(1, "node1", "fd16::1/64"), kubeNode("node1", "fd16::1"),
		vppNode(2, "node2", "fd16::2/64"), kubeNode("node2", "fd16::2"),
	)
	const ipv6 = `
ipamConfig:
  contivCIDR: fd10::/64
  serviceCIDR: fd96::/108
  nodeInterconnectDHCP: true
`
	dualStackLinks := plugintest.Links{plugintest.Link("eth0", "192.168.16.1/24", "fe80::1/64", "fd16::1/64")}
	bothVersions := plugintest.State(
		vppNode(1, "node1", "192.168.16.1/24", "fd16::1/64"), kubeNode("node1", "192.168.16.1", "fd16::1"),
		vppNode(2, "node2", "192.168.16.2/24", "fd16::2/64"), kubeNode("node2", "192.168.16.2", "fd16::2"),
		vppNode(3, "node3", "fd16::3/64"), kubeNode("node3", "fd16::3"),
	)
	const dualStack = `
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16, fd10:1::/48
  vxlanCIDR: 192.168.30.0/24, fd30::/112
  vppHostSubnetCIDR: 172.30.0.0/16, fd17:30::/48
  serviceCIDR: 10.96.0.0/12, fd96::/108
`
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	stolen := &contivconf.Stolen{
		Name: "eth0", MTU: 1500, Addresses: []netip.Prefix{prefix("192.168.16.9/24"), prefix("192.168.16.1/24"), prefix("fd16::1/64")},
		Routes: []contivconf.StolenRoute{
			{Destination: prefix("0.0.0.0/0"), NextHop: addr("192.168.16.253"), Metric: 200},
			{Destination: prefix("0.0.0.0/0"), NextHop: addr("192.168.16.254"), Metric: 100},
			{Destination: prefix("192.168.16.0/24"), Metric: 100},
			{Destination: prefix("198.51.100.0/24"), NextHop: addr("192.168.16.250")},
			{Destination: prefix("fd16::/64"), Metric: 256},
			{Destination: prefix("::/0"), NextHop: addr("fe80::1"), Metric: 1024},
		},
	}
	for name, options := range map[string]plugintest.NodeOptions{
		"kernel-dualstack": {State: bothVersions, Conf: dualStack, Links: dualStackLinks},
		"kernel-dualstack-ipv6-first": {State: bothVersions, Links: dualStackLinks, Conf: `
nodeToNodeTransport: nooverlay
ipamConfig:
  contivCIDR: "fd10::/64,10.128.0.0/14"
  nodeInterconnectCIDR: fd16::/112, 192.168.16.0/24
  defaultGateway: "fd16::fffe,192.168.16.254"
`},
		"vpp-dualstack": {State: bothVersions, Conf: dualStack + `
nodeConfig:
- {nodeName: node1, mainVPPInterface: {interfaceName: eth1, ip: "192.168.16.1/24,fd16::1/64"}}
`, Links: hostLinks, Caps: &plugintest.VPP},
		"kernel-vxlan": {State: others},
		"kernel-beside-vpp": {State: plugintest.State(
			vppNode(1, "node1", "192.168.16.1/24"), kubeNode("node1", "192.168.16.1"),
			vppNode(2, "node2", "192.168.16.102/24"), kubeNode("node2", "192.168.16.2"),
		)},
		"kernel-nooverlay": {State: others, Conf: "nodeToNodeTransport: nooverlay"},
		"kernel-ipv6":      {State: othersV6, Conf: ipv6, Links: plugintest.Links{plugintest.Link("eth0", "fe80::1/64", "fd16::1/64")}},
		"kernel-configured": {State: others, Links: plugintest.Links{plugintest.Link("eth0", "10.0.0.1/24"), plugintest.Link("eth1")}, Conf: `
mtuSize: 1400
natExternalTraffic: false
ipamConfig:
  nodeInterconnectCIDR: 192.168.16.0/24
  defaultGateway: 192.168.16.254
nodeConfig:
- nodeName: node1
  otherVPPInterfaces:
  - {interfaceName: eth1, ip: 10.50.0.1/24}
`},
		"vpp-vxlan": {State: vppOthers, Caps: &plugintest.VPP, Links: hostLinks, Conf: `
interfaceRxMode: adaptive
tapv2RxRingSize: 256
tapv2TxRingSize: 256
enableGSO: true
routeServiceCIDRToVPP: true
ipamConfig: {nodeInterconnectCIDR: 192.168.16.0/24, defaultGateway: 192.168.16.100}
nodeConfig:
- {nodeName: node1, mainVPPInterface: {interfaceName: GigabitEthernet0/9/0}}
`},
		"vpp-options": {State: vppOthers, Caps: &plugintest.VPPWithoutTAPs, Links: hostLinks, Conf: `
interfaceRxMode: polling
mtuSize: 1400
tcpChecksumOffloadDisabled: false
scanIPNeighbors: false
mainVRFID: 5
podVRFID: 6
nodeConfig:
- nodeName: node1
  mainVPPInterface: {interfaceName: GigabitEthernet0/9/0, useDHCP: true}
  otherVPPInterfaces:
  - {interfaceName: GigabitEthernet0/a/0, ip: 192.168.17.1/24}
  - {interfaceName: GigabitEthernet0/b/0, useDHCP: true}
`},
		"vpp-loopback": {State: vppOthers, Caps: &plugintest.VPP, Links: hostLinks, Conf: `
ipamConfig: {nodeInterconnectCIDR: 192.168.16.0/24, defaultGateway: 192.168.16.100}
`},
		"vpp-veth": {State: plugintest.State(
			vppNode(1, "node1", "192.168.16.101/24"), kubeNode("node1", "192.168.16.1"),
			ownStack(false, vppNode(2, "node2", "192.168.16.2/24")), kubeNode("node2", "192.168.16.2", "10.0.0.2"),
			ownStack(true, vppNode(3, "node3", "192.168.16.103/24")), kubeNode("node3", "192.168.16.3"),
		), Caps: &plugintest.VPPWithoutTAPs, Conf: `
nodeConfig:
- {nodeName: node1, gateway: 192.168.16.254, mainVPPInterface: {interfaceName: eth1, ip: 192.168.16.101/24}}
`},
		// VPP shares the host's only NIC.
		"vpp-stn": {State: plugintest.State(
			ownStack(true, vppNode(1, "node1", "192.168.16.1/24")), kubeNode("node1", "192.168.16.1"),
			ownStack(true, vppNode(2, "node2", "192.168.16.2/24")), kubeNode("node2", "192.168.16.2"),
		), Caps: &plugintest.VPPWithoutTAPs, Conf: "stealInterface: eth0", Stolen: stolen, Links: plugintest.Links{
			plugintest.Link("eth0", "192.168.16.1/24", "192.168.16.9/24"), plugintest.Link("mgmt", "10.0.0.1/24"), plugintest.Link("vpp1", "192.168.16.1/32")}},
		"vpp-stn-dualstack": {State: bothVersions, Caps: &plugintest.VPP, Conf: dualStack + "stealFirstNIC: true", Stolen: stolen, Links: dualStackLinks},
		"vpp-nooverlay": {State: vppOthers, Caps: &plugintest.VPP, Links: hostLinks, Conf: `
nodeToNodeTransport: nooverlay
nodeConfig:
- {nodeName: node1, mainVPPInterface: {interfaceName: eth1, ip: 192.168.16.1/24}}
`},
		"vpp-ipv6": {State: plugintest.State(
			ownStack(true, vppNode(1, "node1", "fd16::1/64")), kubeNode("node1", "fd00:10::1"),
			ownStack(true, vppNode(2, "node2", "fd16::2/64")), kubeNode("node2", "fd00:10::2"),
		), Caps: &plugintest.VPP, Links: hostLinks, Conf: ipv6 + `
nodeConfig:
- {nodeName: node1, mainVPPInterface: {interfaceName: eth1, ip: "fd16::1/64"}}
`},
	} {
		t.Run(name, func(t *testing.T) {
			n := plugintest.StartNode(t, options)
			add(t, n, "web", "0123456789abcdef")
			got := n.Scheduler.Values()
			plugintest.Golden(t, name, got)

			t.Run("restart changes nothing", func(t *testing.T) {
				n := n.Restart()
				if n.Scheduler.Changed() != 0 {
					t.Error(plugintest.Diff(got, n.Scheduler.Values()))
				}
			})
		})
	}
}

func TestUpdatesAgreeWithResync(t *testing.T) {
	for name, options := range map[string]plugintest.NodeOptions{
		"kernel":     {},
		"vpp":        {Caps: &plugintest.VPP, Conf: "nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth0, ip: 192.168.16.1/24}}]"},
		"veth":       {Caps: &plugintest.VPPWithoutTAPs, Conf: "nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth0, ip: 192.168.16.1/24}}]"},
		"nooverlay":  {Conf: "nodeToNodeTransport: nooverlay"},
		"dual-stack": {Conf: `ipamConfig: {contivCIDR: "10.128.0.0/14,fd10::/64", nodeInterconnectDHCP: true}`},
	} {
		t.Run(name, func(t *testing.T) {
			n := plugintest.StartNode(t, options)
			empty := n.Scheduler.Values()
			steps := []struct {
				name     string
				do, undo func()
			}{
				{"pod", func() { add(t, n, "web", "c1") }, func() {
					if _, err := n.Server.Delete(ctx, request("web", "c1")); err != nil {
						t.Fatal(err)
					}
				}},
				{"Kubernetes node", func() { n.Change(nil, kubeNode("node2", "10.0.0.2")) }, func() { n.Change(kubeNode("node2", "10.0.0.2"), nil) }},
				{"node", func() { n.Change(nil, vppNode(2, "node2", "192.168.16.2/24")) }, func() { n.Change(vppNode(2, "node2", "192.168.16.2/24"), nil) }},
				{"another node", func() { n.Change(nil, vppNode(3, "node3", "192.168.16.3/24")) }, func() { n.Change(vppNode(3, "node3", "192.168.16.3/24"), nil) }},
				{"its address", func() {
					n.Change(vppNode(3, "node3", "192.168.16.3/24"), vppNode(3, "node3", "192.168.16.33/24"))
				}, func() {
					n.Change(vppNode(3, "node3", "192.168.16.33/24"), vppNode(3, "node3", "192.168.16.3/24"))
				}},
				{"management address", func() {
					n.Change(kubeNode("node2", "10.0.0.2"), kubeNode("node2", "10.0.0.22"))
				}, func() {
					n.Change(kubeNode("node2", "10.0.0.22"), kubeNode("node2", "10.0.0.2"))
				}},
			}
			states := []plugintest.Txn{empty}
			for _, step := range steps {
				step.do()
				states = append(states, n.Scheduler.Values())
				n.Options.State = plugintest.State() // the loop has its own current state
				resyncAsIs(t, n)
				if diff := plugintest.Diff(states[len(states)-1], n.Scheduler.Values()); diff != "" {
					t.Errorf("%s: a resync differs (-update +resync):\n%s", step.name, diff)
				}
			}
			for i := len(steps) - 1; i >= 0; i-- {
				steps[i].undo()
				if diff := plugintest.Diff(states[i], n.Scheduler.Values()); diff != "" {
					t.Errorf("%s undone (-before +after):\n%s", steps[i].name, diff)
				}
			}
		})
	}
}

func resyncAsIs(t *testing.T, n *plugintest.Node) {
	t.Helper()
	if err := n.Loop.PushEvent(ctx, &upstreamResync{}); err != nil {
		t.Fatal(err)
	}
	n.Barrier()
}

type upstreamResync struct{ controller.NonBlocking }

func (*upstreamResync) Name() string                   { return "Test Resync" }
func (*upstreamResync) String() string                 { return "Test Resync" }
func (*upstreamResync) Method() controller.EventMethod { return controller.UpstreamResync }

func TestRoutesFollowAddressesOfTheHost(t *testing.T) {
	links := plugintest.Links{plugintest.Link("lo", "127.0.0.1/8"), plugintest.Link("eth0", "10.9.9.9/24")}
	const at = 1
	n := plugintest.StartNode(t, plugintest.NodeOptions{Caps: &plugintest.VPP, Links: links,
		Conf: "nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth1, ip: 192.168.16.1/24}}]", State: plugintest.State(ownStack(true, vppNode(1, "node1", "192.168.16.1/24")))})
	before, addresses := n.Scheduler.Values(), links[at].Addresses
	late := append(slices.Clone(addresses), netip.MustParsePrefix("10.77.0.1/24"))
	route := func() bool {
		return strings.Contains(plugintest.Render(n.Scheduler.Values()), `{"dst_network":"10.77.0.1/32","next_hop_addr":"172.30.1.2"`)
	}
	for _, step := range []struct {
		addresses []netip.Prefix
		want      bool
	}{{late, true}, {late, true}, {addresses, false}} {
		links[at].Addresses = step.addresses
		n.IPNet.LinksChanged(t.Context(), n.Loop)
		n.Barrier()
		if got := route(); got != step.want {
			t.Errorf("with %v, there is a route: %v", step.addresses, got)
		}
		values := n.Scheduler.Values()
		resyncAsIs(t, n)
		if diff := plugintest.Diff(values, n.Scheduler.Values()); diff != "" {
			t.Errorf("with %v, a resync differs (-update +resync):\n%s", step.addresses, diff)
		}
	}
	if diff := plugintest.Diff(before, n.Scheduler.Values()); diff != "" {
		t.Error(diff)
	}
}

func TestRouteToTheHostNetworkOfAnotherNode(t *testing.T) {
	const vpp = "nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth0, ip: 192.168.16.101/24}}]"
	unknown, known := vppNode(2, "node2", "192.168.16.102/24"), vppNode(2, "node2", "192.168.16.2/24")
	for name, test := range map[string]struct {
		other   *vppnode.VppNode // Kubernetes knows it as 192.168.16.2
		options plugintest.NodeOptions
		want    bool
	}{
		"kernel to VPP":                          {ownStack(true, proto.CloneOf(unknown)), plugintest.NodeOptions{}, true},
		"kernel to VPP with a known address":     {ownStack(true, proto.CloneOf(known)), plugintest.NodeOptions{}, true},
		"kernel to kernel":                       {ownStack(false, proto.CloneOf(known)), plugintest.NodeOptions{}, false},
		"kernel to kernel with an unknown one":   {ownStack(false, proto.CloneOf(unknown)), plugintest.NodeOptions{}, false},
		"kernel to one that does not say":        {known, plugintest.NodeOptions{}, false},
		"kernel to one that seems to be another": {unknown, plugintest.NodeOptions{}, true},
		"VPP to VPP":                             {ownStack(true, proto.CloneOf(known)), plugintest.NodeOptions{Caps: &plugintest.VPP, Conf: vpp}, true},
		"VPP to kernel":                          {ownStack(false, proto.CloneOf(known)), plugintest.NodeOptions{Caps: &plugintest.VPP, Conf: vpp}, false},
		"VPP to one that does not say":           {known, plugintest.NodeOptions{Caps: &plugintest.VPP, Conf: vpp}, true},
	} {
		t.Run(name, func(t *testing.T) {
			test.options.State = plugintest.State(test.other, kubeNode("node2", "192.168.16.2"))
			n := plugintest.StartNode(t, test.options)
			route := func() bool {
				for key := range n.Scheduler.Values() {
					if strings.HasSuffix(key, "/dst/172.30.2.0/24/gw/192.168.30.2") {
						return true
					}
				}
				return false
			}
			if route() != test.want {
				t.Errorf("route to 172.30.2.0/24: %v, want %v", route(), test.want)
			}
			n.Change(test.other, ownStack(!test.want, proto.CloneOf(test.other)))
			if route() == test.want {
				t.Errorf("route to 172.30.2.0/24 when the node says that it is otherwise: %v", route())
			}
		})
	}
}

func TestBridgeDomainListsReachableNodesInOrder(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{State: plugintest.State(
		vppNode(12, "node12", "192.168.16.12/24"), vppNode(3, "node3", "192.168.16.3/24"), vppNode(4, "node4"),
		vppNode(1, "node1", "192.168.16.1/24"), vppNode(5, "v6", "fd00::5/64"), vppNode(300, "outside", "192.168.16.99/24"))})
	bd := n.Scheduler.Values()["config/vpp/l2/v2/bridge-domain/vxlanBD"].(*vpp_l2.BridgeDomain)
	var names []string
	for _, i := range bd.Interfaces {
		names = append(names, i.Name)
	}
	if want := []string{"vxlanBVI", "vxlan-default-3", "vxlan-default-12"}; !slices.Equal(names, want) {
		t.Errorf("interfaces %v, want %v", names, want)
	}
	if texts := n.IPNet.Outside(ctx); len(texts) != 1 || !strings.HasPrefix(texts[0], "node outside is not connected: ") {
		t.Errorf("outside of the plan: %q", texts)
	}
}

func TestNodeIPIsPublished(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	kv, ok, err := n.Options.Etcd.Get(ctx, "/vnf-agent/contiv-ksr/allocatedIDs/1")
	if err != nil || !ok || !strings.Contains(string(kv.Value), "192.168.16.1/24") {
		t.Errorf("stored: %s, %v, %v", kv.Value, ok, err)
	}
	if ip := n.IPNet.GetNodeIPOf(false).String(); ip != "192.168.16.1/24" {
		t.Errorf("node IP %s", ip)
	}
}

func TestFailedAddLeavesNothing(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	before := n.Scheduler.Values()
	const route = "config/vpp/v2/route/if/vpp-tap-c1/vrf/0/dst/10.1.1.2/32"
	n.Scheduler.FailKeys(func(txn controller.SchedulerTxn) []string {
		if !txn.Revert {
			return nil
		}
		return []string{route}
	})
	reply, err := n.Server.Add(ctx, request("web", "c1"))
	if err != nil || reply.Result != 1 || !strings.Contains(reply.Error, route) {
		t.Errorf("got %v, %v: want an error that names the key", reply, err)
	}
	if diff := plugintest.Diff(before, n.Scheduler.Values()); diff != "" {
		t.Error(diff)
	}
	if used, _ := n.IPAM.Usage(); used != 0 || len(n.PodManager.LocalPods()) != 0 {
		t.Errorf("%d addresses in use, local pods %v", used, n.PodManager.LocalPods())
	}
	for _, prefix := range []string{podmanager.StorePrefix, ipam.StorePrefix} {
		if kvs, _, _ := n.Options.Local.List(ctx, prefix); len(kvs) != 0 {
			t.Errorf("left in the local store: %v", kvs)
		}
	}
	n.Scheduler.FailKeys(nil)
	add(t, n, "web", "c2")
}

func TestContainerIDsThatOnlyDifferAtTheEnd(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	long := strings.Repeat("a", 60)
	add(t, n, "web", long+"1")
	reply, err := n.Server.Add(ctx, request("db", long+"2"))
	if err != nil || reply.Result != 1 || !strings.Contains(reply.Error, "do not differ in their first 52 characters") {
		t.Errorf("got %v, %v", reply, err)
	}
}

func TestCheck(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	added := add(t, n, "web", "c1")
	reply, err := n.Server.Check(ctx, request("web", "c1"))
	if err != nil || reply.Result != 0 || !proto.Equal(reply.Interfaces[0], added.Interfaces[0]) {
		t.Errorf("intact pod: %v, %v", reply, err)
	}
	report, err := n.IPNet.PodsReport()
	if err != nil || len(report.Pods) != 1 || len(report.Pods[0].Keys) != 9 {
		t.Fatalf("pods: %+v, %v", report, err)
	}
	keys := report.Pods[0].Keys
	n.Scheduler.SetDifferences(kvscheduler.Difference{Key: keys[0], State: pb.ValueState_CONFIGURED})
	reply, err = n.Server.Check(ctx, request("web", "c1"))
	if err != nil || reply.Result != 1 || !strings.Contains(reply.Error, keys[0]+" is missing") {
		t.Errorf("broken pod: %v, %v", reply, err)
	}
	reply, err = n.Server.Check(ctx, request("web", "c2"))
	if err != nil || reply.Result != 1 || !strings.Contains(reply.Error, "not connected") {
		t.Errorf("unknown container: %v, %v", reply, err)
	}
}

func TestREST(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{NoResync: true})
	get := func(handler http.Handler, into any) int {
		t.Helper()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
		return w.Code
	}
	var failure struct{ Error string }
	if code := get(n.IPNet.IPAMHandler(), &failure); code != 500 || failure.Error == "" {
		t.Errorf("ipam before the resync: %d %v", code, failure)
	}
	if code := get(n.IPNet.PodsHandler(), &failure); code != 503 || failure.Error == "" {
		t.Errorf("pods before the resync: %d %v", code, failure)
	}
	n.Resync()
	add(t, n, "web", "c1")

	var ipamReport ipnet.IPAMReport
	if code := get(n.IPNet.IPAMHandler(), &ipamReport); code != 200 {
		t.Errorf("ipam: %d", code)
	}
	if r := ipamReport; r.NodeID != 1 || r.NodeName != "node1" || r.NodeIP != "192.168.16.1/24" || r.PodSubnetThisNode != "10.1.1.0/24" ||
		r.VppHostNetwork != "172.30.1.0/24" || r.PodGateway != "10.1.1.1" || r.VxlanIP != "192.168.30.1/24" || r.NATLoopbackIP != "10.1.1.254" ||
		r.PodIPsUsed != 1 || r.PodIPsTotal != 252 || r.Config.PodSubnetCIDR != "10.1.0.0/16" {
		t.Errorf("ipam: %+v", r)
	}
	var pods ipnet.PodsReport
	if code := get(n.IPNet.PodsHandler(), &pods); code != 200 || len(pods.Pods) != 1 {
		t.Fatalf("pods: %d %+v", code, pods)
	}
	p := pods.Pods[0]
	if p.Name != "web" || p.Namespace != "default" || p.ContainerID != "c1" || p.NetNS != "/var/run/netns/web" || !slices.Equal(p.IPs, []string{"10.1.1.2/32"}) ||
		p.Gateway != "10.1.1.1" || p.Interface != "eth0" || p.MTU != 1450 || p.VPPInterface != "vpp-tap-c1" || p.LinuxInterface != "linux-tap-c1" ||
		p.Loopback != "linux-loop-c1" || len(p.Keys) != 9 {
		t.Errorf("pod: %+v", p)
	}
}

func TestNodeWaitsForItsLease(t *testing.T) {
	for name, caps := range map[string]*ipnet.Capabilities{"kernel": &plugintest.Kernel, "vpp": &plugintest.VPP} {
		t.Run(name, func(t *testing.T) {
			state := plugintest.State(vppNode(2, "node2", "192.168.16.2/24"), kubeNode("node2", "192.168.16.2"))
			n := plugintest.StartNode(t, plugintest.NodeOptions{State: state, Caps: caps, Links: plugintest.Links{plugintest.Link("eth0")}, Conf: `
nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth0, useDHCP: true}}]`})
			nic, _ := n.Scheduler.Values()[models.VPPInterfaceKey("eth0")].(*vpp_interfaces.Interface)
			if !nic.GetSetDhcpClient() || len(nic.GetIpAddresses()) > 0 {
				t.Errorf("the NIC is %v", nic)
			}
			if ip := n.IPNet.GetNodeIPOf(false); ip.IsValid() {
				t.Errorf("the node has %v", ip)
			}
		})
	}
}

// A leased address becomes the node's address in etcd and the source of tunnels. Another one
// replaces it. Without a lease, the network stays unchanged.
func TestLeasesChangeTheNodeAddress(t *testing.T) {
	links := plugintest.Links{plugintest.Link("eth0")}
	n := plugintest.StartNode(t, plugintest.NodeOptions{
		State: plugintest.State(vppNode(2, "node2", "192.168.16.2/24"), kubeNode("node2", "192.168.16.2")), Links: links,
		Conf: "nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth0, useDHCP: true}}]",
	})
	const tunnelKey = "config/vpp/v2/interfaces/vxlan-default-2"
	if n.Scheduler.Values()[tunnelKey] != nil {
		t.Error("a tunnel without an address to send from")
	}
	committed := make(chan struct{}, 10)
	n.Scheduler.FailKeys(func(controller.SchedulerTxn) []string { committed <- struct{}{}; return nil })
	for _, step := range []struct{ lease, want string }{
		{"192.168.16.71/24", "192.168.16.71/24"}, {"", ""}, {"192.168.16.72/24", "192.168.16.72/24"},
	} {
		links[0].Addresses = nil
		if step.lease != "" {
			links[0].Addresses = append(links[0].Addresses, netip.MustParsePrefix(step.lease))
		}
		n.ContivConf.LinksChanged(ctx)
		if step.want == "" {
			continue
		}
		select {
		case <-committed:
			n.Barrier()
		case <-time.After(plugintest.Timeout):
			t.Fatalf("%s: nothing happens", step.lease)
		}
		tunnel, _ := n.Scheduler.Values()[tunnelKey].(*vpp_interfaces.Interface)
		if got := tunnel.GetVxlan().GetSrcAddress() + "/24"; got != step.want {
			t.Errorf("%s: the tunnel's source is %s", step.lease, got)
		}
		kv, ok, err := n.Options.Etcd.Get(ctx, "/vnf-agent/contiv-ksr/allocatedIDs/1")
		if err != nil || !ok || !strings.Contains(string(kv.Value), step.want) {
			t.Errorf("%s: in etcd: %s, %v, %v", step.lease, kv.Value, ok, err)
		}
	}
}

func TestNodeWithoutAddress(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{NoResync: true, Links: plugintest.Links{plugintest.Link("eth0", "fe80::1/64")}})
	err := n.IPNet.Resync(ctx, &controller.DBResync{}, nil, 1, plugintest.Txn{})
	if err == nil || !strings.Contains(err.Error(), "node ID 0") && !strings.Contains(err.Error(), "has no IP address: assign one") {
		t.Errorf("got %v", err)
	}
}

func TestExternalIPAM(t *testing.T) {
	withCIDR := func(n *node.Node, cidr string) *node.Node { n.Pod_CIDR = cidr; return n }
	n := plugintest.StartNode(t, plugintest.NodeOptions{Conf: "ipamConfig: {useExternalIPAM: true}", State: plugintest.State(
		vppNode(1, "node1", "192.168.16.1/24"), withCIDR(kubeNode("node1", "192.168.16.1"), "10.1.50.0/24"),
		vppNode(2, "node2", "192.168.16.2/24"), withCIDR(kubeNode("node2", "192.168.16.2"), ""),
	)})
	r := request("web", "c1")
	r.IpamType, r.IpamData = "host-local", `{"address": "10.1.50.9/24", "gateway": "10.1.50.1"}`
	reply, err := n.Server.Add(ctx, r)
	if err != nil || reply.Result != 0 {
		t.Fatal(reply, err)
	}
	if ip := reply.Interfaces[0].IpAddresses[0]; ip.Address != "10.1.50.9/32" || ip.Gateway != "10.1.50.1" {
		t.Errorf("address in the reply: %v", ip)
	}
	route := func(network string) bool {
		_, ok := n.Scheduler.Values()["config/vpp/v2/route/if/vxlanBVI/vrf/0/dst/"+network+"/gw/192.168.30.2"]
		return ok
	}
	if !route("10.1.2.0/24") {
		t.Error("no route to the pods of a node without pod subnet, which takes the one of its ID")
	}
	n.Change(withCIDR(kubeNode("node2", "192.168.16.2"), ""), withCIDR(kubeNode("node2", "192.168.16.2"), "10.1.60.0/24"))
	if !route("10.1.60.0/24") || route("10.1.2.0/24") {
		t.Error("the route did not follow the pod subnet that Kubernetes assigned")
	}
}

func TestHowPodsAreAttached(t *testing.T) {
	const nic = "nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth0, ip: 192.168.16.1/24}}]\n"
	for name, test := range map[string]struct {
		caps      *ipnet.Capabilities
		conf      string
		vpp, host string
	}{
		"kernel":              {&plugintest.Kernel, "", "vpp-tap-0123456789abcdef", ""},
		"VPP":                 {&plugintest.VPP, nic, "vpp-tap-0123456789abcdef", "tap-vpp2"},
		"VPP without TAPs":    {&plugintest.VPPWithoutTAPs, nic, "afpacketveth2-0123456789abcdef", "afpacket-vpp2"},
		"VPP, no TAPs wanted": {&plugintest.VPP, nic + "useTAPInterfaces: false", "afpacketveth2-0123456789abcdef", "afpacket-vpp2"},
		"VPP, TAPs wanted":    {&plugintest.VPPWithoutTAPs, nic + "useTAPInterfaces: true", "vpp-tap-0123456789abcdef", "tap-vpp2"},
	} {
		t.Run(name, func(t *testing.T) {
			n := plugintest.StartNode(t, plugintest.NodeOptions{Caps: test.caps, Conf: test.conf})
			add(t, n, "web", "0123456789abcdef")
			if vpp, _, _, _ := n.IPNet.GetPodIfNames(podmanager.PodID{Namespace: "default", Name: "web"}); vpp != test.vpp {
				t.Errorf("the pod is behind %s, want %s", vpp, test.vpp)
			}
			values := n.Scheduler.Values()
			if _, found := values["config/vpp/v2/interfaces/"+test.vpp]; !found {
				t.Errorf("there is no interface %s", test.vpp)
			}
			if _, found := values["config/vpp/v2/interfaces/"+test.host]; found != (test.host != "") {
				t.Errorf("the host is connected by %q: %v", test.host, found)
			}
		})
	}
}

// VETH devices are named after truncated container IDs.
func TestDevicesOfPodsMustDiffer(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{Caps: &plugintest.VPPWithoutTAPs,
		Conf: "nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth0, ip: 192.168.16.1/24}}]"})
	add(t, n, "one", "0123456789abcde-1")
	reply, err := n.Server.Add(ctx, request("two", "0123456789abcde-2"))
	if err != nil || reply.Result == 0 || !strings.Contains(reply.Error, "first 15 characters") {
		t.Errorf("%v, %v", reply, err)
	}
}
