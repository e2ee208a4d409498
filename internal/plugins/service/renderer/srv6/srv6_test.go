package srv6_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/plugins/service/renderer/srv6"
)

// Node 1 has the pods 10.1.1.0/24 and fd10:0:0:1::/64, node 2 has 10.1.2.0/24 and fd10:0:0:2::/64,
// and node 3 has pods but no IPv6 address.
func options() srv6.Options {
	pods := map[string]string{
		"10.1.1.0/24": "fd16::1", "fd10:0:0:1::/64": "fd16::1", "10.1.2.0/24": "fd16::2", "fd10:0:0:2::/64": "fd16::2", "10.1.3.0/24": "",
	}
	return srv6.Options{
		SIDs: contivconf.Default().IPAMConfig.SRv6, PodVRF: 1, LocalWeight: 1,
		NodeOf: func(endpoint netip.Addr) (node netip.Addr, isPod bool) {
			for subnet, addr := range pods {
				if netip.MustParsePrefix(subnet).Contains(endpoint) {
					node, _ = netip.ParseAddr(addr)
					return node, true
				}
			}
			return netip.Addr{}, false
		},
	}
}

func frontend(kind processor.Kind, addr string, endpoints ...string) processor.Frontend {
	f := processor.Frontend{Kind: kind, Addr: netip.MustParseAddrPort(addr), Protocol: processor.TCP}
	for _, text := range endpoints {
		e := processor.Endpoint{Addr: netip.MustParseAddrPort(text)}
		a := e.Addr.Addr()
		e.Local = netip.MustParsePrefix("10.1.1.0/24").Contains(a) || netip.MustParsePrefix("fd10:0:0:1::/64").Contains(a)
		f.Inside = append(f.Inside, e)
	}
	f.Outside = f.Inside
	return f
}

func web(frontends ...processor.Frontend) *processor.Service {
	return &processor.Service{ID: processor.ID{Namespace: "default", Name: "web"}, Frontends: frontends}
}

// Local endpoints have one segment, remote ones two.
func TestIPv4Service(t *testing.T) {
	carried := srv6.Carry(web(frontend(processor.ClusterIP, "10.96.0.10:80", "10.1.1.2:80", "10.1.2.2:80")), options())
	const want = `config/vpp/srv6/v2/policy/8fff::ffff:a60:a
    {"bsid":"8fff::ffff:a60:a","segment_lists":[{"segments":["9300::ffff:a01:102"],"weight":1},{"segments":["9000::2","9300::ffff:a01:202"],"weight":1}],"srh_encapsulation":true}
config/vpp/srv6/v2/steering/forK8sService-default-web-10.96.0.10
    {"l3_traffic":{"installation_vrf_id":1,"prefix_address":"10.96.0.10/32"},"name":"forK8sService-default-web-10.96.0.10","policy_bsid":"8fff::ffff:a60:a"}
config/vpp/srv6/v2/steering/forK8sService-default-web-10.96.0.10-inMainVRF
    {"l3_traffic":{"prefix_address":"10.96.0.10/32"},"name":"forK8sService-default-web-10.96.0.10-inMainVRF","policy_bsid":"8fff::ffff:a60:a"}
`
	if got := plugintest.Render(carried.Values); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if pods := carried.Endpoints[netip.MustParseAddr("10.96.0.10")]; len(pods) != 1 || pods[0].String() != "10.1.1.2" {
		t.Errorf("pods of this node that get the address: %v", pods)
	}
}

// Each address is steered. Addresses with the same endpoints share a policy.
func TestIPv6ServiceWithSeveralAddresses(t *testing.T) {
	o := options()
	o.External, o.PodVRF, o.LocalWeight = true, 0, 3
	carried := srv6.Carry(web(
		frontend(processor.ExternalIP, "[2001:db8::1]:80", "[fd10:0:0:1::2]:80", "[fd10:0:0:2::2]:80"),
		frontend(processor.ClusterIP, "[fd96::10]:80", "[fd10:0:0:1::2]:80", "[fd10:0:0:2::2]:80"),
		frontend(processor.NodePort, "[fd16::1]:30080", "[fd10:0:0:1::2]:80", "[fd10:0:0:2::2]:80"),
	), o)
	const want = `config/vpp/srv6/v2/policy/8fff:db8::1
    {"bsid":"8fff:db8::1","segment_lists":[{"segments":["9300:0:0:1::2"],"weight":3},{"segments":["9000::2","9300:0:0:2::2"],"weight":1}],"srh_encapsulation":true}
config/vpp/srv6/v2/steering/forK8sService-default-web-2001.db8..1
    {"l3_traffic":{"prefix_address":"2001:db8::1/128"},"name":"forK8sService-default-web-2001.db8..1","policy_bsid":"8fff:db8::1"}
config/vpp/srv6/v2/steering/forK8sService-default-web-fd96..10
    {"l3_traffic":{"prefix_address":"fd96::10/128"},"name":"forK8sService-default-web-fd96..10","policy_bsid":"8fff:db8::1"}
`
	if got := plugintest.Render(carried.Values); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if len(carried.Why) != 0 || len(carried.Addrs) != 2 {
		t.Errorf("carried %v, not %v", carried.Addrs, carried.Why)
	}
}

