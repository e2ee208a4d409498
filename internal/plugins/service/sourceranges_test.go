package service_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/guard"
	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func TestSourceRangesOnVPP(t *testing.T) {
	s, err := newCluster().onVPP(t, "services: vswitch")
	if err != nil {
		t.Fatal(err)
	}
	const key = "config/vpp/acls/v2/acl/~service-source-ranges" // after lists with ordinary names
	rule := func(action, dst, port, source string) string {
		return `{` + action + `"ip_rule":{"ip":{"destination_network":"` + dst + `"` + source + `},"tcp":{"destination_port_range":{"lower_port":` + port + `,"upper_port":` + port + `}}}}`
	}
	from := func(network string) string { return `,"source_network":"` + network + `"` }
	const permit, deny = `"action":"PERMIT",`, ""
	list := func(rules ...string) string {
		return key + "\n" + `    {"interfaces":{"ingress":["eth0","vxlanBVI"]},"name":"~service-source-ranges","rules":[` +
			strings.Join(append(rules, `{"action":"PERMIT","ip_rule":{}}`), ",") + "]}\n"
	}
	const insideKey = "config/contiv/guard/v1/source-ranges"
	frontend := func(addr, port, sources string) string {
		return `{"address":"` + addr + `","port":` + port + sources + `}`
	}
	only := func(networks ...string) string { return `,"sources":["` + strings.Join(networks, `","`) + `"]` }
	inside := func(frontends ...string) string {
		return insideKey + "\n" + `    {"frontends":[` + strings.Join(frontends, ",") + `],"interface":"tap-vpp2"}` + "\n"
	}
	requireList := func(when string, config plugintest.Txn, want string) {
		t.Helper()
		got := plugintest.Txn{}
		for _, k := range []string{key, insideKey} {
			if v := config[k]; v != nil {
				got[k] = v
			}
		}
		if text := plugintest.Render(got); text != want {
			t.Errorf("%s: got\n%s\nwant\n%s", when, text, want)
		}
	}
	edited := func(web *k8s.Service, edit func(*k8s.Service)) *k8s.Service {
		web = proto.CloneOf(web)
		edit(web)
		return web
	}

	web := webService()
	web.LbIngressIps = append(web.LbIngressIps, "fd99::1")
	web.LoadbalancerSourceRanges = append(web.LoadbalancerSourceRanges, "192.0.2.0/28")
	config := resync(t, s, state(web, webSlice("a", "10.1.1.2@node1"), webSlice("b", "fd10:0:0:1::2@node1")))
	requireList("with ranges of IPv4", config, inside(
		frontend("203.0.113.1", "80", only("192.0.2.0/28", "198.51.100.0/24")), frontend("fd99::1", "80", ""))+list(
		rule(permit, "203.0.113.1/32", "80", from("192.0.2.0/28")), rule(permit, "203.0.113.1/32", "80", from("198.51.100.0/24")), rule(deny, "203.0.113.1/32", "80", ""),
		rule(deny, "fd99::1/128", "80", "")))
	if text := plugintest.Render(config); !strings.Contains(text, `{"external_ip":"203.0.113.1"`) || !strings.Contains(text, `{"external_ip":"fd99::1"`) {
		t.Errorf("the load balancer's addresses are not translated:\n%s", text)
	}

	lb, client := netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("192.0.2.77")
	if e := s.Explain(service.Connection{From: client, To: lb, Protocol: processor.TCP, Port: 80}); len(e.Wrong) != 1 {
		t.Errorf("a client that is in no range: %q", e.Wrong)
	}
	if e := s.Explain(service.Connection{From: netip.MustParseAddr("10.1.1.9"), To: lb, Protocol: processor.TCP, Port: 80}); len(e.Wrong) != 1 {
		t.Errorf("a pod of the node that is in no range: %+v", e)
	}

	other := edited(web, func(s *k8s.Service) {
		s.Port[0].Port, s.LoadbalancerSourceRanges = 81, []string{"fd98::/64"}
	})
	config, _, _ = change(t, s, kubeChange(web, other), config)
	requireList("with another port and a range of IPv6", config, inside(
		frontend("203.0.113.1", "81", ""), frontend("fd99::1", "81", only("fd98::/64")))+list(
		rule(deny, "203.0.113.1/32", "81", ""), rule(permit, "fd99::1/128", "81", from("fd98::/64")), rule(deny, "fd99::1/128", "81", "")))
	same := edited(other, func(s *k8s.Service) { s.SessionAffinity = "ClientIP" })
	config, txn, _ := change(t, s, kubeChange(other, same), config)
	for _, k := range []string{key, insideKey} {
		if _, touched := txn[k]; touched {
			t.Errorf("%s is requested again though it is the same", k)
		}
	}

	open := edited(same, func(s *k8s.Service) { s.LoadbalancerSourceRanges = nil })
	config, _, _ = change(t, s, kubeChange(same, open), config)
	requireList("without ranges", config, "")
	config, _, _ = change(t, s, kubeChange(open, same), config)

	for _, slice := range []struct{ name, here, elsewhere string }{{"a", "10.1.1.2@node1", "10.1.2.2@node2"}, {"b", "fd10:0:0:1::2@node1", "fd10:0:0:2::2@node2"}} {
		config, _, _ = change(t, s, kubeChange(webSlice(slice.name, slice.here), webSlice(slice.name, slice.elsewhere)), config)
	}
	requireList("with policy Local and endpoints on other nodes only", config, inside(frontend("203.0.113.1", "81", ""), frontend("fd99::1", "81", only("fd98::/64"))))
	config, _, _ = change(t, s, kubeChange(same, nil), config)
	requireList("without the service", config, "")
}

