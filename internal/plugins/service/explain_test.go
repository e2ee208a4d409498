package service_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"google.golang.org/protobuf/proto"
)

func TestConnectionsAreExplained(t *testing.T) {
	const (
		pod, far, outside = "10.1.1.9", "10.1.2.9", "198.51.100.7"
		cluster, node, lb = "10.96.0.10", "192.168.16.1", "203.0.113.1"
	)
	c := newCluster()
	s := c.plugin(t, "services: vswitch")
	empty := &k8s.Service{Name: "empty", Namespace: "default", ClusterIp: "10.96.0.11", ClusterIps: []string{"10.96.0.11"}, Port: []*k8s.Service_ServicePort{{Protocol: "UDP", Port: 53}}}
	resync(t, s, state(webService(), webSlice("a", "10.1.2.2@node2"), empty))
	for name, test := range map[string]struct {
		from, to   string
		port       uint16
		wrong, way string
	}{
		"cluster IP":              {pod, cluster, 80, "", "10.96.0.10:80/TCP (ClusterIP of service default/web): connections go to 10.1.2.2:8080"},
		"port that is none":       {pod, cluster, 81, "service default/web has no port 81/TCP, but 80/TCP: clients are refused", ""},
		"ping":                    {pod, cluster, 0, "it answers no pings; ask for a port, such as 80/TCP", ""},
		"an unused cluster IP":    {pod, "10.96.0.99", 80, "10.96.0.99 is a cluster IP that no service has: clients are refused", ""},
		"no endpoint":             {pod, "10.96.0.11", 53, "10.96.0.11:53/UDP (ClusterIP of service default/empty) has no endpoint: clients are refused; it has neither a selector nor an EndpointSlice", ""},
		"none on this node":       {outside, node, 30080, "(NodePort of service default/web) has no endpoint on this node (externalTrafficPolicy: Local): packets of clients outside are dropped; none is on this node (externalTrafficPolicy: Local), but on node2", ""},
		"a pod of another node":   {far, node, 30080, "has no endpoint on this node", ""},
		"inside, at a node port":  {pod, node, 30080, "", "connections go to 10.1.2.2:8080"},
		"the node itself":         {node, node, 30080, "", "connections go to 10.1.2.2:8080"},
		"in source ranges":        {outside, lb, 80, "(LoadBalancer of service default/web) has no endpoint on this node", ""},
		"not in source ranges":    {"192.0.2.1", lb, 80, "192.0.2.1 is in none of loadBalancerSourceRanges, so its packets are dropped", ""},
		"another port of a node":  {pod, node, 22, "", ""},
		"an unused address":       {pod, outside, 80, "", ""},
		"outside, by its address": {outside, cluster, 80, "", "10.96.0.10:80/TCP itself also forwards clients outside to endpoints, if their routes to 10.96.0.10 lead to this node"},
		"outside, by name":        {outside, cluster, 80, "", "203.0.113.1:80/TCP (LoadBalancer of service default/web) has no endpoint on this node"},
		"inside only, by name":    {outside, "10.96.0.11", 53, "service default/empty is for clients inside of the cluster: it has no node port and no external address", ""},
		"IPv6, without endpoints": {"fd10:0:0:1::9", "fd96::10", 80, "[fd96::10]:80/TCP (ClusterIP of service default/web) has no endpoint", ""},
	} {
		from := netip.MustParseAddr(test.from)
		protocol := map[bool]processor.Protocol{true: processor.UDP, false: processor.TCP}[test.port == 53]
		if test.port == 0 {
			protocol = ""
		}
		e := s.Explain(service.Connection{From: from, To: netip.MustParseAddr(test.to), Protocol: protocol, Port: test.port})
		for what, x := range map[string]struct {
			got  []string
			want string
		}{"wrong": {e.Wrong, test.wrong}, "way": {e.Way, test.way}} {
			if (len(x.got) > 0) != (x.want != "") || !strings.Contains(fmt.Sprint(x.got), x.want) {
				t.Errorf("%s: %s %q, want %q", name, what, x.got, x.want)
			}
		}
	}
	// With any service proxy, a service without endpoints refuses clients.
	c.others = "nftables table kube-proxy"
	resync(t, s, state(webService(), webSlice("a", "10.1.2.2@node2"), empty))
	var suspects []string
	explain := func(to string, protocol processor.Protocol, port uint16) (wrong, way string) {
		e := s.Explain(service.Connection{From: netip.MustParseAddr(pod), To: netip.MustParseAddr(to), Protocol: protocol, Port: port})
		suspects = e.Suspects
		return strings.Join(e.Wrong, "; "), strings.Join(e.Way, "; ")
	}
	const left = "services on this node are left to another proxy: found nftables table kube-proxy"
	if wrong, way := explain(cluster, processor.TCP, 80); wrong != "" || !strings.Contains(way, left) || !strings.Contains(way, "connections should go to 10.1.2.2:8080") {
		t.Errorf("left to another proxy: %q, %q", wrong, way)
	}
	if len(suspects) != 1 || !strings.Contains(suspects[0], "left to kube-proxy since") {
		t.Errorf("if nothing answers, it is not said why: %q", suspects)
	}
	if explain("192.168.16.1", processor.TCP, 30080); len(suspects) != 1 {
		t.Errorf("at a node port: %q", suspects)
	}
	if wrong, way := explain("10.96.0.11", processor.UDP, 53); !strings.Contains(wrong, "has no endpoint: clients are refused") || !strings.Contains(way, left) {
		t.Errorf("left to another proxy, without endpoints: %q, %q", wrong, way)
	}
	if wrong, way := explain(cluster, processor.TCP, 8080); wrong != "service default/web has no port 8080/TCP, but 80/TCP" || !strings.Contains(way, left) || len(suspects) > 0 {
		t.Errorf("left to another proxy, a missing port: %q, %q, %q", wrong, way, suspects)
	}
	if wrong, _ := explain(cluster, "", 0); wrong != "" {
		t.Errorf("another proxy may answer pings (IPVS): %q", wrong)
	}
	if wrong, _ := explain("10.96.0.99", processor.TCP, 80); wrong != "" {
		t.Errorf("another proxy may have an address without service: %q", wrong)
	}
	later := webSlice("b", "10.1.2.3@node2")
	if _, txn, what := change(t, s, &controller.KubeStateChange{Key: kubestate.EndpointSliceKey("b", "default"), Resource: kubestate.EndpointSlice, NewValue: later}, nil); len(txn) > 0 || what != "" {
		t.Errorf("values for services of another proxy were requested: %v, %q", txn, what)
	}
	if _, way := explain(cluster, processor.TCP, 80); !strings.Contains(way, "10.1.2.3:8080") {
		t.Errorf("an endpoint that came later is missing: %q", way)
	}
}

