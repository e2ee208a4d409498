package service_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/cni"
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/api/contiv/pod"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

func forPod(name, container, mappings string) *cni.CNIRequest {
	return &cni.CNIRequest{
		ContainerId: container, NetworkNamespace: "/var/run/netns/" + name, InterfaceName: "eth0",
		ExtraArguments: "K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + name,
		ExtraNwConfig:  `{"name": "k8s-pod-network", "runtimeConfig": {"portMappings": ` + mappings + `}}`,
	}
}

func addPod(t *testing.T, n *plugintest.Node, name, container, mappings string) {
	t.Helper()
	if reply, err := n.Server.Add(context.Background(), forPod(name, container, mappings)); err != nil || reply.GetResult() != 0 {
		t.Fatal(reply, err)
	}
}

func natOf(n *plugintest.Node) string {
	values := plugintest.Txn{}
	for key, value := range n.Scheduler.Values() {
		if strings.Contains(key, "/nat/") {
			values[key] = value
		}
	}
	return plugintest.Render(values)
}

const (
	dualStack = "ipamConfig: {contivCIDR: '10.128.0.0/14,fd10::/64'}\n"
	noSNAT    = "natExternalTraffic: false\n"
)

func TestHostPorts(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{Conf: noSNAT})
	addPod(t, n, "plain", "c0", "null")
	without := natOf(n)
	addPod(t, n, "web", "c1", `[{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}, {"hostPort": 8080, "containerPort": 80, "protocol": "SCTP", "hostIP": "192.168.16.1"}]`)
	addPod(t, n, "dns", "c2", `[{"hostPort": 53, "containerPort": 5353, "protocol": "udp", "hostIP": "0.0.0.0"}]`)
	const want = `config/contiv/nat/v1/service-network
    {"inside":["10.1.1.0/24"]}
config/vpp/nat/v2/dnat44/hostPort/default/dns
    {"label":"hostPort/default/dns","st_mappings":[{"external_ip":"192.168.16.1","external_port":53,"local_ips":[{"local_ip":"10.1.1.4","local_port":5353}],"protocol":"UDP","twice_nat":"SELF"}]}
config/vpp/nat/v2/dnat44/hostPort/default/web
    {"label":"hostPort/default/web","st_mappings":[{"external_ip":"192.168.16.1","external_port":8080,"local_ips":[{"local_ip":"10.1.1.3","local_port":80}],"twice_nat":"SELF"},{"external_ip":"192.168.16.1","external_port":8080,"local_ips":[{"local_ip":"10.1.1.3","local_port":80}],"protocol":"SCTP","twice_nat":"SELF"}]}
config/vpp/nat/v2/nat44-global
    {"forwarding":true}
config/vpp/nat/v2/nat44-pool/vrf/4294967295/address/10.1.1.254
    {"first_ip":"10.1.1.254","twice_nat":true,"vrf_id":4294967295}
`
	if got := natOf(n); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	n.Resync()
	if n.Scheduler.Changed() != 0 {
		t.Errorf("a resync changes %d values", n.Scheduler.Changed())
	}
	n = n.Restart()
	if got := natOf(n); got != want || n.Scheduler.Changed() != 0 {
		t.Errorf("%d changes after a restart, got\n%s\nwant\n%s", n.Scheduler.Changed(), got, want)
	}

	reply, err := n.Server.Check(context.Background(), forPod("web", "c1", "null"))
	if err != nil || reply.GetResult() != 0 {
		t.Errorf("CHECK: %v, %v", reply, err)
	}
	n.Scheduler.SetDifferences(kvscheduler.Difference{Key: "config/vpp/nat/v2/dnat44/hostPort/default/web"})
	if reply, err := n.Server.Check(context.Background(), forPod("web", "c1", "null")); err != nil || !strings.Contains(reply.GetError(), "host ports of pod default/web are not as configured") {
		t.Errorf("CHECK of ports that are missing: %v, %v", reply, err)
	}

	for _, pod := range []string{"web", "dns"} {
		container := map[string]string{"web": "c1", "dns": "c2"}[pod]
		if reply, err := n.Server.Delete(context.Background(), forPod(pod, container, "null")); err != nil || reply.GetResult() != 0 {
			t.Fatal(reply, err)
		}
	}
	if got := natOf(n); got != without {
		t.Errorf("after DEL:\n%s\nwant the previous state:\n%s", got, without)
	}
}

