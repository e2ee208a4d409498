// Package nat renders services as destination NAT: one DNat44 value for the IPv4 side of a
// service, one DNat66 for the IPv6 side, both labelled "<namespace>/<name>".
//
//	processor.Service ──Render──> config/vpp/nat/v2/dnat44/<namespace>/<name>
//	                              config/contiv/nat/v1/dnat66/<namespace>/<name>
//
// A frontend is one mapping if clients inside and outside use the same endpoints, else two. One more is
// for the node's own processes if they use others.
package nat

import (
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/service/processor"
	"google.golang.org/protobuf/proto"
)

// Options are the settings of the node and its administrator.
type Options struct {
	// Loopback6 is the source that a pod sees in its own connections to itself over IPv6. For IPv4, it is
	// an address pool for twice-NAT.
	Loopback6 netip.Addr
	// Loopback4 is the same for IPv4, for a vswitch that has it in each mapping. Such a vswitch also gives
	// both addresses to clients outside.
	Loopback4 netip.Addr
	// OneScope: the vswitch has one mapping for all clients. Clients inside get the endpoints of clients
	// outside. Frontends that ignore clients outside are left out. Sources are not restricted.
	OneScope bool
	// Refuser4 and Refuser6 are addresses of the host, for a vswitch that cannot reset connections: TCP to a
	// node port or an external address without endpoint goes to a port there that nothing listens at.
	Refuser4, Refuser6 netip.Addr
	// Shared are addresses of the vswitch that are the host's, too: what has no endpoint there is left to the host,
	// which refuses it. The host's own processes are no other clients to the vswitch than those outside.
	Shared []netip.Addr
	// Host are all addresses of the host, where there are Shared ones.
	Host []netip.Addr
	// LocalWeight is the weight of endpoints on this node, relative to others; at least 1.
	LocalWeight uint32
	// ResetRemoved resets TCP connections to endpoints that are removed.
	ResetRemoved bool
}

// Key returns the northbound key of an IP version of a service.
func Key(id processor.ID, ipv6 bool) string {
	if ipv6 {
		return models.Key(&contiv_nat.DNat66{Label: id.String()})
	}
	return models.Key(&vpp_nat.DNat44{Label: id.String()})
}

// Render returns the value of a service, under its Key.
func Render(s *processor.Service, ipv6 bool, o Options) proto.Message {
	if !ipv6 {
		value := &vpp_nat.DNat44{Label: s.ID.String()}
		for _, f := range s.Frontends {
			value.StMappings = append(value.StMappings, mappings(f, s.Affinity, o)...)
		}
		return value
	}
	value := &contiv_nat.DNat66{Label: s.ID.String()}
	for _, f := range s.Frontends {
		for _, m := range mappings(f, s.Affinity, o) {
			value.StMappings = append(value.StMappings, ipv6Mapping(m, o))
		}
	}
	return value
}

type mapping = vpp_nat.DNat44_StaticMapping

var protocols = map[processor.Protocol]vpp_nat.DNat44_Protocol{
	processor.TCP: vpp_nat.DNat44_TCP, processor.UDP: vpp_nat.DNat44_UDP, processor.SCTP: vpp_nat.DNat44_SCTP,
}

func mappings(f processor.Frontend, affinity uint32, o Options) []*mapping {
	hide := o.hides(f)
	switch {
	case o.OneScope && f.Drop, len(f.Outside) == 0 && slices.Contains(o.Shared, f.Addr.Addr()):
		return nil
	case o.OneScope:
		return []*mapping{newMapping(f, f.Outside, vpp_nat.DNat44_StaticMapping_ALL, hide, affinity, o)}
	}
	var list []*mapping
	if len(f.Node) > 0 {
		list = append(list, newMapping(f, f.Node, vpp_nat.DNat44_StaticMapping_NODE, false, affinity, o))
	}
	if slices.Equal(f.Inside, f.Outside) {
		return append(list, newMapping(f, f.Outside, vpp_nat.DNat44_StaticMapping_ALL, hide, affinity, o))
	}
	if len(f.Inside) > 0 {
		list = append(list, newMapping(f, f.Inside, vpp_nat.DNat44_StaticMapping_INSIDE, false, affinity, o))
	}
	return append(list, newMapping(f, f.Outside, vpp_nat.DNat44_StaticMapping_OUTSIDE, hide, affinity, o))
}

// hides reports whether endpoints do not see the addresses of clients outside.
func (o Options) hides(f processor.Frontend) bool {
	switch {
	case f.Kind != processor.ClusterIP:
		return !f.KeepSource
	case len(o.Shared) == 0: // clients outside that use a cluster IP have no route back from other nodes
		return true
	}
	// The host uses cluster IPs, and policies let its address reach its pods. But it would drop what has its own.
	return slices.ContainsFunc(f.Outside, func(e processor.Endpoint) bool { return slices.Contains(o.Host, e.Addr.Addr()) })
}

