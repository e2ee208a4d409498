package vpp

import (
	"context"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/vswitch"
)

func (v *VSwitch) WatchLeases(func(string, *vpp_interfaces.DHCPLease)) {}
func (v *VSwitch) NAT66() vswitch.NAT66                                { return nil }
func (v *VSwitch) Lacks(string) string                                 { return "" }
func (v *VSwitch) WireGuardPeers() vswitch.Values[*vpp_wireguard.Peer] { return nil }

func (v interfaces) SetDHCPClient(context.Context, string) error {
	return vswitch.Unsupported("set_dhcp_client")
}
func (v interfaces) UnsetDHCPClient(context.Context, string) error               { return nil }
func (v interfaces) Leases(context.Context) ([]*vpp_interfaces.DHCPLease, error) { return nil, nil }
func (v interfaces) SetIP6ND(context.Context, string, *vpp_interfaces.Interface_IP6ND) error {
	return vswitch.Unsupported("ip6_nd")
}
func (v interfaces) UnsetIP6ND(context.Context, string) error { return nil }
