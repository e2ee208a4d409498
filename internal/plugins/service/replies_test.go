package service_test

import (
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service"
	"google.golang.org/protobuf/proto"
)

// Only replies of pods that see external clients are forwarded to VRF 0.
func TestAnswersToClientsThatAreNotHidden(t *testing.T) {
	s, err := newCluster().onVPP(t, "services: vswitch")
	if err != nil {
		t.Fatal(err)
	}
	requireAnswers := func(when string, config plugintest.Txn, want string) {
		t.Helper()
		got := plugintest.Txn{}
		for key, value := range config {
			if strings.Contains(key, "/abf/") || strings.HasSuffix(key, "/service-answers") || strings.Contains(key, "/vrf/0/dst/") {
				got[key] = value
			}
		}
		if text := plugintest.Render(got); text != want {
			t.Errorf("%s: got\n%s\nwant\n%s", when, text, want)
		}
	}
	const (
		list4  = `{"action":"PERMIT","ip_rule":{"ip":{"source_network":"10.1.1.2/32"},"tcp":{"source_port_range":{"lower_port":8080,"upper_port":8080}}}}`
		list6  = `{"action":"PERMIT","ip_rule":{"ip":{"source_network":"fd10:0:0:1::2/128"},"tcp":{"source_port_range":{"lower_port":8080,"upper_port":8080}}}}`
		list   = "config/vpp/acls/v2/acl/service-answers\n" + `    {"name":"service-answers","rules":[`
		abf4   = "config/vpp/abfs/v2/abf/1398162180\n" + `    {"acl_name":"service-answers","attached_interfaces":[{"input_interface":"tap-web","priority":65536}],"forwarding_paths":[{"next_hop_ip":"0.0.0.0"}],"index":1398162180}` + "\n"
		abf6   = "config/vpp/abfs/v2/abf/1398162182\n" + `    {"acl_name":"service-answers","attached_interfaces":[{"input_interface":"tap-web","is_ipv6":true,"priority":65536}],"forwarding_paths":[{"next_hop_ip":"::"}],"index":1398162182}` + "\n"
		routes = "config/vpp/v2/route/vrf/0/dst/192.168.30.0/24\n" + `    {"dst_network":"192.168.30.0/24","type":"INTER_VRF","via_vrf_id":4}` + "\n" +
			"config/vpp/v2/route/vrf/0/dst/fd30::/112\n" + `    {"dst_network":"fd30::/112","type":"INTER_VRF","via_vrf_id":4}` + "\n"
	)
	web, slice4, slice6 := webService(), webSlice("a", "10.1.1.2@node1", "10.1.1.9@node1", "10.1.2.2@node2"), webSlice("b", "fd10:0:0:1::2@node1")
	web.LbIngressIps = append(web.LbIngressIps, "fd99::1") // the node has no IPv6 address
	config := resync(t, s, state(web, slice4, slice6))
	requireAnswers("policy Local", config, abf4+abf6+list+list4+","+list6+"]}\n"+routes)

	// Connections continue without the service.
	config, _, _ = change(t, s, kubeChange(slice6, webSlice("b")), config)
	requireAnswers("without endpoint of IPv6", config, abf4+abf6+list+list4+","+list6+"]}\n"+routes)
	hidden := proto.CloneOf(web)
	hidden.ExternalTrafficPolicy = "Cluster"
	config, _, _ = change(t, s, kubeChange(web, hidden), config)
	requireAnswers("policy Cluster", config, abf4+abf6+list+list4+","+list6+"]}\n"+routes)
	// A restarted agent keeps the connections of an endpoint that is not ready.
	unready := webSlice("a", "10.1.1.2@node1")
	unready.Endpoints[0].Ready = false
	restarted, err := newCluster().onVPP(t, "services: vswitch")
	if err != nil {
		t.Fatal(err)
	}
	requireAnswers("not ready, after a restart", resync(t, restarted, state(web, unready)), abf4+list+list4+"]}\n"+routes)
	config = update(t, s, &podmanager.DeletePod{Pod: podmanager.PodID{Namespace: "default", Name: "web"}, ContainerID: "a"}).Apply(config)
	requireAnswers("after the pod", config, "")
	config, _, _ = change(t, s, kubeChange(hidden, web), config)
	requireAnswers("policy Local again, with a new pod that has the address", config, abf4+list+list4+"]}\n"+routes)
}

// A pod replies from the interface at which services reach it.
func TestAnswersOfEndpointsAtOtherInterfaces(t *testing.T) {
	c := newCluster()
	s, err := c.onVPP(t, "services: vswitch")
	if err != nil {
		t.Fatal(err)
	}
	config := resync(t, s, state(webService(), ofPods(webSlice("a", "10.1.1.2@node1"), "web")))
	config, _, _ = change(t, s, c.publish(1, "node1", "web", "10.1.1.9"), config)
	if notes := strings.Join(s.Notes(), " "); !strings.Contains(notes, "does not reach itself through its service") || !strings.Contains(notes, "default/web") {
		t.Errorf("notes: %s", notes)
	}
	got := plugintest.Render(config)
	for _, want := range []string{`"source_network":"10.1.1.9/32"`, `"source_network":"10.1.1.2/32"`, `"attached_interfaces":[{"input_interface":"tap-web","priority":65536}]`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestAnswersThroughCustomInterfaces(t *testing.T) {
	more := ""
	s, err := newCluster().onThisVPP(t, fake{ownStack: true, bvi: "vxlanBVI", more: &more}, service.Capabilities{}, "services: vswitch")
	if err != nil {
		t.Fatal(err)
	}
	config := resync(t, s, state(webService(), webSlice("a", "10.1.1.2@node1")))
	for _, more = range []string{"tap-net1-web", ""} {
		config = update(t, s, &podmanager.PodCustomIfUpdate{Pod: podmanager.PodID{Namespace: "default", Name: "web"}}).Apply(config)
		if got := plugintest.Render(config); !strings.Contains(got, `{"input_interface":"tap-web","priority":65536}`) || strings.Contains(got, `{"input_interface":"tap-net1-web","priority":65536}`) != (more != "") {
			t.Errorf("with %q:\n%s", more, got)
		}
	}
}