func newMapping(f processor.Frontend, endpoints []processor.Endpoint, clients vpp_nat.DNat44_StaticMapping_Clients, hide bool, affinity uint32, o Options) *mapping {
	m := &mapping{
		ExternalIp: f.Addr.Addr().String(), ExternalPort: uint32(f.Addr.Port()), Protocol: protocols[f.Protocol],
		Clients: clients,
	}
	if !o.OneScope {
		m.SourceRanges = sources(f)
	}
	m.ResetRemoved = o.ResetRemoved && f.Protocol == processor.TCP
	if refuser := o.refuser(f); len(endpoints) == 0 && refuser.IsValid() {
		endpoints, hide = []processor.Endpoint{{Addr: netip.AddrPortFrom(refuser, closedPort), Local: true}}, true
	}
	if len(endpoints) == 0 {
		m.Otherwise = vpp_nat.DNat44_StaticMapping_REFUSE
		if f.Drop {
			m.Otherwise = vpp_nat.DNat44_StaticMapping_DROP
		}
		return m
	}
	if o.Loopback4.IsValid() && f.Addr.Addr().Is4() {
		m.TwiceNatPoolIp = o.Loopback4.String()
	}
	m.TwiceNat, m.SessionAffinity, m.MasqueradeOutside = vpp_nat.DNat44_StaticMapping_SELF, affinity, hide
	if affinity > 0 && f.ServicePort != f.Addr.Port() && !o.OneScope {
		m.AffinityPort = uint32(f.ServicePort) // clients of a node port are those of the service's port
	}
	for _, e := range endpoints {
		local := &vpp_nat.DNat44_StaticMapping_LocalIP{LocalIp: e.Addr.Addr().String(), LocalPort: uint32(e.Addr.Port()), Elsewhere: !e.Local}
		if e.Local && e.Eth0.IsValid() {
			local.ClientIp = e.Eth0.String()
		}
		switch {
		case len(endpoints) == 1: // there is no choice
		case e.Local:
			local.Probability = max(o.LocalWeight, 1)
		default:
			local.Probability = 1
		}
		m.LocalIps = append(m.LocalIps, local)
	}
	return m
}

// closedPort is one that nothing listens at: tcpmux, which nobody uses any more.
const closedPort = 1

// refuser returns the address that refuses connections to a frontend without endpoints; the zero address: the
// vswitch does so. Cluster IPs are refused by the vswitch, so that no firewall of the host can ignore them. But where the
// two share addresses of IPv4, the host refuses all: NAT would drop what the vswitch says to clients outside.
func (o Options) refuser(f processor.Frontend) netip.Addr {
	ipv6 := f.Addr.Addr().Is6()
	switch {
	case f.Protocol != processor.TCP:
		return netip.Addr{}
	case len(o.Shared) > 0:
		if at := slices.IndexFunc(o.Shared, netip.Addr.Is4); at >= 0 && !ipv6 {
			return o.Shared[at]
		}
		return netip.Addr{}
	case f.Kind == processor.ClusterIP:
		return netip.Addr{}
	case ipv6:
		return o.Refuser6
	}
	return o.Refuser4
}

// sources returns the prefixes that may connect, or an address that nobody has if no prefix of the IP
// version may.
func sources(f processor.Frontend) (list []string) {
	if !f.Restricted {
		return nil
	}
	for _, p := range f.Sources {
		if p.Addr().Is6() == f.Addr.Addr().Is6() {
			list = append(list, p.String())
		}
	}
	if len(list) == 0 {
		nobody := netip.IPv4Unspecified()
		if f.Addr.Addr().Is6() {
			nobody = netip.IPv6Unspecified()
		}
		list = append(list, netip.PrefixFrom(nobody, nobody.BitLen()).String())
	}
	return list
}

var protocols6 = map[vpp_nat.DNat44_Protocol]contiv_nat.DNat66_Protocol{
	vpp_nat.DNat44_TCP: contiv_nat.DNat66_TCP, vpp_nat.DNat44_UDP: contiv_nat.DNat66_UDP, vpp_nat.DNat44_SCTP: contiv_nat.DNat66_SCTP,
}

// ipv6Mapping returns the same mapping for IPv6.
func ipv6Mapping(m *mapping, o Options) *contiv_nat.DNat66_StaticMapping {
	out := &contiv_nat.DNat66_StaticMapping{
		ExternalIp: m.GetExternalIp(), ExternalPort: m.GetExternalPort(), Protocol: protocols6[m.GetProtocol()],
		SessionAffinity: m.GetSessionAffinity(), SourceRanges: m.GetSourceRanges(), MasqueradeOutside: m.GetMasqueradeOutside(),
		ResetRemoved: m.GetResetRemoved(), AffinityPort: m.GetAffinityPort(), Clients: contiv_nat.DNat66_StaticMapping_Clients(m.GetClients()),
		Otherwise: contiv_nat.DNat66_StaticMapping_Otherwise(m.GetOtherwise()),
	}
	if m.GetTwiceNat() == vpp_nat.DNat44_StaticMapping_SELF && o.Loopback6.IsValid() {
		out.TwiceNat, out.TwiceNatIp = contiv_nat.DNat66_StaticMapping_SELF, o.Loopback6.String()
	}
	for _, l := range m.GetLocalIps() {
		out.LocalIps = append(out.LocalIps, &contiv_nat.DNat66_StaticMapping_LocalIP{
			LocalIp: l.GetLocalIp(), LocalPort: l.GetLocalPort(), Probability: l.GetProbability(), Elsewhere: l.GetElsewhere(), ClientIp: l.GetClientIp(),
		})
	}
	return out
}
