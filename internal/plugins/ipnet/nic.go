package ipnet

import (
	"net/netip"
	"slices"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

var rxModes = map[string]vpp_interfaces.Interface_RxMode_Type{
	"polling":   vpp_interfaces.Interface_RxMode_POLLING,
	"interrupt": vpp_interfaces.Interface_RxMode_INTERRUPT,
	"adaptive":  vpp_interfaces.Interface_RxMode_ADAPTIVE,
}

func (n *IPNet) addNICs(config values, node *thisNode) {
	if node.mainInterface == loopbackNICName {
		config.add(&vpp_interfaces.Interface{
			Name: loopbackNICName, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true,
			Vrf: node.mainVRF, IpAddresses: prefixStrings(node.assigned),
		})
	} else if node.mainInterface != "" {
		config.add(n.nic(node, node.mainInterface, node.assigned, node.useDHCP))
		for _, gateway := range node.gateways {
			config.add(&vpp_l3.Route{
				VrfId: node.mainVRF, DstNetwork: anyNetwork(gateway).String(),
				NextHopAddr: gateway.String(), OutgoingInterface: n.interfaceTo(node, gateway),
			})
		}
	}
	for _, other := range n.config.Resolved().Other {
		config.add(n.nic(node, other.Name, other.Addresses, other.UseDHCP))
	}
}

// interfaceTo returns the interface to a gateway: the main one unless another one is configured in
// the gateway's network.
func (n *IPNet) interfaceTo(node *thisNode, gateway netip.Addr) string {
	contains := func(p netip.Prefix) bool { return p.Contains(gateway) }
	if slices.ContainsFunc(node.ips, contains) {
		return node.mainInterface
	}
	for _, other := range n.config.Resolved().Other {
		if slices.ContainsFunc(other.Addresses, contains) {
			return other.Name
		}
	}
	return node.mainInterface
}

func (n *IPNet) nic(node *thisNode, name string, addresses []netip.Prefix, dhcp bool) *vpp_interfaces.Interface {
	nic := &vpp_interfaces.Interface{
		Name: name, Type: vpp_interfaces.Interface_DPDK, Enabled: true,
		Vrf: node.mainVRF, IpAddresses: prefixStrings(addresses),
		SetDhcpClient: dhcp && len(addresses) == 0 && node.hasIPv4(),
	}
	nic.RxModes = n.rxModes()
	return nic
}

func (n *IPNet) rxModes() []*vpp_interfaces.Interface_RxMode {
	mode, configured := rxModes[n.config.Interfaces().InterfaceRxMode]
	if !configured {
		return nil
	}
	return []*vpp_interfaces.Interface_RxMode{{DefaultMode: true, Mode: mode}}
}

func prefixStrings(prefixes []netip.Prefix) []string {
	var list []string
	for _, p := range prefixes {
		list = append(list, p.String())
	}
	return list
}

func anyNetwork(addr netip.Addr) netip.Prefix {
	if addr.Is6() {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

func single(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }
