package ipnet

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/controller"
)

// addHostInterconnect connects the vswitch to a separate network stack of the host: tap-vpp2
// (afpacket-vpp2) in the vswitch, vpp1 in the host.
func (n *IPNet) addHostInterconnect(config values, node *thisNode) error {
	var vppIPs, linuxIPs []netip.Prefix
	if err := n.addHostAddresses(config, node); err != nil {
		return err
	}
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
		mtu = max(mtu, uint32(node.stolen.MTU)) // for host connections from before the NIC was stolen
	}
	n.attach(config, n.hostAttachment(),
		&vpp_interfaces.Interface{
			Enabled: true, Vrf: node.mainVRF, IpAddresses: prefixStrings(vppIPs), PhysAddress: hostInterconnectMAC(node.id),
			Mtu: mtu, RxModes: n.rxModes(),
		},
		&linux_interfaces.Interface{
			Enabled: true, HostIfName: hostDeviceName, IpAddresses: prefixStrings(linuxIPs), PhysAddress: linuxMAC, Mtu: mtu,
		})
	return n.addSTN(config, node)
}

func (n *IPNet) addHostRoutes(config values, node *thisNode, f *family, inVPP, inLinux netip.Addr) error {
	clients, err := f.plan.HostClients(node.id)
	if err != nil {
		return err
	}
	if clients.IsValid() {
		config.add(&vpp_l3.Route{VrfId: node.mainVRF, DstNetwork: single(clients).String(),
			NextHopAddr: inLinux.String(), OutgoingInterface: n.hostAttachment().vpp})
	}
	if node.stolen != nil { // not on the host: VPP translates redirected connections to its ports
		config.add(&linux_l3.ARPEntry{Interface: n.hostAttachment().linux, IpAddress: inLinux.String(), HwAddress: hostInterconnectMAC(node.id)})
	}
	toVPP := []netip.Prefix{f.plan.Subnets.Pods}
	if n.config.Routing().RouteServiceCIDRToVPP {
		toVPP = append(toVPP, f.plan.Subnets.Services...)
	}
	for _, network := range toVPP {
		config.add(&linux_l3.Route{OutgoingInterface: n.hostAttachment().linux, Scope: linux_l3.Route_GLOBAL,
			DstNetwork: network.String(), GwAddr: inVPP.String()})
	}
	return nil
}

func (n *IPNet) addHostAddresses(config values, node *thisNode) error {
	hostIPs, err := n.hostIPs()
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.routedIPs = hostIPs
	n.mu.Unlock()
	return n.routeHostIPs(config, node, hostIPs)
}

func (n *IPNet) routeHostIPs(config values, node *thisNode, hostIPs []netip.Addr) error {
	for _, f := range node.families {
		_, inLinux, err := f.plan.HostInterconnect(node.id)
		if err != nil {
			return err
		}
		for _, ip := range hostIPs {
			if ip.Is6() != f.isIPv6() || !node.lacks(ip) {
				continue
			}
			config.add(&vpp_l3.Route{VrfId: node.mainVRF, DstNetwork: single(ip).String(),
				NextHopAddr: inLinux.Addr().String(), OutgoingInterface: n.hostAttachment().vpp})
		}
	}
	return nil
}

// LinksChanged reports a possible change of the host's addresses. A vswitch with its own network
// stack updates its routes by an event. It may be called from any goroutine.
func (n *IPNet) LinksChanged(ctx context.Context, loop controller.EventLoop) {
	if n.caps.HostStackShared || n.thisNode() == nil {
		return // the first resync reads them
	}
	now, err := n.hostIPs()
	if err == nil && !slices.Equal(now, n.routed()) {
		err = loop.PushEvent(ctx, &HostAddressesChange{Addresses: now})
	}
	if err != nil {
		n.log.Warn("Reading addresses of the host failed; routes to them stay unchanged", "error", err)
	}
}

func (n *IPNet) routed() []netip.Addr {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.routedIPs
}

// GetHostIPs returns the host's addresses that a vswitch with its own network stack does not have.
func (n *IPNet) GetHostIPs() []netip.Addr {
	node := n.thisNode()
	if node == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(n.routed()), func(ip netip.Addr) bool { return !node.lacks(ip) })
}

func (node *thisNode) lacks(ip netip.Addr) bool {
	return slices.ContainsFunc(node.families, func(f family) bool { return f.podSubnet.Addr().Is6() == ip.Is6() }) &&
		!slices.ContainsFunc(node.ips, func(p netip.Prefix) bool { return p.Addr() == ip })
}

func (n *IPNet) updateHostAddresses(node *thisNode, txn controller.UpdateOperations) (string, error) {
	prev, next := make(values), make(values)
	if err := n.routeHostIPs(prev, node, n.routed()); err != nil {
		return "", err
	}
	if err := n.addHostAddresses(next, node); err != nil {
		return "", err
	}
	gone, fresh := 0, 0
	for key := range prev {
		if next[key] == nil {
			gone++
			txn.Delete(key)
		}
	}
	for key, value := range next {
		if prev[key] == nil {
			fresh++
			txn.Put(key, value)
		}
	}
	if gone+fresh == 0 {
		return "", nil
	}
	return fmt.Sprintf("route %d new addresses of the host to it, and %d no more", fresh, gone), nil
}

// HostAddressesChange reports that the host's addresses differ from the routed ones.
type HostAddressesChange struct {
	controller.NonBlocking
	Addresses []netip.Addr
}

func (*HostAddressesChange) Name() string                   { return "Host Addresses Change" }
func (*HostAddressesChange) Method() controller.EventMethod { return controller.Update }
func (*HostAddressesChange) TransactionType() controller.TransactionType {
	return controller.BestEffort
}
func (*HostAddressesChange) Direction() controller.Direction { return controller.Forward }
func (e *HostAddressesChange) String() string {
	return fmt.Sprintf("Host Addresses Change: the host has %v", e.Addresses)
}

func (n *IPNet) hostIPs() ([]netip.Addr, error) {
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
			if !p.Addr().IsLinkLocalUnicast() {
				ips = append(ips, p.Addr())
			}
		}
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return slices.Compact(ips), nil
}

func hasAnyPrefix(text string, prefixes ...string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// addNeighborScan makes a vswitch with its own network stack expire neighbours. The host's stack
// does this itself.
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
