package ipnet_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func withIfs(name, interfaces, endpoint string) *pod.Pod {
	return &pod.Pod{Name: name, Namespace: "default", Annotations: map[string]string{
		podmanager.CustomIfAnnotation: interfaces, podmanager.EndpointIfAnnotation: endpoint,
	}}
}

const bothFamilies = `
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16, fd10:1::/48
  vxlanCIDR: 192.168.30.0/24, fd30::/112
  vppHostSubnetCIDR: 172.30.0.0/16, fd17:30::/48
`

func TestCustomInterfaces(t *testing.T) {
	const nic = "nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth1, ip: 192.168.16.1/24}}]"
	for name, options := range map[string]plugintest.NodeOptions{
		"custom-kernel":   {Conf: bothFamilies},
		"custom-vpp":      {Caps: &plugintest.VPP, Conf: nic},
		"custom-vpp-veth": {Caps: &plugintest.VPPWithoutTAPs, Conf: nic},
	} {
		t.Run(name, func(t *testing.T) {
			n := plugintest.StartNode(t, options)
			add(t, n, "web", "c1")
			before := n.Scheduler.Values()
			n.Change(nil, withIfs("web", "net1/tap,net2/veth,bare/tap/stub,old/memif", "net1"))
			after := n.Scheduler.Values()
			added := plugintest.Txn{}
			for key, value := range after {
				if !proto.Equal(before[key], value) {
					added[key] = value
				}
			}
			plugintest.Golden(t, name, added)
			resyncAsIs(t, n)
			if diff := plugintest.Diff(after, n.Scheduler.Values()); diff != "" {
				t.Errorf("a resync differs:\n%s", diff)
			}
			if reply, err := n.Server.Delete(ctx, request("web", "c1")); err != nil || reply.Result != 0 {
				t.Fatalf("DEL: %v, %v", reply, err)
			}
			for key := range n.Scheduler.Values() {
				if strings.Contains(key, "c1") {
					t.Errorf("left: %s", key)
				}
			}
		})
	}
}

func TestCustomInterfacesFollowTheADD(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{State: plugintest.State(withIfs("web", "net1/tap", ""))})
	if reply := add(t, n, "web", "c1"); len(reply.Interfaces) != 1 {
		t.Errorf("ADD reports %v: the custom interface is not there yet", reply.Interfaces)
	}
	n.Barrier()
	if n.Scheduler.Values()[models.VPPInterfaceKey("vpp-tap-net1-c1")] == nil {
		t.Error("no custom interface")
	}
}

func customIPs(t *testing.T, n *plugintest.Node, name string) string {
	t.Helper()
	for _, p := range n.IPAM.Report().Pods {
		if p.PodID.Name == name {
			var list []string
			for iface, ip := range p.CustomIfIPs {
				list = append(list, iface+" "+ip)
			}
			slices.Sort(list)
			return strings.Join(list, ", ")
		}
	}
	return ""
}

func TestCustomInterfacesChange(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	add(t, n, "web", "c1")
	one, two, none := withIfs("web", "net1/tap,net2/tap", ""), withIfs("web", "net2/tap,net3/tap", ""), withIfs("web", "", "")
	before := n.Scheduler.Values()
	n.Change(nil, one)
	first := n.Scheduler.Values()
	n.Change(one, two)
	second := n.Scheduler.Values()
	for key := range first {
		if strings.Contains(key, "net2") && !strings.Contains(key, "guard") && !proto.Equal(first[key], second[key]) {
			t.Errorf("%s has changed, and need not", key)
		}
	}
	if got := customIPs(t, n, "web"); got != "net2 10.1.1.4, net3 10.1.1.5" {
		t.Errorf("addresses: %s", got)
	}
	n.Change(two, none)
	if diff := plugintest.Diff(before, n.Scheduler.Values()); diff != "" {
		t.Errorf("without the annotation:\n%s", diff)
	}
}