func TestWhatIsNotCarried(t *testing.T) {
	cluster := func(endpoints ...string) processor.Frontend {
		return frontend(processor.ClusterIP, "10.96.0.10:80", endpoints...)
	}
	sticky := web(cluster("10.1.1.2:80"))
	sticky.Affinity = 10800
	local, restricted := cluster("10.1.1.2:80", "10.1.2.2:80"), cluster("10.1.1.2:80")
	local.Outside, restricted.Restricted = local.Inside[:1], true
	many := make([]string, 63)
	for i := range many {
		many[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 1, byte(i + 2)}), 80).String()
	}
	elsewhere := cluster("10.1.1.2:80")
	elsewhere.Inside[0].Interface, elsewhere.Inside[0].Eth0 = "net1", netip.MustParseAddr("10.1.1.3")
	second := frontend(processor.ClusterIP, "10.96.0.10:443", "10.1.2.2:443")
	for name, test := range map[string]struct {
		service *processor.Service
		why     string
	}{
		"another port":                  {web(cluster("10.1.1.2:8080")), "port 80 is port 8080"},
		"no endpoint":                   {web(cluster()), "no endpoint"},
		"an endpoint that is no pod":    {web(cluster("192.168.16.1:80")), "192.168.16.1 is no pod"},
		"a node without IPv6":           {web(cluster("10.1.3.2:80")), "no IPv6 address"},
		"affinity":                      {sticky, "sessionAffinity"},
		"different clients":             {web(local), "inside and outside"},
		"source ranges":                 {web(restricted), "loadBalancerSourceRanges"},
		"ports with other endpoints":    {web(cluster("10.1.1.2:80"), second), "ports have different endpoints"},
		"too many endpoints":            {web(cluster(many...)), "63 endpoints"},
		"external, with translation":    {web(frontend(processor.ExternalIP, "10.96.0.10:80", "10.1.1.2:80")), "natExternalTraffic"},
		"load balancer, the same":       {web(frontend(processor.LoadBalancer, "10.96.0.10:80", "10.1.1.2:80")), "natExternalTraffic"},
		"another interface":             {web(elsewhere), "10.1.1.2 is at the interface net1 of its pod, and segments lead to eth0"},
		"ports of the node, in silence": {web(frontend(processor.NodePort, "10.96.0.10:80", "10.1.1.2:80")), ""},
	} {
		carried := srv6.Carry(test.service, options())
		why := carried.Why[netip.MustParseAddr("10.96.0.10")]
		if len(carried.Values) != 0 || !strings.Contains(why, test.why) || (why == "") != (test.why == "") {
			t.Errorf("%s: %d values, because %q; want none, because %q", name, len(carried.Values), why, test.why)
		}
	}
}

// SIDs of pods exist without services. A pod's route in the main VRF is removed with the pod.
func TestNode(t *testing.T) {
	addr := netip.MustParseAddr
	node := srv6.Node{
		Addr: addr("fd16::1"), Others: []netip.Addr{addr("fd16::2")},
		Pods: map[netip.Addr]string{addr("10.1.1.2"): "tap-a", addr("fd10:0:0:1::2"): "tap-a"},
	}
	const want = `config/vpp/srv6/v2/localsid/9000::1
    {"base_end_function":{},"sid":"9000::1"}
config/vpp/srv6/v2/localsid/9300:0:0:1::2
    {"end_function_dx6":{"next_hop":"fd10:0:0:1::2","outgoing_interface":"tap-a"},"installation_vrf_id":1,"sid":"9300:0:0:1::2"}
config/vpp/srv6/v2/localsid/9300::ffff:a01:102
    {"end_function_dx4":{"next_hop":"10.1.1.2","outgoing_interface":"tap-a"},"installation_vrf_id":1,"sid":"9300::ffff:a01:102"}
config/vpp/srv6/v2/srv6-global
    {"encap_source_address":"fd16::1"}
config/vpp/v2/route/vrf/0/dst/9000::2/128/gw/fd16::2
    {"dst_network":"9000::2/128","next_hop_addr":"fd16::2"}
config/vpp/v2/route/vrf/0/dst/9300:0:0:1::2/128
    {"dst_network":"9300:0:0:1::2/128","type":"INTER_VRF","via_vrf_id":1}
config/vpp/v2/route/vrf/0/dst/9300::ffff:a01:102/128
    {"dst_network":"9300::ffff:a01:102/128","type":"INTER_VRF","via_vrf_id":1}
`
	if got := plugintest.Render(node.Render(options())); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
