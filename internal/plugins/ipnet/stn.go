package ipnet

import (
	"maps"
	"net/netip"
	"slices"

	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam/cidr"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// If VPP uses the node's only NIC, host and VPP share its address. VPP handles its own packets,
// mainly the overlay, and passes the rest to the host:
//
//	network ── NIC 192.168.16.1/24 ── VPP ── rule: 192.168.16.1, unless VPP knows the port ───> host
//	                                   └──── proxy ARP for 192.168.16.0/24 <──────────────────── host
//
//	host   vpp1 192.168.16.1/32
//	       192.168.16.0/24 dev vpp1                          metric one higher than
//	       default via 192.168.16.254 dev vpp1               before: see package stn

// stnHostMAC is the destination MAC address of packets that VPP passes to the host.
const stnHostMAC = "00:00:00:00:00:02"

// stnMetric is added to the metrics of the host's routes, so that they can coexist with the NIC's.
const stnMetric = 1

// GetSTN returns the name of the stolen NIC, the IP versions that the vswitch serves on it, and the
// keys of the values that must be in effect for that. The name is "" without a stolen NIC.
func (n *IPNet) GetSTN() (name string, ipVersions []uint32, keys []string) {
	n.mu.RLock()
	node, keys := n.node, n.stnKeys
	n.mu.RUnlock()
	if node == nil || node.stolen == nil || keys == nil {
		return "", nil, nil
	}
	for _, f := range node.families {
		if f.isIPv6() {
			ipVersions = append(ipVersions, 6)
		} else {
			ipVersions = append(ipVersions, 4)
		}
	}
	return node.stolen.Name, ipVersions, keys
}

// HostInterconnect returns the vswitch's interface to the host.
func (n *IPNet) HostInterconnect() string { return n.hostAttachment().vpp }

func (n *IPNet) addSTN(config values, node *thisNode) error {
	if node.stolen == nil {
		return nil
	}
	own := make(values)
	host := n.hostAttachment()
	var proxied []*vpp_l3.ProxyARP_Range
	for _, p := range node.ips {
		own.add(&vpp_stn.Rule{IpAddress: p.Addr().String(), Interface: host.vpp})
		if r := hostRange(p, node.mainVRF); r != nil && p.Addr().Is4() && !slices.ContainsFunc(proxied, func(o *vpp_l3.ProxyARP_Range) bool { return proto.Equal(o, r) }) {
			proxied = append(proxied, r)
		}
	}
	if len(proxied) > 0 {
		own.add(&vpp_l3.ProxyARP{Interfaces: []*vpp_l3.ProxyARP_Interface{{Name: host.vpp}}, Ranges: proxied})
	}
	for i := range node.families {
		f := &node.families[i]
		inVPP, inLinux, err := f.plan.HostInterconnect(node.id)
		if err != nil {
			return err
		}
		own.add(&vpp_l3.ARPEntry{Interface: host.vpp, IpAddress: inLinux.Addr().String(), PhysAddress: stnHostMAC, Static: true},
			&linux_l3.Route{OutgoingInterface: host.linux, Scope: linux_l3.Route_LINK, DstNetwork: inVPP.Masked().String()})
		for _, r := range node.stolen.Best() {
			if r.Destination.Addr().Is6() == f.isIPv6() {
				n.addStolenRoute(own, node, r, inVPP.Addr())
			}
		}
	}
	config.addAll(own)
	keys := append(slices.Collect(maps.Keys(own)),
		models.VPPInterfaceKey(node.mainInterface), models.VPPInterfaceKey(host.vpp), models.LinuxInterfaceKey(host.linux))
	slices.Sort(keys)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stnKeys = keys
	return nil
}

func (n *IPNet) addStolenRoute(config values, node *thisNode, r contivconf.StolenRoute, inVPP netip.Addr) {
	onHost := &linux_l3.Route{OutgoingInterface: n.hostAttachment().linux, Scope: linux_l3.Route_GLOBAL, DstNetwork: r.Destination.String(), Metric: r.Metric + stnMetric}
	switch {
	case r.Destination.Addr().Is6(): // VPP only answers for its own IPv6 address
		onHost.GwAddr = inVPP.String()
	case r.NextHop.IsValid():
		onHost.GwAddr = r.NextHop.String()
	default:
		onHost.Scope = linux_l3.Route_LINK
	}
	config.add(onHost)
	attached := slices.ContainsFunc(node.ips, func(p netip.Prefix) bool { return p.Masked() == r.Destination })
	if attached {
		return
	}
	inVSwitch := &vpp_l3.Route{VrfId: node.mainVRF, DstNetwork: r.Destination.String(), OutgoingInterface: node.mainInterface}
	if r.NextHop.IsValid() {
		inVSwitch.NextHopAddr = r.NextHop.String()
	}
	config.add(inVSwitch)
}

// hostRange returns the range of host addresses in a network, or nil if it is empty.
func hostRange(p netip.Prefix, vrf uint32) *vpp_l3.ProxyARP_Range {
	if p.IsSingleIP() {
		return nil
	}
	first, last := p.Masked().Addr(), cidr.Last(p)
	if p.Bits() < p.Addr().BitLen()-1 { // RFC 3021
		first, last = first.Next(), last.Prev()
	}
	return &vpp_l3.ProxyARP_Range{FirstIpAddr: first.String(), LastIpAddr: last.String(), VrfId: vrf}
}

// stolenIPs returns the node's addresses as single addresses on the host. The NIC has their
// networks.
func (node *thisNode) stolenIPs() (list []netip.Prefix) {
	for _, p := range node.ips {
		list = append(list, single(p.Addr()))
	}
	return list
}
