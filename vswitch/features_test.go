package vswitch

import (
	"errors"
	"testing"

	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
	vpp_dns "github.com/contiv/contiv/api/ligato/vpp/dns"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_ipfix "github.com/contiv/contiv/api/ligato/vpp/ipfix"
	vpp_ipsec "github.com/contiv/contiv/api/ligato/vpp/ipsec"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

func (noVSwitch) XConnects() Values[*vpp_l2.XConnectPair] { return noValues[*vpp_l2.XConnectPair]{} }
func (noVSwitch) Spans() Values[*vpp_interfaces.Span]     { return noValues[*vpp_interfaces.Span]{} }

type noValues[V proto.Message] struct{ Values[V] }

func TestFeatureValidation(t *testing.T) {
	xc, sp := xconnectDescriptor(noVSwitch{}.XConnects()), spanDescriptor(noVSwitch{}.Spans())
	for name, err := range map[string]error{
		"cross-connect without receiver":    xc.Validate("", &vpp_l2.XConnectPair{TransmitInterface: "a"}),
		"cross-connect without transmitter": xc.Validate("", &vpp_l2.XConnectPair{ReceiveInterface: "a"}),
		"cross-connect to itself":           xc.Validate("", &vpp_l2.XConnectPair{ReceiveInterface: "a", TransmitInterface: "a"}),
		"span without source":               sp.Validate("", &vpp_interfaces.Span{InterfaceTo: "a", Direction: 1}),
		"span without target":               sp.Validate("", &vpp_interfaces.Span{InterfaceFrom: "a", Direction: 1}),
		"span to itself":                    sp.Validate("", &vpp_interfaces.Span{InterfaceFrom: "a", InterfaceTo: "a", Direction: 1}),
		"span without direction":            sp.Validate("", &vpp_interfaces.Span{InterfaceFrom: "a", InterfaceTo: "b"}),
	} {
		if err == nil {
			t.Errorf("%s is valid", name)
		}
	}
	if err := xc.Validate("", &vpp_l2.XConnectPair{ReceiveInterface: "a", TransmitInterface: "b"}); err != nil {
		t.Error(err)
	}
}

func (noVSwitch) L3XConnects() Values[*vpp_l3.L3XConnect] { return noValues[*vpp_l3.L3XConnect]{} }

func (noVSwitch) WireGuardPeers() Values[*vpp_wireguard.Peer] { return noValues[*vpp_wireguard.Peer]{} }

func (noVSwitch) ProxyARP() ProxyARP { return noProxyARP{} }

type noProxyARP struct{ ProxyARP }

func (noVSwitch) Lacks(string) string { return "" }

// What a vswitch lacks is validated all the same.
func TestLackingValidation(t *testing.T) {
	for name, err := range map[string]error{
		"ABF without list":           validateABF(&vpp_abf.ABF{}),
		"ABF without interface":      validateABF(&vpp_abf.ABF{AclName: "a", AttachedInterfaces: []*vpp_abf.ABF_AttachedInterface{{}}}),
		"ABF without next hop":       validateABF(&vpp_abf.ABF{AclName: "a", ForwardingPaths: []*vpp_abf.ABF_ForwardingPath{{}}}),
		"proxy ARP for IPv6":         validateProxyARP(&vpp_l3.ProxyARP{Ranges: []*vpp_l3.ProxyARP_Range{{FirstIpAddr: "::1", LastIpAddr: "::2"}}}),
		"proxy ARP backwards":        validateProxyARP(&vpp_l3.ProxyARP{Ranges: []*vpp_l3.ProxyARP_Range{{FirstIpAddr: "1.0.0.2", LastIpAddr: "1.0.0.1"}}}),
		"DHCP proxy, no servers":     validateDHCPProxy(&vpp_l3.DHCPProxy{SourceIpAddress: "1.0.0.1"}),
		"DHCP proxy, mixed versions": validateDHCPProxy(&vpp_l3.DHCPProxy{SourceIpAddress: "1.0.0.1", Servers: []*vpp_l3.DHCPProxy_DHCPServer{{IpAddress: "::1"}}}),
		"L3 cross-connect, no path":  validateL3XConnect(&vpp_l3.L3XConnect{Interface: "a"}),
		"L3 cross-connect, mixed": validateL3XConnect(&vpp_l3.L3XConnect{Interface: "a", Paths: []*vpp_l3.L3XConnect_Path{
			{OutgoingInterface: "b", NextHopAddr: "::1"}}}),
		"TEIB without peer":        validateTEIB(&vpp_l3.TeibEntry{Interface: "a"}),
		"VRRP without address":     validateVRRP(&vpp_l3.VRRPEntry{Interface: "a", VrId: 1, Priority: 1, Interval: 10}),
		"VRRP with mixed address":  validateVRRP(&vpp_l3.VRRPEntry{Interface: "a", VrId: 1, Priority: 1, Interval: 10, IpAddresses: []string{"1.0.0.1", "::1"}}),
		"VRRP with big ID":         validateVRRP(&vpp_l3.VRRPEntry{Interface: "a", VrId: 256, Priority: 1, Interval: 10, IpAddresses: []string{"1.0.0.1"}}),
		"VRRP in a hurry":          validateVRRP(&vpp_l3.VRRPEntry{Interface: "a", VrId: 1, Priority: 1, Interval: 9, IpAddresses: []string{"1.0.0.1"}}),
		"tunnel protection, no SA": validateTunnelProtection(&vpp_ipsec.TunnelProtection{Interface: "a", SaIn: []uint32{1}}),
		"punt without protocol":    validateToHost(&vpp_punt.ToHost{L3Protocol: 4, Port: 1}),
		"punt without port":        validateToHost(&vpp_punt.ToHost{L3Protocol: 4, L4Protocol: 6}),
		"redirect without hop":     validateIPRedirect(&vpp_punt.IPRedirect{L3Protocol: 4, TxInterface: "a"}),
		"exception, no socket":     validateException(&vpp_punt.Exception{Reason: "a"}),
		"STN without address":      validateSTN(&vpp_stn.Rule{Interface: "a"}),
		"DNS without server":       validateDNSCache(&vpp_dns.DNSCache{}),
		"peer with short key":      validateWireGuardPeer(&vpp_wireguard.Peer{PublicKey: "AAAA", WgIfName: "a", Endpoint: "1.0.0.1"}),
		"IPFIX, long packets":      validateIPFIX(&vpp_ipfix.IPFIX{PathMtu: 1451}),
		"flow probe of nothing":    validateFlowProbeFeature(&vpp_ipfix.FlowProbeFeature{Interface: "a"}),
		"flow records of nothing":  validateFlowProbeParams(&vpp_ipfix.FlowProbeParams{}),
	} {
		var iv *kvscheduler.InvalidValueError
		if !errors.As(err, &iv) || len(iv.Fields) != 1 || iv.Fields[0] == "" {
			t.Errorf("%s: got %v, want an error that names a field", name, err)
		}
	}
}
