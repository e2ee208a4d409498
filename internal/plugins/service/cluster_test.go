package service_test

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/pod"
	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/config"
	"google.golang.org/protobuf/proto"
)

type cluster struct {
	nodes nodesync.Nodes

	mu     sync.Mutex // guards others
	others string

	redirectError string // of redirects
	needs         service.Needs
}

func (c *cluster) lookForOthers() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.others, nil
}

func newCluster() *cluster {
	return &cluster{nodes: nodesync.Nodes{"node1": {
		ID: 1, Name: "node1", VPPIPs: []netip.Prefix{netip.MustParsePrefix("192.168.16.1/24")}, MgmtIPs: []netip.Addr{netip.MustParseAddr("fd00::1")},
	}}}
}

func (c *cluster) GetAllNodes() nodesync.Nodes { return c.nodes }

func (*cluster) Plan() ipam.Plan {
	six := contivconf.Subnets{
		Pods: netip.MustParsePrefix("fd10::/48"), PodsOneNodeLen: 64, Services: []netip.Prefix{netip.MustParsePrefix("fd96::/108")},
		VPPHost: netip.MustParsePrefix("fd17::/48"), VPPHostOneNodeLen: 64, VXLAN: netip.MustParsePrefix("fd30::/112"),
	}
	return ipam.Plan{Subnets: contivconf.Subnets{
		Pods: netip.MustParsePrefix("10.1.0.0/16"), PodsOneNodeLen: 24, Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, Second: &six,
		VPPHost: netip.MustParsePrefix("172.30.0.0/16"), VPPHostOneNodeLen: 24, VXLAN: netip.MustParsePrefix("192.168.30.0/24"),
	}}
}

func (c *cluster) PodSubnets(n *nodesync.Node) (list []netip.Prefix) {
	plan := c.Plan()
	for _, family := range plan.Families() {
		if subnet, err := family.PodSubnet(n.ID); err == nil {
			list = append(list, subnet)
		}
	}
	return list
}

func (*cluster) GetPodIPs(pod podmanager.PodID) []netip.Addr {
	if pod.Name == "web" {
		return []netip.Addr{netip.MustParseAddr("10.1.1.2"), netip.MustParseAddr("fd10:0:0:1::2")}
	}
	return nil
}

func (c *cluster) plugin(t *testing.T, settings string) *service.Service {
	t.Helper()
	return c.pluginWith(t, settings, nil)
}

