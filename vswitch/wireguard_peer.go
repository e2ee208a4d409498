package vswitch

import (
	"net/netip"

	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// wireGuardPeerDescriptor handles config/vpp/wg/v1/peer/{if}/endpoint/{addr}/{port}.
func wireGuardPeerDescriptor(port Values[*vpp_wireguard.Peer]) kvscheduler.Descriptor[*vpp_wireguard.Peer, noMeta] {
	return kvscheduler.Descriptor[*vpp_wireguard.Peer, noMeta]{
		Name:          WireGuardPeerDescriptor,
		Keys:          kvscheduler.KeySpace{Prefix: models.WireGuardPeer.KeyPrefix()},
		NB:            true,
		Validate:      func(_ string, p *vpp_wireguard.Peer) error { return validateWireGuardPeer(p) },
		Equivalent:    func(_ string, a, b *vpp_wireguard.Peer) bool { return equivalentPeers(a, b) },
		Create:        create(port.Create),
		Delete:        remove(port.Delete),
		Retrieve:      retrieve(port.List),
		RetrieveAfter: []string{InterfaceDescriptor},
		Dependencies: func(_ string, p *vpp_wireguard.Peer) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{Label: "wireguard-interface-exists", Key: models.VPPInterfaceKey(p.GetWgIfName())}}
		},
	}
}

func equivalentPeers(a, b *vpp_wireguard.Peer) bool {
	return a.GetWgIfName() == b.GetWgIfName() && a.GetPublicKey() == b.GetPublicKey() &&
		sameAddrText(a.GetEndpoint(), b.GetEndpoint()) && a.GetPort() == b.GetPort() &&
		a.GetPersistentKeepalive() == b.GetPersistentKeepalive() && a.GetFlags() == b.GetFlags() &&
		sameParts(a.GetAllowedIps(), b.GetAllowedIps(), AllowedIP)
}

// AllowedIP is the network that a text among the allowed IPs of a peer stands for; of
// an address, that alone. The zero Prefix if it is none.
func AllowedIP(text string) netip.Prefix {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked()
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(addr, addr.BitLen())
}
