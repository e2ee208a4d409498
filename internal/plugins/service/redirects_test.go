package service_test

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/service"
	"google.golang.org/protobuf/proto"
)

func (c *cluster) publish(id uint32, name, pod string, addrs ...string) *nodesync.NodeUpdate {
	before := c.nodes[name]
	if before == nil {
		before = &nodesync.Node{ID: id, Name: name}
	}
	after := *before
	after.PodAddresses = nil
	if len(addrs) > 0 {
		published := nodesync.PodAddresses{Namespace: "default", Name: pod, Interface: "net1"}
		for _, text := range addrs {
			published.Addresses = append(published.Addresses, netip.MustParseAddr(text))
		}
		after.PodAddresses = []nodesync.PodAddresses{published}
	}
	c.nodes = maps.Clone(c.nodes)
	c.nodes[name] = &after
	return &nodesync.NodeUpdate{NodeName: name, PrevState: before, NewState: &after}
}

func ofPods(s *endpointslice.EndpointSlice, pods ...string) *endpointslice.EndpointSlice {
	for i, name := range pods {
		s.Endpoints[i].TargetRef = &endpointslice.EndpointSlice_ObjectReference{Kind: "Pod", Namespace: "default", Name: name}
	}
	return s
}

// A redirect applies to the published IP version and to the pod's services only.
func TestEndpointsAtOtherInterfaces(t *testing.T) {
	c := newCluster()
	s := c.plugin(t, "services: vswitch")
	other := webService()
	other.Name, other.ClusterIp, other.ClusterIps, other.LbIngressIps, other.Port[0].NodePort = "other", "10.96.0.11", []string{"10.96.0.11"}, nil, 30081
	third := proto.CloneOf(other)
	third.Name, third.ClusterIp, third.ClusterIps, third.Port[0].NodePort = "third", "10.96.0.12", []string{"10.96.0.12"}, 30082
	otherSlice, thirdSlice := ofPods(webSlice("o", "10.1.1.3@node1"), "b"), ofPods(webSlice("t", "10.1.2.2@node2"), "c")
	otherSlice.Service, thirdSlice.Service = "other", "third"
	everything := state(webService(), other, third, otherSlice, thirdSlice,
		ofPods(webSlice("a", "10.1.1.2@node1", "10.1.2.2@node2"), "a", "c"), ofPods(webSlice("b", "fd10:0:0:1::2@node1"), "a"))
	configured := resync(t, s, everything)
	plain := plugintest.Render(configured)
	say := func(id uint32, node, pod string, addrs ...string) func() *nodesync.NodeUpdate {
		return func() *nodesync.NodeUpdate { return c.publish(id, node, pod, addrs...) }
	}
	for _, step := range []struct {
		what  string
		event func() *nodesync.NodeUpdate
		want  string
		keys  []string
		text  []string
	}{
		{"a pod of this node", say(1, "node1", "a", "10.1.1.9"), "update service 'default/web'", []string{"config/vpp/nat/v2/dnat44/default/web"},
			[]string{`{"client_ip":"10.1.1.2","local_ip":"10.1.1.9","local_port":8080,"probability":1}`, `"local_ip":"fd10:0:0:1::2"`}},
		{"the same, with IPv6", say(1, "node1", "a", "10.1.1.9", "fd10:0:0:1::9"), "update service 'default/web'", []string{"config/contiv/nat/v1/dnat66/default/web"},
			[]string{`"local_ip":"10.1.1.9"`, `"client_ip":"fd10:0:0:1::2","local_ip":"fd10:0:0:1::9"`}},
		{"a pod of another node, of two services", say(2, "node2", "c", "10.1.2.9"), "update service 'default/third', update service 'default/web'",
			[]string{"config/vpp/nat/v2/dnat44/default/third", "config/vpp/nat/v2/dnat44/default/web"}, []string{`{"elsewhere":true,"local_ip":"10.1.2.9"`}},
		{"no more", say(1, "node1", "a"), "update service 'default/web'", []string{"config/contiv/nat/v1/dnat66/default/web", "config/vpp/nat/v2/dnat44/default/web"}, nil},
		{"no more, there", say(2, "node2", "c"), "update service 'default/third', update service 'default/web'",
			[]string{"config/vpp/nat/v2/dnat44/default/third", "config/vpp/nat/v2/dnat44/default/web"}, nil},
		{"an address of another node", say(2, "node2", "c", "10.1.1.9"), "", nil, nil},
		{"a pod of another node", say(2, "node2", "a", "10.1.2.9"), "", nil, nil},
		{"an address of a service", say(1, "node1", "a", "10.96.0.11"), "", nil, nil},
		{"a pod that is no endpoint", say(1, "node1", "d", "10.1.1.9"), "", nil, nil},
	} {
		var txn plugintest.Txn
		var what string
		configured, txn, what = change(t, s, step.event(), configured)
		if keys := slices.Sorted(maps.Keys(txn)); what != step.want || !slices.Equal(keys, step.keys) {
			t.Errorf("%s: %q, changes %q, want %q, %q", step.what, what, keys, step.want, step.keys)
		}
		got := plugintest.Render(configured)
		for _, text := range step.text {
			if !strings.Contains(got, text) {
				t.Errorf("%s: no %s in\n%s", step.what, text, got)
			}
		}
		if step.text == nil && step.want == "" && got != plain {
			t.Errorf("%s: got\n%s\nwant\n%s", step.what, got, plain)
		}
		if again := plugintest.Render(resync(t, c.plugin(t, "services: vswitch"), everything)); again != got {
			t.Errorf("%s: after a restart\n%s\nbefore\n%s", step.what, again, got)
		}
	}
}