// A service that is refused for its size is named, and not taken for an unused address.
func TestTooLargeServicesAreExplained(t *testing.T) {
	svc := &k8s.Service{Name: "wide", Namespace: "default", ClusterIp: "10.96.0.12", ClusterIps: []string{"10.96.0.12"}}
	for i := range 64 {
		svc.ExternalIps = append(svc.ExternalIps, fmt.Sprintf("198.18.0.%d", i))
		svc.Port = append(svc.Port, &k8s.Service_ServicePort{Name: fmt.Sprint("p", i), Protocol: "TCP", Port: int32(i + 1)})
	}
	s := newCluster().plugin(t, "services: vswitch")
	resync(t, s, state(svc))
	const want = "service default/wide is not translated: its addresses and ports come to 4160 frontends, and a service may have 4096"
	for to, translated := range map[string]bool{"10.96.0.12": true, "198.18.0.9": false} {
		e := s.Explain(service.Connection{From: netip.MustParseAddr("10.1.1.9"), To: netip.MustParseAddr(to), Protocol: processor.TCP, Port: 1})
		if len(e.Wrong) != 1 || !strings.HasPrefix(e.Wrong[0], want) || e.Translated != translated {
			t.Errorf("%s: %q, translated %v", to, e.Wrong, e.Translated)
		}
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, service.URL+"?service=default/wide", nil))
	if !strings.Contains(w.Body.String(), want) {
		t.Errorf("report: %s", w.Body)
	}
}

