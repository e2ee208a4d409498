package vpp

import (
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/vswitch"
)

func (v *VSwitch) NAT66() vswitch.NAT66                                { return nil }
func (v *VSwitch) Lacks(string) string                                 { return "" }
func (v *VSwitch) WireGuardPeers() vswitch.Values[*vpp_wireguard.Peer] { return nil }
