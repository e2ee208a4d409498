package ipam_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam"
)

func prefix(text string) netip.Prefix {
	if text == "" {
		return netip.Prefix{}
	}
	return netip.MustParsePrefix(text)
}

func subnets(pods string, podsLen int, host string, hostLen int, interconnect, vxlan string) contivconf.Subnets {
	return contivconf.Subnets{Pods: prefix(pods), PodsOneNodeLen: podsLen, VPPHost: prefix(host), VPPHostOneNodeLen: hostLen,
		NodeInterconnect: prefix(interconnect), VXLAN: prefix(vxlan)}
}

var (
	ipv4 = subnets("1.2.128.0/17", 29, "2.3.192.0/18", 30, "3.4.5.192/26", "4.5.6.192/26")
	ipv6 = subnets("fe10:f00d::/90", 120, "fe30:f00d::/90", 126, "fe10:f00d::/90", "fe20:f00d::/120")
)

func TestPlan(t *testing.T) {
	defaults := subnets("10.1.0.0/16", 24, "172.30.0.0/16", 24, "192.168.16.0/24", "192.168.30.0/24")
	narrow := subnets("1.4.1.0/24", 28, "2.3.192.0/18", 30, "3.4.5.192/28", "4.5.6.192/28")
	for _, test := range []struct {
		subnets                                         contivconf.Subnets
		id                                              uint32
		pods, gateway, nat, inVPP, inLinux, node, vxlan string
	}{
		{defaults, 1, "10.1.1.0/24", "10.1.1.1/24", "10.1.1.254", "172.30.1.1/24", "172.30.1.2/24", "192.168.16.1/24", "192.168.30.1/24"},
		{defaults, 2, "10.1.2.0/24", "10.1.2.1/24", "10.1.2.254", "172.30.2.1/24", "172.30.2.2/24", "192.168.16.2/24", "192.168.30.2/24"},
		{defaults, 254, "10.1.254.0/24", "10.1.254.1/24", "10.1.254.254", "172.30.254.1/24", "172.30.254.2/24", "192.168.16.254/24", "192.168.30.254/24"},
		{defaults, 255, "10.1.255.0/24", "10.1.255.1/24", "10.1.255.254", "172.30.255.1/24", "172.30.255.2/24", "", ""}, // broadcast
		{defaults, 256, "10.1.0.0/24", "10.1.0.1/24", "10.1.0.254", "172.30.0.1/24", "172.30.0.2/24", "", ""},
		{defaults, 257, "", "", "", "", "", "", ""},
		{ipv4, 1, "1.2.128.8/29", "1.2.128.9/29", "1.2.128.14", "2.3.192.5/30", "2.3.192.6/30", "3.4.5.193/26", "4.5.6.193/26"},
		{ipv4, 5, "1.2.128.40/29", "1.2.128.41/29", "1.2.128.46", "2.3.192.21/30", "2.3.192.22/30", "3.4.5.197/26", "4.5.6.197/26"},
		{ipv4, 257, "1.2.136.8/29", "1.2.136.9/29", "1.2.136.14", "2.3.196.5/30", "2.3.196.6/30", "", ""},
		{ipv6, 1, "fe10:f00d::100/120", "fe10:f00d::101/120", "fe10:f00d::1fe", "fe30:f00d::5/126", "fe30:f00d::6/126", "fe10:f00d::1/90", "fe20:f00d::1/120"},
		{ipv6, 5, "fe10:f00d::500/120", "fe10:f00d::501/120", "fe10:f00d::5fe", "fe30:f00d::15/126", "fe30:f00d::16/126", "fe10:f00d::5/90", "fe20:f00d::5/120"},
		{narrow, 1, "1.4.1.16/28", "1.4.1.17/28", "1.4.1.30", "2.3.192.5/30", "2.3.192.6/30", "3.4.5.193/28", "4.5.6.193/28"},
		{narrow, 16, "1.4.1.0/28", "1.4.1.1/28", "1.4.1.14", "2.3.192.65/30", "2.3.192.66/30", "", ""},
		{narrow, 17, "", "", "", "2.3.192.69/30", "2.3.192.70/30", "", ""},
	} {
		p := ipam.Plan{Subnets: test.subnets}
		check := func(what, want string, got interface{ String() string }, err error) {
			t.Helper()
			if (err != nil) != (want == "") || err == nil && got.String() != want {
				t.Errorf("%v node %d: %s is %v, %v; want %q", test.subnets.Pods, test.id, what, got, err, want)
			}
		}
		pods, err := p.PodSubnet(test.id)
		check("pod subnet", test.pods, pods, err)
		if err == nil {
			check("gateway", test.gateway, ipam.Gateway(pods), nil)
			check("NAT loopback", test.nat, ipam.NATLoopback(pods), nil)
		}
		inVPP, inLinux, err := p.HostInterconnect(test.id)
		check("interconnect in VPP", test.inVPP, inVPP, err)
		check("interconnect in Linux", test.inLinux, inLinux, err)
		node, err := p.NodeIP(test.id)
		check("node IP", test.node, node, err)
		vxlan, err := p.VXLANIP(test.id)
		check("VXLAN IP", test.vxlan, vxlan, err)
	}
}

func TestGatewayIsExcludedFromNodeIPs(t *testing.T) {
	p := ipam.Plan{Subnets: ipv4, ExcludedNodeIPs: []netip.Addr{netip.MustParseAddr("3.4.5.195")}}
	for id, want := range map[uint32]string{1: "3.4.5.193/26", 2: "3.4.5.194/26", 3: "3.4.5.196/26", 61: "3.4.5.254/26", 62: ""} {
		got, err := p.NodeIP(id)
		if (err != nil) != (want == "") || err == nil && got.String() != want {
			t.Errorf("node %d: %v, %v; want %q", id, got, err, want)
		}
	}
}

func TestErrorsSayWhatToChange(t *testing.T) {
	defaults := subnets("10.1.0.0/16", 24, "172.30.0.0/16", 24, "192.168.16.0/24", "192.168.30.0/24")
	p := ipam.Plan{Subnets: defaults}
	_, podErr := p.PodSubnet(300)
	_, freeErr := p.NodeIP(256)
	_, rangeErr := p.VXLANIP(257)
	p.Subnets.NodeInterconnect = netip.Prefix{}
	_, undefinedErr := p.NodeIP(1)
	for _, test := range []struct {
		err  error
		want string
	}{
		{podErr, "podSubnetCIDR 10.1.0.0/16 has room for 256 nodes"},
		{freeErr, "no free address for node ID 256 in nodeInterconnectCIDR"},
		{rangeErr, "out of the valid range: vxlanCIDR"},
		{undefinedErr, "set ipamConfig.nodeInterconnectCIDR"},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("got %v, want an error with %q", test.err, test.want)
		}
	}
}