func TestRedirectsOfTheHostAreExplained(t *testing.T) {
	const outside, pod, own, host = "198.51.100.7", "10.1.1.9", "10.9.9.9", "10.9.9.9"
	local := func(svc *k8s.Service) { svc.ExternalTrafficPolicy = "Local" }
	here, there := []proto.Message{webSlice("a", "10.1.1.2@node1")}, []proto.Message{webSlice("a", "10.1.2.2@node2")}
	const redirect = "10.9.9.9:30080/TCP is at an address of the host: its kernel sends connections to 172.30.1.1:30080, where VPP sees %s as the client (`contivctl explain config/contiv/nat/v1/host-redirect/default/web`)"
	for name, test := range map[string]struct {
		settings, from string
		port           uint16
		svc            *k8s.Service
		slices         []proto.Message
		change         func(*cluster)
		wrong          string
		way            []string
		seen           string
	}{
		"from outside": {from: outside, svc: nodePortService(), slices: here, seen: "172.30.1.3",
			way: []string{fmt.Sprintf(redirect, "172.30.1.3"), "172.30.1.1:30080/TCP (NodePort of service default/web): connections for clients outside of this node go to 10.1.1.2:8080"}},
		"from a pod":                {from: pod, svc: nodePortService(), slices: there, seen: "172.30.1.3", way: []string{fmt.Sprintf(redirect, "172.30.1.3"), "go to 10.1.2.2:8080"}},
		"from the host":             {from: own, svc: nodePortService(), slices: here, seen: "172.30.1.2", way: []string{fmt.Sprintf(redirect, "172.30.1.2"), "go to 10.1.1.2:8080"}},
		"policy Local":              {from: outside, svc: nodePortService(local), slices: here, seen: "172.30.1.3", way: []string{fmt.Sprintf(redirect, "172.30.1.3")}},
		"no endpoint":               {from: outside, svc: nodePortService(), wrong: "10.9.9.9:30080/TCP (NodePort of service default/web, at an address of the host) has no endpoint, so that it is left to the host"},
		"no endpoint here":          {from: outside, svc: nodePortService(local), slices: there, wrong: "has no endpoint on this node (externalTrafficPolicy: Local), so that it is left to the host"},
		"a port of the host's own":  {from: outside, port: 22, svc: nodePortService(), slices: here, way: []string{"10.9.9.9:22/TCP is at an address of the host, and the node port of no service"}},
		"kube-proxy on the host":    {from: outside, svc: nodePortService(), slices: here, change: func(c *cluster) { c.others = "table ip kube-proxy" }, way: []string{"is left to another proxy on the host: found table ip kube-proxy"}},
		"not in nodePortAddresses":  {settings: "nodePortAddresses: [192.168.16.0/24]\n", from: outside, svc: nodePortService(), slices: here, wrong: "nodePortAddresses in service.conf leaves the address out"},
		"an address that VPP has":   {from: outside, svc: nodePortService(), slices: here, change: func(c *cluster) { c.nodes["node1"].MgmtIPs = nil }},
		"the value is not in force": {from: outside, svc: nodePortService(), slices: here, change: func(c *cluster) { c.redirectError = "no room" }, seen: "172.30.1.3", wrong: "10.9.9.9:30080/TCP is not redirected as it should be: config/contiv/nat/v1/host-redirect/default/web is FAILED: no room", way: []string{"go to 10.1.1.2:8080"}},
	} {
		c := newCluster()
		c.nodes["node1"].MgmtIPs = append(c.nodes["node1"].MgmtIPs, netip.MustParseAddr(host))
		if test.change != nil {
			test.change(c)
		}
		s, err := c.onVPP(t, "services: vswitch\n"+test.settings)
		if err != nil {
			t.Fatal(err)
		}
		resync(t, s, state(append(slices.Clone(test.slices), test.svc)...))
		e := s.Explain(service.Connection{From: netip.MustParseAddr(test.from), To: netip.MustParseAddr(host), Protocol: processor.TCP, Port: cmp.Or(test.port, 30080)})
		if wrong := strings.Join(e.Wrong, "; "); (wrong != "") != (test.wrong != "") || !strings.Contains(wrong, test.wrong) {
			t.Errorf("%s: wrong is %q, want %q", name, wrong, test.wrong)
		}
		way := strings.Join(e.Way, "; ")
		for _, want := range test.way {
			if !strings.Contains(way, want) {
				t.Errorf("%s: %q is not in %q", name, want, way)
			}
		}
		if (way != "") != (len(test.way) > 0) {
			t.Errorf("%s: the way is %q", name, way)
		}
		if test.seen == "" {
			if e.Translated || len(e.Endpoints) > 0 {
				t.Errorf("%s: it leads to %v", name, e.Endpoints)
			}
		} else if !e.Translated || e.Seen != netip.MustParseAddr(test.seen) || len(e.Hidden) != 1 || !slices.Equal(e.Hidden, e.Endpoints) {
			t.Errorf("%s: %v of %v see %v, want %v", name, e.Hidden, e.Endpoints, e.Seen, test.seen)
		}
	}
}

