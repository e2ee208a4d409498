package service_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/config"
)

// VPP routes each address of the host's other cards to the host. The host redirects an external IP
// there, except beside kube-proxy.
func TestExternalIPsOfTheHostBesideVPP(t *testing.T) {
	c := newCluster()
	c.nodes["node1"].MgmtIPs = []netip.Addr{netip.MustParseAddr("192.168.17.1"), netip.MustParseAddr("192.168.16.1")}
	s, err := c.onVPP(t, "services: vswitch\nexternalIPs: allow\n")
	if err != nil {
		t.Fatal(err)
	}
	svc := webService()
	svc.LoadbalancerSourceRanges, svc.ExternalIps, svc.LbIngressIps = nil, []string{"192.168.17.1", "203.0.113.7"}, []string{"192.168.17.1", "203.0.113.1"}
	everything := state(svc, webSlice("a", "10.1.1.2@node1"))
	const note = "host's own network cards"
	for _, others := range []string{"", "table ip kube-proxy"} {
		c.others = others
		config := resync(t, s, everything)
		got := plugintest.Render(config)
		for _, want := range []string{`"10.96.0.10"`, `"192.168.16.1","external_port":30080`, `"203.0.113.7","external_port":80`, `"203.0.113.1","external_port":80`} {
			if !strings.Contains(got, `"external_ip":`+want) {
				t.Errorf("%q: %s is not translated:\n%s", others, want, got)
			}
		}
		if strings.Contains(got, `"external_ip":"192.168.17.1`) {
			t.Errorf("%q: 192.168.17.1 is translated:\n%s", others, got)
		}
		if byHost := slices.Contains(redirected(config), "default/web 192.168.17.1:80 TCP to 172.30.1.1:30080 from 172.30.1.3"); byHost != (others == "") {
			t.Errorf("%q: the host redirects %q", others, redirected(config))
		}
		if notes := s.Notes(); others == "" && len(notes) > 0 || others != "" && (len(notes) != 1 || !strings.Contains(notes[0], note) || !strings.HasSuffix(notes[0], "; services: default/web (192.168.17.1)")) {
			t.Errorf("%q: notes are %q", others, notes)
		}
		if told := reportOf(t, s, "?service=default/web", http.StatusOK).Services[0].Limits; others == "" && len(told) > 0 || others != "" && (len(told) != 1 || !strings.Contains(told[0], note)) {
			t.Errorf("%q: limits of the service: %q", others, told)
		}
	}

	c.others = ""
	onKernel := plugintest.Render(resync(t, c.plugin(t, "services: vswitch\n"), everything))
	if !strings.Contains(onKernel, `"external_ip":"192.168.17.1","external_port":80`) {
		t.Errorf("the kernel does not translate it:\n%s", onKernel)
	}
}

// If VPP shares the host's only card, the host refuses connections without endpoints.
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
		// Over IPv4, VPP's own refusal would not reach external clients.
		`{"external_ip":"203.0.113.9","external_port":80,"local_ips":[{"local_ip":"192.168.16.1","local_port":1}],"masquerade_outside":true,"twice_nat":"SELF","twice_nat_pool_ip":"10.1.1.254"}`,
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

// VPP's routes translate for the host's processes. Pods see the host's address, which policies
// admit, unless the host itself is an endpoint and would drop its own address.
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

// The kernel resets connections to removed endpoints with a local socket. All others are reported.
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
	const limit = "resetRemovedEndpoints has no effect for clients outside"
	if notes := s.Notes(); !slices.ContainsFunc(notes, func(text string) bool {
		return strings.HasPrefix(text, limit) && strings.HasSuffix(text, "; services: default/web")
	}) {
		t.Errorf("no note of connections of clients outside: %q", notes)
	}
	if w := s.Warnings(); len(w) > 0 {
		t.Errorf("an unchangeable fact is a warning: %q", w)
	}
}

func TestServicesOnVPP(t *testing.T) {
	beside := newCluster()
	beside.others = "kube-proxy" // translates only for the host
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
		`"uplinks":["eth0"]`,
		mapping("10.96.0.10", 80, `{"local_ip":"10.1.1.2","local_port":8080,"probability":1},{"elsewhere":true,"local_ip":"10.1.2.2","local_port":8080,"probability":1}`),
		mapping("192.168.16.1", 30080, `{"local_ip":"10.1.1.2","local_port":8080}`), // endpoints of external clients
		"config/vpp/v2/route/vrf/4/dst/10.1.1.254/32\n" + `    {"dst_network":"10.1.1.254/32","type":"INTER_VRF","vrf_id":4}`,
		`{"external_ip":"10.96.0.11","external_port":80,"otherwise":"REFUSE"}`,
		// The host refuses masqueraded clients of node ports without endpoints.
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
	// Only limits that can be fixed on the node are warnings.
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
			t.Errorf("with %q: translated: %v\n%s", others, ours, got)
		}
		if others != "" && strings.Contains(got, "/nat/") { // replies of connections are still forwarded
			t.Errorf("beside %q:\n%s", others, got)
		}
		if told := s.Translator(); told.VSwitch != (others == "") || told.OtherProxy != others {
			t.Errorf("with %q: %+v", others, told)
		}
	}
}

// Only services: vswitch is an error in a VRF other than 0.
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
