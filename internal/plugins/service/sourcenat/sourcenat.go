// Package sourcenat translates the sources of traffic that leaves the cluster (natExternalTraffic).
// Packets that leave through the main interface get the address of the node:
//
//	main interface, node address ──> Nat44Global, Nat44Interface, Nat44AddressPool
//	                                 SourceNAT66, with natExternalTrafficIPv6
//
// Traffic to other nodes leaves through the overlay and keeps its addresses. Without an overlay, it
// shares the interface with all other traffic, and nothing is translated.
package sourcenat

import (
	"context"
	"log/slog"
	"net/netip"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/models"
)

// SourceNAT requests the values that translate sources.
type SourceNAT struct {
	node *localnode.Node
	log  *slog.Logger

	active bool
	// throughMain: the main interface translates. Index 0 is IPv4, 1 is IPv6.
	throughMain [2]bool
}

// New returns the part for a node.
func New(node *localnode.Node, log *slog.Logger) *SourceNAT {
	return &SourceNAT{node: node, log: log}
}

// Active reports whether IPv4 sources are translated.
func (s *SourceNAT) Active() bool { return s.active }

// ThroughMain reports whether the main interface translates, so that nodes also translate traffic
// of their pods to addresses of other nodes.
func (s *SourceNAT) ThroughMain(ipv6 bool) bool { return s.throughMain[version(ipv6)] }

func version(ipv6 bool) int {
	if ipv6 {
		return 1
	}
	return 0
}

// Translate requests all values.
func (s *SourceNAT) Translate(ctx context.Context, txn controller.ResyncOperations) {
	s.active, s.throughMain = false, [2]bool{}
	config, network := s.node.Config, s.node.Network
	if !config.NatExternalTraffic() {
		return
	}
	if config.NatExternalTrafficIPv6() {
		s.translateIPv6(ctx, txn)
	}
	iface, ip := s.defaultInterface(ctx, false)
	if iface == "" {
		return
	}
	global := s.node.GlobalNAT()
	nic := &vpp_nat.Nat44Interface{Name: iface, NatOutside: true, OutputFeature: true}
	pool := &vpp_nat.Nat44AddressPool{FirstIp: ip.String(), VrfId: localnode.AnyVRF}
	s.active, s.throughMain[version(false)] = true, iface == network.GetMainInterface()
	txn.Put(models.Key(global), global)
	txn.Put(models.Key(nic), nic)
	txn.Put(models.Key(pool), pool)
	if !s.node.Caps.HostStackShared && network.GetVxlanBVIIfName() != "" && iface == network.GetMainInterface() {
		overlay := s.overlayIdentities(ip)
		txn.Put(models.Key(overlay), overlay)
	}
}

const identitiesLabel = "DNAT-identities"

// overlayIdentities exempts overlay packets from translation, because each flow of pods would
// become a session. It also exempts packets of the host from the node's address, and from other
// cards' addresses if the host's card is stolen: NAT missed the start of these connections, which
// go to node ports that the host refuses or are older than the theft.
func (s *SourceNAT) overlayIdentities(ip netip.Addr) *vpp_nat.DNat44 {
	routing := s.node.Config.Routing()
	value := &vpp_nat.DNat44{Label: identitiesLabel, IdMappings: []*vpp_nat.DNat44_IdentityMapping{
		{IpAddress: ip.String(), Protocol: vpp_nat.DNat44_UDP, Port: localnode.VXLANPort, VrfId: routing.MainVRFID}, // received
		{IpAddress: ip.String(), Protocol: vpp_nat.DNat44_UDP, VrfId: routing.PodVRFID},                             // sent, from any port
		{IpAddress: ip.String(), Protocol: vpp_nat.DNat44_UDP, VrfId: routing.MainVRFID},                            // by the host, of any protocol
	}}
	if s.node.SharesCard() {
		for _, own := range localnode.OfVersion(s.node.Network.GetHostIPs(), false) {
			value.IdMappings = append(value.IdMappings, &vpp_nat.DNat44_IdentityMapping{IpAddress: own.String(), Protocol: vpp_nat.DNat44_UDP, VrfId: routing.MainVRFID})
		}
	}
	return value
}

func (s *SourceNAT) translateIPv6(ctx context.Context, txn controller.ResyncOperations) {
	if !s.node.Caps.IPv6SourceNAT {
		controller.Logger(ctx, s.log).Warn("natExternalTrafficIPv6 has no effect: this vswitch does not translate IPv6 addresses")
		return
	}
	if iface, ip := s.defaultInterface(ctx, true); iface != "" {
		s.throughMain[version(true)] = iface == s.node.Network.GetMainInterface()
		source := &contiv_nat.SourceNAT66{Interface: iface, Address: ip.String()}
		txn.Put(models.Key(source), source)
	}
}

// defaultInterface returns the interface on the network of the configured gateway, and its address
// of the IP version. Without such a gateway, it is the main interface if DHCP or the host provides
// one. It returns "" if nothing should be translated, as on a node without network card.
func (s *SourceNAT) defaultInterface(ctx context.Context, ipv6 bool) (string, netip.Addr) {
	resolved, network := s.node.Config.Resolved(), s.node.Network
	main, ip := network.GetMainInterface(), network.GetNodeIPOf(ipv6)
	if !ip.IsValid() && network.GetNodeIPOf(!ipv6).IsValid() {
		return "", netip.Addr{}
	}
	gateway := resolved.Gateway(ipv6)
	provided := s.node.Caps.HostStackShared || resolved.Main.UseDHCP && !ipv6
	if resolved.Main.Name == "" || gateway.IsValid() && !ip.Contains(gateway) || !gateway.IsValid() && !provided {
		main, ip = "", netip.Prefix{}
		for _, other := range resolved.Other {
			for _, p := range other.Addresses {
				if gateway.IsValid() && p.Contains(gateway) && main == "" {
					main, ip = other.Name, p
				}
			}
		}
	}
	switch {
	case main == "" || !ip.IsValid():
		controller.Logger(ctx, s.log).Info("No interface leads to the default gateway: pods cannot reach the outside", "gateway", gateway)
		return "", netip.Addr{}
	case network.GetVxlanBVIIfName() == "" && main == network.GetMainInterface():
		controller.Logger(ctx, s.log).Info("natExternalTraffic has no effect: without overlay, traffic between pods leaves through the main interface too")
		return "", netip.Addr{}
	}
	return main, ip.Addr()
}