// The names of a pod and its namespace may together exceed the kernel's limit.
func TestHostPortsOfPodsWithLongNames(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{Conf: noSNAT})
	long := strings.Repeat("p", 252)
	for i, name := range []string{long + "a", long + "b"} {
		addPod(t, n, name, fmt.Sprint("c", i), fmt.Sprintf(`[{"hostPort": %d, "containerPort": 80, "protocol": "tcp"}]`, 8080+i))
	}
	labels := map[string]bool{}
	for _, value := range n.Scheduler.Values() {
		if v, ok := value.(*vpp_nat.DNat44); ok {
			labels[v.GetLabel()] = true
			if len(v.GetLabel()) > 127 {
				t.Errorf("a label of %d characters: %s", len(v.GetLabel()), v.GetLabel())
			}
		}
	}
	if len(labels) != 2 {
		t.Errorf("labels %v, want two", labels)
	}
	// Kubernetes forbids such a namespace, but a runtime may pass one.
	request := forPod("x", "c9", `[{"hostPort": 8090, "containerPort": 80, "protocol": "tcp"}]`)
	request.ExtraArguments = "K8S_POD_NAME=x;K8S_POD_NAMESPACE=" + long[:117]
	if reply, err := n.Server.Add(t.Context(), request); err != nil || strings.Contains(reply.GetError(), "panic") {
		t.Error(reply, err)
	}
}

func TestHostPortsOfBothIPVersions(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{
		Conf: noSNAT + dualStack, Links: plugintest.Links{plugintest.Link("lo", "127.0.0.1/8"), plugintest.Link("eth0", "192.168.16.1/24", "fd16::1/64")},
	})
	addPod(t, n, "web", "c1", `[{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}, {"hostPort": 8081, "containerPort": 80, "protocol": "tcp", "hostIP": "::"}]`)
	got := natOf(n)
	for _, want := range []string{
		`dnat66/hostPort/default/web
    {"label":"hostPort/default/web","st_mappings":[{"external_ip":"fd10::2:1","external_port":8080,"local_ips":[{"local_ip":"fd10::82","local_port":80}],"twice_nat":"SELF","twice_nat_ip":"fd10::fe"},{"external_ip":"fd10::2:1","external_port":8081`,
		`dnat44/hostPort/default/web
    {"label":"hostPort/default/web","st_mappings":[{"external_ip":"10.130.0.1","external_port":8080,"local_ips":[{"local_ip":"10.128.0.130","local_port":80}],"twice_nat":"SELF"}]}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwithout\n%s", got, want)
		}
	}
}

func TestHostPortsThatAreRefused(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{Conf: noSNAT})
	addPod(t, n, "web", "c1", `[{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}, {"hostPort": 53, "containerPort": 53, "protocol": "udp", "hostIP": "192.168.16.1"}]`)
	before := n.Scheduler.Values()
	for name, test := range map[string]struct{ mappings, want string }{
		"no list":           {`{"hostPort": 1}`, `runtimeConfig.portMappings in extra_nw_config is no list of objects such as {"hostPort": 8080`},
		"text for a number": {`[{"hostPort": "8080", "containerPort": 80}]`, "is no list of objects"},
		"no port":           {`[{"containerPort": 80, "protocol": "tcp"}]`, "portMappings in extra_nw_config[0]: hostPort 0 is none of 1 to 65535"},
		"port out of range": {`[{"hostPort": 80, "containerPort": 65616, "protocol": "tcp"}]`, "containerPort 65616 is none of 1 to 65535"},
		"negative port":     {`[{"hostPort": -1, "containerPort": 80, "protocol": "tcp"}]`, "hostPort -1"},
		"unknown protocol":  {`[{"hostPort": 80, "containerPort": 80, "protocol": "icmp"}]`, `protocol "icmp" is none of tcp, udp and sctp`},
		"no protocol":       {`[{"hostPort": 80, "containerPort": 80}]`, `protocol "" is none`},
		"name for address":  {`[{"hostPort": 80, "containerPort": 80, "protocol": "tcp", "hostIP": "node1"}]`, `hostIP "node1" is no address of a node`},
		"loopback":          {`[{"hostPort": 80, "containerPort": 80, "protocol": "tcp", "hostIP": "127.0.0.1"}]`, "host ports are not open on loopback addresses"},
		"another's address": {`[{"hostPort": 443, "containerPort": 80, "protocol": "tcp", "hostIP": "10.96.0.1"}]`, "hostIP is none of the addresses [192.168.16.1] of this node"},
		"other IP version":  {`[{"hostPort": 443, "containerPort": 80, "protocol": "tcp", "hostIP": "fd00::1"}]`, "hostIP is none of the addresses"},
		"twice":             {`[{"hostPort": 81, "containerPort": 80, "protocol": "tcp"}, {"hostPort": 81, "containerPort": 82, "protocol": "tcp", "hostIP": "192.168.16.1"}]`, "is to lead to port 80 and to port 82"},
		"in use":            {`[{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "192.168.16.1"}]`, "host port 192.168.16.1:8080/TCP of pod default/other is in use on this node: pod default/web has 8080/TCP"},
		"in use everywhere": {`[{"hostPort": 53, "containerPort": 53, "protocol": "udp"}]`, "host port 53/UDP of pod default/other is in use on this node: pod default/web has 192.168.16.1:53/UDP"},
		"in use, but UDP":   {`[{"hostPort": 8080, "containerPort": 80, "protocol": "udp"}]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := forPod("other", "c2", test.mappings)
			reply, err := n.Server.Add(context.Background(), r)
			said := reply.GetError()
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, test.want) || (said == "") != (test.want == "") {
				t.Errorf("got %q, want %q", said, test.want)
			}
			if test.want == "" {
				if reply, err := n.Server.Delete(context.Background(), r); err != nil || reply.GetResult() != 0 {
					t.Fatal(reply, err)
				}
			}
			if diff := plugintest.Diff(before, n.Scheduler.Values()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

type onePod struct {
	*cluster
	pod podmanager.LocalPod
}

func (p onePod) GetPodIPs(podmanager.PodID) []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("10.1.1.7"), netip.MustParseAddr("fd10::7")}
}

