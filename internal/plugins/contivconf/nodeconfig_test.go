package contivconf_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"google.golang.org/protobuf/proto"
)

type plugin struct {
	misread error
	*contivconf.ContivConf
	t      testing.TB
	conf   string
	links  *hostLinks
	loop   *plugintest.Loop
	local  store.Broker
	stored *nodeconfig.NodeConfig
}

type hostLinks struct{ atomic.Pointer[links] }

func (l *hostLinks) HostLinks() ([]contivconf.HostLink, error) { return *l.Load(), nil }

const enabled = "crdNodeConfigurationDisabled: false\n"

func start(t testing.TB, conf string, all links, stored *nodeconfig.NodeConfig) *plugin {
	t.Helper()
	p := &plugin{t: t, conf: conf, links: &hostLinks{}, loop: &plugintest.Loop{}, local: memory.New(), stored: stored}
	p.links.Store(&all)
	p.restart()
	return p
}

func (p *plugin) restart() {
	p.t.Helper()
	var err error
	if p.ContivConf, err = contivconf.New("node1", load(p.t, p.conf), contivconf.Sources{Links: p.links, Misread: func() error { return p.misread }}, p.loop, p.local, plugintest.Logger()); err != nil {
		p.t.Fatal(err)
	}
	p.resync()
}

