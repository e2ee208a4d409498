package fake

import (
	"context"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/internal/vswitch"
)

// unknown returns an error for features that traces cannot simulate.

func unknown(what string) error {
	return vswitch.Unsupported("%s: not supported by the fake vswitch", what)
}

func (p interfaces) AddBondMember(context.Context, string, *vpp_interfaces.BondLink_BondedInterface) error {
	return unknown("members of bonds")
}

func (p interfaces) RemoveBondMember(context.Context, string, *vpp_interfaces.BondLink_BondedInterface) error {
	return nil
}

func (p interfaces) SetIP6ND(context.Context, string, *vpp_interfaces.Interface_IP6ND) error {
	return unknown("ip6_nd")
}

func (p interfaces) UnsetIP6ND(context.Context, string) error { return nil }

func (v *VSwitch) WireGuardPeers() vswitch.Values[*vpp_wireguard.Peer] { return noPeers{} }

type noPeers struct{}

func (noPeers) Create(context.Context, *vpp_wireguard.Peer) error { return unknown("WireGuard peers") }
func (noPeers) Delete(context.Context, *vpp_wireguard.Peer) error { return nil }
func (noPeers) List(context.Context, []*vpp_wireguard.Peer) ([]*vpp_wireguard.Peer, error) {
	return nil, nil
}