// External clients of the host's addresses do not reach the interconnect directly. Each entrance
// reports the address that endpoints see.
func TestEntrancesAtAddressesOfTheHost(t *testing.T) {
	c := newCluster()
	c.nodes["node1"].MgmtIPs = append(c.nodes["node1"].MgmtIPs, netip.MustParseAddr("10.9.9.9"))
	s, err := c.onVPP(t, "services: vswitch")
	if err != nil {
		t.Fatal(err)
	}
	resync(t, s, state(nodePortService(), webSlice("a", "10.1.1.2@node1")))
	e := s.Explain(service.Connection{From: netip.MustParseAddr("198.51.100.7"), To: netip.MustParseAddr("10.96.0.10"), Protocol: processor.TCP, Port: 80})
	slices.SortFunc(e.Entrances, netip.AddrPort.Compare)
	if got := fmt.Sprint(e.Entrances); got != "[10.9.9.9:30080 192.168.16.1:30080]" {
		t.Errorf("the entrances are %s", got)
	}
	endpoint := netip.MustParseAddrPort("10.1.1.2:8080")
	if !slices.Equal(e.Hidden, []netip.AddrPort{endpoint}) || e.Seen.IsValid() || !slices.Equal(e.Sightings[netip.MustParseAddr("172.30.1.3")], e.Hidden) || len(e.Sightings) != 1 {
		t.Errorf("%v see an address of the vswitch, and %v addresses of the host", e.Hidden, e.Sightings)
	}
	if way := fmt.Sprint(e.Way); !strings.Contains(way, "where VPP sees 172.30.1.3 as the client") {
		t.Errorf("the way is %s", way)
	}
	var nodePorts []string
	for _, f := range reportOf(t, s, "?service=default/web", 200).Services[0].Frontends {
		if f.Kind == processor.NodePort {
			nodePorts = append(nodePorts, fmt.Sprintf("%s %d/%d", f.Address, f.Inside, f.Outside))
		}
	}
	if want := []string{"10.9.9.9:30080 1/1", "172.30.1.1:30080 1/1", "192.168.16.1:30080 1/1"}; !slices.Equal(slices.DeleteFunc(nodePorts, func(text string) bool { return text[0] == '[' }), want) {
		t.Errorf("the report has node ports at %q, want %q", nodePorts, want)
	}
}

func TestEntrancesOfSomebodyElse(t *testing.T) {
	c := newCluster()
	c.nodes["node1"].MgmtIPs = append(c.nodes["node1"].MgmtIPs, netip.MustParseAddr("10.9.9.9"))
	c.others = "nftables table kube-proxy"
	s, err := c.onVPP(t, "")
	if err != nil {
		t.Fatal(err)
	}
	resync(t, s, state(nodePortService(), webSlice("a", "10.1.1.2@node1")))
	e := s.Explain(service.Connection{From: netip.MustParseAddr("198.51.100.7"), To: netip.MustParseAddr("10.96.0.10"), Protocol: processor.TCP, Port: 80})
	if slices.SortFunc(e.Entrances, netip.AddrPort.Compare); fmt.Sprint(e.Entrances) != "[10.9.9.9:30080 192.168.16.1:30080]" || len(e.Wrong) > 0 {
		t.Errorf("the entrances are %v, wrong is %q", e.Entrances, e.Wrong)
	}
}

func TestClosedNodePorts(t *testing.T) {
	c := newCluster()
	for setting, none := range map[string]bool{"[10.0.0.0/8]": true, "['fd00::/64']": false, "[]": false} {
		s := c.plugin(t, "nodePortAddresses: "+setting)
		resync(t, s, state(webService(), webSlice("a", "10.1.1.2@node1")))
		e := s.Explain(service.Connection{From: netip.MustParseAddr("10.1.1.9"), To: netip.MustParseAddr("192.168.16.1"), Protocol: processor.TCP, Port: 30080})
		closed := strings.Contains(fmt.Sprint(e.Wrong), "30080/TCP is a node port of service default/web, and not open at 192.168.16.1: nodePortAddresses in service.conf has only")
		if closed != (setting != "[]") || closed == (len(e.Endpoints) > 0) {
			t.Errorf("%s: %+v", setting, e)
		}
		const text = "node ports are open, and healthCheckNodePort is answered, on no address of this node"
		if got := strings.Contains(fmt.Sprint(s.Notes()), text); got != none {
			t.Errorf("%s: notes %q", setting, s.Notes())
		}
		if got := strings.Contains(fmt.Sprint(reportOf(t, s, "?service=default/web", 200).Services[0].Limits), text); got != none {
			t.Errorf("%s: missing or wrong in the report of the service", setting)
		}
	}
}