// A service with too many ports or ranges does not affect the restrictions of other services.
func TestTooManySourceRanges(t *testing.T) {
	small := webService()
	var ranges []string
	for i := range models.MaxRestrictingRules {
		ranges = append(ranges, fmt.Sprintf("10.%d.%d.0/24", i/256, i%256))
	}
	var ports []*k8s.Service_ServicePort
	for i := range models.MaxRestrictedFrontends {
		ports = append(ports, &k8s.Service_ServicePort{Name: fmt.Sprint("p", i), Protocol: "TCP", Port: int32(1 + i)})
	}
	for what, edit := range map[string]func(*k8s.Service){
		"ranges": func(s *k8s.Service) { s.LoadbalancerSourceRanges = ranges },
		"ports":  func(s *k8s.Service) { s.Port = ports },
	} {
		s, err := newCluster().onVPP(t, "services: vswitch")
		if err != nil {
			t.Fatal(err)
		}
		big := proto.CloneOf(small)
		edit(big)
		big.Name, big.ClusterIp, big.ClusterIps, big.LbIngressIps = "big", "10.96.0.11", nil, []string{"203.0.113.2"}
		restricted := func(config plugintest.Txn) (addrs []string) {
			inside, _ := config["config/contiv/guard/v1/source-ranges"].(*guard.SourceRanges)
			for _, f := range inside.GetFrontends() {
				addrs = append(addrs, f.GetAddress())
			}
			return slices.Compact(addrs)
		}
		noted := func() bool {
			return slices.ContainsFunc(s.Notes(), func(note string) bool {
				return strings.Contains(note, "more ports and ranges than VPP compares") && strings.HasSuffix(note, "; services: default/big")
			})
		}
		isWrong := func(from, to string) bool {
			c := service.Connection{From: netip.MustParseAddr(from), To: netip.MustParseAddr(to), Protocol: processor.TCP, Port: 80}
			return slices.ContainsFunc(s.Explain(c).Wrong, func(text string) bool { return strings.Contains(text, "in none of loadBalancerSourceRanges") })
		}
		config := resync(t, s, state(small, big, webSlice("a", "10.1.1.2@node1")))
		if got := restricted(config); !slices.Equal(got, []string{"203.0.113.1"}) || !noted() {
			t.Errorf("too many %s: restricted are %v, notes %q", what, got, s.Notes())
		}
		const pod, client = "10.1.1.9", "192.0.2.1"
		if !isWrong(pod, "203.0.113.1") || !isWrong(client, "203.0.113.2") || what == "ports" && isWrong(pod, "203.0.113.2") {
			t.Errorf("too many %s: the explanation of permitted clients differs", what)
		}
		config, _, _ = change(t, s, kubeChange(small, nil), config)
		less := proto.CloneOf(big)
		less.LoadbalancerSourceRanges, less.Port = ranges[:1], ports[:1]
		config, _, _ = change(t, s, kubeChange(big, less), config)
		if got := restricted(config); !slices.Equal(got, []string{"203.0.113.2"}) || noted() {
			t.Errorf("few %s again: restricted are %v, notes %q", what, got, s.Notes())
		}
	}
}
