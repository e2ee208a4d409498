package vpp

import (
	"context"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/vswitch"
)

func (v *VSwitch) WatchLeases(func(string, *vpp_interfaces.DHCPLease)) {}
func (v *VSwitch) Bridges() vswitch.Bridges                            { return nil }
func (v *VSwitch) FIB() vswitch.FIB                                    { return nil }
func (v *VSwitch) Routes() vswitch.Routes                              { return nil }
func (v *VSwitch) Neighbours() vswitch.Neighbours                      { return nil }
func (v *VSwitch) VRFs() vswitch.VRFs                                  { return nil }
func (v *VSwitch) NAT66() vswitch.NAT66                                { return nil }
func (v *VSwitch) XConnects() vswitch.Values[*vpp_l2.XConnectPair]     { return nil }
func (v *VSwitch) Spans() vswitch.Values[*vpp_interfaces.Span]         { return nil }
func (v *VSwitch) L3XConnects() vswitch.Values[*vpp_l3.L3XConnect]     { return nil }
func (v *VSwitch) ProxyARP() vswitch.ProxyARP                          { return nil }
func (v *VSwitch) Lacks(string) string                                 { return "" }
func (v *VSwitch) States() vswitch.States                              { return noStates{} }
func (v *VSwitch) WireGuardPeers() vswitch.Values[*vpp_wireguard.Peer] { return nil }

func (v interfaces) SetDHCPClient(context.Context, string) error {
	return vswitch.Unsupported("set_dhcp_client")
}
func (v interfaces) UnsetDHCPClient(context.Context, string) error               { return nil }
func (v interfaces) Leases(context.Context) ([]*vpp_interfaces.DHCPLease, error) { return nil, nil }
func (v interfaces) AddBondMember(context.Context, string, *vpp_interfaces.BondLink_BondedInterface) error {
	return vswitch.Unsupported("bonds")
}
func (v interfaces) RemoveBondMember(context.Context, string, *vpp_interfaces.BondLink_BondedInterface) error {
	return nil
}
func (v interfaces) SetIP6ND(context.Context, string, *vpp_interfaces.Interface_IP6ND) error {
	return vswitch.Unsupported("ip6_nd")
}
func (v interfaces) UnsetIP6ND(context.Context, string) error { return nil }

type noStates struct{}

func (noStates) List(context.Context) ([]*vpp_interfaces.InterfaceState, error) { return nil, nil }
func (noStates) Watch(func(...*vpp_interfaces.InterfaceState))                  {}
