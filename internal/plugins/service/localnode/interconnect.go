package localnode

import (
	"net/netip"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

// Interconnect is the path of packets that the host redirects to a vswitch with its own stack. The
// zero value means that the host redirects none.
type Interconnect struct {
	To      netip.Addr // address of the vswitch
	Clients netip.Addr // source of redirected packets
}

// Interconnect returns the path of an IP version.
func (n *Node) Interconnect(ipv6 bool) Interconnect {
	self := n.self()
	if !n.HasOwnStack() || self == nil {
		return Interconnect{}
	}
	plan := n.Addresses.Plan()
	for _, family := range plan.Families() {
		if !family.Subnets.VPPHost.IsValid() {
			continue
		}
		to, inLinux, err := family.HostInterconnect(self.ID)
		if err != nil || to.Addr().Is6() != ipv6 {
			continue
		}
		clients, err := family.HostClients(self.ID)
		if err != nil || !clients.IsValid() {
			continue
		}
		if n.SharesCard() { // VPP takes packets from one of its addresses to the host for spoofed (ip4_local_check_src)
			to = inLinux
		}
		return Interconnect{to.Addr(), clients}
	}
	return Interconnect{}
}

// RedirectProtocols maps protocols of services to protocols of redirects.
var RedirectProtocols = map[processor.Protocol]contiv_nat.DNat66_Protocol{
	processor.TCP: contiv_nat.DNat66_TCP, processor.UDP: contiv_nat.DNat66_UDP, processor.SCTP: contiv_nat.DNat66_SCTP,
}

// Redirect returns the redirect of a port of the host to an address and port that the vswitch
// reaches.
func (i Interconnect) Redirect(from netip.AddrPort, protocol processor.Protocol, to netip.AddrPort) *contiv_nat.HostRedirect_Frontend {
	f := &contiv_nat.HostRedirect_Frontend{
		Address: from.Addr().String(), Port: uint32(from.Port()), Protocol: RedirectProtocols[protocol],
		ToAddress: to.Addr().String(), SourceAddress: i.Clients.String(),
	}
	if to.Port() != from.Port() {
		f.ToPort = uint32(to.Port())
	}
	return f
}

// HasCards reports whether packets of an IP version may enter the host by network cards that the
// vswitch does not see. A host that shares its only card has none.
func (n *Node) HasCards(ipv6 bool) bool {
	return !n.SharesCard() || len(OfVersion(n.Network.GetHostIPs(), ipv6)) > 0
}