func (p onePod) LocalPods() podmanager.LocalPods { return podmanager.LocalPods{p.pod.ID: &p.pod} }

func (p onePod) LocalPod(id podmanager.PodID) (*podmanager.LocalPod, bool) {
	return &p.pod, id == p.pod.ID
}

func (p onePod) served(c *cluster) *service.HostPorts {
	return &service.HostPorts{NodeName: "node1", Nodes: c, Addresses: p, Pods: p}
}

// A service takes precedence over a host port, in either order of creation.
func TestHostPortsAndServices(t *testing.T) {
	c := newCluster()
	pod := onePod{c, podmanager.LocalPod{ID: podmanager.PodID{Namespace: "default", Name: "pod"}, ContainerID: "c1", HostPorts: []podmanager.HostPort{
		{Port: 30080, Protocol: "TCP", PodPort: 80}, {Port: 8080, Protocol: "TCP", PodPort: 80},
	}}}
	s := c.pluginWith(t, "services: vswitch", pod.served(c))
	const value = "config/vpp/nat/v2/dnat44/hostPort/default/pod"
	ports := func(values plugintest.Txn) (list []uint32) {
		for _, m := range values[value].(*vpp_nat.DNat44).GetStMappings() {
			list = append(list, m.GetExternalPort())
		}
		slices.Sort(list)
		return list
	}
	config := resync(t, s, state())
	expect := func(when string, want ...uint32) {
		t.Helper()
		if got := ports(config); !slices.Equal(got, want) {
			t.Errorf("%s, ports %v are open, want %v", when, got, want)
		}
	}
	expect("without services", 8080, 30080)
	config, _, _ = change(t, s, kubeChange(nil, webService()), config)
	expect("with a service", 8080)
	const lost = "host port 30080/TCP of pod default/pod: 192.168.16.1:30080 is a port of service default/web"
	if got := strings.Join(s.Warnings(), "\n"); !strings.Contains(got, lost) {
		t.Errorf("warnings %q, want %q", got, lost)
	}
	report := reportOf(t, s, "?endpoint="+pod.GetPodIPs(pod.pod.ID)[0].String(), 200)
	if got := fmt.Sprint(report.HostPorts); len(report.HostPorts) != 2 || !strings.Contains(got, "{8080/TCP 80 [192.168.16.1:8080") || !strings.Contains(got, lost) {
		t.Errorf("host ports of the pod: %s", got)
	}
	_, err := s.Update(context.Background(), &podmanager.AddPod{Pod: pod.pod.ID, ContainerID: "c1"}, plugintest.Txn{})
	if err == nil || !strings.Contains(err.Error(), "host port 30080/TCP of pod default/pod: 192.168.16.1:30080 is a port of service default/web") {
		t.Errorf("a pod with the port of a service is added: %v", err)
	}
	other := webService()
	other.Name, other.ClusterIp, other.ClusterIps, other.LbIngressIps, other.Port[0].NodePort = "other", "10.96.0.11", []string{"10.96.0.11"}, nil, 30081
	if _, txn, _ := change(t, s, kubeChange(nil, other), config); txn[value] != nil {
		t.Error("a service with other ports changes the pod's")
	}
	config, _, _ = change(t, s, kubeChange(webService(), nil), config)
	expect("without the service", 8080, 30080)
	if got := s.Warnings(); len(got) > 0 {
		t.Errorf("without the service: warnings %q", got)
	}
	config = resync(t, s, state(webService()))
	expect("after a resync with the service", 8080)

	// A deleted pod does not remove values that services need.
	txn := plugintest.Txn{}
	if _, err := s.Update(context.Background(), &podmanager.DeletePod{Pod: pod.pod.ID, ContainerID: "c1"}, txn); err != nil {
		t.Fatal(err)
	}
	config = txn.Apply(config)
	if diff := plugintest.Diff(config, resync(t, c.plugin(t, "services: vswitch"), state(webService()))); diff != "" {
		t.Error(diff)
	}
}

