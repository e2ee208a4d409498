package processor_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

var (
	node1 = processor.Node{Name: "node1", NodePorts: []netip.Addr{netip.MustParseAddr("192.168.16.1")}}
	web   = processor.ID{Namespace: "default", Name: "web"}
)

func balancer() *service.Service {
	return &service.Service{
		Name: "web", Namespace: "default", ServiceType: "LoadBalancer", ClusterIp: "10.96.0.10", LbIngressIps: []string{"203.0.113.1"},
		Port: []*service.Service_ServicePort{{Protocol: "TCP", Port: 80, NodePort: 30080}},
	}
}

func slice(name string, endpoints ...*endpointslice.EndpointSlice_Endpoint) *endpointslice.EndpointSlice {
	return &endpointslice.EndpointSlice{
		Name: name, Namespace: "default", Service: "web", AddressType: endpointslice.EndpointSlice_IPv4,
		Ports: []*endpointslice.EndpointSlice_Port{{Protocol: "TCP", Port: 8080}}, Endpoints: endpoints,
	}
}

func ready(addr, node string) *endpointslice.EndpointSlice_Endpoint {
	return &endpointslice.EndpointSlice_Endpoint{Addresses: []string{addr}, NodeName: node, Ready: true, Serving: true}
}

func TestSourceRangesAreOfLoadBalancersOnly(t *testing.T) {
	for text, test := range map[string]struct {
		ranges     []string
		want       string
		restricted bool
	}{
		"none":                  {nil, "[]", false},
		"two, one twice":        {[]string{"10.0.0.0/8", " 192.0.2.7/24 ", "10.0.0.0/8"}, "[10.0.0.0/8 192.0.2.0/24]", true},
		"nothing to make sense": {[]string{"everybody"}, "[]", true},
		"IPv4 in IPv6":          {[]string{"::ffff:192.0.2.7/120", "::ffff:0.0.0.0/95"}, "[192.0.2.0/24 ::fffe:0:0/95]", true},
	} {
		svc := balancer()
		svc.LoadbalancerSourceRanges = test.ranges
		for _, f := range processor.Compute(svc, nil, nil, node1, false).Frontends {
			want, restricted := test.want, test.restricted
			if f.Kind != processor.LoadBalancer {
				want, restricted = "[]", false
			}
			if got := fmt.Sprint(f.Sources); got != want || f.Restricted != restricted {
				t.Errorf("%s: %s: %s, restricted %t; want %s, %t", text, f.Kind, got, f.Restricted, want, restricted)
			}
		}
	}
}

// A load balancer IP that is also an external IP keeps its source ranges.
func TestSourceRangesOfExternalIPs(t *testing.T) {
	svc := balancer()
	svc.ExternalIps, svc.LoadbalancerSourceRanges = []string{"203.0.113.1", "203.0.113.2"}, []string{"10.0.0.0/8"}
	restricted := map[string]bool{}
	for _, f := range processor.Compute(svc, nil, nil, node1, false).Frontends {
		if f.Restricted {
			restricted[f.Addr.String()] = true
		}
	}
	if want := map[string]bool{"203.0.113.1:80": true}; !maps.Equal(restricted, want) {
		t.Errorf("restricted are %v, want %v", restricted, want)
	}
}

// The API server would reject this input, but manifests and manual slices may contain it.
func TestNonsenseIsLeftOut(t *testing.T) {
	svc := balancer()
	svc.ExternalIps = []string{"", "web.example.org", "127.0.0.1", "224.0.0.1", "0.0.0.0", "169.254.1.1", "fe80::1%eth0"}
	svc.Port = append(svc.Port, &service.Service_ServicePort{Name: "a", Protocol: "ICMP", Port: 7}, &service.Service_ServicePort{Name: "b", Protocol: "TCP", Port: 70000})
	s := slice("s", ready("10.1.1.2", "node1"), ready("127.0.0.1", "node1"), ready("fd10::1", "node1"), ready("web", "node1"), &endpointslice.EndpointSlice_Endpoint{Ready: true})
	s.Ports = append(s.Ports, &endpointslice.EndpointSlice_Port{Protocol: "TCP"}, &endpointslice.EndpointSlice_Port{Protocol: "UDP", Port: 1})
	got := processor.Compute(svc, []*endpointslice.EndpointSlice{s}, nil, node1, false)
	want := "10.96.0.10:80 192.168.16.1:30080 203.0.113.1:80"
	text := ""
	for _, f := range got.Frontends {
		text += " " + f.Addr.String()
		if fmt.Sprint(f.Inside) != "[{10.1.1.2:8080 true  invalid IP}]" {
			t.Errorf("%s: endpoints %v", f.Addr, f.Inside)
		}
	}
	if text != " "+want {
		t.Errorf("frontends%s, want %s", text, want)
	}
}

