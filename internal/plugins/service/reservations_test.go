package service_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

func needy() *cluster {
	c := newCluster()
	c.nodes["node2"] = &nodesync.Node{ID: 2, Name: "node2", VPPIPs: []netip.Prefix{netip.MustParsePrefix("192.168.16.2/24")}, MgmtIPs: []netip.Addr{netip.MustParseAddr("203.0.113.2")},
		Host: nodesync.NewHost([]netip.Addr{netip.MustParseAddr("10.77.0.2")}, []nodesync.Socket{
			{Protocol: "TCP", Addr: netip.IPv4Unspecified(), Port: 23}, {Protocol: "TCP", Addr: netip.MustParseAddr("192.168.16.2"), Port: 8443}, {Protocol: "TCP", Addr: netip.IPv4Unspecified(), Port: 443},
		})}
	c.needs = service.Needs{
		Listeners: []service.Listener{{Address: "127.0.0.1:9999", Owner: "the agent (REST)"}, {Address: "unix:///run/contiv/agent.sock"}},
		Etcd: func() []netip.AddrPort {
			return []netip.AddrPort{netip.MustParseAddrPort("192.168.16.254:2379"), netip.MustParseAddrPort("192.168.16.1:32379")}
		},
		APIServer: func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort("192.168.16.100:443")} },
		Sockets: func() ([]nodesync.Socket, error) {
			any4, any6 := netip.IPv4Unspecified(), netip.IPv6Unspecified()
			return []nodesync.Socket{{Protocol: "TCP", Addr: any4, Port: 22}, {Protocol: "TCP", Addr: any6, Port: 22}, {Protocol: "TCP", Addr: netip.MustParseAddr("127.0.0.1"), Port: 8888},
				{Protocol: "TCP", Addr: netip.MustParseAddr("192.168.16.1"), Port: 443}, {Protocol: "UDP", Addr: any4, Port: 51820}}, nil
		},
	}
	return c
}

func externalService(name string, port int32, protocol string, addresses ...string) (*k8s.Service, *endpointslice.EndpointSlice) {
	svc := &k8s.Service{Name: name, Namespace: "tenant", ServiceType: "ClusterIP", ClusterIp: "10.96.0.77", ClusterIps: []string{"10.96.0.77"}, ExternalIps: addresses,
		Port: []*k8s.Service_ServicePort{{Protocol: protocol, Port: port}}}
	return svc, &endpointslice.EndpointSlice{Name: name + "-1", Namespace: "tenant", Service: name, AddressType: endpointslice.EndpointSlice_IPv4,
		Ports:     []*endpointslice.EndpointSlice_Port{{Protocol: protocol, Port: 7777}},
		Endpoints: []*endpointslice.EndpointSlice_Endpoint{{Addresses: []string{"10.1.2.9"}, Ready: true, Serving: true}}}
}

func apiServerSlice() *endpointslice.EndpointSlice {
	return &endpointslice.EndpointSlice{Name: "kubernetes", Namespace: "default", Service: "kubernetes", AddressType: endpointslice.EndpointSlice_IPv4,
		Ports:     []*endpointslice.EndpointSlice_Port{{Protocol: "TCP", Port: 6443}},
		Endpoints: []*endpointslice.EndpointSlice_Endpoint{{Addresses: []string{"192.168.16.253"}, Ready: true, Serving: true}}}
}

func frontendsOf(s *service.Service, t *testing.T, name string) (frontends, limits []string) {
	t.Helper()
	report := reportOf(t, s, "?service=tenant/"+name, http.StatusOK)
	for _, svc := range report.Services {
		limits = append(limits, svc.Limits...)
		for _, f := range svc.Frontends {
			frontends = append(frontends, f.Address+"/"+string(f.Protocol))
		}
	}
	return frontends, limits
}