func (c *cluster) pluginWith(t *testing.T, settings string, hostPorts *service.HostPorts) *service.Service {
	t.Helper()
	cfg, err := config.Load([]byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	cfg.HealthzBindAddress = "" // the port belongs to the test machine
	s, err := service.New(service.Capabilities{HostStackShared: true, ClientScopes: true, ResetsConnections: true}, fake{}, fake{}, service.Roles{Proxy: c.proxy(cfg), HostPorts: hostPorts, Needs: c.needs}, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func (c *cluster) proxy(cfg config.Config) *service.Proxy {
	p := &service.Proxy{Settings: cfg, NodeName: "node1", Nodes: c, Addresses: c, OtherProxy: c.lookForOthers, Healthy: func() bool { return true }}
	if c.redirectError != "" {
		p.Value = func(key string, _ bool) service.ValueReport {
			if strings.Contains(key, "host-redirect") {
				return service.ValueReport{Key: key, State: "FAILED", Error: c.redirectError}
			}
			return service.ValueReport{Key: key, State: "CONFIGURED"}
		}
	}
	return p
}

func resync(t *testing.T, s *service.Service, state controller.KubeState) plugintest.Txn {
	t.Helper()
	txn := plugintest.Txn{}
	if err := s.Resync(context.Background(), &controller.DBResync{}, state, 1, txn); err != nil {
		t.Fatal(err)
	}
	return txn
}

func webService() *k8s.Service {
	return &k8s.Service{
		Name: "web", Namespace: "default", ServiceType: "LoadBalancer", ClusterIp: "10.96.0.10", ClusterIps: []string{"10.96.0.10", "fd96::10"},
		ExternalTrafficPolicy: "Local", LbIngressIps: []string{"203.0.113.1"}, LoadbalancerSourceRanges: []string{"198.51.100.0/24"},
		Port: []*k8s.Service_ServicePort{{Protocol: "TCP", Port: 80, NodePort: 30080}},
	}
}

// nodePortService is webService without load balancer and source ranges, with policy Cluster.
func nodePortService(changes ...func(*k8s.Service)) *k8s.Service {
	svc := webService()
	svc.LbIngressIps, svc.LoadbalancerSourceRanges, svc.ExternalTrafficPolicy = nil, nil, "Cluster"
	for _, change := range changes {
		change(svc)
	}
	return svc
}

func webSlice(name string, endpoints ...string) *endpointslice.EndpointSlice {
	s := &endpointslice.EndpointSlice{
		Name: name, Namespace: "default", Service: "web", AddressType: endpointslice.EndpointSlice_IPv4,
		Ports: []*endpointslice.EndpointSlice_Port{{Protocol: "TCP", Port: 8080}},
	}
	for _, text := range endpoints {
		addr, node, _ := strings.Cut(text, "@")
		if strings.Contains(addr, ":") {
			s.AddressType = endpointslice.EndpointSlice_IPv6
		}
		s.Endpoints = append(s.Endpoints, &endpointslice.EndpointSlice_Endpoint{Addresses: []string{addr}, NodeName: node, Ready: true, Serving: true})
	}
	return s
}

func state(messages ...proto.Message) controller.KubeState {
	all := controller.KubeState{kubestate.Service: {}, kubestate.EndpointSlice: {}, kubestate.Node: {}}
	for _, m := range messages {
		switch m := m.(type) {
		case *k8s.Service:
			all[kubestate.Service][kubestate.ServiceKey(m.GetName(), m.GetNamespace())] = m
		case *endpointslice.EndpointSlice:
			all[kubestate.EndpointSlice][kubestate.EndpointSliceKey(m.GetName(), m.GetNamespace())] = m
		case *pod.Pod:
			all[kubestate.Pod] = map[string]proto.Message{kubestate.PodKey(m.GetName(), m.GetNamespace()): m}
		}
	}
	return all
}

const shared = `config/contiv/nat/v1/service-network
    {"inside":["10.1.1.0/24","fd10:0:0:1::/64"],"service_subnets":["10.96.0.0/12","fd96::/108"]}
config/vpp/nat/v2/nat44-global
    {"forwarding":true}
config/vpp/nat/v2/nat44-pool/vrf/4294967295/address/10.1.1.254
    {"first_ip":"10.1.1.254","twice_nat":true,"vrf_id":4294967295}
`

// kube-proxy translates for the host.
func (c *cluster) onVPP(t *testing.T, settings string) (*service.Service, error) {
	t.Helper()
	return c.onThisVPP(t, fake{ownStack: true, bvi: "vxlanBVI"}, service.Capabilities{}, settings)
}

func (c *cluster) onThisVPP(t *testing.T, vpp fake, caps service.Capabilities, settings string) (*service.Service, error) {
	t.Helper()
	return c.onVPPWith(t, vpp, caps, settings, &service.HostPorts{NodeName: "node1", Nodes: c, Addresses: c, Pods: onePod{cluster: c}})
}

func (c *cluster) onVPPWith(t *testing.T, vpp fake, caps service.Capabilities, settings string, hostPorts *service.HostPorts) (*service.Service, error) {
	t.Helper()
	cfg, err := config.Load([]byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	s, err := service.New(caps, vpp, vpp, service.Roles{Proxy: c.proxy(cfg), HostPorts: hostPorts, Needs: c.needs}, plugintest.Logger())
	if err == nil && s.Proxies() {
		t.Cleanup(s.Close)
	}
	return s, err
}

func change(t *testing.T, s *service.Service, event controller.Event, config plugintest.Txn) (after, txn plugintest.Txn, what string) {
	t.Helper()
	txn = plugintest.Txn{}
	if !s.HandlesEvent(event) {
		return config, txn, ""
	}
	what, err := s.Update(context.Background(), event, txn)
	if err != nil {
		t.Fatal(err)
	}
	return txn.Apply(config), txn, what
}

func kubeChange(prev, next proto.Message) *controller.KubeStateChange {
	e := &controller.KubeStateChange{PrevValue: prev, NewValue: next}
	value := next
	if value == nil {
		value = prev
	}
	switch m := value.(type) {
	case *k8s.Service:
		e.Resource, e.Key = kubestate.Service, kubestate.ServiceKey(m.GetName(), m.GetNamespace())
	case *endpointslice.EndpointSlice:
		e.Resource, e.Key = kubestate.EndpointSlice, kubestate.EndpointSliceKey(m.GetName(), m.GetNamespace())
	case *pod.Pod:
		e.Resource, e.Key = kubestate.Pod, kubestate.PodKey(m.GetName(), m.GetNamespace())
	}
	return e
}
