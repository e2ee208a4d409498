package contivconf_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/servicecidr"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"google.golang.org/protobuf/proto"
)

func serviceCIDR(name string, cidrs ...string) *servicecidr.ServiceCIDR {
	return &servicecidr.ServiceCIDR{Name: name, Cidrs: cidrs}
}

// serviceSubnets returns the ranges in which the vswitch refuses unused cluster IPs.
func serviceSubnets(n *plugintest.Node) []string {
	for _, value := range n.Scheduler.Values() {
		if network, ok := value.(*contiv_nat.ServiceNetwork); ok {
			return network.GetServiceSubnets()
		}
	}
	return nil
}

func wantRanges(t *testing.T, what string, n *plugintest.Node, want ...string) {
	t.Helper()
	plan := n.ContivConf.Subnets()
	var got []string
	for _, p := range plan.AllServices() {
		got = append(got, p.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: cluster IPs are in %v, want %v", what, got, want)
	}
	if subnets := serviceSubnets(n); !slices.Equal(subnets, want) {
		t.Errorf("%s: the vswitch has %v, want %v", what, subnets, want)
	}
	if text := n.ContivConf.EffectiveIPAMConfig().ServiceCIDR; text != strings.Join(want, ",") {
		t.Errorf("%s: the effective configuration has %q, want %v", what, text, want)
	}
}

const dualStack = `
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16, fd10::/48
  vxlanCIDR: 192.168.30.0/24, fd30::/112
  vppHostSubnetCIDR: 172.30.0.0/16, fd17::/48
  serviceCIDR: 10.96.0.0/12, fd96::/108
`

var dualLinks = plugintest.Links{plugintest.Link("lo", "127.0.0.1/8"), plugintest.Link("eth0", "192.168.16.1/24", "fd16::1/64")}

func TestServiceCIDRsOfTheClusterReplaceTheConfiguredOne(t *testing.T) {
	for name, test := range map[string]struct {
		conf  string
		state []proto.Message
		want  []string
	}{
		"none":                         {dualStack, nil, []string{"10.96.0.0/12", "fd96::/108"}},
		"one IP version":               {dualStack, []proto.Message{serviceCIDR("kubernetes", "10.112.0.0/16")}, []string{"10.112.0.0/16", "fd96::/108"}},
		"both":                         {dualStack, []proto.Message{serviceCIDR("kubernetes", "fd97::/112", "10.112.0.0/16")}, []string{"10.112.0.0/16", "fd97::/112"}},
		"the union of several":         {dualStack, []proto.Message{serviceCIDR("b", "10.114.0.0/16"), serviceCIDR("a", "10.112.0.0/16", "fd97::/112"), serviceCIDR("c", "10.112.0.0/16")}, []string{"10.112.0.0/16", "10.114.0.0/16", "fd97::/112"}},
		"without configuration":        {"ipamConfig: {serviceCIDR: ''}", []proto.Message{serviceCIDR("kubernetes", "10.112.0.0/16")}, []string{"10.112.0.0/16"}},
		"no IPv6 pods":                 {"", []proto.Message{serviceCIDR("kubernetes", "10.112.0.0/16", "fd97::/112")}, []string{"10.112.0.0/16"}},
		"host bits, and leading zeros": {"", []proto.Message{serviceCIDR("kubernetes", "010.112.0.1/16")}, []string{"10.112.0.0/16"}},
		"one that cannot be read":      {"", []proto.Message{serviceCIDR("kubernetes", "10.112.0.0", "10.113.0.0/16")}, []string{"10.113.0.0/16"}},
		"none that can be read":        {"", []proto.Message{serviceCIDR("kubernetes", "10.112.0.0")}, []string{"10.96.0.0/12"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := plugintest.StartNode(t, plugintest.NodeOptions{Conf: test.conf, Links: dualLinks, Translate: true, State: plugintest.State(test.state...)})
			wantRanges(t, "at the start", n, test.want...)
			wantRanges(t, "after a restart", n.Restart(), test.want...)
		})
	}
}

func TestServiceCIDRsChangeAtRunTime(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{Conf: dualStack, Links: dualLinks, Translate: true})
	first, second := serviceCIDR("kubernetes", "10.96.0.0/16", "fd96::/112"), serviceCIDR("second", "10.112.0.0/16")
	change := func(prev, next proto.Message) func() { return func() { n.Change(prev, next) } }
	for _, step := range []struct {
		what string
		do   func()
		want []string
	}{
		{"the first", change(nil, first), []string{"10.96.0.0/16", "fd96::/112"}},
		{"another", change(nil, second), []string{"10.96.0.0/16", "10.112.0.0/16", "fd96::/112"}},
		{"a changed one", change(second, serviceCIDR("second", "10.113.0.0/16", "fd97::/112")), []string{"10.96.0.0/16", "10.113.0.0/16", "fd96::/112", "fd97::/112"}},
		{"one removed", change(serviceCIDR("second", "10.113.0.0/16", "fd97::/112"), nil), []string{"10.96.0.0/16", "fd96::/112"}},
		{"all removed", change(first, nil), []string{"10.96.0.0/12", "fd96::/108"}},
	} {
		step.do()
		wantRanges(t, step.what, n, step.want...)
	}
}