func (p *plugin) resync() {
	p.t.Helper()
	if err := p.Resync(context.Background(), &controller.DBResync{}, p.state(), 1, plugintest.Txn{}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *plugin) state() controller.KubeState {
	s := state(kubeNode("node1", "192.168.1.5"))
	s[kubestate.NodeConfig] = map[string]proto.Message{
		kubestate.NodeConfigKey("node2"): &nodeconfig.NodeConfig{Gateway: "192.168.1.22"},
	}
	if p.stored != nil {
		s[kubestate.NodeConfig][kubestate.NodeConfigKey("node1")] = p.stored
	}
	return s
}

func nodeConfigChange(name string, prev, next *nodeconfig.NodeConfig) *controller.KubeStateChange {
	change := &controller.KubeStateChange{Key: kubestate.NodeConfigKey(name), Resource: kubestate.NodeConfig}
	if prev != nil {
		change.PrevValue = prev
	}
	if next != nil {
		change.NewValue = next
	}
	return change
}

// put changes or (nil) deletes the NodeConfig in etcd and runs a requested resync. It returns the
// reported change.
func (p *plugin) put(next *nodeconfig.NodeConfig) (change string, resynced bool) {
	p.t.Helper()
	event := nodeConfigChange("node1", p.stored, next)
	p.stored = next
	if !p.HandlesEvent(event) {
		p.t.Fatalf("not handled: %v", event)
	}
	change, err := p.Update(context.Background(), event, plugintest.Txn{})
	if err != nil {
		p.t.Fatalf("%v: %v", next, err)
	}
	return change, p.follow()
}

func (p *plugin) follow() bool {
	p.t.Helper()
	events := p.loop.Take()
	if len(events) == 0 {
		return false
	}
	change, ok := events[0].(*contivconf.NodeConfigChange)
	if !ok || len(events) > 1 || change.Method() != controller.UpstreamResync {
		p.t.Fatalf("got %v, want one NodeConfigChange", events)
	}
	p.resync()
	return true
}

func (p *plugin) summary() string {
	r := p.Resolved()
	text := fmt.Sprintf("%s %v %v", r.Main.Name, r.Main.Addresses, r.LinkAddress)
	for _, o := range r.Other {
		text += fmt.Sprintf(" %s %v", o.Name, o.Addresses)
		if o.UseDHCP {
			text += " DHCP"
		}
	}
	return fmt.Sprintf("%s via %v, NAT %v", text, r.Gateways, p.NatExternalTraffic())
}

func (p *plugin) want(what, summary string) {
	p.t.Helper()
	if got := p.summary(); got != summary {
		p.t.Errorf("%s:\n got %s\nwant %s", what, got, summary)
	}
}

var (
	twoNICs  = links{link("lo", "", "127.0.0.1/8"), link("eth0", "", "192.168.1.5/24"), link("eth1", "", "192.168.2.5/24")}
	withFile = enabled + `
natExternalTraffic: false
ipamConfig: {defaultGateway: 192.168.1.1}
nodeConfig:
- {nodeName: node1, mainVPPInterface: {interfaceName: eth0, ip: 192.168.1.50/24}, gateway: 192.168.1.2, natExternalTraffic: true}
- {nodeName: node2, gateway: 192.168.1.3}
`
	additional = &nodeconfig.NodeConfig{
		OtherVppInterfaces: []*nodeconfig.InterfaceConfig{{InterfaceName: "eth1", Ip: "10.50.0.1/24", UseDhcp: true}}, Gateway: "10.50.0.254",
	}
)

const byFile = "eth0 [192.168.1.50/24] 192.168.1.5/24 via [192.168.1.2], NAT true"

func TestNodeConfigReplacesTheSectionOfTheFile(t *testing.T) {
	for name, test := range map[string]struct {
		conf   string
		stored *nodeconfig.NodeConfig
		want   string
	}{
		"none":               {withFile, nil, byFile},
		"empty":              {withFile, &nodeconfig.NodeConfig{}, "eth0 [] 192.168.1.5/24 via [192.168.1.1], NAT false"},
		"with a gateway":     {withFile, &nodeconfig.NodeConfig{NodeName: "node1", Gateway: "192.168.1.9"}, "eth0 [] 192.168.1.5/24 via [192.168.1.9], NAT false"},
		"with NAT":           {withFile, &nodeconfig.NodeConfig{NatExternalTraffic: true}, "eth0 [] 192.168.1.5/24 via [192.168.1.1], NAT true"},
		"another main NIC":   {withFile, &nodeconfig.NodeConfig{MainVppInterface: &nodeconfig.InterfaceConfig{InterfaceName: "eth1", Ip: "192.168.2.50/24, fd02::50/64"}, Gateway: "192.168.2.1,fd02::1"}, "eth1 [192.168.2.50/24 fd02::50/64] 192.168.2.5/24 via [192.168.2.1 fd02::1], NAT false"},
		"another NIC":        {withFile, additional, "eth0 [] 192.168.1.5/24 eth1 [10.50.0.1/24] via [10.50.0.254], NAT false"},
		"a NIC by DHCP":      {withFile, &nodeconfig.NodeConfig{OtherVppInterfaces: []*nodeconfig.InterfaceConfig{{InterfaceName: "eth1", UseDhcp: true}}, Gateway: "192.168.2.1"}, "eth0 [] 192.168.1.5/24 eth1 [] DHCP via [192.168.2.1], NAT false"},
		"main NIC by DHCP":   {withFile, &nodeconfig.NodeConfig{MainVppInterface: &nodeconfig.InterfaceConfig{UseDhcp: true}, Gateway: "192.168.1.9"}, "eth0 [] 192.168.1.5/24 via [], NAT false"},
		"disabled":           {strings.Replace(withFile, "false", "true", 1), additional, byFile},
		"disabled by itself": {strings.TrimPrefix(withFile, enabled), additional, byFile},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, test.conf, twoNICs, test.stored)
			p.want("after the startup resync", test.want)
			err := p.NodeConfigError()
			if disabled := strings.HasPrefix(name, "disabled"); disabled && (err == nil || !strings.Contains(err.Error(), "set crdNodeConfigurationDisabled to false")) ||
				!disabled && err != nil {
				t.Error(err)
			}
		})
	}
}

