package service_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/policy"
	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"google.golang.org/protobuf/proto"
)

type segmentsCluster struct {
	*cluster
	pods   podmanager.LocalPods
	served map[podmanager.PodID][]netip.Addr
}

var podA = podmanager.PodID{Name: "a", Namespace: "default"}

func newSegmentsCluster() *segmentsCluster {
	c := newCluster()
	c.nodes["node1"].VPPIPs = append(c.nodes["node1"].VPPIPs, netip.MustParsePrefix("fd16::1/64"))
	c.nodes["node2"] = &nodesync.Node{ID: 2, Name: "node2", VPPIPs: []netip.Prefix{netip.MustParsePrefix("fd16::2/64")}}
	return &segmentsCluster{c, podmanager.LocalPods{podA: {ID: podA, ContainerID: "a"}}, map[podmanager.PodID][]netip.Addr{}}
}

func (*segmentsCluster) GetPodIPs(id podmanager.PodID) []netip.Addr {
	if id == podA {
		return []netip.Addr{netip.MustParseAddr("10.1.1.2")}
	}
	return nil
}

func (c *segmentsCluster) LocalPods() podmanager.LocalPods { return c.pods }

func (c *segmentsCluster) LocalPod(id podmanager.PodID) (*podmanager.LocalPod, bool) {
	pod, ok := c.pods[id]
	return pod, ok
}

func (c *segmentsCluster) GetPodIfNames(id podmanager.PodID) (vpp, linux, loopback string, exists bool) {
	return "tap-" + id.Name, "", "", c.pods[id] != nil
}

func (c *segmentsCluster) Serve(id podmanager.PodID, addrs []netip.Addr) (map[string]proto.Message, error) {
	c.served[id] = slices.Clone(addrs)
	return nil, nil
}