// A host that sends cluster IPs to VPP has a route for each range.
func TestHostRoutesFollowServiceCIDRs(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{Caps: &plugintest.VPP, Translate: true, Conf: `
routeServiceCIDRToVPP: true
nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: GigabitEthernet0/8/0, ip: 192.168.16.1/24}}]
`})
	routes := func() (list []string) {
		for _, value := range n.Scheduler.Values() {
			if r, ok := value.(*linux_l3.Route); ok {
				list = append(list, r.GetDstNetwork())
			}
		}
		slices.Sort(list)
		return list
	}
	if got := routes(); !slices.Equal(got, []string{"10.1.0.0/16", "10.96.0.0/12"}) {
		t.Errorf("routes %v", got)
	}
	n.Change(nil, serviceCIDR("kubernetes", "10.112.0.0/16"))
	n.Change(nil, serviceCIDR("second", "10.113.0.0/16"))
	if got := routes(); !slices.Equal(got, []string{"10.1.0.0/16", "10.112.0.0/16", "10.113.0.0/16"}) {
		t.Errorf("routes %v with ServiceCIDRs", got)
	}
}

// Nodes refuse connections to unused cluster IPs, so that such a range would cut off pods or nodes.
func TestServiceCIDRsThatAreInUseAreIgnored(t *testing.T) {
	other := &node.Node{Name: "node2", Addresses: []*node.NodeAddress{{Type: node.NodeAddress_NodeInternalIP, Address: "172.20.0.7"}}}
	for name, test := range map[string]struct{ cidr, want string }{
		"pods":                          {"10.0.0.0/13", "10.0.0.0/13 overlaps with ipamConfig.podSubnetCIDR 10.1.0.0/16"},
		"tunnels":                       {"192.168.30.0/26", "overlaps with ipamConfig.vxlanCIDR 192.168.30.0/24"},
		"hosts of VPP":                  {"172.30.7.0/24", "overlaps with ipamConfig.vppHostSubnetCIDR"},
		"addresses that Contiv assigns": {"192.168.99.0/25", "overlaps with ipamConfig.nodeInterconnectCIDR"},
		"the network of the node":       {"192.168.16.128/25", "overlaps with the network 192.168.16.0/24 of this node"},
		"another node":                  {"172.20.0.0/16", "contains 172.20.0.7, the address of node node2"},
		"allowed sources":               {"10.200.0.0/16", "overlaps with podAllowedSources 10.200.0.0/24"},
		"loopback":                      {"127.0.0.0/16", "loopback addresses"},
		"everything":                    {"0.0.0.0/0", "addresses of this network only"},
		"no network":                    {"10.112.0.0", `"10.112.0.0" is no network`},
	} {
		t.Run(name, func(t *testing.T) {
			bad := serviceCIDR("bad", test.cidr, "fd97::/112")
			wantIgnored := func(what string, n *plugintest.Node) {
				t.Helper()
				wantRanges(t, what, n, "10.112.0.0/16", "fd97::/112")
				if list := n.ContivConf.Warnings(); len(list) != 1 || !strings.Contains(list[0], test.want) || !strings.HasPrefix(list[0], "a range of ServiceCIDR bad is ignored: ") {
					t.Errorf("%s: warnings %q, want %q", what, list, test.want)
				}
			}
			n := plugintest.StartNode(t, plugintest.NodeOptions{Links: dualLinks, Translate: true,
				Conf:  "podAllowedSources: 10.200.0.0/24" + dualStack + "  nodeInterconnectCIDR: 192.168.99.0/24\n",
				State: plugintest.State(other, serviceCIDR("kubernetes", "10.112.0.0/16"))})
			n.Change(nil, bad)
			wantIgnored("added", n)
			n.Change(bad, nil)
			if list := n.ContivConf.Warnings(); len(list) > 0 {
				t.Errorf("removed: warnings %q", list)
			}
			n.Options.State = plugintest.State(other, serviceCIDR("kubernetes", "10.112.0.0/16"), bad)
			wantIgnored("at the start", n.Restart())
		})
	}
}