func TestCustomInterfacesStayWithoutKubernetes(t *testing.T) {
	web := withIfs("web", "net1/tap", "net1")
	n := plugintest.StartNode(t, plugintest.NodeOptions{State: plugintest.State(web)})
	add(t, n, "web", "c1")
	n.Barrier()
	before := n.Scheduler.Values()
	n.Options.State = plugintest.State()
	n = n.Restart()
	if diff := plugintest.Diff(before, n.Scheduler.Values()); diff != "" || n.Scheduler.Changed() != 0 {
		t.Errorf("%d values have changed:\n%s", n.Scheduler.Changed(), diff)
	}
	n.Options.State = plugintest.State(withIfs("web", "net2/tap", ""))
	n = n.Restart()
	if got := customIPs(t, n, "web"); !strings.HasPrefix(got, "net2 ") || strings.Contains(got, ",") {
		t.Errorf("addresses: %s", got)
	}
}

func TestCustomInterfaceWaitsForAnAddress(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{Conf: "ipamConfig: {podSubnetOneNodePrefixLen: 29}", State: plugintest.State(withIfs("web", "net1/tap,net2/tap,net3/tap,bare/tap/stub", "net3"))})
	add(t, n, "other", "c2")
	add(t, n, "web", "c1")
	n.Barrier()
	wired := func() (list []string) {
		for _, i := range report(t, n, "web").CustomInterfaces {
			if n.Scheduler.Values()[models.VPPInterfaceKey("vpp-tap-"+i.Name+"-c1")] != nil {
				list = append(list, i.Name)
			}
		}
		return list
	}
	if got := fmt.Sprint(wired()); got != "[net1 net2 bare]" {
		t.Errorf("interfaces: %s", got)
	}
	if p := report(t, n, "web").CustomInterfaces[2]; p.Name != "net3" || !strings.Contains(p.Problem, ipam.ErrExhausted.Error()) || !p.ServiceEndpoint {
		t.Errorf("reported: %+v", p)
	}
	if got := published(t, n); len(got) != 0 {
		t.Errorf("published: %v", got)
	}
	if reply, err := n.Server.Delete(ctx, request("other", "c2")); err != nil || reply.Result != 0 {
		t.Fatalf("DEL: %v, %v", reply, err)
	}
	n.Barrier()
	if got := fmt.Sprint(wired()); got != "[net1 net2 net3 bare]" {
		t.Errorf("when an address is free: %s", got)
	}
	if got := published(t, n); len(got) != 1 {
		t.Errorf("published: %v", got)
	}
}

