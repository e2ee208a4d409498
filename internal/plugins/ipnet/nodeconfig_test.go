package ipnet_test

import (
	"testing"

	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"google.golang.org/protobuf/proto"
)

// The section in contiv.conf and a NodeConfig in etcd have the same effect in all plugins. Nothing
// remains of a deleted NodeConfig.
func TestNodeConfigIsLikeTheSectionOfTheFile(t *testing.T) {
	const options = "crdNodeConfigurationDisabled: false\nnatExternalTraffic: false\n"
	links := plugintest.Links{plugintest.Link("eth0", "192.168.16.1/24"), plugintest.Link("eth1", "192.168.17.1/24"), plugintest.Link("eth2")}
	eth0 := &nodeconfig.InterfaceConfig{InterfaceName: "eth0"}
	for name, test := range map[string]struct {
		section string
		config  *nodeconfig.NodeConfig
	}{
		"NAT": {"mainVPPInterface: {interfaceName: eth0}, gateway: 192.168.16.254, natExternalTraffic: true",
			&nodeconfig.NodeConfig{MainVppInterface: eth0, Gateway: "192.168.16.254", NatExternalTraffic: true}},
		"another NIC with the gateway": {"otherVPPInterfaces: [{interfaceName: eth2, ip: 10.50.0.1/24}], gateway: 10.50.0.254, natExternalTraffic: true",
			&nodeconfig.NodeConfig{OtherVppInterfaces: []*nodeconfig.InterfaceConfig{{InterfaceName: "eth2", Ip: "10.50.0.1/24"}}, Gateway: "10.50.0.254", NatExternalTraffic: true}},
		"gateway": {"mainVPPInterface: {interfaceName: eth0}, gateway: 192.168.16.254",
			&nodeconfig.NodeConfig{MainVppInterface: eth0, Gateway: "192.168.16.254"}},
		"another main NIC": {"mainVPPInterface: {interfaceName: eth1, ip: 192.168.17.7/24}",
			&nodeconfig.NodeConfig{MainVppInterface: &nodeconfig.InterfaceConfig{InterfaceName: "eth1", Ip: "192.168.17.7/24"}}},
		"main NIC by DHCP": {"mainVPPInterface: {interfaceName: eth1, useDHCP: true}",
			&nodeconfig.NodeConfig{MainVppInterface: &nodeconfig.InterfaceConfig{InterfaceName: "eth1", UseDhcp: true}}},
	} {
		for vswitch, caps := range map[string]plugintest.NodeOptions{"kernel": {Caps: &plugintest.Kernel}, "VPP": {Caps: &plugintest.VPP}} {
			t.Run(name+" on "+vswitch, func(t *testing.T) {
				start := func(conf string) *plugintest.Node {
					o := caps
					o.Conf, o.Links, o.State = conf, links, plugintest.State(vppNode(2, "node2", "192.168.16.2/24"), kubeNode("node2", "192.168.16.2"))
					return plugintest.StartNode(t, o)
				}
				base := options
				if vswitch == "VPP" {
					base += "ipamConfig: {nodeInterconnectCIDR: 192.168.16.0/24}\n"
				}
				want := start(base + "nodeConfig: [{nodeName: node1, " + test.section + "}]").Scheduler.Values()
				node := start(base)
				before := node.Scheduler.Values()
				if plugintest.Diff(before, want) == "" {
					t.Fatal("the section has no effect")
				}
				config := proto.CloneOf(test.config)
				config.NodeName = "node1"
				node.Change(nil, config)
				if diff := plugintest.Diff(want, node.Scheduler.Values()); diff != "" {
					t.Errorf("with the NodeConfig (-like the file +got):\n%s", diff)
				}
				node.Change(config, nil)
				if diff := plugintest.Diff(before, node.Scheduler.Values()); diff != "" {
					t.Errorf("without it again (-before +got):\n%s", diff)
				}
			})
		}
	}
}