// The cluster IPs determine the IP versions of a service, including its node ports.
func TestServicesOfOneIPVersion(t *testing.T) {
	node := node1
	node.NodePorts = append(slices.Clone(node.NodePorts), netip.MustParseAddr("fd16::1"))
	svc := balancer()
	svc.ExternalIps, svc.LbIngressIps = []string{"203.0.113.2", "2001:db8::2"}, []string{"203.0.113.1", "2001:db8::1"}
	for _, ip := range []string{"10.96.0.10", "fd96::10"} {
		svc.ClusterIp, svc.ClusterIps = ip, []string{ip}
		for _, ipv6 := range []bool{false, true} {
			got := processor.Compute(svc, nil, nil, node, ipv6)
			if has := got != nil; has != (strings.Contains(ip, ":") == ipv6) || has && len(got.Frontends) != 4 {
				t.Errorf("cluster IP %s, IPv6 %v: %v", ip, ipv6, got)
			}
		}
	}
}

func TestWhatAChangeOfTheNodeConcerns(t *testing.T) {
	p := processor.New()
	p.SetNode(node1)
	p.SetService(balancer())
	p.SetService(&service.Service{Name: "plain", Namespace: "default", ClusterIp: "10.96.0.11", Port: []*service.Service_ServicePort{{Port: 80}}})
	moved, elsewhere := node1, node1
	moved.NodePorts = []netip.Addr{netip.MustParseAddr("192.168.16.9")}
	elsewhere.Zone = "b"
	for name, test := range map[string]struct {
		node processor.Node
		want int
	}{"nothing": {node1, 0}, "addresses": {moved, 1}, "zone": {elsewhere, 2}} {
		p.SetNode(node1)
		if got := p.SetNode(test.node); len(got) != test.want {
			t.Errorf("%s: %v change", name, got)
		}
	}
}

func TestSliceThatChangesItsService(t *testing.T) {
	p := processor.New()
	p.SetNode(node1)
	p.SetService(balancer())
	prev, next := slice("s", ready("10.1.1.2", "node1")), slice("s", ready("10.1.1.2", "node1"))
	next.Service = "other"
	p.SetSlice(nil, prev)
	changed := p.SetSlice(prev, next)
	if !slices.Equal(changed, []processor.ID{web, {Namespace: "default", Name: "other"}}) {
		t.Errorf("%v change", changed)
	}
	if got := p.Service(web, false).Frontends[0].Inside; len(got) != 0 {
		t.Errorf("the service still has %v", got)
	}
}

func TestHealthChecks(t *testing.T) {
	p := processor.New()
	p.SetNode(node1)
	svc := balancer()
	svc.ExternalTrafficPolicy, svc.HealthCheckNodePort = "Local", 32000
	ending := &endpointslice.EndpointSlice_Endpoint{Addresses: []string{"10.1.1.4"}, NodeName: "node1", Serving: true, Terminating: true}
	p.SetService(svc)
	p.SetSlice(nil, slice("a", ready("10.1.1.2", "node1"), ready("10.1.2.2", "node2"), ending))
	p.SetSlice(nil, slice("b", ready("10.1.1.2", "node1"), ready("10.1.1.3", "node1")))
	if got := fmt.Sprint(p.HealthChecks()); got != "[{default/web 32000 2}]" {
		t.Errorf("health checks %s", got)
	}
	// A dual-stack pod is one endpoint. Slices of an IP version that the service lacks are ignored.
	six := slice("c", ready("fd10::2", "node1"), ready("fd10::3", "node1"), ready("fd10::4", "node1"))
	six.AddressType = endpointslice.EndpointSlice_IPv6
	p.SetSlice(nil, six)
	for want, ips := range map[string][]string{"2": {"10.96.0.10"}, "3": {"10.96.0.10", "fd96::10"}} {
		svc.ClusterIps = ips
		if got := fmt.Sprint(p.HealthChecks()); got != "[{default/web 32000 "+want+"}]" {
			t.Errorf("health checks %s of cluster IPs %v, want %s endpoints", got, ips, want)
		}
	}
	svc.ExternalTrafficPolicy = "Cluster"
	if got := p.HealthChecks(); len(got) != 0 {
		t.Errorf("health checks %v with the policy Cluster", got)
	}
}