func TestEndpointsAtOtherInterfacesAreReported(t *testing.T) {
	c := newCluster()
	s := c.plugin(t, "services: vswitch")
	c.publish(1, "node1", "a", "10.1.1.9")
	c.publish(2, "node2", "b", "10.1.2.9")
	resync(t, s, state(webService(), ofPods(webSlice("a", "10.1.1.2@node1", "10.1.1.3@node1"), "a", "b")))
	for query, endpoints := range map[string]int{"service=default/web": 2, "endpoint=10.1.1.2": 1, "endpoint=10.1.1.9": 1} {
		answer := httptest.NewRecorder()
		s.Handler().ServeHTTP(answer, httptest.NewRequest("GET", service.URL+"?"+query, nil))
		var report service.Report
		if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil || len(report.Services) != 1 || len(report.Services[0].Details) != endpoints {
			t.Fatalf("%s: %v %s", query, err, answer.Body)
		}
		at := slices.IndexFunc(report.Services[0].Details, func(e service.EndpointReport) bool { return e.Address == "10.1.1.9:8080" })
		if e := report.Services[0].Details[at]; e.Interface != "net1" || e.Listed != "10.1.1.2" || e.Pod != "default/a" || !e.Inside {
			t.Errorf("%s: %+v", query, e)
		}
		const foreign = "node node2 says that pod default/b is reached at 10.1.2.9 (net1), which does not count: 10.1.1.3 is no address of that node's pods"
		if got := report.Services[0].Limits; !slices.Contains(got, foreign) {
			t.Errorf("%s: limits %q", query, got)
		}
	}
	client := netip.MustParseAddr("10.1.1.5")
	e := s.Explain(service.Connection{From: client, To: netip.MustParseAddr("10.96.0.10"), Protocol: "TCP", Port: 80})
	if len(e.Interfaces) != 1 || e.Interfaces[0].Pod.Name != "a" || !strings.Contains(strings.Join(e.Way, " "), "10.1.1.9:8080 (net1 of pod default/a)") {
		t.Errorf("%+v", e)
	}
}
