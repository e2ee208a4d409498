package vswitchtest

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"google.golang.org/protobuf/proto"
)

// ServiceCase defines the result of packets with values of services. The conformance suite sends
// packets for each case; drivers may also evaluate the cases without packets.
type ServiceCase struct {
	Name    string
	Network *contiv_nat.ServiceNetwork
	Service proto.Message // a DNat44 or a DNat66
	Probes  []ServiceProbe
}

// ServiceProbe is a connection of a client.
type ServiceProbe struct {
	// From is the client: pod1, pod2, pod3, world, or node.
	From    string
	Src     netip.Addr // if invalid, the first address of the client
	Network string     // tcp, udp
	Dst     netip.AddrPort
	// Answers is the endpoint that answers, "" for none.
	Answers string
	// Seen lists the source addresses that the endpoint may see.
	Seen []netip.Addr
	// Refused is set if the client gets an ICMP error or a reset. Otherwise unanswered packets are
	// dropped.
	Refused bool
}

// Addresses of the services' lab with three pods, the world, and a node address on each interface.
// Pod 1 is 10.31.1.2 with gateway 10.31.1.1, and fd31:0:0:1::2 with gateway fd31:0:0:1::1. The
// world is 10.32.0.2 with gateway 10.32.0.1, and fd32::2 with gateway fd32::1.
func serviceNames(ipv6 bool) *serviceLab {
	if ipv6 {
		return &serviceLab{
			shared: true, scopes: true, ipv6: true, service: service66, other: "fd96::77", twice: []string{twice66}, outside: world66,
			network: &contiv_nat.ServiceNetwork{Inside: []string{"fd31::/32"}, ServiceSubnets: []string{"fd96::/64"}},
			pod:     pod66, gateway: func(n int) string { return "fd31:0:0:" + strconv.Itoa(n) + "::1" },
			client: func(n int) string { return "fd32::" + strconv.Itoa(n) },
		}
	}
	return &serviceLab{
		shared: true, scopes: true, service: "10.96.0.1", other: "10.96.0.77", twice: []string{twicePool, twicePoolIP}, outside: worldIP,
		network: &contiv_nat.ServiceNetwork{Inside: []string{"10.31.0.0/16"}, ServiceSubnets: []string{"10.96.0.0/16"}},
		pod:     podIP, gateway: func(n int) string { return "10.31." + strconv.Itoa(n) + ".1" },
		client: func(n int) string { return "10.32.0." + strconv.Itoa(n) },
	}
}

// TwiceNATPool returns the range of the twice-NAT pool in the IPv4 cases.
func TwiceNATPool() (first, last string) { return twicePoolIP, twicePool }