func TestUnreadableNodeConfigIsTold(t *testing.T) {
	p := start(t, withFile, twoNICs, nil)
	if err := p.NodeConfigError(); err != nil {
		t.Error(err)
	}
	p.misread = errors.New("value is no JSON")
	if err := p.NodeConfigError(); err == nil || err.Error() != "NodeConfig of node node1: value is no JSON" {
		t.Errorf("got %v", err)
	}
	if r, _ := p.Report(); r.Refused != "NodeConfig of node node1: value is no JSON" {
		t.Errorf("reported: %q", r.Refused)
	}
}

func TestNodeConfigChanges(t *testing.T) {
	p := start(t, withFile, twoNICs, nil)
	for _, step := range []struct {
		name     string
		next     *nodeconfig.NodeConfig
		resynced bool
		want     string
	}{
		{"added", additional, true, "eth0 [] 192.168.1.5/24 eth1 [10.50.0.1/24] via [10.50.0.254], NAT false"},
		{"written again", proto.CloneOf(additional), false, "eth0 [] 192.168.1.5/24 eth1 [10.50.0.1/24] via [10.50.0.254], NAT false"},
		{"NAT only", &nodeconfig.NodeConfig{OtherVppInterfaces: additional.OtherVppInterfaces, Gateway: additional.Gateway, NatExternalTraffic: true}, true,
			"eth0 [] 192.168.1.5/24 eth1 [10.50.0.1/24] via [10.50.0.254], NAT true"},
		{"gateway only", &nodeconfig.NodeConfig{Gateway: "192.168.1.9"}, true, "eth0 [] 192.168.1.5/24 via [192.168.1.9], NAT false"},
		{"deleted", nil, true, byFile},
		{"deleted again", nil, false, byFile},
	} {
		change, resynced := p.put(step.next)
		if resynced != step.resynced || (change != "") != resynced {
			t.Errorf("%s: resynced: %v, reported: %q", step.name, resynced, change)
		}
		p.want(step.name, step.want)
	}
	if p.HandlesEvent(nodeConfigChange("node2", nil, additional)) {
		t.Error("the NodeConfig of another node is handled")
	}
}

