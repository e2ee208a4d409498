package kernel

import (
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/internal/vswitch"
)

func (v *VSwitch) XConnects() vswitch.Values[*vpp_l2.XConnectPair] { return v.redirect.XConnectPort() }
func (v *VSwitch) Spans() vswitch.Values[*vpp_interfaces.Span]     { return v.redirect.SpanPort() }

func (v *VSwitch) L3XConnects() vswitch.Values[*vpp_l3.L3XConnect] { return v.routes.L3XConnectPort() }

func (v *VSwitch) ProxyARP() vswitch.ProxyARP { return v.neighbours.ProxyARPPort() }

func (v *VSwitch) SRv6() vswitch.SRv6 { return v.segments.SegmentPort() }

func (v *VSwitch) States() vswitch.States { return v.links.StatePort() }

func (v *VSwitch) WireGuardPeers() vswitch.Values[*vpp_wireguard.Peer] { return v.links.PeerPort() }

func (v *VSwitch) WatchLeases(report func(iface string, lease *vpp_interfaces.DHCPLease)) {
	v.links.WatchLeases(report)
}