// The order of a node's and a range's arrival makes no difference.
func TestNodeInAServiceCIDR(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{Translate: true, State: plugintest.State(serviceCIDR("kubernetes", "10.112.0.0/16"), serviceCIDR("second", "10.113.0.0/16"))})
	wantRanges(t, "before", n, "10.112.0.0/16", "10.113.0.0/16")
	other := &node.Node{Name: "node2", Addresses: []*node.NodeAddress{{Type: node.NodeAddress_NodeInternalIP, Address: "10.113.0.7"}}}
	n.Change(nil, other)
	wantRanges(t, "with the node", n, "10.112.0.0/16")
	n.Change(other, nil)
	wantRanges(t, "without it", n, "10.112.0.0/16", "10.113.0.0/16")
}

// With ranges of the cluster, the configured one may be a network of the node.
func TestConfiguredServiceCIDRIsUnusedWithServiceCIDRs(t *testing.T) {
	links := plugintest.Links{plugintest.Link("lo", "127.0.0.1/8"), plugintest.Link("eth0", "10.100.0.1/24")}
	n := plugintest.StartNode(t, plugintest.NodeOptions{Links: links, Translate: true, State: plugintest.State(serviceCIDR("kubernetes", "10.112.0.0/16"))})
	wantRanges(t, "with ServiceCIDRs", n, "10.112.0.0/16")
}

func TestUnrelatedChangesOfNodesAndServiceCIDRs(t *testing.T) {
	kubernetes := serviceCIDR("kubernetes", "10.112.0.0/16")
	n := plugintest.StartNode(t, plugintest.NodeOptions{Translate: true, State: plugintest.State(kubernetes)})
	transactions := 0
	n.Scheduler.FailKeys(func(controller.SchedulerTxn) []string { transactions++; return nil })
	for _, pair := range [][2]proto.Message{
		{kubernetes, kubernetes},
		{nil, serviceCIDR("same", "10.112.0.0/16")},
		{nil, &node.Node{Name: "node2"}},
	} {
		n.Change(pair[0], pair[1])
		wantRanges(t, fmt.Sprint(pair[1]), n, "10.112.0.0/16")
	}
	if transactions > 0 {
		t.Errorf("%d transactions", transactions)
	}
}

// A main interface that gets an address of a ServiceCIDR comes before the range.
func TestServiceCIDRThatBecomesANetworkOfTheNode(t *testing.T) {
	p := start(t, "", twoNICs[:2], nil)
	value := serviceCIDR("kubernetes", "10.112.0.0/16")
	added := &controller.KubeStateChange{Resource: kubestate.ServiceCIDR, Key: kubestate.ServiceCIDRKey("kubernetes"), NewValue: value}
	if _, err := p.Update(t.Context(), added, plugintest.Txn{}); err != nil {
		t.Fatal(err)
	}
	p.loop.Take()
	later := links{twoNICs[0], link("eth0", "", "192.168.1.5/24", "10.112.0.1/24")}
	p.links.Store(&later)
	p.LinksChanged(t.Context())
	events := p.loop.Take()
	if len(events) != 1 || events[0].String() != "Service Ranges Change: [10.96.0.0/12] instead of [10.112.0.0/16]" {
		t.Errorf("events %v", events)
	}
	if list := p.Warnings(); len(list) != 1 || !strings.Contains(list[0], "ServiceCIDR kubernetes is ignored: 10.112.0.0/16 overlaps with the network 10.112.0.0/24 of this node") {
		t.Errorf("warnings %q", list)
	}
}
