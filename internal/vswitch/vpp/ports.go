package vpp

import (
	"context"
	"os"

	"github.com/contiv/contiv/api/contiv/guard"
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/netlink/sockets"
	"github.com/contiv/contiv/internal/vswitch/vpp/cnat"
	"github.com/contiv/contiv/internal/vswitch/vpp/podguard"

	"github.com/contiv/contiv/internal/vswitch/vpp/dhcp"
	"github.com/contiv/contiv/internal/vswitch/vpp/interfaces"

	"github.com/contiv/contiv/api/ligato/govppmux"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/prometheus/client_golang/prometheus"
)

// Capabilities: VPP has its own stack and tables, but no NAT66. It creates TAPs with the machine's
// vhost-net.
func (v *VSwitch) Capabilities() vswitch.Capabilities {
	return vswitch.Capabilities{HostStackShared: false, MultipleVRFs: true, IPv6SourceNAT: false, IPv6DNAT: true, TAPs: vhostNet(), SourceGuards: true, Filter: true,
		SegmentRouting: true, ResetsConnections: sockets.Supported() == nil}
}

// vhostNet reports whether the machine, which is also VPP's, supports TAPs of VPP. Opening the
// device loads the kernel module.
func vhostNet() bool {
	f, err := os.OpenFile("/dev/vhost-net", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// interfacePort combines interfaces with DHCP.
type interfacePort struct {
	*interfaces.Interfaces
	*dhcp.Clients
}

// Interfaces implements vswitch.VSwitch.
func (v *VSwitch) Interfaces() vswitch.Interfaces { return interfacePort{v.interfaces, v.clients} }

// RxQueues implements vswitch.VSwitch.
func (v *VSwitch) RxQueues() vswitch.RxQueues { return v.interfaces.RxQueues() }

// States implements vswitch.VSwitch.
func (v *VSwitch) States() vswitch.States { return v.interfaces.States() }

// WatchLeases also reports earlier leases when it first reads them.
func (v *VSwitch) WatchLeases(report func(iface string, lease *vpp_interfaces.DHCPLease)) {
	v.clients.Watch(report)
}

// Layer 2.

// Bridges implements vswitch.VSwitch.
func (v *VSwitch) Bridges() vswitch.Bridges { return v.l2.Bridges() }

// FIB implements vswitch.VSwitch.
func (v *VSwitch) FIB() vswitch.FIB { return v.l2.FIB() }

// XConnects implements vswitch.VSwitch.
func (v *VSwitch) XConnects() vswitch.Values[*vpp_l2.XConnectPair] { return v.l2.XConnects() }

// Spans implements vswitch.VSwitch.
func (v *VSwitch) Spans() vswitch.Values[*vpp_interfaces.Span] { return v.spans }

// Layer 3.

// Routes implements vswitch.VSwitch.
func (v *VSwitch) Routes() vswitch.Routes { return v.routes }

// Neighbours implements vswitch.VSwitch.
func (v *VSwitch) Neighbours() vswitch.Neighbours { return v.neighbours }

// IPScanNeighbors implements vswitch.Extras.
func (v *VSwitch) IPScanNeighbors() vswitch.Values[*vpp_l3.IPScanNeighbor] { return v.scans }

// VRFs implements vswitch.VSwitch.
func (v *VSwitch) VRFs() vswitch.VRFs { return v.vrfs }

// ProxyARP implements vswitch.VSwitch.
func (v *VSwitch) ProxyARP() vswitch.ProxyARP { return v.proxyARP }

// L3XConnects implements vswitch.VSwitch.
func (v *VSwitch) L3XConnects() vswitch.Values[*vpp_l3.L3XConnect] { return v.l3xc }

// TEIBs implements vswitch.Extras.
func (v *VSwitch) TEIBs() vswitch.Values[*vpp_l3.TeibEntry] { return v.teibs }

// DHCPProxies implements vswitch.Extras.
func (v *VSwitch) DHCPProxies() vswitch.Values[*vpp_l3.DHCPProxy] { return v.proxies }

// SRv6 implements vswitch.VSwitch.
func (v *VSwitch) SRv6() vswitch.SRv6 { return v.srv6 }

// Policies and services.

// ACLs implements vswitch.VSwitch.
func (v *VSwitch) ACLs() vswitch.ACLs { return v.acls }

// ABFs implements vswitch.Extras.
func (v *VSwitch) ABFs() vswitch.ABFs { return v.abfs }

// NAT implements vswitch.VSwitch.
func (v *VSwitch) NAT() vswitch.NAT { return natPort{v.nat, cnat.Services44{Translations: v.services}} }

// NAT66 implements vswitch.VSwitch.
func (v *VSwitch) NAT66() vswitch.NAT66 { return nat.NAT66{} }

// DNAT66 implements vswitch.VSwitch.
func (v *VSwitch) DNAT66() vswitch.DNAT66 { return cnat.DNAT66{Translations: v.services} }

// ServiceNetworks implements vswitch.VSwitch.
func (v *VSwitch) ServiceNetworks() vswitch.Values[*contiv_nat.ServiceNetwork] {
	return cnat.ServiceNetworks{Translations: v.services}
}

// The host.

// STNRules implements vswitch.Extras.
func (v *VSwitch) STNRules() vswitch.Values[*vpp_stn.Rule] { return v.stn }

// IPRedirects implements vswitch.Extras.
func (v *VSwitch) IPRedirects() vswitch.Values[*vpp_punt.IPRedirect] { return v.punts.IPRedirects() }

// PuntsToHost implements vswitch.Extras.
func (v *VSwitch) PuntsToHost() vswitch.Values[*vpp_punt.ToHost] { return v.punts.PuntsToHost() }

// PuntExceptions implements vswitch.Extras.
func (v *VSwitch) PuntExceptions() vswitch.Values[*vpp_punt.Exception] {
	return v.punts.PuntExceptions()
}

// SourceGuards implements vswitch.Extras.
func (v *VSwitch) SourceGuards() vswitch.SourceGuards { return v.guards }

// SourceRanges implements vswitch.Extras.
func (v *VSwitch) SourceRanges() vswitch.Values[*guard.SourceRanges] {
	return podguard.Ranges{Guards: v.guards}
}

// WireGuardPeers implements vswitch.Extras.
func (v *VSwitch) WireGuardPeers() vswitch.Values[*vpp_wireguard.Peer] { return v.peers }

// VPP's devices, warnings, CLI and counters.

// NICs returns VPP's names of its DPDK network cards in index order, used or not. Interfaces of the
// type DPDK have these names.
func (v *VSwitch) NICs(ctx context.Context) ([]string, error) { return v.interfaces.NICs(ctx) }

// NIC returns VPP's name of the DPDK network card with an index.
func (v *VSwitch) NIC(ctx context.Context, index uint32) (string, error) {
	return v.interfaces.NIC(ctx, index)
}

// Warnings lists possible future failures of this VPP.
func (v *VSwitch) Warnings(ctx context.Context) ([]string, error) { return v.interfaces.Warnings(ctx) }

// CLI runs a VPP CLI command, like vppctl, and returns its output. A failed command gives an error
// with VPP's message.
func (v *VSwitch) CLI(ctx context.Context, command string) (string, error) {
	return v.vpp.CLI(ctx, command)
}

// Metrics returns the counters of requests to VPP in the vpp-agent's form.
func (v *VSwitch) Metrics() *govppmux.Metrics {
	t := vppapi.Count()
	return &govppmux.Metrics{
		ChannelsCreated: t.Created, ChannelsOpen: t.Open,
		RequestsSent: t.Sent, RequestsDone: t.Done, RequestsFail: t.Failed, RequestReplies: t.Replies,
	}
}

// Describe implements prometheus.Collector.
func (v *VSwitch) Describe(out chan<- *prometheus.Desc) { v.stats.Describe(out) }

// Collect implements prometheus.Collector.
func (v *VSwitch) Collect(out chan<- prometheus.Metric) { v.stats.Collect(out) }

// NATSessions returns the number of VPP's connections to services and host ports.
func (v *VSwitch) NATSessions(ctx context.Context) (uint64, error) { return v.services.Sessions(ctx) }