func (c *segmentsCluster) plugin(t *testing.T, caps service.Capabilities, conf localnode.Config) (*service.Service, error) {
	t.Helper()
	cfg, err := config.Load([]byte("services: vswitch\nhealthzBindAddress: ''"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := c.proxy(cfg)
	proxy.Addresses = c
	s, err := service.New(caps, conf, fake{}, service.Roles{Proxy: proxy, Segments: &service.Segments{
		SIDs: contivconf.Default().IPAMConfig.SRv6, Pods: c, Network: c,
	}}, plugintest.Logger())
	if err == nil {
		t.Cleanup(s.Close)
	}
	return s, err
}

func update(t *testing.T, s *service.Service, event controller.Event) plugintest.Txn {
	t.Helper()
	txn := plugintest.Txn{}
	if !s.HandlesEvent(event) {
		t.Fatalf("%v is not handled", event)
	}
	if _, err := s.Update(context.Background(), event, txn); err != nil {
		t.Fatal(err)
	}
	return txn
}

var kernelWithSegments = service.Capabilities{HostStackShared: true, ClientScopes: true, ResetsConnections: true, SegmentRouting: true}

func plainService() *k8s.Service {
	return &k8s.Service{Name: "web", Namespace: "default", ServiceType: "NodePort", ClusterIp: "10.96.0.10",
		Port: []*k8s.Service_ServicePort{{Protocol: "TCP", Port: 8080, NodePort: 30080}}}
}

const (
	policyKey   = "config/vpp/srv6/v2/policy/8fff::ffff:a60:a"
	steeringKey = "config/vpp/srv6/v2/steering/forK8sService-default-web-10.96.0.10"
	podSID      = "config/vpp/srv6/v2/localsid/9300::ffff:a01:102"
	natKey      = "config/vpp/nat/v2/dnat44/default/web"
)

func requireKeys(t *testing.T, when string, txn plugintest.Txn, present bool, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if (txn[key] != nil) != present {
			t.Errorf("%s: %s is there: %v, want %v", when, key, !present, present)
		}
	}
}

// A network policy stops the carriage.
func TestSegmentsCarryServices(t *testing.T) {
	c := newSegmentsCluster()
	s, err := c.plugin(t, kernelWithSegments, fake{})
	if err != nil {
		t.Fatal(err)
	}
	all := resync(t, s, state(plainService(), webSlice("a", "10.1.1.2@node1", "10.1.2.2@node2")))
	requireKeys(t, "resync", all, true, policyKey, steeringKey, podSID, natKey, "config/vpp/srv6/v2/localsid/9000::1", "config/vpp/srv6/v2/srv6-global",
		"config/vpp/v2/route/vrf/0/dst/9000::2/128/gw/fd16::2")
	translated := plugintest.Render(plugintest.Txn{natKey: all[natKey]})
	for _, want := range []string{`"external_ip":"192.168.16.1","external_port":30080`, // the node port, the exemption of the carried port from refusal, and the node's own connections
		`{"clients":"NODE","external_ip":"10.96.0.10","external_port":8080,"local_ips":[{"local_ip":"10.1.1.2","local_port":8080,"probability":1},{"elsewhere":true,"local_ip":"10.1.2.2","local_port":8080,"probability":1}],"twice_nat":"SELF"}`,
		`{"external_ip":"10.96.0.10","external_port":8080,"local_ips":[{"elsewhere":true,"local_ip":"10.96.0.10","local_port":8080}],"twice_nat":"SELF"}`} {
		if !strings.Contains(translated, want) {
			t.Errorf("no %s in\n%s", want, translated)
		}
	}
	if got := fmt.Sprint(c.served[podA]); got != "[10.96.0.10]" {
		t.Errorf("pod a has the addresses %s", got)
	}
	report := reportOf(t, s, "?service=default/web", http.StatusOK)
	if values := fmt.Sprint(report.Services[0].Values); !strings.Contains(values, policyKey) || !strings.Contains(values, natKey) {
		t.Errorf("values of the service: %s", values)
	}

	key := "k8s/policy/p/namespace/other"
	txn := update(t, s, &controller.KubeStateChange{Resource: kubestate.Policy, Key: key, NewValue: &policy.Policy{Name: "p", Namespace: "other"}})
	all = txn.Apply(all)
	requireKeys(t, "with a policy", all, false, policyKey, steeringKey, podSID)
	requireKeys(t, "with a policy", all, true, natKey)
	if len(c.served[podA]) != 0 {
		t.Errorf("with a policy, pod a has the addresses %v", c.served[podA])
	}
	if warnings := fmt.Sprint(s.Warnings()); !strings.Contains(warnings, "useSRv6ForServices has no effect at present: the cluster has network policies") {
		t.Errorf("warnings: %s", warnings)
	}
	all = update(t, s, &controller.KubeStateChange{Resource: kubestate.Policy, Key: key, PrevValue: &policy.Policy{Name: "p", Namespace: "other"}}).Apply(all)
	requireKeys(t, "without it", all, true, policyKey, steeringKey, podSID, natKey)

	before := webSlice("a", "10.1.1.2@node1", "10.1.2.2@node2")
	all = update(t, s, &controller.KubeStateChange{Resource: kubestate.EndpointSlice, PrevValue: before, NewValue: webSlice("a", "10.1.2.2@node2")}).Apply(all)
	if len(c.served[podA]) != 0 {
		t.Errorf("pod a, which is no endpoint any more, has the addresses %v", c.served[podA])
	}
	all = update(t, s, &controller.KubeStateChange{Resource: kubestate.EndpointSlice, PrevValue: webSlice("a", "10.1.2.2@node2")}).Apply(all)
	requireKeys(t, "without endpoints", all, false, policyKey, steeringKey)
	report = reportOf(t, s, "?service=default/web", http.StatusOK)
	if limits := fmt.Sprint(report.Services[0].Limits); !strings.Contains(limits, "10.96.0.10 is translated, not carried by segments: it has no endpoint") {
		t.Errorf("limits: %s", limits)
	}
}

// A new pod gets its SID and service addresses. A deleted pod loses them.
func TestSegmentsFollowPods(t *testing.T) {
	c := newSegmentsCluster()
	pods := c.pods
	c.pods = podmanager.LocalPods{}
	s, err := c.plugin(t, kernelWithSegments, fake{})
	if err != nil {
		t.Fatal(err)
	}
	all := resync(t, s, state(plainService(), webSlice("a", "10.1.1.2@node1")))
	requireKeys(t, "before the pod", all, false, podSID)
	c.pods = pods
	all = update(t, s, &podmanager.AddPod{Pod: podA, ContainerID: "a"}).Apply(all)
	requireKeys(t, "with the pod", all, true, podSID)
	if got := fmt.Sprint(c.served[podA]); got != "[10.96.0.10]" {
		t.Errorf("pod a has the addresses %s", got)
	}
	all = update(t, s, &podmanager.DeletePod{Pod: podA, ContainerID: "a"}).Apply(all)
	requireKeys(t, "after the pod", all, false, podSID)
}

// Addresses are steered for pods and for the host, without NAT.
func TestSegmentsOnOwnStack(t *testing.T) {
	c := newSegmentsCluster()
	s, err := c.plugin(t, service.Capabilities{SegmentRouting: true}, fake{ownStack: true})
	if err != nil {
		t.Fatal(err)
	}
	svc := plainService()
	svc.ServiceType = "ClusterIP"
	all := resync(t, s, state(svc, webSlice("a", "10.1.1.2@node1", "10.1.2.2@node2")))
	requireKeys(t, "resync", all, true, policyKey, steeringKey, steeringKey+"-inMainVRF", podSID)
	requireKeys(t, "resync", all, false, natKey)
}

func TestSegmentsOfNodesWithoutThem(t *testing.T) {
	c := newSegmentsCluster()
	if _, err := c.plugin(t, service.Capabilities{HostStackShared: true, ClientScopes: true, ResetsConnections: true}, fake{}); err == nil || !strings.Contains(err.Error(), "CONFIG_IPV6_SEG6_LWTUNNEL") {
		t.Errorf("a kernel without segment routing: %v", err)
	}
	c.nodes["node1"].VPPIPs = c.nodes["node1"].VPPIPs[:1]
	s, err := c.plugin(t, kernelWithSegments, fake{})
	if err != nil {
		t.Fatal(err)
	}
	requireKeys(t, "without IPv6", resync(t, s, state(plainService(), webSlice("a", "10.1.2.2@node2"))), false, policyKey)
	if warnings := fmt.Sprint(s.Warnings()); !strings.Contains(warnings, "no IPv6 address") {
		t.Errorf("warnings: %s", warnings)
	}
	c.nodes["node1"].VPPIPs = append(c.nodes["node1"].VPPIPs, netip.MustParsePrefix("fd16::1/64"))
	requireKeys(t, "with IPv6", update(t, s, &nodesync.NodeUpdate{NodeName: "node1", NewState: c.nodes["node1"]}), true, policyKey)
}
