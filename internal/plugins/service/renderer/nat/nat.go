// Package nat renders services as destination NAT, labelled "<namespace>/<name>":
//
//	processor.Service ──Render──> config/vpp/nat/v2/dnat44/<namespace>/<name>
//	                              config/contiv/nat/v1/dnat66/<namespace>/<name>
//
// A frontend is one mapping if inside and outside clients use the same endpoints, otherwise two.
// The node's own processes get another mapping if their endpoints differ.
package nat

import (
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Options are the settings of the node and its administrator.
type Options struct {
	// Loopback6 is the source address of hairpin connections over IPv6. IPv4 uses a twice-NAT
	// address pool.
	Loopback6 netip.Addr
	// Loopback4 is the same for a vswitch with the address in each mapping. Such a vswitch also
	// masquerades outside clients with both addresses.
	Loopback4 netip.Addr
	// OneScope: mappings apply to all clients, with the endpoints of outside clients. Frontends
	// that drop outside clients are omitted, and sources are not restricted.
	OneScope bool
	// Refuser4 and Refuser6 are host addresses, for a vswitch that cannot reset connections. TCP to
	// a node port or external address without endpoints goes to a closed port there.
	Refuser4, Refuser6 netip.Addr
	// Shared contains addresses of both the vswitch and the host. The host refuses connections
	// without endpoints there. Its processes are outside clients of the vswitch.
	Shared []netip.Addr
	// Host contains all addresses of the host, and is set only with Shared.
	Host []netip.Addr
	// LocalWeight is the weight of a local endpoint relative to a remote one, at least 1.
	LocalWeight uint32
	// ResetRemoved resets TCP connections to removed endpoints.
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

// hides reports whether outside clients are masqueraded.
func (o Options) hides(f processor.Frontend) bool {
	switch {
	case f.Kind != processor.ClusterIP:
		return !f.KeepSource
	case len(o.Shared) == 0: // outside clients of a cluster IP have no route back from other nodes
		return true
	}
	// Policies admit the host's address, but the host drops packets with its own address as source.
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
		m.AffinityPort = uint32(f.ServicePort) // share the affinity of the service port
	}
	for _, e := range endpoints {
		local := &vpp_nat.DNat44_StaticMapping_LocalIP{LocalIp: e.Addr.Addr().String(), LocalPort: uint32(e.Addr.Port()), Elsewhere: !e.Local}
		if e.Local && e.Eth0.IsValid() {
			local.ClientIp = e.Eth0.String()
		}
		switch {
		case len(endpoints) == 1:
		case e.Local:
			local.Probability = max(o.LocalWeight, 1)
		default:
			local.Probability = 1
		}
		m.LocalIps = append(m.LocalIps, local)
	}
	return m
}

// closedPort is tcpmux, which is obsolete.
const closedPort = 1

// refuser returns the host address that refuses connections to a frontend without endpoints. It is
// invalid if the vswitch refuses them, as it does for cluster IPs to avoid the host's firewall. On
// shared IPv4 addresses, the host refuses all, because NAT would drop the vswitch's refusals.
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

// sources returns the allowed prefixes, or an unassigned address if the IP version has none.
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