// A host port takes precedence over external IPs of services, in either order of creation.
func TestHostPortsAndExternalIPs(t *testing.T) {
	c := newCluster()
	ofPod := onePod{c, podmanager.LocalPod{ID: podmanager.PodID{Namespace: "default", Name: "pod"}, ContainerID: "c1", HostPorts: []podmanager.HostPort{{Port: 8443, Protocol: "TCP", PodPort: 80}}}}
	pods := &comingPod{onePod: ofPod}
	served := pods.served(c)
	served.Pods = pods
	s := c.pluginWith(t, "services: vswitch", served)
	svc, slice := externalService("tenant", 8443, "TCP", "192.168.16.1")
	const ofService, ofHostPort = "config/vpp/nat/v2/dnat44/tenant/tenant", "config/vpp/nat/v2/dnat44/hostPort/default/pod"
	at := func(config plugintest.Txn, key string) bool {
		value, _ := config[key].(*vpp_nat.DNat44)
		return slices.ContainsFunc(value.GetStMappings(), func(m *vpp_nat.DNat44_StaticMapping) bool {
			return m.GetExternalIp() == "192.168.16.1" && m.GetExternalPort() == 8443
		})
	}
	expect := func(when string, config plugintest.Txn, want bool) {
		t.Helper()
		if at(config, ofHostPort) != want || at(config, ofService) == want {
			t.Errorf("%s: the pod has the port: %v, the service: %v; want that the pod has it: %v", when, at(config, ofHostPort), at(config, ofService), want)
		}
	}
	before := resync(t, s, state(svc, slice))
	if !at(before, ofService) {
		t.Fatal("the service has no external IP without a pod")
	}
	pods.here = true
	add := &podmanager.AddPod{Pod: pods.pod.ID, ContainerID: "c1"}
	txn := plugintest.Txn{}
	if _, err := s.Update(t.Context(), add, txn); err != nil {
		t.Fatal(err)
	}
	expect("the pod comes", txn.Apply(before), true)
	_, limits := frontendsOf(s, t, "tenant")
	if got := strings.Join(limits, "\n"); !strings.Contains(got, "192.168.16.1:8443/TCP is not translated, because port 8443/TCP is reserved for the host port of pod default/pod") {
		t.Errorf("the service says %q", got)
	}
	if err := s.Revert(t.Context(), add); err != nil {
		t.Fatal(err)
	}
	pods.here = false
	changed := proto.CloneOf(svc)
	changed.SessionAffinity, changed.SessionAffinityTimeout = "ClientIP", 10
	after, _, _ := change(t, s, kubeChange(svc, changed), before)
	expect("the pod was not added", after, false)

	pods.here = true
	config := resync(t, s, state(changed, slice))
	expect("resync", config, true)
	config, _, _ = change(t, s, kubeChange(changed, nil), config)
	config, _, _ = change(t, s, kubeChange(nil, svc), config)
	expect("the service comes", config, true)
	if got := s.Warnings(); slices.ContainsFunc(got, func(text string) bool { return strings.Contains(text, "is a port of service") }) {
		t.Errorf("the pod lost its port: %q", got)
	}
	txn = plugintest.Txn{}
	if _, err := s.Update(t.Context(), &podmanager.DeletePod{Pod: pods.pod.ID, ContainerID: "c1"}, txn); err != nil {
		t.Fatal(err)
	}
	pods.here = false
	config = txn.Apply(config)
	expect("the pod goes", config, false)
	if diff := plugintest.Diff(config, resync(t, s, state(svc, slice))); diff != "" {
		t.Error(diff)
	}
}

