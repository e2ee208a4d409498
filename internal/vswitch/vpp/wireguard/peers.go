package wireguard

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/wireguard"
)

var module = session.NewModule("wireguard_plugin.so", "WireGuard peers",
	&wireguard.WireguardPeerAdd{}, &wireguard.WireguardPeerAddReply{}, &wireguard.WireguardPeerRemove{}, &wireguard.WireguardPeerRemoveReply{},
	&wireguard.WireguardPeersDump{}, &wireguard.WireguardPeersDetails{},
)

// Peers are the peers of our interfaces. The key identifies a peer; VPP learns its present address
// from its packets.
type Peers struct {
	subsystem.Base
	vpp *session.Session
	ifs *ownership.Registry
}

func New(vpp *session.Session, ifs *ownership.Registry) *Peers {
	return &Peers{Base: subsystem.Base{Uses: []*session.Module{module}}, vpp: vpp, ifs: ifs}
}

// maxAllowedIPs is the limit of VPP's messages.
const maxAllowedIPs = 255

func (v *Peers) peerOf(ctx context.Context, p *vpp_wireguard.Peer) (peer wireguard.WireguardPeer, err error) {
	if n := len(p.GetAllowedIps()); n == 0 || n > maxAllowedIPs {
		return peer, vswitch.Unsupported("a peer with %d allowed_ips: VPP needs 1 to %d", n, maxAllowedIPs)
	}
	if peer.SwIfIndex, err = v.ifs.Index(ctx, p.GetWgIfName()); err != nil {
		return peer, err
	}
	if peer.PublicKey, err = base64.StdEncoding.DecodeString(p.GetPublicKey()); err != nil {
		return peer, err
	}
	endpoint, err := convert.ParseAddr(p.GetEndpoint())
	if err != nil {
		return peer, err
	}
	peer.Endpoint, peer.Port, peer.PersistentKeepalive = convert.Address(endpoint), uint16(p.GetPort()), uint16(p.GetPersistentKeepalive())
	for _, text := range p.GetAllowedIps() {
		peer.AllowedIps = append(peer.AllowedIps, convert.Prefix(vswitch.AllowedIP(text)))
	}
	return peer, nil
}

// find returns the peer with the key.
func (v *Peers) find(ctx context.Context, i ownership.Index, key []byte) (*wireguard.WireguardPeer, error) {
	all, err := session.Dump[wireguard.WireguardPeersDetails](ctx, v.vpp, module, &wireguard.WireguardPeersDump{PeerIndex: ^uint32(0)})
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if d.Peer.SwIfIndex == i && slices.Equal(d.Peer.PublicKey, key) {
			return &d.Peer, nil
		}
	}
	return nil, nil
}

func (v *Peers) Create(ctx context.Context, p *vpp_wireguard.Peer) error {
	if err := v.set(ctx, p); err != nil {
		return fmt.Errorf("adding peer %s to interface %q: %w", p.GetPublicKey(), p.GetWgIfName(), err)
	}
	return nil
}

func (v *Peers) set(ctx context.Context, p *vpp_wireguard.Peer) error {
	want, err := v.peerOf(ctx, p)
	if err != nil {
		return err
	}
	now, err := v.find(ctx, want.SwIfIndex, want.PublicKey)
	if err != nil {
		return err
	}
	if now != nil {
		if samePeer(*now, want) {
			return nil
		}
		if err := v.remove(ctx, now); err != nil {
			return err
		}
	}
	return v.vpp.Call(ctx, module, &wireguard.WireguardPeerAdd{Peer: want}, &wireguard.WireguardPeerAddReply{})
}

func samePeer(a, b wireguard.WireguardPeer) bool {
	return a.Endpoint == b.Endpoint && a.Port == b.Port && a.PersistentKeepalive == b.PersistentKeepalive &&
		slices.Equal(allowedIPs(a.AllowedIps), allowedIPs(b.AllowedIps))
}

// allowedIPs returns the networks in order.
func allowedIPs(list []ip_types.Prefix) []netip.Prefix {
	nets := make([]netip.Prefix, 0, len(list))
	for _, p := range list {
		nets = append(nets, convert.NetipPrefix(p).Masked())
	}
	slices.SortFunc(nets, netip.Prefix.Compare)
	return nets
}

func (v *Peers) remove(ctx context.Context, peer *wireguard.WireguardPeer) error {
	err := v.vpp.Call(ctx, module, &wireguard.WireguardPeerRemove{PeerIndex: peer.PeerIndex}, &wireguard.WireguardPeerRemoveReply{})
	if vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return nil
	}
	return err
}

func (v *Peers) Delete(ctx context.Context, p *vpp_wireguard.Peer) error {
	err := v.unset(ctx, p)
	if err != nil && !ownership.IsNoInterface(err) {
		return fmt.Errorf("removing peer %s from interface %q: %w", p.GetPublicKey(), p.GetWgIfName(), err)
	}
	return nil
}

func (v *Peers) unset(ctx context.Context, p *vpp_wireguard.Peer) error {
	i, err := v.ifs.Index(ctx, p.GetWgIfName())
	if err != nil {
		return err
	}
	key, err := base64.StdEncoding.DecodeString(p.GetPublicKey())
	if err != nil {
		return err
	}
	now, err := v.find(ctx, i, key)
	if err != nil || now == nil {
		return err
	}
	return v.remove(ctx, now)
}

func (v *Peers) List(ctx context.Context, expected []*vpp_wireguard.Peer) ([]*vpp_wireguard.Peer, error) {
	all, err := session.Dump[wireguard.WireguardPeersDetails](ctx, v.vpp, module, &wireguard.WireguardPeersDump{PeerIndex: ^uint32(0)})
	if err != nil {
		return nil, session.IgnoreUnsupported("listing WireGuard peers", err)
	}
	var list []*vpp_wireguard.Peer
	for _, d := range all {
		name, err := v.ifs.Name(ctx, d.Peer.SwIfIndex)
		if err != nil {
			return nil, fmt.Errorf("listing WireGuard peers: %w", err)
		}
		if name != "" {
			list = append(list, describePeer(name, d.Peer, expected))
		}
	}
	return list, nil
}

// describePeer ignores the present address of a roaming peer.
func describePeer(iface string, d wireguard.WireguardPeer, expected []*vpp_wireguard.Peer) *vpp_wireguard.Peer {
	peer := &vpp_wireguard.Peer{
		WgIfName: iface, PublicKey: base64.StdEncoding.EncodeToString(d.PublicKey), PersistentKeepalive: uint32(d.PersistentKeepalive),
		Endpoint: convert.Addr(d.Endpoint).String(), Port: uint32(d.Port),
	}
	for _, p := range allowedIPs(d.AllowedIps) {
		peer.AllowedIps = append(peer.AllowedIps, p.String())
	}
	for _, want := range expected {
		if want.GetWgIfName() == iface && want.GetPublicKey() == peer.GetPublicKey() {
			peer.Endpoint, peer.Port, peer.Flags = want.GetEndpoint(), want.GetPort(), want.GetFlags()
		}
	}
	return peer
}
