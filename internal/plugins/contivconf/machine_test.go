package contivconf_test

import (
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/plugintest"
)

func TestCheckMachine(t *testing.T) {
	const wanted = "nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth1}, otherVPPInterfaces: [{interfaceName: eth2}]}]\n"
	for name, c := range map[string]struct {
		conf, links, mistake, remark string
	}{
		"nothing named":             {"", "eth0", "", ""},
		"all there":                 {wanted, "eth0 eth1 eth2", "", ""},
		"main interface missing":    {wanted, "eth0 eth2", `node node1: main interface "eth1" does not exist: correct nodeConfig.mainVPPInterface.interfaceName (links: eth0, eth2)`, ""},
		"other interface missing":   {wanted, "eth0 eth1", `node node1: interface "eth2" of nodeConfig.otherVPPInterfaces does not exist`, ""},
		"no link at all":            {"", "lo", "", "on this machine, node node1 would have no network: no link of the host can be the main interface"},
		"network of the cluster":    {wanted + "ipamConfig: {podSubnetCIDR: 192.168.0.0/20}", "eth0 eth1 eth2", "overlaps with ipamConfig.podSubnetCIDR 192.168.0.0/20", ""},
		"maybe of the cluster":      {"ipamConfig: {podSubnetCIDR: 192.168.0.0/20}", "eth0", "", "overlaps with ipamConfig.podSubnetCIDR 192.168.0.0/20"},
		"MTU that fits":             {"mtuSize: 1450", "eth0", "", ""},
		"MTU too large for VXLAN":   {"mtuSize: 1451", "eth0", "", "option mtuSize is 1451, but packets between nodes may have at most 1450 bytes: the MTU of eth0 is 1500, and the overlay needs 50: use 1450 or less"},
		"MTU that needs no VXLAN":   {"mtuSize: 1500\nnodeToNodeTransport: nooverlay", "eth0", "", ""},
		"MTU above that of the NIC": {"mtuSize: 9000\nnodeToNodeTransport: nooverlay", "eth0", "", "use 1500 or less"},
		"VETH pairs on the kernel":  {"useTAPInterfaces: false", "eth0", "option useTAPInterfaces: false requires VPP", ""},
	} {
		config := load(t, c.conf)
		var here links
		for _, l := range strings.Fields(c.links) {
			address := "127.0.0.1/8"
			if l != "lo" {
				address = "192.168." + strings.TrimPrefix(l, "eth") + ".5/24"
			}
			here = append(here, link(l, "", address))
		}
		remarks, err := config.CheckMachine(contivconf.Machine{NodeName: "node1", Here: true, Links: here})
		if text := strings.Join(remarks, "\n"); (text == "") != (c.remark == "") || !strings.Contains(text, c.remark) {
			t.Errorf("%s: remarks %q, want %q", name, text, c.remark)
		}
		if (err == nil) != (c.mistake == "") || err != nil && !strings.Contains(err.Error(), c.mistake) {
			t.Errorf("%s: %v, want %q", name, err, c.mistake)
		}
	}
}

func TestHostBits(t *testing.T) {
	config := load(t, "podAllowedSources: 10.200.0.1/24\nipamConfig: {podSubnetCIDR: 10.2.3.4/16, serviceCIDR: 10.96.0.0/12, srv6: {servicePolicyBSIDSubnetCIDR: '8fff::1/16'}}")
	remarks := strings.Join(config.Remarks(), "\n")
	for _, want := range []string{
		"option ipamConfig.podSubnetCIDR has 10.2.3.4/16, an address in the network 10.2.0.0/16, which is used: use the network",
		"option podAllowedSources has 10.200.0.1/24", "option ipamConfig.srv6.servicePolicyBSIDSubnetCIDR has 8fff::1/16",
	} {
		if !strings.Contains(remarks, want) {
			t.Errorf("no %q in %s", want, remarks)
		}
	}
	if strings.Contains(remarks, "serviceCIDR") || strings.Count(remarks, "\n") != 2 {
		t.Error(remarks)
	}
	c, err := contivconf.New("node1", config, contivconf.Sources{}, nil, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Subnets(); s.Pods.String() != "10.2.0.0/16" {
		t.Errorf("the agent uses %v", s.Pods)
	}
	if config := load(t, ""); len(config.Remarks()) > 0 {
		t.Error(config.Remarks())
	}
}