// Of the slices of default/kubernetes, only the one that the API server writes reserves addresses.
func TestOnlyTheAPIServersSliceReserves(t *testing.T) {
	forged := apiServerSlice()
	forged.Name, forged.Ports[0].Port, forged.Endpoints[0].Addresses = "kubernetes-x", 8443, []string{"203.0.113.9"}
	svc, slice := externalService("web", 8443, "TCP", "203.0.113.9", "192.168.16.253")
	svc.Port = append(svc.Port, &k8s.Service_ServicePort{Name: "api", Protocol: "TCP", Port: 6443})
	s := needy().plugin(t, "services: vswitch")
	resync(t, s, state(svc, slice, apiServerSlice()))
	for _, when := range []string{"before", "after"} {
		frontends, _ := frontendsOf(s, t, "web")
		if !slices.Contains(frontends, "203.0.113.9:8443/TCP") || slices.Contains(frontends, "192.168.16.253:6443/TCP") {
			t.Errorf("%s the forged slice: %q", when, frontends)
		}
		update(t, s, &controller.KubeStateChange{Resource: "endpointslice", Key: "k8s/endpointslice/kubernetes-x/namespace/default", NewValue: forged})
	}
}

// A service does not get the addresses and ports that nodes need. Its other addresses work.
func TestServicesDoNotGetWhatNodesNeed(t *testing.T) {
	for name, test := range map[string]struct {
		at, protocol string
		why          string // "" if it gets the address
	}{
		"tunnel of this node":              {"192.168.16.1:4789", "UDP", "port 4789/UDP is reserved for the tunnels between nodes (VXLAN)"},
		"tunnel of another node":           {"192.168.16.2:4789", "UDP", "tunnels between nodes"},
		"tunnel, at an address outside":    {"203.0.113.2:4789", "UDP", "tunnels between nodes"},
		"tunnel, written as IPv6":          {"[::ffff:192.168.16.2]:4789", "UDP", "tunnels between nodes"},
		"tunnel, over IPv6":                {"[fd00::1]:4789", "UDP", "tunnels between nodes"},
		"tunnel, at an overlay address":    {"192.168.30.2:4789", "UDP", "tunnels between nodes"},
		"TCP has no tunnel":                {"192.168.16.2:4789", "TCP", ""},
		"4789 elsewhere":                   {"198.51.100.1:4789", "UDP", ""},
		"etcd":                             {"192.168.16.254:2379", "TCP", "port 2379/TCP is reserved for etcd"},
		"another port of etcd's host":      {"192.168.16.254:2380", "TCP", ""},
		"UDP at etcd's port":               {"192.168.16.254:2379", "UDP", ""},
		"node port of etcd":                {"192.168.16.1:32379", "TCP", "reserved for etcd: use another port; if this is the service of etcd itself, set etcdService in service.conf"},
		"node port of etcd, other node":    {"192.168.16.2:32379", "TCP", "reserved for etcd"},
		"agent":                            {"192.168.16.2:9999", "TCP", "reserved for the agent (REST)"},
		"health":                           {"192.168.16.1:10250", "TCP", "reserved for kubelet"},
		"API server":                       {"192.168.16.253:6443", "TCP", "reserved for the API server"},
		"load balancer of the API server":  {"192.168.16.100:443", "TCP", "port 443/TCP is reserved for the API server"},
		"another port of it":               {"192.168.16.100:444", "TCP", ""},
		"process of this node":             {"192.168.16.1:22", "TCP", "a process of node node1 has the port: use another port, or another address"},
		"process of this node, IPv6":       {"[fd00::1]:22", "TCP", "a process of node node1 has the port"},
		"process at one address":           {"192.168.16.1:443", "TCP", "a process of node node1 has the port"},
		"the kernel's WireGuard":           {"192.168.16.1:51820", "UDP", "a process of node node1 has the port"},
		"process on loopback":              {"192.168.16.1:8888", "TCP", ""},
		"process of another node":          {"192.168.16.2:23", "TCP", "a process of node node2 has the port: use another port, or another address"},
		"at another address of its":        {"203.0.113.2:23", "TCP", "a process of node node2 has the port"},
		"at an address of its second NIC":  {"10.77.0.2:23", "TCP", "a process of node node2 has the port"},
		"at one address of another node":   {"192.168.16.2:8443", "TCP", "a process of node node2 has the port"},
		"another address of that node":     {"10.77.0.2:8443", "TCP", ""},
		"the other protocol":               {"192.168.16.2:23", "UDP", ""},
		"kubelet, at a second NIC":         {"10.77.0.2:10250", "TCP", "reserved for kubelet"},
		"unused port of another node":      {"192.168.16.2:22", "TCP", ""},
		"a process at one address, others": {"203.0.113.7:443", "TCP", ""},
		"load balancer":                    {"203.0.113.9:22", "TCP", ""},
	} {
		t.Run(name, func(t *testing.T) {
			at := netip.MustParseAddrPort(test.at)
			text := at.Addr().String()
			svc, slice := externalService("evil", int32(at.Port()), test.protocol, text, "198.51.100.200")
			if at.Addr().Is6() && !at.Addr().Is4In6() {
				svc.ClusterIps, slice.AddressType, slice.Endpoints[0].Addresses = append(svc.ClusterIps, "fd96::77"), endpointslice.EndpointSlice_IPv6, []string{"fd10:0:0:2::9"}
			}
			s := needy().plugin(t, "services: vswitch")
			resync(t, s, state(svc, slice, apiServerSlice()))
			frontends, limits := frontendsOf(s, t, "evil")
			one := netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String() + "/" + test.protocol
			if got := slices.Contains(frontends, one); got != (test.why == "") {
				t.Errorf("has %v: %q, want %v", one, frontends, test.why == "")
			}
			if other := netip.AddrPortFrom(netip.MustParseAddr("198.51.100.200"), at.Port()).String() + "/" + test.protocol; !slices.Contains(frontends, other) {
				t.Errorf("its other address suffers: %q", frontends)
			}
			warned := strings.Join(s.Warnings(), "\n")
			switch {
			case test.why == "" && (len(limits) > 0 || strings.Contains(warned, "evil")):
				t.Errorf("limits %q, warnings %q", limits, warned)
			case test.why != "" && (len(limits) != 1 || !strings.Contains(limits[0], one+" is not translated, because ") || !strings.Contains(limits[0], test.why)):
				t.Errorf("limits %q, want %q", limits, test.why)
			case test.why != "" && !strings.Contains(warned, "tenant/evil: "+one):
				t.Errorf("warnings %q", warned)
			}
			e := s.Explain(service.Connection{From: netip.MustParseAddr("10.1.1.9"), To: at.Addr().Unmap(), Protocol: processor.Protocol(test.protocol), Port: at.Port()})
			if told := strings.Contains(strings.Join(e.Way, "\n"), "service tenant/evil asks for it, but"); told != (test.why != "") || e.Translated != (test.why == "") {
				t.Errorf("explained as %+v", e)
			}
		})
	}
}