func TestServicesLeftToKubeProxyAreSuspects(t *testing.T) {
	c := newCluster()
	s := c.pluginWith(t, "services: kube-proxy", &service.HostPorts{NodeName: "node1", Nodes: c, Addresses: c, Pods: noPods{}})
	resync(t, s, state(webService()))
	for others, want := range map[string]string{"": "nothing of it is on this node: start kube-proxy, or set services: auto", "device kube-ipvs0": "despite device kube-ipvs0: check that it runs"} {
		c.others = others
		e := s.Explain(service.Connection{From: netip.MustParseAddr("10.1.1.9"), To: netip.MustParseAddr("10.96.0.10"), Protocol: processor.TCP, Port: 80})
		if !e.Translated || len(e.Wrong) > 0 || len(e.Suspects) != 1 || !strings.Contains(e.Suspects[0], want) {
			t.Errorf("%q: %+v", others, e)
		}
	}
}

type noPods struct{}

func (noPods) LocalPods() podmanager.LocalPods                        { return nil }
func (noPods) LocalPod(podmanager.PodID) (*podmanager.LocalPod, bool) { return nil, false }

func TestClientsAreHidden(t *testing.T) {
	c := newCluster()
	s := c.plugin(t, "services: vswitch")
	for _, policy := range []string{"Cluster", "Local"} {
		web := webService()
		web.ExternalTrafficPolicy = policy
		resync(t, s, state(web, webSlice("a", "10.1.1.2@node1")))
		for from, hidden := range map[string]bool{"198.51.100.7": policy == "Cluster", "10.1.1.9": false} {
			e := s.Explain(service.Connection{From: netip.MustParseAddr(from), To: netip.MustParseAddr("192.168.16.1"), Protocol: processor.TCP, Port: 30080})
			if len(e.Endpoints) != 1 || len(e.Hidden) != map[bool]int{true: 1}[hidden] {
				t.Errorf("%s from %s: of %v, %v do not see the client", policy, from, e.Endpoints, e.Hidden)
			}
		}
	}
}

// Nodes may masquerade packets of their pods to other nodes.
func TestPodsOfOtherNodesAtNodePorts(t *testing.T) {
	const pod, node2, own = "10.1.2.9", "192.168.16.2", "192.168.16.1"
	for name, test := range map[string]struct {
		node     fake
		from, to string
		port     uint16
		policy   string
		client   string
		hidden   int
	}{
		"policy Local":                      {fake{nat: true, ip: own + "/24", bvi: "vxlanBVI"}, pod, own, 30080, "Local", node2, 0},
		"policy Cluster":                    {fake{nat: true, ip: own + "/24", bvi: "vxlanBVI"}, pod, own, 30080, "Cluster", node2, 1},
		"at a cluster IP":                   {fake{nat: true, ip: own + "/24", bvi: "vxlanBVI"}, pod, "10.96.0.10", 80, "Cluster", "", 0},
		"a pod of this node":                {fake{nat: true, ip: own + "/24", bvi: "vxlanBVI"}, "10.1.1.9", own, 30080, "Local", "", 0},
		"the other node itself":             {fake{nat: true, ip: own + "/24", bvi: "vxlanBVI"}, node2, own, 30080, "Local", "", 0},
		"natExternalTraffic is false":       {fake{ip: own + "/24", bvi: "vxlanBVI"}, pod, own, 30080, "Local", "", 0},
		"without overlay, it has no effect": {fake{nat: true, ip: own + "/24"}, pod, own, 30080, "Local", "", 0},
	} {
		c := newCluster()
		c.nodes["node2"] = &nodesync.Node{ID: 2, Name: "node2", VPPIPs: []netip.Prefix{netip.MustParsePrefix(node2 + "/24")}}
		cfg, err := config.Load([]byte("services: vswitch\nhealthzBindAddress: ''"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := service.New(service.Capabilities{HostStackShared: true, ClientScopes: true}, test.node, test.node, service.Roles{Proxy: c.proxy(cfg)}, plugintest.Logger())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		web := webService()
		web.ExternalTrafficPolicy = test.policy
		resync(t, s, state(web, webSlice("a", "10.1.1.2@node1")))
		e := s.Explain(service.Connection{From: netip.MustParseAddr(test.from), To: netip.MustParseAddr(test.to), Protocol: processor.TCP, Port: test.port})
		client, said := "", strings.Contains(fmt.Sprint(e.Way), "packets from "+pod+" come to this node from "+node2)
		if e.Client.IsValid() {
			client = e.Client.String()
		}
		if client != test.client || said != (test.client != "") || len(e.Endpoints) != 1 || test.client != "" && len(e.Hidden) != test.hidden {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
