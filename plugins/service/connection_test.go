package service_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/plugins/service"
	"github.com/contiv/contiv/plugins/service/processor"
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
		"nobody's cluster IP":     {pod, "10.96.0.99", 80, "10.96.0.99 is a cluster IP that no service has: clients are refused", ""},
		"no endpoint":             {pod, "10.96.0.11", 53, "10.96.0.11:53/UDP (ClusterIP of service default/empty) has no endpoint: clients are refused; `contivctl services default/empty` says why", ""},
		"none on this node":       {outside, node, 30080, "(NodePort of service default/web) has no endpoint on this node (externalTrafficPolicy: Local): packets of clients outside are dropped", ""},
		"a pod of another node":   {far, node, 30080, "has no endpoint on this node", ""},
		"inside, at a node port":  {pod, node, 30080, "", "connections go to 10.1.2.2:8080"},
		"the node itself":         {node, node, 30080, "", "connections go to 10.1.2.2:8080"},
		"in source ranges":        {outside, lb, 80, "(LoadBalancer of service default/web) has no endpoint on this node", ""},
		"not in source ranges":    {"192.0.2.1", lb, 80, "192.0.2.1 is in none of loadBalancerSourceRanges, so its packets are dropped", ""},
		"another port of a node":  {pod, node, 22, "", ""},
		"an address of nobody":    {pod, outside, 80, "", ""},
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
	// Whoever translates services, one without endpoints refuses clients.
	c.others = "nftables table kube-proxy"
	resync(t, s, state(webService(), webSlice("a", "10.1.2.2@node2"), empty))
	explain := func(to string, protocol processor.Protocol, port uint16) (wrong, way string) {
		e := s.Explain(service.Connection{From: netip.MustParseAddr(pod), To: netip.MustParseAddr(to), Protocol: protocol, Port: port})
		return strings.Join(e.Wrong, "; "), strings.Join(e.Way, "; ")
	}
	const left = "services on this node are left to somebody else: found nftables table kube-proxy"
	if wrong, way := explain(cluster, processor.TCP, 80); wrong != "" || !strings.Contains(way, left) || !strings.Contains(way, "connections go to 10.1.2.2:8080") {
		t.Errorf("left to somebody else: %q, %q", wrong, way)
	}
	if wrong, way := explain("10.96.0.11", processor.UDP, 53); !strings.Contains(wrong, "has no endpoint: clients are refused") || !strings.Contains(way, left) {
		t.Errorf("left to somebody else, without endpoints: %q, %q", wrong, way)
	}
	if wrong, _ := explain("10.96.0.99", processor.TCP, 80); wrong != "" {
		t.Errorf("somebody else may have an address that no service has: %q", wrong)
	}
	later := webSlice("b", "10.1.2.3@node2")
	if _, txn, what := change(t, s, &controller.KubeStateChange{Key: dbresources.EndpointSliceKey("b", "default"), Resource: dbresources.EndpointSlice, NewValue: later}, nil); len(txn) > 0 || what != "" {
		t.Errorf("what somebody else translates was requested: %v, %q", txn, what)
	}
	if _, way := explain(cluster, processor.TCP, 80); !strings.Contains(way, "10.1.2.3:8080") {
		t.Errorf("an endpoint that came later is missing: %q", way)
	}
}

// Endpoints do not see clients outside, but for the policy Local.
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