func TestRefusedNodeConfigs(t *testing.T) {
	main := func(name, ip string) *nodeconfig.NodeConfig {
		return &nodeconfig.NodeConfig{MainVppInterface: &nodeconfig.InterfaceConfig{InterfaceName: name, Ip: ip}}
	}
	others := func(others ...*nodeconfig.InterfaceConfig) *nodeconfig.NodeConfig {
		return &nodeconfig.NodeConfig{OtherVppInterfaces: others}
	}
	p := start(t, withFile+"- {nodeName: node3}\n", append(links{link("eth2", "")}, twoNICs...), additional)
	before := p.summary()
	for name, test := range map[string]struct {
		config *nodeconfig.NodeConfig
		want   string
	}{
		"no address":               {main("eth0", "192.168.1"), `nodeConfig.mainVPPInterface.ip is "192.168.1"`},
		"no prefix length":         {main("eth0", "192.168.1.7"), "with its prefix length"},
		"address of a network":     {main("eth0", "192.168.1.0/24"), "which no interface can have"},
		"broadcast address":        {main("eth0", "192.168.1.255/24"), "which no interface can have"},
		"multicast address":        {main("eth0", "224.0.0.1/24"), "which no interface can have"},
		"mapped address":           {main("eth0", "::ffff:10.0.0.1/120"), "which no interface can have"},
		"address of pods":          {main("eth0", "10.1.3.1/24"), "overlaps with ipamConfig.podSubnetCIDR 10.1.0.0/16"},
		"network of services":      {others(&nodeconfig.InterfaceConfig{InterfaceName: "eth1", Ip: "10.97.0.1/24"}), "overlaps with ipamConfig.serviceCIDR"},
		"no such interface":        {main("eth9", ""), `main interface "eth9" does not exist`},
		"no such other interface":  {others(&nodeconfig.InterfaceConfig{InterfaceName: "eth9"}), `"eth9" of nodeConfig.otherVPPInterfaces does not exist (links: eth2, lo, eth0, eth1)`},
		"nameless interface":       {others(&nodeconfig.InterfaceConfig{Ip: "10.50.0.1/24"}), "otherVPPInterfaces[0] has no interfaceName"},
		"interface twice":          {others(&nodeconfig.InterfaceConfig{InterfaceName: "eth1"}, &nodeconfig.InterfaceConfig{InterfaceName: "eth1"}), "otherVPPInterfaces[1] is eth1, which is already in the list"},
		"address twice":            {others(&nodeconfig.InterfaceConfig{InterfaceName: "eth1", Ip: "10.5.0.1/24"}, &nodeconfig.InterfaceConfig{InterfaceName: "eth2", Ip: "10.5.0.1/16"}), "10.5.0.1 belongs to two interfaces"},
		"main interface twice":     {&nodeconfig.NodeConfig{MainVppInterface: &nodeconfig.InterfaceConfig{InterfaceName: "eth1"}, OtherVppInterfaces: additional.OtherVppInterfaces}, "also the main interface"},
		"main without an address":  {main("eth2", ""), "main interface eth2 has no IP address"},
		"no gateway":               {&nodeconfig.NodeConfig{Gateway: "192.168.1.300"}, `nodeConfig.gateway is "192.168.1.300"`},
		"two gateways":             {&nodeconfig.NodeConfig{Gateway: "192.168.1.3,192.168.1.4"}, "one of each IP version"},
		"gateway with a zone":      {&nodeconfig.NodeConfig{Gateway: "fe80::1%eth0"}, "cannot be a router"},
		"gateway out of reach":     {&nodeconfig.NodeConfig{Gateway: "192.168.77.1"}, "nodeConfig.gateway 192.168.77.1 is on none of the networks of the node's interfaces ([192.168.1.0/24])"},
		"gateway is the node":      {&nodeconfig.NodeConfig{MainVppInterface: &nodeconfig.InterfaceConfig{Ip: "192.168.1.7/24"}, Gateway: "192.168.1.7"}, "is an address of the node itself"},
		"name of another node":     {&nodeconfig.NodeConfig{NodeName: "node2"}, `its node_name is "node2"`},
		"half of it would do":      {&nodeconfig.NodeConfig{Gateway: "192.168.1.9", NatExternalTraffic: true, OtherVppInterfaces: []*nodeconfig.InterfaceConfig{{InterfaceName: "eth1", Ip: "x"}}}, `otherVPPInterfaces[0].ip is "x"`},
		"two addresses of IPv4":    {main("eth0", "192.168.1.7/24,192.168.1.8/24"), "one of each IP version"},
		"main interface not found": {main("eth1\n", ""), "does not exist"},
	} {
		change, resynced := p.put(test.config)
		if resynced || !strings.HasPrefix(change, "refuse the NodeConfig of node node1: ") || !strings.Contains(change, test.want) {
			t.Errorf("%s: got %q, resynced: %v, want a refusal with %q", name, change, resynced, test.want)
		}
		if err := p.NodeConfigError(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: status %v, want %q", name, err, test.want)
		}
		p.want(name, before)
		p.resync()
		p.want(name+", after a resync", before)
		p.restart()
		p.want(name+", after a restart", before)
		if err := p.NodeConfigError(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: status after a restart %v, want %q", name, err, test.want)
		}
	}
	if _, resynced := p.put(proto.CloneOf(additional)); resynced {
		t.Error("what is in force was written again: resynced")
	}
	if err := p.NodeConfigError(); err != nil {
		t.Errorf("still refused: %v", err)
	}
}