// ServiceCases returns the cases of an IP version.
func ServiceCases(ipv6 bool) []ServiceCase {
	l := serviceNames(ipv6)
	at := func(addr string, port uint16) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr(addr), port)
	}
	addrs := func(texts ...string) (list []netip.Addr) {
		for _, text := range texts {
			list = append(list, netip.MustParseAddr(text))
		}
		return list
	}
	reaches := func(from, answers string, seen ...string) ServiceProbe {
		return ServiceProbe{From: from, Network: "tcp", Dst: at(l.service, 80), Answers: answers, Seen: addrs(seen...)}
	}
	refused := func(from, network, addr string, port uint16) ServiceProbe {
		return ServiceProbe{From: from, Network: network, Dst: at(addr, port), Refused: true}
	}
	ignored := func(from, src string) ServiceProbe {
		p := ServiceProbe{From: from, Network: "tcp", Dst: at(l.service, 80)}
		if src != "" {
			p.Src = netip.MustParseAddr(src)
		}
		return p
	}
	byUDP := func(p ServiceProbe) ServiceProbe {
		p.Network = "udp"
		return p
	}
	inside := func(m *mapping44) { m.Clients = vpp_nat.DNat44_StaticMapping_INSIDE }
	outside := func(m *mapping44) { m.Clients = vpp_nat.DNat44_StaticMapping_OUTSIDE }
	own := func(m *mapping44) { m.Clients = vpp_nat.DNat44_StaticMapping_NODE }
	ranges := func(networks ...string) func(*mapping44) {
		return func(m *mapping44) { m.SourceRanges = networks }
	}
	refuse := func(m *mapping44) { m.Otherwise = vpp_nat.DNat44_StaticMapping_REFUSE }
	drop := func(m *mapping44) { m.Otherwise = vpp_nat.DNat44_StaticMapping_DROP }
	fromWorld := func(p ServiceProbe, n int) ServiceProbe {
		p.Src = netip.MustParseAddr(l.client(n))
		return p
	}
	all := []ServiceProbe{
		reaches("pod2", "pod1", l.pod(2)), reaches("pod1", "pod1", l.twice...), reaches("world", "pod1", l.outside), reaches("node", "pod1", l.gateway(1)),
	}
	return []ServiceCase{
		{"one endpoint, by TCP and UDP", l.network, l.value(l.mapping(tcp44, 1), l.mapping(udp44, 1)),
			append(slices.Clone(all), byUDP(all[0]), byUDP(all[1]), byUDP(all[2]), byUDP(all[3]))},
		{"ports that the service lacks", l.network, l.value(l.mapping(tcp44, 1)), append(slices.Clone(all),
			refused("pod2", "tcp", l.service, 81), refused("node", "udp", l.service, 80), refused("pod1", "tcp", l.other, 80))},
		{"no endpoint: refused", l.network, l.value(edited(l.mapping(tcp44), refuse)), []ServiceProbe{
			refused("pod1", "tcp", l.service, 80), refused("world", "tcp", l.service, 80), refused("node", "tcp", l.service, 80)}},
		{"endpoints for each sort of clients", l.network, l.value(edited(l.mapping(tcp44, 1), inside), edited(l.mapping(tcp44, 2), outside)), []ServiceProbe{
			reaches("pod3", "pod1", l.pod(3)), reaches("node", "pod1", l.gateway(1)), reaches("world", "pod2", l.outside)}},
		{"an endpoint for the node itself", l.network, l.value(edited(l.mapping(tcp44, 2), own), l.mapping(tcp44, 1)), []ServiceProbe{
			reaches("pod3", "pod1", l.pod(3)), reaches("node", "pod2", l.gateway(2)), reaches("world", "pod1", l.outside)}},
		{"no endpoint for clients outside: dropped", l.network, l.value(edited(l.mapping(tcp44, 1), inside), edited(edited(l.mapping(tcp44), outside), drop)), []ServiceProbe{
			reaches("pod3", "pod1", l.pod(3)), ignored("world", "")}},
		{"source ranges", l.network, l.value(edited(l.mapping(tcp44, 1), ranges(fmt.Sprintf("%s/%d", l.client(10), l.bits()), fmt.Sprintf("%s/%d", l.pod(3), l.bits())))), []ServiceProbe{
			reaches("pod3", "pod1", l.pod(3)), fromWorld(reaches("world", "pod1", l.client(10)), 10), ignored("world", l.client(11)), ignored("pod2", "")}},
		{"clients outside are hidden", l.network, l.value(edited(l.mapping(tcp44, 1), func(m *mapping44) { m.MasqueradeOutside = true })), []ServiceProbe{
			reaches("world", "pod1", l.gateway(1)), reaches("pod3", "pod1", l.pod(3)), reaches("pod1", "pod1", l.twice...)}},
	}
}

func (l *serviceLab) runTable(t *testing.T) {
	hosts := map[string]*Host{"pod1": l.pods[1], "pod2": l.pods[2], "pod3": l.pods[3], "world": l.world, "node": l.site.Self()}
	for _, c := range ServiceCases(l.ipv6) {
		t.Run(c.Name, func(t *testing.T) {
			l.set(t, c.Network, c.Service)
			for _, p := range c.Probes {
				src := ""
				if p.Src.IsValid() {
					src = p.Src.String()
				}
				addr, port := p.Dst.Addr().String(), int(p.Dst.Port())
				switch {
				case p.Refused:
					l.wantRefused(t, hosts[p.From], p.Network, addr, port)
				case p.Answers == "":
					l.wantIgnored(t, hosts[p.From], src)
				default:
					who, seen, err := hosts[p.From].who(t, p.Network, src, addr, port)
					if err != nil || who != p.Answers || !slices.ContainsFunc(p.Seen, func(a netip.Addr) bool { return a.String() == seen }) {
						t.Errorf("%s by %s to %v: %q answers, which sees %s (%v); want %q to see one of %v", p.From, p.Network, p.Dst, who, seen, err, p.Answers, p.Seen)
					}
				}
			}
		})
	}
}