// Clients on this node reach the host ports of pods on other nodes, too.
func TestHostPortsOfOtherNodes(t *testing.T) {
	const key = "config/vpp/nat/v2/dnat44/tenant/tenant"
	svc, slice := externalService("tenant", 8888, "TCP", "192.168.16.2")
	here := func(change func(*pod.Pod, *pod.Pod_Container_Port)) *pod.Pod {
		p := &pod.Pod{Name: "far", Namespace: "default", NodeName: "node2", Phase: pod.Pod_RUNNING, IpAddress: "10.1.2.7", IpAddresses: []string{"10.1.2.7"},
			Container: []*pod.Pod_Container{{Port: []*pod.Pod_Container_Port{{HostPort: 8888, ContainerPort: 80}}}}}
		change(p, p.Container[0].Port[0])
		return p
	}
	for name, test := range map[string]struct {
		pod   *pod.Pod
		taken bool
	}{
		"running":                   {here(func(*pod.Pod, *pod.Pod_Container_Port) {}), true},
		"at the address":            {here(func(_ *pod.Pod, port *pod.Pod_Container_Port) { port.HostIpAddress = "192.168.16.2" }), true},
		"at another address":        {here(func(_ *pod.Pod, port *pod.Pod_Container_Port) { port.HostIpAddress = "203.0.113.2" }), false},
		"of another protocol":       {here(func(_ *pod.Pod, port *pod.Pod_Container_Port) { port.Protocol = pod.Pod_Container_Port_UDP }), false},
		"another port":              {here(func(_ *pod.Pod, port *pod.Pod_Container_Port) { port.HostPort = 8889 }), false},
		"starting":                  {here(func(p *pod.Pod, _ *pod.Pod_Container_Port) { p.Phase = pod.Pod_PENDING }), false},
		"on an unknown node":        {here(func(p *pod.Pod, _ *pod.Pod_Container_Port) { p.NodeName = "node9" }), false},
		"with host networking":      {here(func(p *pod.Pod, _ *pod.Pod_Container_Port) { p.HostNetwork = true }), false},
		"at an address of no node":  {here(func(_ *pod.Pod, port *pod.Pod_Container_Port) { port.HostIpAddress = "192.168.16.77" }), false},
		"of this node, not wired":   {here(func(p *pod.Pod, _ *pod.Pod_Container_Port) { p.NodeName = "node1" }), false},
		"with an unreadable hostIP": {here(func(_ *pod.Pod, port *pod.Pod_Container_Port) { port.HostIpAddress = "node2" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := needy()
			translated := func(config plugintest.Txn) bool {
				value, _ := config[key].(*vpp_nat.DNat44)
				return slices.ContainsFunc(value.GetStMappings(), func(m *vpp_nat.DNat44_StaticMapping) bool { return m.GetExternalIp() == "192.168.16.2" })
			}
			s := c.plugin(t, "services: vswitch")
			config := resync(t, s, state(svc, slice))
			if !translated(config) {
				t.Fatal("the service has no external IP without a pod")
			}
			if event := kubeChange(nil, test.pod); s.HandlesEvent(event) {
				config, _, _ = change(t, s, event, config)
			}
			if translated(config) == test.taken {
				t.Errorf("the service has the port beside the pod: %v", !test.taken)
			}
			if _, limits := frontendsOf(s, t, "tenant"); strings.Contains(fmt.Sprint(limits), "reserved for the host port of pod default/far") != test.taken {
				t.Errorf("the service says %q", limits)
			}
			if diff := plugintest.Diff(config, resync(t, c.plugin(t, "services: vswitch"), state(svc, slice, test.pod))); diff != "" {
				t.Error(diff)
			}
			if event := kubeChange(test.pod, nil); s.HandlesEvent(event) {
				config, _, _ = change(t, s, event, config)
			}
			if !translated(config) {
				t.Error("the service has no external IP when the pod is gone")
			}
		})
	}
}

// comingPod is on the node only if here is set.
type comingPod struct {
	onePod
	here bool
}

func (p *comingPod) LocalPods() podmanager.LocalPods {
	if !p.here {
		return nil
	}
	return p.onePod.LocalPods()
}

func (p *comingPod) LocalPod(id podmanager.PodID) (*podmanager.LocalPod, bool) {
	return &p.pod, p.here && id == p.pod.ID
}

func TestHostPortsFollowTheNode(t *testing.T) {
	c := newCluster()
	pod := onePod{c, podmanager.LocalPod{HostPorts: []podmanager.HostPort{{Port: 8080, Protocol: "TCP", PodPort: 80}}}}
	s, err := service.New(service.Capabilities{HostStackShared: true, ClientScopes: true, ResetsConnections: true}, fake{}, fake{}, service.Roles{HostPorts: pod.served(c)}, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	config := resync(t, s, state())
	open := func() (list []string) {
		for _, value := range config {
			switch v := value.(type) {
			case *vpp_nat.DNat44:
				for _, m := range v.GetStMappings() {
					list = append(list, m.GetExternalIp())
				}
			case *contiv_nat.DNat66:
				for _, m := range v.GetStMappings() {
					list = append(list, m.GetExternalIp())
				}
			}
		}
		slices.Sort(list)
		return list
	}
	if got, want := open(), []string{"192.168.16.1", "fd00::1"}; !slices.Equal(got, want) {
		t.Errorf("open on %v, want %v", got, want)
	}
	c.nodes = nodesync.Nodes{"node1": {ID: 1, Name: "node1", VPPIPs: []netip.Prefix{netip.MustParsePrefix("192.168.17.1/24")}}}
	config, _, _ = change(t, s, &nodesync.NodeUpdate{NodeName: "node1"}, config)
	if got, want := open(), []string{"192.168.17.1"}; !slices.Equal(got, want) {
		t.Errorf("open on %v, want %v", got, want)
	}
}

// Pods are inside clients, and each mapping contains the hairpin address.
func TestHostPortsOnVPP(t *testing.T) {
	c := newCluster()
	c.nodes = nodesync.Nodes{"node1": {ID: 1, Name: "node1", VPPIPs: []netip.Prefix{netip.MustParsePrefix("192.168.16.1/24")}, MgmtIPs: []netip.Addr{netip.MustParseAddr("10.9.9.9")}}}
	pod := onePod{c, podmanager.LocalPod{ID: podmanager.PodID{Namespace: "default", Name: "pod"}, HostPorts: []podmanager.HostPort{{Port: 8080, Protocol: "TCP", PodPort: 80}}}}
	vpp := fake{ownStack: true, bvi: "vxlanBVI"}
	s, err := service.New(service.Capabilities{}, vpp, vpp, service.Roles{HostPorts: pod.served(c)}, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	got := plugintest.Render(resync(t, s, state()))
	for _, want := range []string{
		`{"inside":["10.1.1.0/24","fd10:0:0:1::/64"],"outside_interfaces":["eth0","vxlanBVI"],"overlay":["10.1.0.0/16","172.30.0.0/16","192.168.30.0/24","fd10::/48","fd17::/48","fd30::/112"],"uplinks":["eth0"]}`,
		`{"external_ip":"192.168.16.1","external_port":8080,"local_ips":[{"local_ip":"10.1.1.7","local_port":80}],"twice_nat":"SELF","twice_nat_pool_ip":"10.1.1.254"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, `"external_ip":"10.9.9.9"`) {
		t.Errorf("open on an address of the host, with packets that do not pass VPP:\n%s", got)
	}
}