// Why is checked by endpoint address.
func TestExplain(t *testing.T) {
	ending := &endpointslice.EndpointSlice_Endpoint{Addresses: []string{"10.1.1.9"}, NodeName: "node1", Zone: "a", Serving: true, Terminating: true}
	starting := &endpointslice.EndpointSlice_Endpoint{Addresses: []string{"10.1.1.8"}, NodeName: "node1"}
	hinted := func(e *endpointslice.EndpointSlice_Endpoint, zone string) *endpointslice.EndpointSlice_Endpoint {
		e.ForZones = []string{zone}
		return e
	}
	for name, test := range map[string]struct {
		internal, external string
		endpoints          []*endpointslice.EndpointSlice_Endpoint
		want               map[string]string
	}{
		"all are used": {"Cluster", "Cluster", []*endpointslice.EndpointSlice_Endpoint{ready("10.1.1.2", "node1"), ready("10.1.2.2", "node2")},
			map[string]string{"10.1.1.2": "", "10.1.2.2": ""}},
		"conditions": {"Cluster", "Cluster", []*endpointslice.EndpointSlice_Endpoint{ready("10.1.2.2", "node2"), ending, starting},
			map[string]string{"10.1.2.2": "", "10.1.1.9": "terminating, and others are ready", "10.1.1.8": "not ready"}},
		"last resort": {"Cluster", "Cluster", []*endpointslice.EndpointSlice_Endpoint{ending, starting},
			map[string]string{"10.1.1.9": "", "10.1.1.8": "not ready"}},
		"hints": {"Cluster", "Cluster", []*endpointslice.EndpointSlice_Endpoint{hinted(ready("10.1.1.2", "node1"), "b"), hinted(ready("10.1.2.2", "node2"), "a")},
			map[string]string{"10.1.1.2": "hints: for zone b", "10.1.2.2": ""}},
		"local for clients outside": {"Cluster", "Local", []*endpointslice.EndpointSlice_Endpoint{ready("10.1.1.2", "node1"), ready("10.1.2.2", "node2")},
			map[string]string{"10.1.1.2": "", "10.1.2.2": ""}}, // external clients of the cluster IP reach it
		"local for all": {"Local", "Local", []*endpointslice.EndpointSlice_Endpoint{ready("10.1.1.2", "node1"), ready("10.1.2.2", "node2")},
			map[string]string{"10.1.1.2": "", "10.1.2.2": "not on this node: not for clients outside (externalTrafficPolicy: Local)"}},
		"local for clients outside, the last one": {"Cluster", "Local", []*endpointslice.EndpointSlice_Endpoint{ready("10.1.2.2", "node2"), ending},
			map[string]string{"10.1.1.9": "terminating, and others are ready; on this node, it is the only one for clients outside (externalTrafficPolicy: Local)",
				"10.1.2.2": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			p := processor.New()
			zoned := node1
			zoned.Zone = "a"
			p.SetNode(zoned)
			svc := balancer()
			svc.InternalTrafficPolicy, svc.ExternalTrafficPolicy = test.internal, test.external
			p.SetService(svc)
			p.SetSlice(nil, slice("a", test.endpoints...))
			got := map[string]string{}
			for _, e := range p.Explainer().Endpoints(web, false) {
				got[e.Addr.Addr().String()] = e.Why
				if used := e.Inside || e.Outside; used != (e.Why == "" || strings.HasSuffix(e.Why, "(externalTrafficPolicy: Local)")) {
					t.Errorf("%s is used: %v, because %q", e.Addr, used, e.Why)
				}
			}
			if !maps.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	p := processor.New()
	if got := p.Explainer().Endpoints(web, false); got != nil {
		t.Errorf("a service that is not there: %v", got)
	}
}

func TestUnserved(t *testing.T) {
	selecting := balancer()
	selecting.Selector = map[string]string{"tier": "front", "app": "web"}
	other := slice("a", ready("10.1.1.2", "node1"))
	other.Ports[0].Name = "http"
	for _, c := range []struct {
		svc   *service.Service
		slice *endpointslice.EndpointSlice
		want  string
	}{
		{selecting, nil, "it has no EndpointSlice: no pod of namespace default has the labels of its selector (app=web,tier=front)"},
		{selecting, slice("a"), "its EndpointSlices list none: no pod of namespace default that has the labels of its selector (app=web,tier=front) has an address"},
		{selecting, other, "its EndpointSlices list endpoints, but with other ports than the service"},
		{balancer(), nil, "it has neither a selector nor an EndpointSlice"},
		{balancer(), slice("a"), "its EndpointSlices list no endpoints, and it has no selector"},
	} {
		p := processor.New()
		p.SetNode(node1)
		p.SetService(c.svc)
		if c.slice != nil {
			p.SetSlice(nil, c.slice)
		}
		if got := p.Explainer().NoEndpoints(web); !strings.HasPrefix(got, c.want) || len(p.Explainer().Endpoints(web, false)) > 0 {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestNoEndpoint(t *testing.T) {
	far, starting := ready("10.1.2.2", "node2"), &endpointslice.EndpointSlice_Endpoint{Addresses: []string{"10.1.1.8"}, NodeName: "node1"}
	metrics := balancer()
	metrics.Port = append(metrics.Port, &service.Service_ServicePort{Name: "metrics", Protocol: "TCP", Port: 9000, NodePort: 30900,
		TargetPort: &service.Service_ServicePort_IntOrString{Type: service.Service_ServicePort_IntOrString_STRING, StringVal: "prom"}})
	local := balancer()
	local.InternalTrafficPolicy, local.ExternalTrafficPolicy = "Local", "Local"
	for name, c := range map[string]struct {
		svc             *service.Service
		endpoint        *endpointslice.EndpointSlice_Endpoint
		kind            processor.Kind
		port            string
		inside, outside string
	}{
		"internalTrafficPolicy": {local, far, processor.ClusterIP, "", "none is on this node (internalTrafficPolicy: Local), but on node2", "none is on this node (internalTrafficPolicy: Local), but on node2"},
		"externalTrafficPolicy": {local, far, processor.NodePort, "", "", "none is on this node (externalTrafficPolicy: Local), but on node2"},
		"not ready":             {balancer(), starting, processor.ClusterIP, "", "none of its 1 endpoints is ready", "none of its 1 endpoints is ready"},
		"a port that none has": {metrics, far, processor.ClusterIP, "metrics",
			`other ports of the service have endpoints, and this one has none: no container of its pods has a port with the name "prom", its targetPort`, `other ports of the service have endpoints, and this one has none: no container of its pods has a port with the name "prom", its targetPort`},
	} {
		p := processor.New()
		p.SetNode(node1)
		p.SetService(c.svc)
		p.SetSlice(nil, slice("a", c.endpoint))
		found := false
		for _, f := range p.Service(web, false).Frontends {
			if f.Kind != c.kind || f.Port != c.port {
				continue
			}
			found = true
			if inside, outside := p.Explainer().NoEndpoint(web, f, false), p.Explainer().NoEndpoint(web, f, true); inside != c.inside || outside != c.outside {
				t.Errorf("%s: %q and %q", name, inside, outside)
			}
			if (len(f.Inside) == 0) != (c.inside != "") || (len(f.Outside) == 0) != (c.outside != "") {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if !found {
			t.Errorf("%s: no such frontend", name)
		}
	}
}

// Protocols that are not proxied have no endpoints: an access list would apply to all protocols.
func TestEndpointsOnNode(t *testing.T) {
	svc := balancer()
	svc.Port = append(svc.Port, &service.Service_ServicePort{Protocol: "DCCP", Port: 81})
	s := slice("a", ready("10.1.1.2", "node1"), ready("10.1.2.2", "node2"), &endpointslice.EndpointSlice_Endpoint{Addresses: []string{"10.1.1.3"}, NodeName: "node1"})
	s.Ports = append(s.Ports, &endpointslice.EndpointSlice_Port{Protocol: "DCCP", Port: 8081})
	p := processor.New()
	p.SetNode(node1)
	p.SetService(svc)
	p.SetSlice(nil, s)
	var got []string
	for _, e := range p.OnNode(web, false) {
		got = append(got, fmt.Sprintf("%v/%s", e.Addr, e.Protocol))
	}
	if want := "[10.1.1.2:8080/TCP 10.1.1.3:8080/TCP]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// The cost of a port should not depend on the number of ports.
func BenchmarkPorts(b *testing.B) {
	for _, ports := range []int32{100, 10000} {
		b.Run(fmt.Sprintf("ports=%d", ports), func(b *testing.B) {
			svc := &service.Service{Namespace: "default", Name: "many", ClusterIp: "10.96.0.1"}
			many := &endpointslice.EndpointSlice{
				Namespace: "default", Name: "many-1", Service: "many", AddressType: endpointslice.EndpointSlice_IPv4,
				Endpoints: []*endpointslice.EndpointSlice_Endpoint{{Addresses: []string{"10.1.1.2"}, Ready: true}},
			}
			for n := range ports {
				name := fmt.Sprint("p", n)
				svc.Port = append(svc.Port, &service.Service_ServicePort{Name: name, Port: n + 1})
				many.Ports = append(many.Ports, &endpointslice.EndpointSlice_Port{Name: name, Port: 8080})
			}
			for b.Loop() {
				if s := processor.Compute(svc, []*endpointslice.EndpointSlice{many}, nil, processor.Node{}, false); len(s.Frontends) != int(ports) || len(s.Frontends[0].Inside) != 1 {
					b.Fatal("ports or endpoints are missing")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(ports), "ns/port")
		})
	}
}
