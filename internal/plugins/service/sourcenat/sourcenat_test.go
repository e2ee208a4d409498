package sourcenat_test

import (
	"net/netip"
	"testing"

	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/sourcenat"
)

// fake is the configuration and the network of a node. It implements only the methods that SourceNAT
// calls.
type fake struct {
	localnode.Network
	resolved contivconf.Resolved
	nat      bool
	ip       string
	bvi      string
	ownStack bool
	noNIC    bool
	nat6     bool
	ip6      string
}

func (f fake) Resolved() contivconf.Resolved {
	if !f.noNIC {
		f.resolved.Main.Name = "eth0"
	}
	return f.resolved
}

func (fake) Routing() contivconf.RoutingConfig {
	return contivconf.RoutingConfig{MainVRFID: 3, PodVRFID: 4, NodeToNodeTransport: contivconf.VXLANTransport}
}

func (f fake) NatExternalTraffic() bool     { return f.nat }
func (f fake) NatExternalTrafficIPv6() bool { return f.nat && f.nat6 }

func (f fake) GetNodeIPOf(ipv6 bool) netip.Prefix {
	for _, text := range []string{f.ip, f.ip6} {
		if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is6() == ipv6 {
			return p
		}
	}
	return netip.Prefix{}
}

func (fake) GetMainInterface() string    { return "eth0" }
func (f fake) GetVxlanBVIIfName() string { return f.bvi }

const (
	global = "config/vpp/nat/v2/nat44-global\n    {\"forwarding\":true}\n"
	onEth0 = global + `config/vpp/nat/v2/nat44-interface/eth0
    {"name":"eth0","nat_outside":true,"output_feature":true}
config/vpp/nat/v2/nat44-pool/vrf/4294967295/address/192.168.16.1
    {"first_ip":"192.168.16.1","vrf_id":4294967295}
`
	// The sending vswitch does not translate overlay packets.
	overlayOnEth0 = `config/vpp/nat/v2/dnat44/DNAT-identities
    {"id_mappings":[{"ip_address":"192.168.16.1","port":4789,"protocol":"UDP","vrf_id":3},{"ip_address":"192.168.16.1","protocol":"UDP","vrf_id":4},{"ip_address":"192.168.16.1","protocol":"UDP","vrf_id":3}],"label":"DNAT-identities"}
`
	v6OnEth0 = `config/contiv/nat/v1/snat66/eth0
    {"address":"fd00::1","interface":"eth0"}
`
	onEth1 = global + `config/vpp/nat/v2/nat44-interface/eth1
    {"name":"eth1","nat_outside":true,"output_feature":true}
config/vpp/nat/v2/nat44-pool/vrf/4294967295/address/10.0.0.1
    {"first_ip":"10.0.0.1","vrf_id":4294967295}
`
)

func TestSNAT(t *testing.T) {
	gateway := func(ip string) contivconf.Resolved {
		return contivconf.Resolved{Gateways: []netip.Addr{netip.MustParseAddr(ip)}, Other: []contivconf.Interface{
			{Name: "eth1", Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}}}}
	}
	for name, test := range map[string]struct {
		node fake
		want string
	}{
		"on the main interface":                {fake{nat: true, ip: "192.168.16.1/24", bvi: "vxlanBVI"}, onEth0},
		"gateway on the main interface":        {fake{resolved: gateway("192.168.16.9"), nat: true, ip: "192.168.16.1/24", bvi: "vxlanBVI"}, onEth0},
		"gateway on another interface":         {fake{resolved: gateway("10.0.0.9"), nat: true, ip: "192.168.16.1/24", bvi: "vxlanBVI"}, onEth1},
		"gateway on no interface":              {fake{resolved: gateway("10.9.0.9"), nat: true, ip: "192.168.16.1/24", bvi: "vxlanBVI"}, ""},
		"own stack, no gateway known":          {fake{ownStack: true, nat: true, ip: "192.168.16.1/24", bvi: "vxlanBVI"}, ""},
		"own stack, gateway by DHCP":           {fake{ownStack: true, resolved: contivconf.Resolved{Main: contivconf.Interface{UseDHCP: true}}, nat: true, ip: "192.168.16.1/24", bvi: "vxlanBVI"}, overlayOnEth0 + onEth0},
		"own stack, gateway configured":        {fake{ownStack: true, resolved: gateway("192.168.16.9"), nat: true, ip: "192.168.16.1/24", bvi: "vxlanBVI"}, overlayOnEth0 + onEth0},
		"own stack, on another interface":      {fake{ownStack: true, resolved: gateway("10.0.0.9"), nat: true, ip: "192.168.16.1/24", bvi: "vxlanBVI"}, onEth1},
		"own stack, no NIC":                    {fake{ownStack: true, noNIC: true, resolved: gateway("192.168.16.9"), nat: true, ip: "192.168.16.1/24", bvi: "vxlanBVI"}, ""},
		"switched off":                         {fake{nat: false, ip: "192.168.16.1/24", bvi: "vxlanBVI"}, ""},
		"no node address yet":                  {fake{nat: true, bvi: "vxlanBVI"}, ""},
		"both versions":                        {fake{nat: true, nat6: true, ip: "192.168.16.1/24", ip6: "fd00::1/64", bvi: "vxlanBVI"}, v6OnEth0 + onEth0},
		"both versions, IPv4 translated only":  {fake{nat: true, ip: "192.168.16.1/24", ip6: "fd00::1/64", bvi: "vxlanBVI"}, onEth0},
		"IPv6, translated":                     {fake{nat: true, nat6: true, ip: "fd00::1/64", bvi: "vxlanBVI"}, v6OnEth0},
		"IPv6, not by this vswitch":            {fake{ownStack: true, nat: true, nat6: true, ip: "fd00::1/64", bvi: "vxlanBVI"}, ""},
		"IPv6, no overlay":                     {fake{nat: true, nat6: true, ip: "fd00::1/64"}, ""},
		"IPv6":                                 {fake{nat: true, ip: "fd00::1/64", bvi: "vxlanBVI"}, ""},
		"no overlay: pod traffic is not known": {fake{nat: true, ip: "192.168.16.1/24"}, ""},
		"no overlay, but another interface":    {fake{resolved: gateway("10.0.0.9"), nat: true, ip: "192.168.16.1/24"}, onEth1},
	} {
		t.Run(name, func(t *testing.T) {
			node := &localnode.Node{
				Caps:   localnode.Capabilities{HostStackShared: !test.node.ownStack, IPv6SourceNAT: !test.node.ownStack},
				Config: test.node, Network: test.node,
			}
			txn := plugintest.Txn{}
			sourcenat.New(node, plugintest.Logger()).Translate(t.Context(), txn)
			if got := plugintest.Render(txn); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}