func report(t *testing.T, n *plugintest.Node, name string) ipnet.PodReport {
	t.Helper()
	w := httptest.NewRecorder()
	n.IPNet.PodsHandler().ServeHTTP(w, httptest.NewRequest("GET", ipnet.PodsURL, nil))
	var all ipnet.PodsReport
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	for _, p := range all.Pods {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no pod %s: %s", name, w.Body)
	return ipnet.PodReport{}
}

func published(t *testing.T, n *plugintest.Node) []*vppnode.PodAddresses {
	t.Helper()
	kv, found, err := n.Options.Etcd.Get(ctx, nodesync.IDPrefix+"1")
	if err != nil || !found {
		t.Fatal(found, err)
	}
	var record vppnode.VppNode
	if err := json.Unmarshal(kv.Value, &record); err != nil {
		t.Fatal(err)
	}
	return record.GetPodAddresses()
}

func TestServiceEndpointInterface(t *testing.T) {
	web := withIfs("web", "net1/tap,net2/tap/red", "net1")
	n := plugintest.StartNode(t, plugintest.NodeOptions{Conf: bothFamilies, State: plugintest.State(web)})
	add(t, n, "web", "c1")
	n.Barrier()
	want := &vppnode.PodAddresses{PodNamespace: "default", PodName: "web", Interface: "net1", Addresses: []string{"10.1.1.3", "fd10:1:0:1::3"}}
	if got := published(t, n); len(got) != 1 || !proto.Equal(got[0], want) {
		t.Errorf("published: %v, want %v", got, want)
	}
	if r := report(t, n, "web"); len(r.Refused) != 1 || !strings.Contains(r.Refused[0], "custom networks are not supported") {
		t.Errorf("refused: %q", r.Refused)
	}
	owners, made := n.IPNet.PodInterfaces(), report(t, n, "web").CustomInterfaces
	if id := owners[made[0].VPPInterface]; len(owners) != 2 || id.Name != "web" {
		t.Errorf("interfaces of pods: %v", owners)
	}
	n = n.Restart()
	if got := published(t, n); len(got) != 1 {
		t.Errorf("after a restart: %v", got)
	}
	main := withIfs("web", "net1/tap", "")
	n.Change(web, main)
	if got := published(t, n); len(got) != 0 {
		t.Errorf("without the annotation: %v", got)
	}
	n.Change(main, web)
	if _, err := n.Server.Delete(ctx, request("web", "c1")); err != nil {
		t.Fatal(err)
	}
	if got := published(t, n); len(got) != 0 {
		t.Errorf("after DEL: %v", got)
	}
}

func TestPoliciesHoldAtCustomInterfaces(t *testing.T) {
	web := withIfs("web", "net1/tap,bare/tap/stub", "")
	state := plugintest.State(web)
	state["policy"] = map[string]proto.Message{"p": &policy.Policy{Name: "p", Namespace: "default", PolicyType: policy.Policy_INGRESS}}
	n := plugintest.StartNode(t, plugintest.NodeOptions{State: state})
	add(t, n, "web", "c1")
	n.Barrier()
	subject, _ := n.Scheduler.Values()[models.Key(&filter.Subject{Name: "default/web"})].(*filter.Subject)
	if got := fmt.Sprintf("%v %s %v", subject.GetAddresses(), subject.GetInterface(), subject.GetMoreInterfaces()); got != "[10.1.1.2 10.1.1.3] vpp-tap-c1 [vpp-tap-net1-c1 vpp-tap-bare-c1]" {
		t.Errorf("the subject has %s", got)
	}
	for _, name := range []string{"vpp-tap-c1", "vpp-tap-net1-c1", "vpp-tap-bare-c1"} {
		g, _ := n.Scheduler.Values()[models.Key(&guard.SourceGuard{Interface: name})].(*guard.SourceGuard)
		if got := fmt.Sprint(g.GetIpAddresses()); got != "[10.1.1.2 10.1.1.3]" {
			t.Errorf("through %s the pod may send from %s", name, got)
		}
	}
}

func TestCustomInterfacesOfSimilarContainers(t *testing.T) {
	id := strings.Repeat("c", 50)
	n := plugintest.StartNode(t, plugintest.NodeOptions{State: plugintest.State(withIfs("a", "fifteen-letters/tap", ""), withIfs("b", "fifteen-letters/tap", ""))})
	add(t, n, "a", id+"1")
	n.Barrier()
	add(t, n, "b", id+"2")
	n.Barrier()
	if p := report(t, n, "b").CustomInterfaces[0].Problem; !strings.Contains(p, "the runtime must use IDs with different prefixes") {
		t.Errorf("the problem is %q", p)
	}
	if p := report(t, n, "a").CustomInterfaces[0].Problem; p != "" {
		t.Errorf("the problem of the first is %q", p)
	}
}

func TestPodAddressesOfAnotherNode(t *testing.T) {
	before := vppNode(2, "node2", "192.168.16.2/24")
	n := plugintest.StartNode(t, plugintest.NodeOptions{State: plugintest.State(before)})
	after := proto.CloneOf(before)
	after.PodAddresses = []*vppnode.PodAddresses{{PodNamespace: "default", PodName: "web", Interface: "net1", Addresses: []string{"10.1.2.3"}}}
	moved := proto.CloneOf(after)
	moved.IpAddresses = []string{"192.168.16.3/24"}
	n.Change(before, after)
	n.Change(after, moved)
	var got []string
	for _, event := range n.Loop.History(time.Time{}, time.Time{}) {
		for _, h := range event.Handlers {
			if h.Handler == "ipnet" && event.Name == "Node Update" {
				got = append(got, h.Change)
			}
		}
	}
	if want := []string{"", "reconnect node node2 (ID 2)"}; !slices.Equal(got, want) {
		t.Errorf("ipnet: %q, want %q", got, want)
	}
}