// Owners of reservations are exempt: etcd's node port, the API server, kubelets, and an ingress on
// the host network.
func TestServicesOfTheNodesThemselves(t *testing.T) {
	service := func(namespace, name, clusterIP string, port, nodePort int32, external ...string) *k8s.Service {
		kind := "ClusterIP"
		if nodePort > 0 {
			kind = "NodePort"
		}
		return &k8s.Service{Namespace: namespace, Name: name, ServiceType: kind, ClusterIp: clusterIP, ClusterIps: []string{clusterIP}, ExternalIps: external,
			Port: []*k8s.Service_ServicePort{{Protocol: "TCP", Port: port, NodePort: nodePort}}}
	}
	slice := func(namespace, name string, port int32, addresses ...string) *endpointslice.EndpointSlice {
		s := &endpointslice.EndpointSlice{Name: name, Namespace: namespace, Service: name, AddressType: endpointslice.EndpointSlice_IPv4, Ports: []*endpointslice.EndpointSlice_Port{{Protocol: "TCP", Port: port}}}
		for _, a := range addresses {
			s.Endpoints = append(s.Endpoints, &endpointslice.EndpointSlice_Endpoint{Addresses: []string{a}, Ready: true, Serving: true})
		}
		return s
	}
	c := needy()
	s := c.plugin(t, "services: vswitch")
	txn := resync(t, s, state(
		service("kube-system", "contiv-etcd", "10.96.0.2", 12379, 32379), slice("kube-system", "contiv-etcd", 12379, "192.168.16.2"),
		service("default", "kubernetes", "10.96.0.1", 443, 0), slice("default", "kubernetes", 6443, "192.168.16.253"),
		service("kube-system", "kubelet", "10.96.0.3", 10250, 0), slice("kube-system", "kubelet", 10250, "192.168.16.1", "192.168.16.2"),
		service("ingress", "ingress", "10.96.0.4", 443, 0, "192.168.16.1", "192.168.16.2"), slice("ingress", "ingress", 443, "192.168.16.1", "192.168.16.2"),
	))
	got := plugintest.Render(txn)
	for _, want := range []string{
		`{"external_ip":"192.168.16.1","external_port":32379,"local_ips":[{"elsewhere":true,"local_ip":"192.168.16.2","local_port":12379}]`,
		`{"external_ip":"10.96.0.1","external_port":443,"local_ips":[{"elsewhere":true,"local_ip":"192.168.16.253","local_port":6443}]`,
		`"label":"kube-system/kubelet","st_mappings":[{"external_ip":"10.96.0.3","external_port":10250,"local_ips":[{"local_ip":"192.168.16.1","local_port":10250`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
	for _, addr := range []string{"192.168.16.1", "192.168.16.2"} {
		if strings.Contains(got, fmt.Sprintf(`"external_ip":%q,"external_port":443`, addr)) {
			t.Errorf("the port of the ingress is translated where the ingress has it:\n%s", got)
		}
	}
	if warnings := strings.Join(s.Warnings(), "\n"); strings.Contains(warnings, "nodes need") {
		t.Errorf("warnings %q", warnings)
	}
}

// A tunnel is never an endpoint. Other endpoints work.
func TestEndpointsAtTunnels(t *testing.T) {
	svc, slice := externalService("tunnel", 4789, "UDP")
	svc.ServiceType, svc.Port[0].NodePort = "NodePort", 30789
	slice.Ports[0].Port = 4789
	slice.Endpoints = append(slice.Endpoints, &endpointslice.EndpointSlice_Endpoint{Addresses: []string{"192.168.16.2"}, Ready: true, Serving: true})
	c := needy()
	s := c.plugin(t, "services: vswitch")
	before := resync(t, s, state(svc, slice))
	if got := plugintest.Render(before); strings.Contains(got, `"local_ip":"192.168.16.2"`) || !strings.Contains(got, `"local_ip":"10.1.2.9"`) {
		t.Errorf("leads to\n%s", got)
	}
	if _, limits := frontendsOf(s, t, "tunnel"); len(limits) != 1 || !strings.Contains(limits[0], "endpoint 192.168.16.2:4789/UDP gets no clients, because port 4789/UDP is reserved for the tunnels between nodes (VXLAN): give the service other endpoints") {
		t.Errorf("limits %q", limits)
	}
	report := reportOf(t, s, "?service=tenant/tunnel", http.StatusOK)
	if d := report.Services[0].Details; len(d) != 2 || d[1].Ready || !strings.Contains(d[1].Why, "reserved for the tunnels") {
		t.Errorf("details %+v", d)
	}

	_, slice = externalService("tunnel", 4789, "UDP")
	slice.Ports[0].Port, slice.Endpoints[0].Addresses = 4789, []string{"192.168.16.3"}
	before = resync(t, s, state(svc, slice))
	if !strings.Contains(plugintest.Render(before), `"local_ip":"192.168.16.3"`) {
		t.Errorf("an address of no node is no endpoint:\n%s", plugintest.Render(before))
	}
	node3 := &nodesync.Node{ID: 3, Name: "node3", MgmtIPs: []netip.Addr{netip.MustParseAddr("192.168.16.3")}}
	c.nodes["node3"] = node3
	after, _, what := change(t, s, &nodesync.NodeUpdate{NodeName: "node3", NewState: node3}, before)
	if strings.Contains(plugintest.Render(after), `"local_ip":"192.168.16.3"`) || what == "" {
		t.Errorf("%q: still leads to the tunnel of a node that joined:\n%s", what, plugintest.Render(after))
	}
	delete(c.nodes, "node3")
	after, _, _ = change(t, s, &nodesync.NodeUpdate{NodeName: "node3", PrevState: node3}, after)
	if !strings.Contains(plugintest.Render(after), `"local_ip":"192.168.16.3"`) {
		t.Errorf("after the node left:\n%s", plugintest.Render(after))
	}
}

// An ingress that runs on this node only serves the addresses of both nodes.
func TestIngressOfOneNode(t *testing.T) {
	c := needy()
	c.nodes["node2"].Host = nodesync.Host{}
	s := c.plugin(t, "services: vswitch")
	svc, slice := externalService("ingress", 443, "TCP", "192.168.16.1", "192.168.16.2")
	slice.Ports[0].Port, slice.Endpoints[0].Addresses = 443, []string{"192.168.16.1"}
	txn := resync(t, s, state(svc, slice))
	if got, want := plugintest.Render(txn), `{"external_ip":"192.168.16.2","external_port":443,"local_ips":[{"local_ip":"192.168.16.1","local_port":443`; !strings.Contains(got, want) {
		t.Errorf("%s is missing in\n%s", want, got)
	}
}

// A service loses an address of another node to a process that starts there, and has it again afterwards.
func TestProcessesOfAnotherNode(t *testing.T) {
	c := needy()
	s := c.plugin(t, "services: vswitch")
	svc, slice := externalService("evil", 2222, "TCP", "192.168.16.2")
	config := resync(t, s, state(svc, slice))
	before := c.nodes["node2"]
	after := *before
	after.Host = nodesync.NewHost(nil, []nodesync.Socket{{Protocol: "TCP", Addr: netip.IPv4Unspecified(), Port: 2222}})
	const taken = `"external_ip":"192.168.16.2","external_port":2222`
	for _, step := range []struct {
		prev, next *nodesync.Node
		has        bool
	}{{nil, before, true}, {before, &after, false}, {&after, before, true}} {
		c.nodes["node2"] = step.next
		config, _, _ = change(t, s, &nodesync.NodeUpdate{NodeName: "node2", PrevState: step.prev, NewState: step.next}, config)
		if got := plugintest.Render(config); strings.Contains(got, taken) != step.has {
			t.Errorf("has it: %v, want %v:\n%s", !step.has, step.has, got)
		}
	}
}

func TestAddressOfTheAPIServerChanges(t *testing.T) {
	s := needy().plugin(t, "services: vswitch")
	svc, slice := externalService("evil", 6443, "TCP", "192.168.16.253")
	config := resync(t, s, state(svc, slice))
	const taken = `"external_ip":"192.168.16.253"`
	if !strings.Contains(plugintest.Render(config), taken) {
		t.Fatalf("before it is known:\n%s", plugintest.Render(config))
	}
	config, _, _ = change(t, s, kubeChange(nil, apiServerSlice()), config)
	if strings.Contains(plugintest.Render(config), taken) {
		t.Errorf("afterwards:\n%s", plugintest.Render(config))
	}
}

// A process that starts to listen gets its port within a period.
func TestProcessesOfTheNodeBegin(t *testing.T) {
	c := needy()
	listening := make(chan []nodesync.Socket, 1)
	listening <- nil
	c.needs.Sockets = func() ([]nodesync.Socket, error) {
		now := <-listening
		listening <- now
		return now, nil
	}
	s := c.plugin(t, "services: vswitch")
	svc, slice := externalService("evil", 2222, "TCP", "192.168.16.1")
	resync(t, s, state(svc, slice))
	if frontends, _ := frontendsOf(s, t, "evil"); !slices.Contains(frontends, "192.168.16.1:2222/TCP") {
		t.Fatalf("before: %q", frontends)
	}
	asked := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.WatchOtherProxies(ctx, time.Millisecond, func() error {
			select {
			case asked <- struct{}{}:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	<-listening
	listening <- []nodesync.Socket{{Protocol: "TCP", Addr: netip.IPv4Unspecified(), Port: 1}, {Protocol: "TCP", Addr: netip.IPv4Unspecified(), Port: 2222}}
	<-asked
	cancel()
	<-done
	resync(t, s, state(svc, slice))
	if frontends, _ := frontendsOf(s, t, "evil"); slices.Contains(frontends, "192.168.16.1:2222/TCP") {
		t.Errorf("afterwards: %q", frontends)
	}
}

func TestHostPortsThatTheNodeNeeds(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{Conf: noSNAT, Needs: service.Needs{
		Listeners: []service.Listener{{Address: ":9999", Owner: "the agent (REST)"}},
		Etcd:      func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:32379")} },
		Sockets: func() ([]nodesync.Socket, error) {
			return []nodesync.Socket{{Protocol: "TCP", Addr: netip.IPv4Unspecified(), Port: 22}}, nil
		},
	}})
	without := natOf(n)
	for mapping, want := range map[string]string{
		`{"hostPort": 4789, "containerPort": 9000, "protocol": "udp"}`:                                                             "host port 4789/UDP of pod default/evil: port 4789/UDP is reserved for the tunnels between nodes (VXLAN); give the pod another hostPort, or none",
		`{"hostPort": 4789, "containerPort": 9000, "protocol": "udp", "hostIP": "192.168.16.1"}`:                                   "port 4789/UDP is reserved for the tunnels",
		`{"hostPort": 4789, "containerPort": 9000, "protocol": "udp", "hostIP": "0.0.0.0"}`:                                        "port 4789/UDP is reserved for the tunnels",
		`{"hostPort": 9999, "containerPort": 9000, "protocol": "tcp"}`:                                                             "port 9999/TCP is reserved for the agent (REST)",
		`{"hostPort": 32379, "containerPort": 9000, "protocol": "tcp"}`:                                                            "port 32379/TCP is reserved for etcd",
		`{"hostPort": 10250, "containerPort": 9000, "protocol": "tcp"}`:                                                            "port 10250/TCP is reserved for kubelet",
		`{"hostPort": 22, "containerPort": 9000, "protocol": "tcp"}`:                                                               "host port 22/TCP of pod default/evil: a process of node node1 has it; give the pod another hostPort, or none",
		`{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}, {"hostPort": 4789, "containerPort": 9000, "protocol": "udp"}`: "port 4789/UDP is reserved",
	} {
		reply, err := n.Server.Add(context.Background(), forPod("evil", "c1", "["+mapping+"]"))
		if err != nil || reply.GetResult() == 0 || !strings.Contains(reply.GetError(), want) {
			t.Errorf("%s: %v, %v; want %q", mapping, reply, err, want)
		}
		if got := natOf(n); got != without {
			t.Errorf("%s leaves behind\n%s", mapping, got)
		}
	}
	addPod(t, n, "good", "c2", `[{"hostPort": 4789, "containerPort": 80, "protocol": "tcp"}, {"hostPort": 22, "containerPort": 80, "protocol": "udp"}]`)
}

// Endpoints that are translated again on the way would cause loops.
func TestServicesDoNotLeadInCircles(t *testing.T) {
	at := func(name, endpoint string) *endpointslice.EndpointSlice {
		e := netip.MustParseAddrPort(endpoint)
		return &endpointslice.EndpointSlice{Name: name + "-1", Namespace: "tenant", Service: name, AddressType: endpointslice.EndpointSlice_IPv4,
			Ports:     []*endpointslice.EndpointSlice_Port{{Port: int32(e.Port()), Protocol: "TCP"}},
			Endpoints: []*endpointslice.EndpointSlice_Endpoint{{Addresses: []string{e.Addr().String()}, Ready: true, Serving: true}}}
	}
	there := func(nodePort int32, external ...string) *k8s.Service {
		svc, _ := externalService("there", 444, "TCP", external...)
		svc.ServiceType, svc.Port[0].NodePort, svc.CreationTime = "NodePort", nodePort, "2026-11-02T00:00:00Z"
		return svc
	}
	younger := func(svc *k8s.Service) *k8s.Service {
		svc.CreationTime = "2026-11-04T00:00:00Z"
		return svc
	}
	balanced := func(ip string) *k8s.Service {
		svc := there(0)
		svc.ServiceType, svc.LbIngressIps = "LoadBalancer", []string{ip}
		return svc
	}
	needed, used := there(0, "192.168.16.2"), there(0, "192.168.16.2")
	needed.Port[0].Port, used.Port[0].Port = 10250, 23
	for name, test := range map[string]struct {
		endpoint string
		there    *k8s.Service
		leads    string // endpoint of the other service
		why      string // "" if clients reach the endpoint
	}{
		"node port of another node":     {"192.168.16.2:30002", there(30002), "10.1.2.9:80", "port 30002/TCP is reserved for the node port of service tenant/there"},
		"node port of this node":        {"192.168.16.1:30002", there(30002), "10.1.2.9:80", "the node port of service tenant/there"},
		"node port at an overlay one":   {"192.168.30.2:30002", there(30002), "10.1.2.9:80", "the node port of service tenant/there"},
		"its own node port":             {"192.168.16.2:30001", nil, "", "the node port of service tenant/here"},
		"another port of a node":        {"192.168.16.2:30003", there(30002), "10.1.2.9:80", ""},
		"the number elsewhere":          {"203.0.113.5:30002", there(30002), "10.1.2.9:80", ""},
		"external IP":                   {"203.0.113.5:444", there(0, "203.0.113.5"), "192.168.16.1:443", "the external IP of service tenant/there"},
		"external IP with a process":    {"192.168.16.2:444", there(0, "192.168.16.2"), "192.168.16.2:444", ""},
		"another port at that address":  {"203.0.113.5:445", there(0, "203.0.113.5"), "10.1.2.9:80", ""},
		"the other one is of a process": {"192.168.16.2:6443", there(30002), "192.168.16.2:6443", ""},
		"load balancer's IP":            {"203.0.113.5:444", balanced("203.0.113.5"), "192.168.16.1:443", "the external IP of service tenant/there"},
		// Ignored and refused addresses, and younger services, take no endpoints.
		"pod":                         {"10.1.2.3:444", there(0, "10.1.2.3"), "10.1.2.9:80", ""},
		"pod as load balancer's IP":   {"10.1.2.3:444", balanced("10.1.2.3"), "10.1.2.9:80", ""},
		"port that nodes need":        {"192.168.16.2:10250", needed, "10.1.2.9:80", ""},
		"port of a node's process":    {"192.168.16.2:23", used, "10.1.2.9:80", ""},
		"younger external IP":         {"203.0.113.5:444", younger(there(0, "203.0.113.5")), "192.168.16.1:443", ""},
		"younger load balancer's IP":  {"203.0.113.5:444", younger(balanced("203.0.113.5")), "192.168.16.1:443", ""},
		"younger one at a node":       {"192.168.16.2:444", younger(there(0, "192.168.16.2")), "192.168.16.1:443", ""},
		"younger service's node port": {"192.168.16.2:30002", younger(there(30002)), "10.1.2.9:80", ""},
	} {
		t.Run(name, func(t *testing.T) {
			here, _ := externalService("here", 443, "TCP", "198.51.100.1")
			here.ServiceType, here.Port[0].NodePort, here.CreationTime = "NodePort", 30001, "2026-11-03T00:00:00Z"
			slice := at("here", test.endpoint)
			led := func(config plugintest.Txn) bool {
				return strings.Contains(plugintest.Render(config), fmt.Sprintf(`"local_ip":"%v","local_port":%d`, slice.Endpoints[0].Addresses[0], slice.Ports[0].Port))
			}
			want := func(when string, config plugintest.Txn, s *service.Service) {
				t.Helper()
				if led(config) != (test.why == "") {
					t.Errorf("%s: clients get to %s: %v:\n%s", when, test.endpoint, led(config), plugintest.Render(config))
				}
				_, limits := frontendsOf(s, t, "here")
				refused := strings.Join(limits, "\n")
				if test.why == "" && strings.Contains(refused, "endpoint") || !strings.Contains(refused, test.why) {
					t.Errorf("%s: limits %q, want %q", when, limits, test.why)
				}
			}
			s := needy().plugin(t, "services: vswitch")
			all := state(here, slice)
			if test.there != nil {
				all = state(here, slice, test.there, at("there", test.leads))
			}
			want("at once", resync(t, s, all), s)
			if test.there == nil {
				return
			}
			s = needy().plugin(t, "services: vswitch")
			config := resync(t, s, state(here, slice))
			config, _, _ = change(t, s, kubeChange(nil, test.there), config)
			config, _, _ = change(t, s, kubeChange(nil, at("there", test.leads)), config)
			want("one by one", config, s)
			config, _, _ = change(t, s, kubeChange(test.there, nil), config)
			if !led(config) {
				t.Errorf("after the other service has gone:\n%s", plugintest.Render(config))
			}
		})
	}
}
