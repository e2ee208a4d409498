package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/node"
	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/plugins/contivconf"
	"github.com/contiv/contiv/plugins/ipam"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/plugintest"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/service"
	"github.com/contiv/contiv/plugins/service/config"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
)

// cluster is one with a node node1.
type cluster struct {
	nodes nodesync.Nodes

	mu     sync.Mutex // of others
	others string
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
		Pods: netip.MustParsePrefix("fd10::/48"), PodsOneNodeLen: 64, Service: netip.MustParsePrefix("fd96::/108"),
		VPPHost: netip.MustParsePrefix("fd17::/48"), VPPHostOneNodeLen: 64, VXLAN: netip.MustParsePrefix("fd30::/112"),
	}
	return ipam.Plan{Subnets: contivconf.Subnets{
		Pods: netip.MustParsePrefix("10.1.0.0/16"), PodsOneNodeLen: 24, Service: netip.MustParsePrefix("10.96.0.0/12"), Second: &six,
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

// plugin returns one that lets the vswitch translate services.
func (c *cluster) plugin(t *testing.T, settings string) *service.Service {
	t.Helper()
	return c.pluginWith(t, settings, nil)
}

// pluginWith also lets it translate host ports, if they are given.
func (c *cluster) pluginWith(t *testing.T, settings string, hostPorts *service.HostPorts) *service.Service {
	t.Helper()
	cfg, err := config.Load([]byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	cfg.HealthzBindAddress = "" // the port is that of the machine
	s, err := service.New(service.Capabilities{HostStackShared: true, ClientScopes: true, ResetsConnections: true}, fake{}, fake{}, service.Roles{Proxy: c.proxy(cfg), HostPorts: hostPorts}, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func (c *cluster) proxy(cfg config.Config) *service.Proxy {
	return &service.Proxy{Settings: cfg, NodeName: "node1", Nodes: c, Addresses: c, Others: c.lookForOthers, Healthy: func() bool { return true }}
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
	all := controller.KubeState{dbresources.Service: {}, dbresources.EndpointSlice: {}, dbresources.Node: {}}
	for _, m := range messages {
		switch m := m.(type) {
		case *k8s.Service:
			all[dbresources.Service][dbresources.ServiceKey(m.GetName(), m.GetNamespace())] = m
		case *endpointslice.EndpointSlice:
			all[dbresources.EndpointSlice][dbresources.EndpointSliceKey(m.GetName(), m.GetNamespace())] = m
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

func TestServicesAreOneValueOfEachIPVersion(t *testing.T) {
	got := plugintest.Render(resync(t, newCluster().plugin(t, "services: vswitch"), state(
		webService(), webSlice("a", "10.1.1.2@node1", "10.1.2.2@node2"), webSlice("b", "fd10:0:0:2::2@node2"))))
	local := `{"local_ip":"10.1.1.2","local_port":8080,"probability":1}`
	both := `"local_ips":[` + local + `,{"elsewhere":true,"local_ip":"10.1.2.2","local_port":8080,"probability":1}]`
	one := `"local_ips":[{"local_ip":"10.1.1.2","local_port":8080}]`
	six := `"local_ips":[{"elsewhere":true,"local_ip":"fd10:0:0:2::2","local_port":8080}]`
	for _, want := range []string{
		`{"external_ip":"10.96.0.10","external_port":80,` + both + `,"masquerade_outside":true,"twice_nat":"SELF"}`,
		`{"clients":"INSIDE","external_ip":"192.168.16.1","external_port":30080,` + both + `,"twice_nat":"SELF"}`,
		`{"clients":"OUTSIDE","external_ip":"192.168.16.1","external_port":30080,` + one + `,"twice_nat":"SELF"}`,
		`{"clients":"OUTSIDE","external_ip":"203.0.113.1","external_port":80,` + one + `,"source_ranges":["198.51.100.0/24"],"twice_nat":"SELF"}`,
		`{"external_ip":"fd96::10","external_port":80,` + six + `,"masquerade_outside":true,"twice_nat":"SELF","twice_nat_ip":"fd10::1:ffff:ffff:ffff:fffe"}`,
		`{"clients":"OUTSIDE","external_ip":"fd00::1","external_port":30080,"otherwise":"DROP"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no mapping\n%s in\n%s", want, got)
		}
	}
	for _, line := range strings.SplitAfter(shared, "\n") {
		if !strings.Contains(got, line) {
			t.Errorf("no %s in\n%s", line, got)
		}
	}
}

func TestServicesAreLeftToOthers(t *testing.T) {
	everything := state(webService(), webSlice("a", "10.1.1.2@node1"))
	c := newCluster()
	if got := resync(t, c.plugin(t, ""), everything); len(got) != 5 {
		t.Errorf("without the option, and without kube-proxy: %v", got)
	}
	if got := resync(t, c.plugin(t, "services: kube-proxy"), everything); len(got) > 0 {
		t.Errorf("with services: kube-proxy: %v", got)
	}
	for setting, warned := range map[string]bool{"services: auto": false, "services: vswitch": true} {
		c.others = "nftables table kube-proxy"
		s := c.plugin(t, setting)
		if got := resync(t, s, everything); len(got) > 0 {
			t.Errorf("%s, beside kube-proxy: %v", setting, got)
		}
		if got := s.Translator(); got.VSwitch || got.Others != c.others {
			t.Errorf("%s, beside kube-proxy: %+v", setting, got)
		}
		if got := s.Warnings(); (len(got) == 1) != warned {
			t.Errorf("%s, beside kube-proxy: warnings %q", setting, got)
		}
		c.others = ""
		if got := resync(t, s, everything); len(got) != 5 {
			t.Errorf("%s, without kube-proxy: %v", setting, got)
		}
		if got := s.Translator(); !got.VSwitch || got.Others != "" || len(s.Warnings()) > 0 {
			t.Errorf("%s, without kube-proxy: %+v, warnings %q", setting, got, s.Warnings())
		}
	}
}

// plugin of a node with VPP, where kube-proxy translates what the host sends.
func (c *cluster) onVPP(t *testing.T, settings string) (*service.Service, error) {
	t.Helper()
	return c.onThisVPP(t, fake{ownStack: true, bvi: "vxlanBVI"}, service.Capabilities{}, settings)
}

func (c *cluster) onThisVPP(t *testing.T, vpp fake, caps service.Capabilities, settings string) (*service.Service, error) {
	t.Helper()
	cfg, err := config.Load([]byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	hostPorts := &service.HostPorts{NodeName: "node1", Nodes: c, Addresses: c, Pods: onePod{cluster: c}}
	s, err := service.New(caps, vpp, vpp, service.Roles{Proxy: c.proxy(cfg), HostPorts: hostPorts}, plugintest.Logger())
	if err == nil && s.Proxies() {
		t.Cleanup(s.Close)
	}
	return s, err
}

// VPP has a route to exactly each address that the host has at a network card of its own, which a translation would hide.
// So an external IP there is left out, and the service keeps everything else.
func TestExternalIPsOfTheHostBesideVPP(t *testing.T) {
	c := newCluster()
	c.nodes["node1"].MgmtIPs = []netip.Addr{netip.MustParseAddr("192.168.17.1"), netip.MustParseAddr("192.168.16.1")}
	s, err := c.onVPP(t, "services: vswitch\n")
	if err != nil {
		t.Fatal(err)
	}
	svc := webService()
	svc.LoadbalancerSourceRanges, svc.ExternalIps, svc.LbIngressIps = nil, []string{"192.168.17.1", "203.0.113.7"}, []string{"192.168.17.1", "203.0.113.1"}
	everything := state(svc, webSlice("a", "10.1.1.2@node1"))
	const note = "host's own network cards"
	check := func(addr string) {
		t.Helper()
		got := plugintest.Render(resync(t, s, everything))
		for _, want := range []string{`"10.96.0.10"`, `"192.168.16.1","external_port":30080`, `"203.0.113.7","external_port":80`, `"203.0.113.1","external_port":80`} {
			if !strings.Contains(got, `"external_ip":`+want) {
				t.Errorf("%s is not translated:\n%s", want, got)
			}
		}
		if strings.Contains(got, `"external_ip":"`+addr) {
			t.Errorf("%s is translated:\n%s", addr, got)
		}
		if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], note) || !strings.HasSuffix(notes[0], "; services: default/web") {
			t.Errorf("notes are %q", notes)
		}
		if told := reportOf(t, s, "?service=default/web", http.StatusOK).Services[0].Limits; len(told) != 1 || !strings.Contains(told[0], note) {
			t.Errorf("limits of the service: %q", told)
		}
	}
	check("192.168.17.1")

	onKernel := plugintest.Render(resync(t, c.plugin(t, "services: vswitch\n"), everything))
	if !strings.Contains(onKernel, `"external_ip":"192.168.17.1","external_port":80`) {
		t.Errorf("the kernel does not translate it:\n%s", onKernel)
	}
}

// Whoever may make services gets no connections to pods by their addresses.
func TestExternalIPsOfPods(t *testing.T) {
	svc := webService()
	svc.LoadbalancerSourceRanges = nil
	svc.ExternalIps = []string{"10.1.2.7", "fd10:0:0:2::7", "203.0.113.7"}
	svc.LbIngressIps = []string{"10.1.1.2", "203.0.113.1"}
	everything := state(svc, webSlice("a", "10.1.1.2@node1"))
	c := newCluster()
	onVPP, err := c.onVPP(t, "services: vswitch\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*service.Service{"kernel": c.plugin(t, "services: vswitch"), "VPP": onVPP} {
		got := plugintest.Render(resync(t, s, everything))
		for _, ip := range append(svc.ExternalIps, svc.LbIngressIps...) {
			if translated := strings.Contains(got, `"external_ip":"`+ip+`"`); translated != strings.HasPrefix(ip, "203.") {
				t.Errorf("%s: %s is translated: %v\n%s", name, ip, translated, got)
			}
		}
		if told := reportOf(t, s, "?service=default/web", http.StatusOK).Services[0].Limits; len(told) != 1 || !strings.Contains(told[0], "pod network") {
			t.Errorf("%s: limits %q", name, told)
		}
		if notes := s.Notes(); len(notes) != 1 || !strings.HasSuffix(notes[0], "; services: default/web") {
			t.Errorf("%s: notes %q", name, notes)
		}
	}
}

// Where VPP has the host's only card, it leaves what has no endpoint at the address of both to the host, which refuses it.
func TestServicesWithoutEndpointsOnAStolenCard(t *testing.T) {
	stolen := fake{ownStack: true, bvi: "vxlanBVI", resolved: contivconf.Resolved{Stolen: &contivconf.Stolen{}}}
	s, err := newCluster().onThisVPP(t, stolen, service.Capabilities{}, "services: vswitch\n")
	if err != nil {
		t.Fatal(err)
	}
	none := webService()
	none.ExternalTrafficPolicy, none.LbIngressIps, none.LoadbalancerSourceRanges, none.ExternalIps = "Cluster", nil, nil, []string{"203.0.113.9"}
	none.Port = []*k8s.Service_ServicePort{{Protocol: "TCP", Port: 80, NodePort: 30081}, {Protocol: "UDP", Port: 81, NodePort: 30082}}
	got := plugintest.Render(resync(t, s, state(none)))
	for _, want := range []string{
		`{"external_ip":"203.0.113.9","external_port":80,"otherwise":"REFUSE"}`,
		// Of VPP's refusal, processes of the host would not hear over IPv4.
		`{"external_ip":"10.96.0.10","external_port":80,"local_ips":[{"local_ip":"192.168.16.1","local_port":1}],"masquerade_outside":true,"twice_nat":"SELF","twice_nat_pool_ip":"10.1.1.254"}`,
		`{"external_ip":"10.96.0.10","external_port":81,"otherwise":"REFUSE","protocol":"UDP"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, `"external_ip":"192.168.16.1"`) {
		t.Errorf("the address of the host is translated:\n%s", got)
	}
}

// Where VPP has the host's only card, the host's processes are clients of VPP's routes, by an interface without features. Pods see the
// host's address at cluster IPs, which policies let in, unless the host is an endpoint itself and would drop what has its own address.
func TestHostsOfAStolenCardUseServices(t *testing.T) {
	stolen := fake{ownStack: true, bvi: "vxlanBVI", resolved: contivconf.Resolved{Stolen: &contivconf.Stolen{}}}
	s, err := newCluster().onThisVPP(t, stolen, service.Capabilities{}, "services: vswitch\n")
	if err != nil {
		t.Fatal(err)
	}
	pods, host := webService(), webService()
	pods.LbIngressIps, pods.LoadbalancerSourceRanges, pods.ExternalTrafficPolicy, pods.ExternalIps = nil, nil, "Cluster", []string{"203.0.113.9"}
	host.Name, host.ClusterIps, host.ClusterIp, host.LbIngressIps, host.LoadbalancerSourceRanges = "host", []string{"10.96.0.11"}, "10.96.0.11", nil, nil
	host.Port[0].NodePort = 30083
	onHost := webSlice("b", "192.168.16.1@node1")
	onHost.Service = "host"
	got := plugintest.Render(resync(t, s, state(pods, host, webSlice("a", "10.1.1.2@node1"), onHost)))
	for _, want := range []string{
		`"outside_interfaces":["eth0","vxlanBVI","tap-vpp2"]`,
		`{"external_ip":"10.96.0.10","external_port":80,"local_ips":[{"local_ip":"10.1.1.2","local_port":8080}],"twice_nat":"SELF","twice_nat_pool_ip":"10.1.1.254"}`,
		`{"external_ip":"203.0.113.9","external_port":80,"local_ips":[{"local_ip":"10.1.1.2","local_port":8080}],"masquerade_outside":true,"twice_nat":"SELF","twice_nat_pool_ip":"10.1.1.254"}`,
		`{"external_ip":"10.96.0.11","external_port":80,"local_ips":[{"local_ip":"192.168.16.1","local_port":8080}],"masquerade_outside":true,"twice_nat":"SELF","twice_nat_pool_ip":"10.1.1.254"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// Connections to removed endpoints are reset where the kernel can end sockets, which are those on the node. Others are told of.
func TestRemovedEndpointsOnVPP(t *testing.T) {
	s, err := newCluster().onThisVPP(t, fake{ownStack: true, bvi: "vxlanBVI"}, service.Capabilities{ResetsConnections: true}, "services: vswitch\nresetRemovedEndpoints: true\n")
	if err != nil {
		t.Fatal(err)
	}
	cluster, local, udp := webService(), webService(), webService()
	cluster.ExternalTrafficPolicy, cluster.LbIngressIps, cluster.LoadbalancerSourceRanges = "Cluster", nil, nil
	local.Name, local.ClusterIp, local.ClusterIps, local.LbIngressIps, local.LoadbalancerSourceRanges = "local", "10.96.0.11", []string{"10.96.0.11"}, nil, nil
	local.Port[0].NodePort = 30083
	udp.Name, udp.ClusterIp, udp.ClusterIps, udp.LbIngressIps, udp.LoadbalancerSourceRanges = "udp", "10.96.0.12", []string{"10.96.0.12"}, nil, nil
	udp.Port = []*k8s.Service_ServicePort{{Name: "http", Protocol: "UDP", Port: 80, NodePort: 30084}}
	for line := range strings.Lines(plugintest.Render(resync(t, s, state(cluster, local, udp, webSlice("a", "10.1.1.2@node1"))))) {
		if !strings.Contains(line, `"st_mappings"`) {
			continue
		}
		if resets, is := strings.Contains(line, `"reset_removed":true`), !strings.Contains(line, `"protocol":"UDP"`); resets != is {
			t.Errorf("connections are reset: %v, want %v: %s", resets, is, line)
		}
	}
	const limit = "resetRemovedEndpoints does not hold for clients outside"
	if notes := s.Notes(); !slices.ContainsFunc(notes, func(text string) bool {
		return strings.HasPrefix(text, limit) && strings.HasSuffix(text, "; services: default/web")
	}) {
		t.Errorf("no note of connections of clients outside: %q", notes)
	}
	if w := s.Warnings(); len(w) > 0 {
		t.Errorf("what nobody can change is a warning: %q", w)
	}
}

// VPP has one mapping for all clients, is told by what address to hide those outside, and by
// which interfaces they come.
func TestServicesOnVPP(t *testing.T) {
	beside := newCluster()
	beside.others = "kube-proxy" // translates what the host sends, which is no second translation
	s, err := beside.onVPP(t, "services: vswitch\nresetRemovedEndpoints: true\n")
	if err != nil {
		t.Fatal(err)
	}
	local := webService()
	local.Name, local.ClusterIps, local.ClusterIp = "other", []string{"10.96.0.11"}, "10.96.0.11"
	local.LbIngressIps, local.Port[0].NodePort = []string{"203.0.113.2"}, 30083
	sticky := webService()
	sticky.Port[0].NodePort = 30084
	sticky.Name, sticky.ClusterIps, sticky.ClusterIp, sticky.LbIngressIps, sticky.LoadbalancerSourceRanges = "sticky", []string{"10.96.0.12"}, "10.96.0.12", nil, nil
	sticky.SessionAffinity, sticky.SessionAffinityTimeout = "ClientIP", 60
	none := webService()
	none.Name, none.ClusterIps, none.ClusterIp, none.ExternalTrafficPolicy, none.LbIngressIps, none.LoadbalancerSourceRanges = "none", []string{"10.96.0.13"}, "10.96.0.13", "Cluster", nil, nil
	none.Port = []*k8s.Service_ServicePort{{Protocol: "TCP", Port: 80, NodePort: 30081}, {Protocol: "UDP", Port: 81, NodePort: 30082}}
	got := plugintest.Render(resync(t, s, state(webService(), local, sticky, none,
		webSlice("a", "10.1.1.2@node1", "10.1.2.2@node2"), webSlice("b", "fd10:0:0:2::2@node2"))))
	mapping := func(addr string, port int, more string) string {
		return fmt.Sprintf(`{"external_ip":"%s","external_port":%d,"local_ips":[%s],%s"twice_nat":"SELF","twice_nat_pool_ip":"10.1.1.254"}`, addr, port, more, map[bool]string{true: `"masquerade_outside":true,`}[port == 80])
	}
	for _, want := range []string{
		`"outside_interfaces":["eth0","vxlanBVI"]`,
		mapping("10.96.0.10", 80, `{"local_ip":"10.1.1.2","local_port":8080,"probability":1},{"elsewhere":true,"local_ip":"10.1.2.2","local_port":8080,"probability":1}`),
		mapping("192.168.16.1", 30080, `{"local_ip":"10.1.1.2","local_port":8080}`), // those of clients outside
		"config/vpp/v2/route/vrf/4/dst/10.1.1.254/32\n" + `    {"dst_network":"10.1.1.254/32","type":"INTER_VRF","vrf_id":4}`,
		`{"external_ip":"10.96.0.11","external_port":80,"otherwise":"REFUSE"}`,
		// The host refuses connections to what has no endpoint at all, in the name of hidden clients.
		`{"external_ip":"192.168.16.1","external_port":30081,"local_ips":[{"local_ip":"172.30.1.2","local_port":1}],"masquerade_outside":true,"twice_nat":"SELF","twice_nat_pool_ip":"10.1.1.254"}`,
		`{"external_ip":"192.168.16.1","external_port":30082,"otherwise":"REFUSE","protocol":"UDP"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	for _, not := range []string{`"clients"`, "source_ranges", "reset_removed", `"external_ip":"fd00::1"`, `"DROP"`} {
		if strings.Contains(got, not) {
			t.Errorf("%s in\n%s", not, got)
		}
	}
	// Only what can be changed on the node is a problem of it.
	for name, c := range map[string]struct {
		texts []string
		want  map[string]string
	}{
		"notes":    {s.Notes(), map[string]string{"sessionAffinity": "default/sticky"}},
		"warnings": {s.Warnings(), map[string]string{"resetRemovedEndpoints has no effect": "default/none, default/other, default/sticky, default/web"}},
	} {
		for limit, services := range c.want {
			if len(c.texts) != len(c.want) || !slices.ContainsFunc(c.texts, func(text string) bool {
				return strings.Contains(text, limit) && strings.HasSuffix(text, "; services: "+services)
			}) {
				t.Errorf("%s are %q, want one of %s", name, c.texts, limit)
			}
		}
	}
	if told := reportOf(t, s, "?service=default/sticky", http.StatusOK).Services[0].Limits; len(told) != 2 || !strings.Contains(told[1], "sessionAffinity") {
		t.Errorf("limits of the service with affinity: %q", told)
	}
	if s, err := newCluster().onVPP(t, "services: kube-proxy"); err != nil || s.Proxies() {
		t.Errorf("services: kube-proxy: %v, %v", s.Proxies(), err)
	}
}

// By default VPP decides as the kernel does, and is asked again with each resync.
func TestServicesOnVPPAreLeftToOthers(t *testing.T) {
	everything := state(webService(), webSlice("a", "10.1.1.2@node1"))
	c := newCluster()
	s, err := c.onVPP(t, "healthzBindAddress: \"\"")
	if err != nil {
		t.Fatal(err)
	}
	for _, others := range []string{"", "nftables table kube-proxy", ""} {
		c.others = others
		got := plugintest.Render(resync(t, s, everything))
		if ours := strings.Contains(got, "dnat44/default/web"); ours != (others == "") {
			t.Errorf("beside %q: translated: %v\n%s", others, ours, got)
		}
		if others != "" && strings.Contains(got, "/nat/") { // the answers of connections are still led
			t.Errorf("beside %q:\n%s", others, got)
		}
		if told := s.Translator(); told.VSwitch != (others == "") || told.Others != others {
			t.Errorf("beside %q: %+v", others, told)
		}
	}
}

// Only somebody who asks for VPP to translate in another VRF than 0 is refused.
func TestServicesOnVPPNeedVRF0(t *testing.T) {
	for settings, refused := range map[string]bool{"": false, "services: auto": false, "services: kube-proxy": false, "services: vswitch": true} {
		cfg, err := config.Load([]byte(settings))
		if err != nil {
			t.Fatal(err)
		}
		inVRF3 := fake{ownStack: true, nat: true}
		s, err := service.New(service.Capabilities{}, inVRF3, inVRF3, service.Roles{Proxy: &service.Proxy{Settings: cfg, NodeName: "node1"}}, plugintest.Logger())
		if (err != nil) != refused || err == nil && s.Proxies() {
			t.Errorf("%q: %v, want refused: %v, and nothing translated", settings, err, refused)
		}
	}
}

// reportOf is the answer to a query.
func reportOf(t *testing.T, s *service.Service, query string, status int) (report service.Report) {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, service.URL+query, nil))
	if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil || w.Code != status {
		t.Fatalf("%s: %d %s (%v)", query, w.Code, w.Body, err)
	}
	return report
}

// A name with a mistake, a service without an address, and services that are left to kube-proxy are told apart.
func TestUnknownServices(t *testing.T) {
	headless := webService()
	headless.Name, headless.ClusterIp, headless.ClusterIps, headless.ExternalIps, headless.LbIngressIps = "none", "None", []string{"None"}, nil, nil
	named, others, none := proto.CloneOf(headless), webService(), proto.CloneOf(headless)
	named.Name, named.ServiceType, named.ClusterIp = "named", "ExternalName", ""
	others.Name, others.Labels = "others", map[string]string{"service.kubernetes.io/service-proxy-name": "somebody"}
	none.Name, none.ClusterIp, none.ClusterIps = "without", "", nil
	for _, c := range []struct{ settings, name, want string }{
		{"services: vswitch", "default/wbe", `there is no service "default/wbe": did you mean "default/web"?`},
		{"services: vswitch", "payments", `there is no service "payments": services are written NAMESPACE/NAME`},
		{"services: vswitch", "default/none", `service "default/none" has no address to translate: it is headless: DNS gives clients the addresses of its pods`},
		{"services: vswitch", "default/named", `service "default/named" has no address to translate: it is of type ExternalName: DNS gives clients another name`},
		{"services: vswitch", "default/others", `service "default/others" has no address to translate: its label service.kubernetes.io/service-proxy-name leaves it to somebody`},
		{"services: vswitch", "default/without", `service "default/without" has no address to translate: it has no cluster IP yet`},
		{"services: kube-proxy", "default/web", `services are left to kube-proxy on this node, which therefore knows none, "default/web" neither`},
	} {
		s := newCluster().plugin(t, c.settings)
		resync(t, s, state(webService(), webSlice("a", "10.1.1.2@node1"), headless, named, others, none))
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, service.URL+"?service="+c.name, nil))
		var answer struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusNotFound || !strings.HasPrefix(answer.Error, c.want) {
			t.Errorf("%s, %s: %d %s (%v)", c.settings, c.name, w.Code, w.Body, err)
		}
	}
}

func TestReportTellsOfAllServicesOrAllOfOne(t *testing.T) {
	s := newCluster().plugin(t, "services: vswitch")
	resync(t, s, state(webService(), webSlice("a", "10.1.1.2@node1", "10.1.2.2@node2"), webSlice("b", "fd10:0:0:2::2@node2")))
	get := func(query string, status int) service.Report {
		t.Helper()
		return reportOf(t, s, query, status)
	}
	all := get("", http.StatusOK)
	if len(all.Services) != 1 || all.Services[0].Endpoints != 3 || len(all.Services[0].Details) > 0 || len(all.Services[0].Values) != 2 || !all.Translator.VSwitch {
		t.Errorf("all: %+v", all)
	}
	one := get("?service=default/web", http.StatusOK)
	if len(one.Services) != 1 || len(one.Services[0].Details) != 3 || len(one.Services[0].Frontends) != 5 {
		t.Errorf("one: %+v", one)
	}
	if details := get("?verbose=", http.StatusOK); !cmp.Equal(details, one) {
		t.Errorf("all of all: %s", cmp.Diff(one, details))
	}
	get("?service=default/other", http.StatusNotFound)
	for _, addr := range []string{"10.1.2.2", "fd10:0:0:2::2"} {
		of := get("?endpoint="+addr, http.StatusOK)
		if len(of.Services) != 1 || len(of.Services[0].Details) != 1 || !strings.Contains(of.Services[0].Details[0].Address, addr) {
			t.Errorf("of %s: %+v", addr, of)
		}
	}
	if of := get("?endpoint=10.1.2.3", http.StatusOK); len(of.Services) != 0 {
		t.Errorf("of another address: %+v", of)
	}
	get("?endpoint=web", http.StatusBadRequest)
}

func TestMetricsTellHowLongChangesTake(t *testing.T) {
	s := newCluster().plugin(t, "services: vswitch")
	resync(t, s, state(webService()))
	slice := webSlice("a", "10.1.1.2@node1")
	done := func(event controller.Event, took time.Duration, err string) {
		now := time.Now()
		s.EventDone(event, &controller.EventRecord{ProcessingStart: now, ProcessingEnd: now.Add(took), ErrorStr: err, Txn: &controller.TxnRecord{}})
	}
	done(&controller.DBResync{}, time.Second, "")
	done(kubeChange(nil, slice), time.Second, "") // nobody knows since when
	before := proto.CloneOf(slice)
	slice.TriggerTime = time.Now().Format(time.RFC3339Nano)
	done(kubeChange(before, slice), 3*time.Second, "")
	done(kubeChange(slice, slice), time.Second, "") // the same trigger
	done(kubeChange(before, slice), time.Second, "failed")
	done(&nodesync.NodeUpdate{NodeName: "node2"}, time.Second, "") // not about services
	registry := prometheus.NewRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				if l.GetName() == "result" {
					name += " " + l.GetValue()
				}
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"contiv_service_network_programming_duration_seconds": 1, "contiv_service_sync_duration_seconds": 4,
		"contiv_service_syncs_total ok": 4, "contiv_service_syncs_total error": 1, "contiv_service_translated": 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if last := got["contiv_service_sync_last_timestamp_seconds"]; last < float64(time.Now().Add(-time.Minute).Unix()) {
		t.Errorf("last sync: %v", last)
	}
}

// kube-proxy may be started, and stopped, at any time.
func TestOthersAreNoticedWhenTheyComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		s := c.plugin(t, "services: auto")
		ctx, cancel := context.WithCancel(t.Context())
		var requests atomic.Int32
		var refused atomic.Bool
		go s.WatchOthers(ctx, time.Second, func() error {
			requests.Add(1)
			if refused.Load() {
				return errors.New("too many")
			}
			return nil
		})
		after := func(what string, others string, want int32) {
			t.Helper()
			synctest.Wait()
			c.mu.Lock()
			c.others = others
			c.mu.Unlock()
			requests.Store(0)
			time.Sleep(3*time.Second + time.Millisecond)
			synctest.Wait()
			if got := requests.Load(); got != want {
				t.Errorf("%s: %d resyncs are requested, want %d", what, got, want)
			}
		}
		after("before the first resync", "kube-proxy", 0)
		resync(t, s, state())
		after("nothing has changed", "kube-proxy", 0)
		after("kube-proxy went", "", 1)
		resync(t, s, state())
		refused.Store(true)
		after("kube-proxy came, and requests are refused", "kube-proxy", 3)
		refused.Store(false)
		after("requests are taken again", "kube-proxy", 1)
		resync(t, s, state())
		after("the resync has left services to it", "kube-proxy", 0)
		cancel()
	})
}

func TestBadServiceConfig(t *testing.T) {
	for text, want := range map[string]string{
		"services: yes please": "kube-proxy", "healthzBindAddress: '10256'": "such as :10256", "healthzBindAddress: 'node1:1'": "no address with a port", "healthzBindAddress: ':0'": "no port from 1",
		"nodePortAddresses: [eth0]": "nodePortAddresses", "serviceLocalEndpointWeight: 0": "1 to 255", "service: vswitch": "services",
		"otherNATSessionTimeout: 65536": "at most 65535",
	} {
		if _, err := config.Load([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// change hands an update to the plugin, and returns the configuration after it.
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
		e.Resource, e.Key = dbresources.Service, dbresources.ServiceKey(m.GetName(), m.GetNamespace())
	case *endpointslice.EndpointSlice:
		e.Resource, e.Key = dbresources.EndpointSlice, dbresources.EndpointSliceKey(m.GetName(), m.GetNamespace())
	}
	return e
}

func TestChangesAreDescribedAndSmall(t *testing.T) {
	c := newCluster()
	s := c.plugin(t, "services: vswitch")
	other := webService()
	other.Name, other.ClusterIp, other.ClusterIps, other.LbIngressIps, other.Port[0].NodePort = "other", "10.96.0.11", nil, nil, 30081
	configured := resync(t, s, state(other))
	moved := *c.nodes["node1"]
	moved.MgmtIPs = []netip.Addr{netip.MustParseAddr("192.168.99.1"), netip.MustParseAddr("fd00::1")}
	for _, step := range []struct {
		event  controller.Event
		before func()
		want   string
		keys   int
	}{
		{event: kubeChange(nil, webSlice("a", "10.1.1.2@node1"))},
		{event: kubeChange(nil, webService()), want: "add service 'default/web'", keys: 2},
		{event: kubeChange(webService(), webService())},
		{event: kubeChange(webSlice("a", "10.1.1.2@node1"), webSlice("a", "10.1.1.3@node1")), want: "update service 'default/web'", keys: 1},
		{event: &nodesync.NodeUpdate{NodeName: "node2"}},
		{event: &nodesync.NodeUpdate{NodeName: "node1"}, before: func() { c.nodes = nodesync.Nodes{"node1": &moved} }, want: "update nodeport services", keys: 2},
		{event: zoneOf("node1", "b")},
		{event: kubeChange(webService(), nil), want: "delete service 'default/web'", keys: 2},
	} {
		if step.before != nil {
			step.before()
		}
		var txn plugintest.Txn
		var what string
		configured, txn, what = change(t, s, step.event, configured)
		if what != step.want || len(txn) != step.keys {
			t.Errorf("%v: %q with %d values, want %q with %d: %v", step.event, what, len(txn), step.want, step.keys, txn)
		}
	}
	if len(configured) != 3+1 { // the other service has IPv4 only
		t.Errorf("left: %v", configured)
	}
}

// zoneOf is a change of the zone of a node.
func zoneOf(name, zone string) *controller.KubeStateChange {
	return &controller.KubeStateChange{Resource: dbresources.Node, Key: dbresources.NodeKey(name), NewValue: &node.Node{Name: name, Labels: map[string]string{"topology.kubernetes.io/zone": zone}}}
}

// Several services that change at once are named, and called nodeport services only if that is what changes.
func TestChangesOfSeveralServices(t *testing.T) {
	c := newCluster()
	s := c.plugin(t, "services: vswitch")
	var all []proto.Message
	for i := range 7 {
		svc := webService()
		svc.Name, svc.ClusterIp, svc.LbIngressIps, svc.LoadbalancerSourceRanges = fmt.Sprint("web", i), fmt.Sprint("10.96.0.2", i), nil, nil
		svc.ClusterIps, svc.ServiceType, svc.Port[0].NodePort = []string{svc.ClusterIp}, "ClusterIP", 0
		slice := webSlice(svc.Name, "10.1.1.2@node1", "10.1.2.2@node2")
		slice.Service = svc.Name
		slice.Endpoints[0].ForZones, slice.Endpoints[1].ForZones = []string{"a"}, []string{"b"}
		all = append(all, svc, slice)
	}
	configured := resync(t, s, state(all[:4]...))
	configured, _, what := change(t, s, zoneOf("node1", "a"), configured)
	if want := "update service 'default/web0', update service 'default/web1'"; what != want {
		t.Errorf("%q, want %q", what, want)
	}
	for _, m := range all[4:] {
		configured, _, _ = change(t, s, kubeChange(nil, m), configured)
	}
	if _, _, what = change(t, s, zoneOf("node1", "b"), configured); what != "update 7 services" {
		t.Errorf("%q", what)
	}
}

// Whatever changes in whatever order, the configuration is that of a resync.
func TestUpdatesEndInTheSameConfigurationAsAResync(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		c := newCluster()
		s := c.plugin(t, "services: vswitch")
		configured := resync(t, s, state())
		now := map[string]proto.Message{}
		for range 30 {
			var next proto.Message
			switch name := fmt.Sprint(r.IntN(3)); r.IntN(4) {
			case 0:
				svc := webService()
				svc.ClusterIps, svc.SessionAffinity, svc.SessionAffinityTimeout = svc.ClusterIps[r.IntN(2):], []string{"None", "ClientIP"}[r.IntN(2)], 60
				svc.ExternalTrafficPolicy = []string{"Cluster", "Local"}[r.IntN(2)]
				next = svc
			case 1:
				n := r.IntN(4)
				next = ofPods(webSlice("v4-"+name, []string{"10.1.1.2@node1", "10.1.2.2@node2", "10.1.1.3@node1"}[:n]...), []string{"a", "c", "b"}[:n]...)
			case 2:
				n := 1 + r.IntN(2)
				next = ofPods(webSlice("v6-"+name, []string{"fd10:0:0:1::2@node1", "fd10:0:0:2::2@node2"}[:n]...), []string{"a", "c"}[:n]...)
			case 3:
				node := 1 + r.IntN(2)
				at := []string{fmt.Sprintf("10.1.%d.9", node), fmt.Sprintf("fd10:0:0:%d::9", node)}[r.IntN(2):]
				configured, _, _ = change(t, s, c.publish(uint32(node), fmt.Sprintf("node%d", node), []string{"a", "b", "c"}[r.IntN(3)], at[:r.IntN(len(at)+1)]...), configured)
				continue
			}
			e := kubeChange(nil, next)
			if prev, ok := now[e.Key]; ok {
				e.PrevValue = prev
				if r.IntN(3) == 0 {
					e.NewValue = nil
				}
			}
			if now[e.Key] = next; e.NewValue == nil {
				delete(now, e.Key)
			}
			configured, _, _ = change(t, s, e, configured)
		}
		var all []proto.Message
		for _, m := range now {
			all = append(all, m)
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if got, want := plugintest.Render(configured), plugintest.Render(resync(t, c.plugin(t, "services: vswitch"), state(all...))); got != want {
			t.Fatalf("seed %d: after updates\n%s\nafter a resync\n%s", seed, got, want)
		}
	}
}