func TestNodeConfigAtStart(t *testing.T) {
	p := start(t, withFile, twoNICs, &nodeconfig.NodeConfig{Gateway: "x"})
	p.want("wrong", byFile)
	if p.NodeConfigError() == nil {
		t.Error("not refused")
	}
	p.put(additional)
	p.stored = nil
	p.restart()
	p.want("deleted", byFile)
	p.stored = &nodeconfig.NodeConfig{Gateway: "x"}
	p.restart()
	p.want("wrong, after it was deleted", byFile)

	p.conf = enabled + "nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth7}}]"
	var err error
	if p.ContivConf, err = contivconf.New("node1", load(t, p.conf), contivconf.Sources{Links: p.links, Misread: func() error { return p.misread }}, p.loop, p.local, plugintest.Logger()); err != nil {
		t.Fatal(err)
	}
	err = p.Resync(context.Background(), &controller.DBResync{}, p.state(), 1, plugintest.Txn{})
	if err == nil || !strings.Contains(err.Error(), `nodeConfig.gateway is "x"`) || !strings.Contains(err.Error(), `"eth7" does not exist`) {
		t.Errorf("got %v", err)
	}
	if _, resynced := p.put(additional); !resynced {
		t.Error("the correction is not announced")
	}
	p.want("corrected", "eth0 [] 192.168.1.5/24 eth1 [10.50.0.1/24] via [10.50.0.254], NAT true")
}

func TestDeletedNodeConfigStaysIfTheFileIsWrong(t *testing.T) {
	p := start(t, enabled+"nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth9}}]", twoNICs, additional)
	before := p.summary()
	change, resynced := p.put(nil)
	if resynced || !strings.Contains(change, "was deleted, but contiv.conf cannot replace it") || !strings.Contains(change, `"eth9" does not exist`) {
		t.Errorf("resynced: %v, reported: %q", resynced, change)
	}
	p.want("deleted", before)
	p.resync()
	p.want("after a resync", before)
}

func TestNodeConfigFollowsTheLinks(t *testing.T) {
	p := start(t, withFile, twoNICs[:2], additional)
	p.want("without the link", byFile)
	p.LinksChanged(context.Background())
	if p.follow() {
		t.Error("asked for a resync, without the link")
	}
	p.links.Store(&twoNICs)
	p.LinksChanged(context.Background())
	p.LinksChanged(context.Background())
	if !p.follow() || p.NodeConfigError() != nil {
		t.Errorf("not in force: %v", p.NodeConfigError())
	}
	const want = "eth0 [] 192.168.1.5/24 eth1 [10.50.0.1/24] via [10.50.0.254], NAT false"
	p.want("with the link", want)

	without := twoNICs[:2]
	p.links.Store(&without)
	p.LinksChanged(context.Background())
	p.resync()
	p.want("the link has gone", want)
	if err := p.NodeConfigError(); err == nil || !strings.Contains(err.Error(), `"eth1" of nodeConfig.otherVPPInterfaces does not exist`) {
		t.Errorf("status: %v", err)
	}
	p.links.Store(&twoNICs)
	p.LinksChanged(context.Background())
	if !p.follow() || p.NodeConfigError() != nil {
		t.Errorf("not in force again: %v", p.NodeConfigError())
	}
}

