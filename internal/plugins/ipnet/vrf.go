package ipnet

import (
	"net/netip"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/plugins/contivconf"
)

// addVRFs configures the VRFs and the routes between them.
//
//	pod VRF   default ──────────────────────────> main VRF
//	          pods of all nodes, unless known: dropped, to avoid loops
//	main VRF  pods (of all nodes with VXLAN) ───> pod VRF
func (n *IPNet) addVRFs(config values, node *thisNode) {
	for i := range node.families {
		n.addVRFRoutes(config, node, &node.families[i])
	}
	if n.caps.MultipleVRFs {
		n.addVRFTables(config, node)
	}
}

func (n *IPNet) addVRFRoutes(config values, node *thisNode, f *family) {
	var dropped, toPods, toMain []netip.Prefix
	subnets := f.plan.Subnets
	toMain = append(toMain, anyNetwork(subnets.Pods.Addr()))
	if n.config.Routing().NodeToNodeTransport == contivconf.VXLANTransport {
		toPods = append(toPods, subnets.Pods)
		dropped = append(dropped, subnets.Pods)
		if !n.caps.HostStackShared {
			if hostSubnet, err := f.plan.VPPHostSubnet(node.id); err == nil {
				toMain = append(toMain, hostSubnet)
			}
			toPods = append(toPods, subnets.VPPHost)
			dropped = append(dropped, subnets.VPPHost)
		}
	} else {
		toPods = append(toPods, f.podSubnet)
	}
	for _, network := range dropped {
		config.add(&vpp_l3.Route{Type: vpp_l3.Route_DROP, VrfId: node.podVRF, DstNetwork: network.String()})
	}
	if !n.caps.MultipleVRFs {
		return
	}
	for _, network := range toMain {
		config.add(interVRF(network, node.podVRF, node.mainVRF))
	}
	for _, network := range toPods {
		config.add(interVRF(network, node.mainVRF, node.podVRF))
	}
}

func interVRF(network netip.Prefix, from, to uint32) *vpp_l3.Route {
	return &vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, VrfId: from, DstNetwork: network.String(), ViaVrfId: to}
}

func (n *IPNet) addVRFTables(config values, node *thisNode) {
	table := func(id uint32, label string, protocol vpp_l3.VrfTable_Protocol) {
		config.add(&vpp_l3.VrfTable{Id: id, Label: label + "-" + map[vpp_l3.VrfTable_Protocol]string{
			vpp_l3.VrfTable_IPV4: "IPv4", vpp_l3.VrfTable_IPV6: "IPv6"}[protocol], Protocol: protocol})
	}
	table(node.mainVRF, "mainVRF", vpp_l3.VrfTable_IPV4)
	ipv6 := n.config.Routing().UseSRv6ForServices // segments are always IPv6
	for _, f := range node.families {
		if f.isIPv6() {
			ipv6 = true
		} else {
			table(node.podVRF, "podVRF", vpp_l3.VrfTable_IPV4)
		}
	}
	if ipv6 {
		table(node.mainVRF, "mainVRF", vpp_l3.VrfTable_IPV6)
		table(node.podVRF, "podVRF", vpp_l3.VrfTable_IPV6)
	}
}

func (n *IPNet) addPodGateway(config values, node *thisNode) {
	config.add(&vpp_interfaces.Interface{
		Name: podGatewayName, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true,
		Vrf: node.podVRF, IpAddresses: prefixStrings(node.podGateways()),
	})
}
