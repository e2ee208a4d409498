package contivconf_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"google.golang.org/protobuf/proto"
)

type links []contivconf.HostLink

func (l links) HostLinks() ([]contivconf.HostLink, error) { return l, nil }

func link(name string, gateway string, addresses ...string) contivconf.HostLink {
	l := contivconf.HostLink{Name: name, MTU: 1500, Up: true}
	for _, a := range addresses {
		l.Addresses = append(l.Addresses, netip.MustParsePrefix(a))
	}
	for _, text := range strings.Fields(gateway) {
		l.DefaultGateways = append(l.DefaultGateways, netip.MustParseAddr(text))
	}
	return l
}

func state(nodes ...*node.Node) controller.KubeState {
	s := controller.KubeState{"node": {}}
	for _, n := range nodes {
		s["node"]["k8s/node/"+n.Name] = n
	}
	return s
}

func kubeNode(name string, ips ...string) *node.Node {
	n := &node.Node{Name: name}
	for _, ip := range ips {
		n.Addresses = append(n.Addresses, &node.NodeAddress{Type: node.NodeAddress_NodeInternalIP, Address: ip})
	}
	return n
}

func load(t testing.TB, conf string) contivconf.Config {
	t.Helper()
	c, err := contivconf.Load([]byte(conf))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The defaults are a contract with users.
func TestDefaults(t *testing.T) {
	c, err := contivconf.New("node1", load(t, ""), contivconf.Sources{}, nil, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	s := c.Subnets()
	for what, pair := range map[string][2]any{
		"pods":         {s.Pods.String(), "10.1.0.0/16"},
		"pods/node":    {s.PodsOneNodeLen, 24},
		"vpphost":      {s.VPPHost.String(), "172.30.0.0/16"},
		"vpphost/node": {s.VPPHostOneNodeLen, 24},
		"vxlan":        {s.VXLAN.String(), "192.168.30.0/24"},
		"service":      {fmt.Sprint(s.Services), "[10.96.0.0/12]"},
		"interconnect": {s.NodeInterconnect.IsValid(), false},
		"nat":          {c.NatExternalTraffic(), true},
		"transport":    {c.Routing().NodeToNodeTransport, "vxlan"},
		"main vrf":     {c.Routing().MainVRFID, uint32(0)},
		"pod vrf":      {c.Routing().PodVRFID, uint32(1)},
		"taps":         {c.Interfaces().UseTAPInterfaces == nil, true},
		"tap version":  {c.Interfaces().TAPInterfaceVersion, uint8(2)},
		"mtu":          {c.PodMTU(netip.MustParseAddr("10.0.0.1")), uint32(1450)},
		"mtu v6":       {c.PodMTU(netip.MustParseAddr("fd00::1")), uint32(1430)},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %v, want %v", what, pair[0], pair[1])
		}
	}
}

func TestContivCIDRIsDividedAndOverridden(t *testing.T) {
	c, err := contivconf.New("node1", load(t, `
ipamConfig:
  contivCIDR: 10.128.0.0/14
  nodeInterconnectCIDR: 192.168.16.0/24
`), contivconf.Sources{}, nil, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	e := c.EffectiveIPAMConfig()
	if e.PodSubnetCIDR != "10.128.0.0/16" || e.PodSubnetOneNodePrefixLen != 25 || e.VPPHostSubnetCIDR != "10.129.0.0/16" ||
		e.VxlanCIDR != "10.130.2.0/23" || e.NodeInterconnectCIDR != "192.168.16.0/24" {
		t.Errorf("effective configuration: %+v", e)
	}
}

func TestConfigurationErrors(t *testing.T) {
	for name, test := range map[string]struct{ conf, want string }{
		"unknown key":              {"mtuSise: 1400", "mtuSize"},
		"unknown nested key":       {"ipamConfig: {podSubnetCidr: 10.1.0.0/16}", "podSubnetCIDR"},
		"bad CIDR":                 {"ipamConfig: {podSubnetCIDR: 1.2.3.4/}", `ipamConfig.podSubnetCIDR is "1.2.3.4/"`},
		"loopback":                 {"ipamConfig: {podSubnetCIDR: 127.0.0.0/8}", "overlaps with 127.0.0.0/8 (loopback addresses)"},
		"multicast":                {"ipamConfig: {podSubnetCIDR: 224.0.0.0/4}", "multicast"},
		"everything":               {"ipamConfig: {serviceCIDR: 0.0.0.0/0}", "overlaps with"},
		"link-local in IPv6":       {"ipamConfig: {podSubnetCIDR: 'fe80::/48', podSubnetOneNodePrefixLen: 64}", "link-local"},
		"node part too big":        {"ipamConfig: {podSubnetOneNodePrefixLen: 16}", "from 17 to 29"},
		"node part too small":      {"ipamConfig: {podSubnetOneNodePrefixLen: 30}", "from 17 to 29"},
		"contivCIDR too small":     {"ipamConfig: {contivCIDR: 10.0.0.0/16}", "prefix length of at most 14"},
		"overlap":                  {"ipamConfig: {vxlanCIDR: 10.1.9.0/24}", "podSubnetCIDR 10.1.0.0/16 overlaps with vxlanCIDR 10.1.9.0/24"},
		"overlap with services":    {"ipamConfig: {podSubnetCIDR: 10.100.0.0/16}", "overlaps with serviceCIDR 10.96.0.0/12"},
		"mixed IP versions":        {`ipamConfig: {podSubnetCIDR: "fd00::/48", podSubnetOneNodePrefixLen: 64}`, "different IP versions"},
		"two pod subnets of IPv4":  {"ipamConfig: {podSubnetCIDR: '10.1.0.0/16,10.2.0.0/16'}", "two networks of one IP version"},
		"three pod subnets":        {"ipamConfig: {podSubnetCIDR: '10.1.0.0/16,fd10::/48,10.2.0.0/16'}", "two networks of one IP version"},
		"no second VXLAN network":  {"ipamConfig: {podSubnetCIDR: '10.1.0.0/16,fd10::/48'}", "ipamConfig.vxlanCIDR 192.168.30.0/24 has no network of the IP version of podSubnetCIDR fd10::/48"},
		"second node part":         {"ipamConfig: {podSubnetCIDR: '10.1.0.0/16,fd10::/64', vxlanCIDR: '192.168.30.0/24,fd30::/64'}", "podSubnetOneNodePrefixLenIPv6 is 64"},
		"overlap in IPv6":          {"ipamConfig: {podSubnetCIDR: '10.1.0.0/16,fd10::/48', vxlanCIDR: '192.168.30.0/24,fd10::/64'}", "podSubnetCIDR fd10::/48 overlaps with vxlanCIDR fd10::/64"},
		"no second host network":   {"ipamConfig: {podSubnetCIDR: '10.1.0.0/16,fd10::/48', vxlanCIDR: '192.168.30.0/24,fd30::/64'}", "ipamConfig.vppHostSubnetCIDR"},
		"sources that are none":    {"podAllowedSources: everything", "option podAllowedSources is \"everything\""},
		"sources of everybody":     {"podAllowedSources: 0.0.0.0/0", "overlaps with 0.0.0.0/8"},
		"sources of other pods":    {"podAllowedSources: '10.200.0.0/24,10.1.7.0/24'", "overlaps with podSubnetCIDR 10.1.0.0/16"},
		"sources of services":      {"podAllowedSources: 10.96.0.10/32", "overlaps with serviceCIDR"},
		"two gateways of IPv4":     {"ipamConfig: {defaultGateway: '10.0.0.1,10.0.0.2'}", "one of each IP version"},
		"two addresses of IPv4":    {"nodeConfig: [{nodeName: node1, mainVPPInterface: {ip: '10.0.0.1/8,10.0.0.2/8'}}]", "one of each IP version"},
		"transport":                {"nodeToNodeTransport: vxlann", "use vxlan or nooverlay"},
		"srv6":                     {"nodeToNodeTransport: srv6", "not supported"},
		"rx mode":                  {"interfaceRxMode: poling", "polling, interrupt or adaptive"},
		"mtu":                      {"mtuSize: 100", "576 to 9216"},
		"gateway":                  {"ipamConfig: {defaultGateway: 10.0.0.1/24}", "ipamConfig.defaultGateway"},
		"nameless node section":    {"nodeConfig: [{gateway: 10.0.0.1}]", "no nodeName"},
		"two sections of one node": {"nodeConfig: [{nodeName: node1}, {nodeName: node1}]", "second section"},
		"bad interface address":    {"nodeConfig: [{nodeName: node1, mainVPPInterface: {ip: 10.0.0.1}}]", "with its prefix length"},
		"interface used twice":     {"nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth1}, otherVPPInterfaces: [{interfaceName: eth1}]}]", "also the main interface"},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := contivconf.Load([]byte(test.conf))
			if err == nil {
				_, err = contivconf.New("node1", config, contivconf.Sources{}, nil, nil, plugintest.Logger())
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestMainInterface(t *testing.T) {
	all := links{
		link("lo", "", "127.0.0.1/8"),
		link("docker0", "", "172.17.0.1/16"),
		link("eth0", "", "192.168.1.5/24"),
		link("eth1", "192.168.2.1", "192.168.2.5/24", "fd02::5/64"),
		link("eth2", "", "192.168.3.5/24", "192.168.3.6/24"),
	}
	for name, test := range map[string]struct {
		conf        string
		links       links
		node        *node.Node
		main        string
		linkAddress string
	}{
		"configured":                     {"nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth2}}]", all, kubeNode("node1", "192.168.1.5"), "eth2", "192.168.3.5/24"},
		"configured for another node":    {"nodeConfig: [{nodeName: node2, mainVPPInterface: {interfaceName: eth2}}]", all, kubeNode("node1"), "eth1", "192.168.2.5/24"},
		"has the Kubernetes address":     {"", all, kubeNode("node1", "192.168.3.6"), "eth2", "192.168.3.6/24"},
		"address of another node":        {"", all, kubeNode("node2", "192.168.3.6"), "eth1", "192.168.2.5/24"},
		"default route":                  {"", all, kubeNode("node1"), "eth1", "192.168.2.5/24"},
		"first that is up":               {"", all[:3], kubeNode("node1"), "eth0", "192.168.1.5/24"},
		"other interfaces are not taken": {"nodeConfig: [{nodeName: node1, otherVPPInterfaces: [{interfaceName: eth1}]}]", all, kubeNode("node1"), "eth0", "192.168.1.5/24"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := contivconf.New("node1", load(t, test.conf), contivconf.Sources{Links: test.links}, nil, nil, plugintest.Logger())
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Resync(context.Background(), &controller.DBResync{}, state(test.node), 1, plugintest.Txn{}); err != nil {
				t.Fatal(err)
			}
			if r := c.Resolved(); r.Main.Name != test.main || r.LinkAddress.String() != test.linkAddress {
				t.Errorf("got %s with %s, want %s with %s", r.Main.Name, r.LinkAddress, test.main, test.linkAddress)
			}
		})
	}
}

func TestResolutionErrors(t *testing.T) {
	for name, test := range map[string]struct {
		conf  string
		links links
		want  string
	}{
		"no link":              {"", links{link("lo", "", "127.0.0.1/8")}, "no link of the host can be the main interface"},
		"no such link":         {"nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth9}}]", links{link("eth0", "")}, `"eth9" does not exist`},
		"no such other link":   {"nodeConfig: [{nodeName: node1, otherVPPInterfaces: [{interfaceName: eth9}]}]", links{link("eth0", "")}, `"eth9" of nodeConfig.otherVPPInterfaces`},
		"node in a pod subnet": {"", links{link("eth0", "", "10.1.200.7/24")}, "overlaps with ipamConfig.podSubnetCIDR 10.1.0.0/16"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := contivconf.New("node1", load(t, test.conf), contivconf.Sources{Links: test.links}, nil, nil, plugintest.Logger())
			if err != nil {
				t.Fatal(err)
			}
			err = c.Resync(context.Background(), &controller.DBResync{}, state(), 1, plugintest.Txn{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestChangeOfOwnAddresses(t *testing.T) {
	all := links{link("eth0", "", "192.168.1.5/24"), link("eth1", "", "192.168.2.5/24")}
	var loop plugintest.Loop
	c, err := contivconf.New("node1", load(t, ""), contivconf.Sources{Links: all}, &loop, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Resync(context.Background(), &controller.DBResync{}, state(kubeNode("node1", "192.168.1.5")), 1, plugintest.Txn{}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		prev, next *node.Node
		events     int
		main       string
	}{
		{kubeNode("node2"), kubeNode("node2", "192.168.2.5"), 0, "eth0"},
		{kubeNode("node1", "192.168.1.5"), kubeNode("node1", "192.168.1.5"), 0, "eth0"},
		{kubeNode("node1", "192.168.1.5"), kubeNode("node1", "192.168.2.5"), 1, "eth1"},
	} {
		change := &controller.KubeStateChange{Resource: "node", PrevValue: step.prev, NewValue: step.next}
		if !c.HandlesEvent(change) {
			t.Errorf("not handled: %v", change)
		}
		if _, err := c.Update(context.Background(), change, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
		if events := loop.Take(); len(events) != step.events {
			t.Errorf("%v: events %v", change, events)
		}
		if main := c.Resolved().Main.Name; main != step.main {
			t.Errorf("%v: main interface %s, want %s", change, main, step.main)
		}
	}
}

func TestDualStackPlan(t *testing.T) {
	c, err := contivconf.New("node1", load(t, `
ipamConfig:
  podSubnetCIDR: fd10::/48, 10.1.0.0/16
  podSubnetOneNodePrefixLen: 25
  vxlanCIDR: 192.168.30.0/24, fd30::/112
  nodeInterconnectCIDR: 192.168.16.0/24
`), contivconf.Sources{Links: links{}}, nil, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	first := c.Subnets()
	if !first.DualStack() || !first.UseIPv6() || first.PodsOneNodeLen != 64 || first.VXLAN.String() != "fd30::/112" || first.NodeInterconnect.IsValid() || len(first.Services) > 0 {
		t.Errorf("first: %+v", first)
	}
	if second := first.Second; second.PodsOneNodeLen != 25 || second.Pods.String() != "10.1.0.0/16" || second.NodeInterconnect.String() != "192.168.16.0/24" ||
		fmt.Sprint(second.Services) != "[10.96.0.0/12]" || second.VPPHost.String() != "172.30.0.0/16" {
		t.Errorf("second: %+v", second)
	}
	e := c.EffectiveIPAMConfig()
	if e.PodSubnetCIDR != "fd10::/48,10.1.0.0/16" || e.PodSubnetOneNodePrefixLen != 25 || e.PodSubnetOneNodePrefixLenIPv6 != 64 || e.VxlanCIDR != "fd30::/112,192.168.30.0/24" {
		t.Errorf("effective configuration: %+v", e)
	}
}

func TestDefaultRouteOfTheHostStays(t *testing.T) {
	for name, test := range map[string]struct{ host, want string }{
		"none":                     {"", "[192.168.1.1 fd00::9]"},
		"the same":                 {"192.168.1.1", "[fd00::9]"},
		"another":                  {"192.168.1.2", "[fd00::9]"},
		"one of IPv6":              {"fd00::1", "[192.168.1.1]"},
		"one of each, on one link": {"192.168.1.2 fd00::1", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			all := links{link("eth0", test.host, "192.168.1.5/24", "fd00::5/64")}
			c, err := contivconf.New("node1", load(t, "ipamConfig: {defaultGateway: '192.168.1.1,fd00::9'}"), contivconf.Sources{Links: all}, nil, nil, plugintest.Logger())
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Resync(context.Background(), &controller.DBResync{}, state(kubeNode("node1")), 1, plugintest.Txn{}); err != nil {
				t.Fatal(err)
			}
			if r := c.Resolved(); fmt.Sprint(r.RouteGateways) != test.want || fmt.Sprint(r.Gateways) != "[192.168.1.1 fd00::9]" {
				t.Errorf("gateways %v, of default routes to be made %v, want %s", r.Gateways, r.RouteGateways, test.want)
			}
		})
	}
}

func TestLinksChange(t *testing.T) {
	current := links{link("eth0", "", "192.168.1.5/24")}
	loop := &plugintest.Loop{}
	c, err := contivconf.New("node1", load(t, ""), contivconf.Sources{Links: &current}, loop, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	resync := func() {
		t.Helper()
		if err := c.Resync(context.Background(), &controller.DBResync{}, state(kubeNode("node1")), 1, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
	}
	c.LinksChanged(context.Background())
	if events := loop.Take(); len(events) != 0 {
		t.Errorf("before the first resync: %v", events)
	}
	resync()
	mtu := link("eth0", "", "192.168.1.9/24")
	mtu.MTU = 9000
	for _, step := range []struct {
		name  string
		links links
		want  string
		warns string
	}{
		{"nothing changed", current, "", ""},
		{"another link", append(links{link("eth1", "", "172.20.0.1/16")}, current...), "", ""},
		{"no address", links{link("eth0", "")}, "", "the main interface eth0 lost the node's address 192.168.1.5/24: "},
		{"no link", nil, "", `main interface "eth0" does not exist`},
		{"the address is back", links{link("eth0", "", "192.168.1.5/24")}, "", ""},
		{"another address", links{link("eth0", "", "192.168.1.9/24")}, "now: address 192.168.1.9/24", ""},
		{"another MTU", links{mtu}, "MTU 9000", ""},
	} {
		current = step.links
		for range 2 {
			c.LinksChanged(context.Background())
		}
		if warnings := strings.Join(c.Warnings(), "\n"); (warnings == "") != (step.warns == "") || !strings.Contains(warnings, step.warns) {
			t.Errorf("%s: warnings %q, want %q", step.name, warnings, step.warns)
		}
		events := loop.Take()
		switch {
		case step.want == "" && len(events) != 0:
			t.Errorf("%s: %v", step.name, events)
		case step.want != "" && (len(events) != 1 || !strings.Contains(events[0].String(), step.want)):
			t.Errorf("%s: %v, want one event with %q", step.name, events, step.want)
		case step.want != "":
			resync()
		}
	}
}

func TestResyncWithoutAddress(t *testing.T) {
	current := links{link("eth0", "", "192.168.1.5/24"), link("eth1", "", "192.0.2.1/24")}
	loop := &plugintest.Loop{}
	c, err := contivconf.New("node1", load(t, "crdNodeConfigurationDisabled: false"), contivconf.Sources{Links: &current}, loop, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	kube := state(kubeNode("node1"))
	resync := func() {
		t.Helper()
		if err := c.Resync(context.Background(), &controller.DBResync{}, kube, 1, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
	}
	const lost = "the main interface eth0 lost the node's address 192.168.1.5/24"
	want := func(when, text string) {
		t.Helper()
		if warnings := strings.Join(c.Warnings(), "\n"); (warnings == "") != (text == "") || !strings.Contains(warnings, text) {
			t.Errorf("%s: warnings %q, want %q", when, warnings, text)
		}
	}
	resync()
	want("at the start", "")
	with := current
	current = links{link("eth0", ""), with[1]}
	resync()
	want("a resync noticed it", lost)
	c.LinksChanged(context.Background())
	want("the links are looked at", lost)
	resync()
	resync()
	want("resyncs", lost)
	loop.Take()
	current = with
	c.LinksChanged(context.Background())
	want("the address is back", "")
	if events := loop.Take(); len(events) != 1 {
		t.Errorf("the address is back: %v", events)
	}
	resync()
	current = links{link("eth0", ""), with[1]}
	c.LinksChanged(context.Background())
	want("lost again", lost)
	current = with
	resync()
	want("a resync finds it", "")
	current = links{link("eth0", ""), with[1]}
	c.LinksChanged(context.Background())
	kube[kubestate.NodeConfig] = map[string]proto.Message{
		kubestate.NodeConfigKey("node1"): &nodeconfig.NodeConfig{MainVppInterface: &nodeconfig.InterfaceConfig{InterfaceName: "eth1"}}}
	resync()
	want("another interface is configured", "")
}