// Addresses assigned by Contiv are not the host's: they are removed with the NodeConfig.
func TestAssignedAddressesAreNotTheHosts(t *testing.T) {
	eth0 := link("eth0", "", "192.168.9.50/24", "192.168.1.5/24")
	eth0.Assigned = eth0.Addresses[:1]
	p := start(t, enabled, links{eth0}, nil)
	p.want("the NodeConfig is gone", "eth0 [] 192.168.1.5/24 via [], NAT true")
	for i, ips := range [][]string{{"192.168.9.50"}, {}} {
		change := &controller.KubeStateChange{Resource: kubestate.Node, NewValue: kubeNode("node1", ips...)}
		if _, err := p.Update(context.Background(), change, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
		p.want(fmt.Sprintf("step %d", i), "eth0 [] 192.168.1.5/24 via [], NAT true")
	}
	eth0 = link("eth0", "", "192.168.9.50/24", "192.168.8.5/24")
	eth0.Leased = eth0.Addresses[:1]
	p = start(t, enabled, links{eth0}, nil)
	p.want("no longer by DHCP", "eth0 [] 192.168.8.5/24 via [], NAT true")
	p.put(&nodeconfig.NodeConfig{MainVppInterface: &nodeconfig.InterfaceConfig{InterfaceName: "eth0", UseDhcp: true}})
	p.want("by DHCP", "eth0 [] 192.168.9.50/24 via [], NAT true")
	p = start(t, enabled, links{link("eth0", "")}, &nodeconfig.NodeConfig{MainVppInterface: &nodeconfig.InterfaceConfig{UseDhcp: true}})
	p.want("by DHCP, without a lease yet", "eth0 [] invalid Prefix via [], NAT true")
	if err := p.NodeConfigError(); err != nil {
		t.Error(err)
	}
}

// Computed node addresses skip the gateways of all nodes, so that no two nodes compute the same
// address.
func TestStaticGatewaysAreTheSameOnAllNodes(t *testing.T) {
	want := []netip.Addr{netip.MustParseAddr("192.168.1.1"), netip.MustParseAddr("192.168.1.2"), netip.MustParseAddr("192.168.1.3")}
	for _, name := range []string{"node1", "node2", "node3"} {
		c, err := contivconf.New(name, load(t, withFile), contivconf.Sources{Links: twoNICs}, nil, nil, plugintest.Logger())
		if err != nil {
			t.Fatal(err)
		}
		if got := c.StaticGateways(); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	p := start(t, withFile, twoNICs, &nodeconfig.NodeConfig{Gateway: "192.168.1.99"})
	if got := p.StaticGateways(); !slices.Equal(got, want) {
		t.Errorf("with a NodeConfig: got %v, want %v", got, want)
	}
}

func TestUnusableLocalCopyOfTheNodeConfig(t *testing.T) {
	p := start(t, withFile, twoNICs, additional)
	for _, value := range []string{"", "{", `{"gateway": "x"}`} {
		if err := p.local.Put(context.Background(), contivconf.StoreKey, []byte(value)); err != nil {
			t.Fatal(err)
		}
		p.stored = &nodeconfig.NodeConfig{Gateway: "y"}
		p.restart()
		p.want(value, byFile)
	}
	down := memory.New()
	down.SetAvailable(false)
	p.local = down
	p.stored = additional
	p.restart()
	p.want("no local store", "eth0 [] 192.168.1.5/24 eth1 [10.50.0.1/24] via [10.50.0.254], NAT false")
}

// REST, links and the event loop use the plugin concurrently. No reader sees a mixture of two
// configurations. For the race detector.
func TestConcurrentUse(t *testing.T) {
	p := start(t, withFile, twoNICs, nil)
	allowed := []string{"eth0 [192.168.1.50/24] [192.168.1.2]", "eth0 [] [10.50.0.254]"}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				r := p.Resolved()
				if got := fmt.Sprintf("%s %v %v", r.Main.Name, r.Main.Addresses, r.Gateways); !slices.Contains(allowed, got) {
					t.Errorf("got %s", got)
					return
				}
				p.NatExternalTraffic()
				p.StaticGateways()
				p.PodMTU(netip.Addr{})
				_ = p.NodeConfigError()
				p.Report()
			}
		})
	}
	readers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			some := twoNICs[:2+i%2]
			p.links.Store(&some)
			p.LinksChanged(context.Background())
		}
	})
	for i := range 200 {
		next := additional
		if i%3 == 1 {
			next = nil
		} else if i%3 == 2 {
			next = &nodeconfig.NodeConfig{Gateway: "x"}
		}
		event := nodeConfigChange("node1", p.stored, next)
		p.stored = next
		if _, err := p.Update(context.Background(), event, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
		p.loop.Take()
		p.resync()
	}
	close(done)
	readers.Wait()
	p.loop.Take()
	p.links.Store(&twoNICs)
	p.put(additional)
	p.want("in the end", "eth0 [] 192.168.1.5/24 eth1 [10.50.0.1/24] via [10.50.0.254], NAT false")
}
