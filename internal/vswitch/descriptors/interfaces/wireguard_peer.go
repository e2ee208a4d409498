package interfaces

import (
	"encoding/base64"
	"net/netip"

	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

func validateWireGuardPeer(p *vpp_wireguard.Peer) error {
	if key, err := base64.StdEncoding.DecodeString(p.GetPublicKey()); err != nil || len(key) != 32 {
		return descriptor.Invalid("public_key", "%q is no public key: give 32 bytes in base64, as `wg pubkey` prints them", p.GetPublicKey())
	}
	if p.GetPersistentKeepalive() > 65535 {
		return descriptor.Invalid("persistent_keepalive", "%d s is out of range: use at most 65535", p.GetPersistentKeepalive())
	}
	for _, text := range p.GetAllowedIps() {
		_, err := netip.ParsePrefix(text)
		if _, addrErr := netip.ParseAddr(text); err != nil && addrErr != nil {
			return descriptor.Invalid("allowed_ips", "%q is no network: write it like 10.1.0.0/16", text)
		}
	}
	return descriptor.FirstError(
		descriptor.Required("wg_if_name", p.GetWgIfName(), "name the WireGuard interface"),
		descriptor.ValidAddr("endpoint", p.GetEndpoint()),
		descriptor.ValidPort("port", p.GetPort()),
	)
}

// wireGuardPeerDescriptor handles config/vpp/wg/v1/peer/{if}/endpoint/{addr}/{port}.
func wireGuardPeerDescriptor(port vswitch.Values[*vpp_wireguard.Peer]) kvscheduler.Descriptor[*vpp_wireguard.Peer, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_wireguard.Peer, descriptor.NoMeta]{
		Name:          vswitch.WireGuardPeerDescriptor,
		Keys:          kvscheduler.KeySpace{Prefix: models.WireGuardPeer.KeyPrefix()},
		NB:            true,
		Validate:      func(_ string, p *vpp_wireguard.Peer) error { return validateWireGuardPeer(p) },
		Equivalent:    func(_ string, a, b *vpp_wireguard.Peer) bool { return equivalentPeers(a, b) },
		Create:        descriptor.Create(port.Create),
		Delete:        descriptor.Delete(port.Delete),
		Retrieve:      descriptor.Retrieve(port.List),
		RetrieveAfter: []string{vswitch.InterfaceDescriptor},
		Dependencies: func(_ string, p *vpp_wireguard.Peer) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{Label: "wireguard-interface-exists", Key: models.VPPInterfaceKey(p.GetWgIfName())}}
		},
	}
}

func equivalentPeers(a, b *vpp_wireguard.Peer) bool {
	return a.GetWgIfName() == b.GetWgIfName() && a.GetPublicKey() == b.GetPublicKey() &&
		descriptor.SameAddrText(a.GetEndpoint(), b.GetEndpoint()) && a.GetPort() == b.GetPort() &&
		a.GetPersistentKeepalive() == b.GetPersistentKeepalive() && a.GetFlags() == b.GetFlags() &&
		descriptor.SameParts(a.GetAllowedIps(), b.GetAllowedIps(), vswitch.AllowedIP)
}
