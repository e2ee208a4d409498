package ipnet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

// addHostInterconnect connects the vswitch with the network stack of the host,
// where it is not the same: tap-vpp2 (afpacket-vpp2) in the vswitch, vpp1 in the host.
func (n *IPNet) addHostInterconnect(config values, node *thisNode) error {
	var vppIPs, linuxIPs []netip.Prefix
	for i := range node.families {
		f := &node.families[i]
		inVPP, inLinux, err := f.plan.HostInterconnect(node.id)
		if err != nil {
			return err
		}
		vppIPs, linuxIPs = append(vppIPs, inVPP), append(linuxIPs, inLinux)
		if err := n.addHostRoutes(config, node, f, inVPP.Addr(), inLinux.Addr()); err != nil {
			return err
		}
		config.add(&linux_l3.ARPEntry{
			Interface: n.hostAttachment().linux, IpAddress: inVPP.Addr().String(), HwAddress: hostInterconnectMAC(node.id),
		})
	}
	mtu, linuxMAC := node.podMTU, ""
	if node.stolen != nil {
		linuxIPs, linuxMAC = node.stolenIPs(), stnHostMAC
		mtu = max(mtu, uint32(node.stolen.MTU)) // for connections of the host that are older than the theft
	}
	n.attach(config, n.hostAttachment(),
		&vpp_interfaces.Interface{
			Enabled: true, Vrf: node.mainVRF, IpAddresses: texts(vppIPs), PhysAddress: hostInterconnectMAC(node.id),
			Mtu: mtu, RxModes: n.rxModes(),
		},
		&linux_interfaces.Interface{
			Enabled: true, HostIfName: hostDeviceName, IpAddresses: texts(linuxIPs), PhysAddress: linuxMAC, Mtu: mtu,
		})
	return n.addSTN(config, node)
}

// addHostRoutes configures the routes of one IP version between vswitch and host.
func (n *IPNet) addHostRoutes(config values, node *thisNode, f *family, inVPP, inLinux netip.Addr) error {
	hostIPs, err := n.hostIPs(f.isIPv6())
	if err != nil {
		return err
	}
	for _, ip := range hostIPs {
		if slices.ContainsFunc(node.ips, func(p netip.Prefix) bool { return p.Addr() == ip }) {
			continue // VPP has it, too
		}
		config.add(&vpp_l3.Route{VrfId: node.mainVRF, DstNetwork: single(ip).String(),
			NextHopAddr: inLinux.String(), OutgoingInterface: n.hostAttachment().vpp})
	}
	clients, err := f.plan.HostClients(node.id)
	if err != nil {
		return err
	}
	switch {
	case !clients.IsValid():
	case node.stolen != nil: // the host's own processes come to ports there, which VPP translates
		config.add(&linux_l3.ARPEntry{Interface: n.hostAttachment().linux, IpAddress: clients.String(), HwAddress: hostInterconnectMAC(node.id)})
	default:
		config.add(&vpp_l3.Route{VrfId: node.mainVRF, DstNetwork: single(clients).String(),
			NextHopAddr: inLinux.String(), OutgoingInterface: n.hostAttachment().vpp})
	}
	toVPP := []netip.Prefix{f.plan.Subnets.Pods}
	if n.config.Routing().RouteServiceCIDRToVPP && f.plan.Subnets.Service.IsValid() {
		toVPP = append(toVPP, f.plan.Subnets.Service)
	}
	for _, network := range toVPP {
		config.add(&linux_l3.Route{OutgoingInterface: n.hostAttachment().linux, Scope: linux_l3.Route_GLOBAL,
			DstNetwork: network.String(), GwAddr: inVPP.String()})
	}
	return nil
}

// hostIPs lists the addresses of the host, of one IP version.
func (n *IPNet) hostIPs(ipv6 bool) ([]netip.Addr, error) {
	if n.links == nil {
		return nil, nil
	}
	links, err := n.links.HostLinks()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of the host: %w", err)
	}
	var ips []netip.Addr
	for _, link := range links {
		if hasAnyPrefix(link.Name, "lo", "docker", "virbr", "vpp") {
			continue
		}
		for _, p := range link.Addresses {
			if p.Addr().Is6() == ipv6 && !p.Addr().IsLinkLocalUnicast() {
				ips = append(ips, p.Addr())
			}
		}
	}
	return ips, nil
}

func hasAnyPrefix(text string, prefixes ...string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// addNeighborScan makes a vswitch with a network stack of its own forget neighbours that
// went away; the host's stack does that by rules of its own.
func (n *IPNet) addNeighborScan(config values, node *thisNode) {
	scan := n.config.IPNeighborScan()
	if !scan.ScanIPNeighbors {
		return
	}
	mode := vpp_l3.IPScanNeighbor_IPV4
	switch {
	case len(node.families) > 1:
		mode = vpp_l3.IPScanNeighbor_BOTH
	case !node.hasIPv4():
		mode = vpp_l3.IPScanNeighbor_IPV6
	}
	config.add(&vpp_l3.IPScanNeighbor{
		Mode: mode, ScanInterval: uint32(scan.IPNeighborScanInterval), StaleThreshold: uint32(scan.IPNeighborStaleThreshold),
	})
}
