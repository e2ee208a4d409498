package nat

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/netlink/nft/nfttest"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"google.golang.org/protobuf/proto"
)

const (
	inside  = vpp_nat.DNat44_StaticMapping_INSIDE
	outside = vpp_nat.DNat44_StaticMapping_OUTSIDE
	all     = vpp_nat.DNat44_StaticMapping_ALL
)

type affinitySite struct {
	*Driver
	*nfttest.Host
	ipv6     bool
	protocol string // "": TCP
	port     uint16 // of the last connection
}

func newAffinitySite(t *testing.T, ipv6 bool) *affinitySite {
	t.Helper()
	v, h := newSite(t)
	must(t, v.ServiceNetworks().Create(t.Context(), &contiv_nat.ServiceNetwork{
		Inside: []string{"10.31.0.0/16", "fd31::/32"}, ServiceSubnets: []string{"10.96.0.0/16", "fd96::/64"},
	}))
	return &affinitySite{Driver: v, Host: h, ipv6: ipv6, port: 1000}
}

func (s *affinitySite) frontends() (cluster, external, node netip.AddrPort) {
	if s.ipv6 {
		return netip.MustParseAddrPort("[fd96::1]:80"), netip.MustParseAddrPort("[fd33::7]:80"), netip.MustParseAddrPort("[fd32::1]:30080")
	}
	return netip.MustParseAddrPort("10.96.0.1:80"), netip.MustParseAddrPort("10.33.0.7:80"), netip.MustParseAddrPort("10.32.0.1:30080")
}

// to returns a mapping of a frontend to the numbered pods, which belongs to port 80.
func (s *affinitySite) to(frontend netip.AddrPort, clients vpp_nat.DNat44_StaticMapping_Clients, pods ...int) *vpp_nat.DNat44_StaticMapping {
	m := &vpp_nat.DNat44_StaticMapping{
		ExternalIp: frontend.Addr().String(), ExternalPort: uint32(frontend.Port()), Clients: clients, SessionAffinity: 600, AffinityPort: 80,
	}
	for _, n := range pods {
		m.LocalIps = append(m.LocalIps, &vpp_nat.DNat44_StaticMapping_LocalIP{LocalIp: addressAt(fmt.Sprint("pod", n), frontend.Addr()).Next().String(), LocalPort: 8080, Probability: 1})
	}
	return m
}

func (s *affinitySite) serve(t *testing.T, mappings ...*vpp_nat.DNat44_StaticMapping) {
	t.Helper()
	value := &vpp_nat.DNat44{Label: "default/web", StMappings: mappings}
	if s.ipv6 {
		setService(t, s.Driver, vswitch.DNAT66FromDNAT44(value))
		return
	}
	setService(t, s.Driver, value)
}

// knock sends the first packet of a connection from a pod or the world, and returns its endpoint.
func (s *affinitySite) knock(t *testing.T, from string, to netip.AddrPort) (endpoint string, connect func()) {
	t.Helper()
	s.port++
	network := cmp.Or(s.protocol, "tcp")
	sent := packetOf(vswitchtest.ServiceProbe{From: from, Network: network, Dst: to}, s.port)
	send := func(p nfttest.Packet) nfttest.Outcome {
		t.Helper()
		o, err := s.Send(p)
		must(t, err)
		if !o.Passed {
			t.Fatalf("from %s to %v: %+v", from, to, o)
		}
		return o
	}
	o := send(sent)
	if o.Dst.Port() != 8080 {
		t.Fatalf("from %s to %v: %+v", from, to, o)
	}
	return o.Out, func() {
		t.Helper()
		send(o.Answer(sent))
		if network != "udp" {
			send(sent)
		}
	}
}

// ask connects from a pod or the world and returns the endpoint, by another slot for clients that
// are not remembered.
func (s *affinitySite) ask(t *testing.T, from string, to netip.AddrPort) string {
	t.Helper()
	s.Kernel.Pass(2 * time.Second)
	s.Forget()
	endpoint, connect := s.knock(t, from, to)
	connect()
	return endpoint
}

func (s *affinitySite) want(t *testing.T, from, pod string, frontends ...netip.AddrPort) {
	t.Helper()
	for range 2 {
		for _, to := range frontends {
			if is := s.ask(t, from, to); is != pod {
				t.Errorf("from %s to %v: comes to %s, want %s", from, to, is, pod)
			}
		}
	}
}

func (s *affinitySite) forgetAll() { s.Kernel.Pass(time.Hour) }

func eachVersion(t *testing.T, test func(t *testing.T, s *affinitySite)) {
	t.Helper()
	for name, ipv6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) { test(t, newAffinitySite(t, ipv6)) })
	}
}

func TestAffinityIsOfPorts(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *affinitySite) {
		cluster, external, node := s.frontends()
		serve := func(pods ...int) {
			t.Helper()
			s.serve(t, s.to(cluster, all, pods...), s.to(external, all, pods...), s.to(node, all, pods...))
		}
		serve(1, 2, 3)
		came := map[string]bool{}
		for _, first := range []netip.AddrPort{cluster, external, node, cluster, external, node} {
			for _, from := range []string{"world", "pod2"} {
				s.forgetAll()
				had := s.ask(t, from, first)
				came[had] = true
				s.want(t, from, had, cluster, external, node)
			}
		}
		if len(came) != 3 {
			t.Errorf("clients came to %v only", came)
		}
		had := s.ask(t, "world", node)
		serve(slices.DeleteFunc([]int{1, 2, 3}, func(n int) bool { return fmt.Sprint("pod", n) != had })...)
		s.want(t, "world", had, cluster, external, node)
		serve(1, 2, 3)
		s.want(t, "world", had, cluster, external, node)
		serve(slices.DeleteFunc([]int{1, 2, 3}, func(n int) bool { return fmt.Sprint("pod", n) == had })...)
		now := s.ask(t, "world", external)
		if now == had {
			t.Errorf("comes to %s, which is gone", now)
		}
		s.want(t, "world", now, cluster, external, node)
		serve(1, 2, 3)
		s.want(t, "world", now, cluster, external, node)
	})
}

func TestAffinityIsRenewedAtAnyAddress(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *affinitySite) {
		cluster, external, node := s.frontends()
		s.serve(t, s.to(cluster, all, 1, 2, 3), s.to(external, all, 1, 2, 3), s.to(node, all, 1, 2, 3))
		had := s.ask(t, "world", node)
		for _, to := range []netip.AddrPort{cluster, external, cluster, node, external, node} {
			s.Kernel.Pass(400 * time.Second)
			if is := s.ask(t, "world", to); is != had {
				t.Fatalf("comes to %s, was with %s 400 s ago", is, had)
			}
		}
		drawn := map[string]bool{}
		for range 8 {
			s.Kernel.Pass(600 * time.Second)
			drawn[s.ask(t, "world", cluster)] = true
		}
		if len(drawn) != 3 {
			t.Errorf("comes to %v only, 600 s after each other", drawn)
		}
	})
}

// A frontend with some of the port's endpoints uses only these, and does not change which other
// endpoint a client has.
func TestAffinityWithPolicyLocal(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *affinitySite) {
		cluster, external, node := s.frontends()
		serve := func(local ...int) {
			t.Helper()
			s.serve(t, s.to(cluster, all, 1, 2, 3), s.to(external, inside, 1, 2, 3), s.to(external, outside, local...), s.to(node, inside, 1, 2, 3), s.to(node, outside, local...))
		}
		serve(1, 2)
		for range 8 {
			s.forgetAll()
			s.want(t, "pod3", s.ask(t, "pod3", node), cluster, external, node)
		}
		for _, first := range []netip.AddrPort{external, node} {
			for range 4 {
				s.forgetAll()
				s.want(t, "world", s.ask(t, "world", first), cluster, external, node)
			}
		}
		elsewhere := func() {
			t.Helper()
			for s.forgetAll(); s.ask(t, "world", cluster) != "pod3"; s.forgetAll() {
			}
		}
		for range 4 {
			elsewhere()
			local := s.ask(t, "world", node)
			if local == "pod3" {
				t.Errorf("comes to %s, which is not on the node", local)
			}
			s.want(t, "world", local, external, node)
			s.want(t, "world", "pod3", cluster)
			s.Kernel.Pass(400 * time.Second)
			s.want(t, "world", local, external)
			s.Kernel.Pass(400 * time.Second)
			s.want(t, "world", local, node, external)
			s.want(t, "world", local, cluster)
		}
		elsewhere()
		local := s.ask(t, "world", external)
		gone := int(local[3] - '0')
		serve(3 - gone)
		s.want(t, "world", fmt.Sprint("pod", 3-gone), external, node)
		s.want(t, "world", "pod3", cluster)
		s.serve(t, s.to(cluster, all, 1, 2), s.to(external, inside, 1, 2), s.to(external, outside, 3-gone), s.to(node, inside, 1, 2), s.to(node, outside, 3-gone))
		s.want(t, "world", fmt.Sprint("pod", 3-gone), external, node, cluster)
	})
}

func TestAffinityOfOtherPorts(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *affinitySite) {
		cluster, external, node := s.frontends()
		other := s.to(netip.AddrPortFrom(cluster.Addr(), 81), all, 1, 2, 3)
		other.AffinityPort = 0
		s.serve(t, s.to(cluster, all, 1, 2, 3), s.to(external, all, 1, 2, 3), s.to(node, all, 1, 2, 3), other)
		differ := 0
		for range 9 {
			s.forgetAll()
			had := s.ask(t, "world", node)
			if s.ask(t, "world", netip.AddrPortFrom(cluster.Addr(), 81)) != had {
				differ++
			}
			s.want(t, "world", had, cluster, external, node)
		}
		if differ == 0 {
			t.Error("clients of another port come to the same endpoint each time")
		}
	})
}

// clients counts the clients that the kernel remembers.
func (s *affinitySite) clients(t *testing.T) int {
	t.Helper()
	f := nat4
	if s.ipv6 {
		f = nat6
	}
	list, err := s.nat.Elements(f.proto, natTable, mapClients)
	must(t, err)
	return len(list)
}

// Only an established connection adds a client: the source of its first packet may be forged.
func TestForgedClientsAreNotRemembered(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *affinitySite) {
		cluster, external, node := s.frontends()
		web := s.to(cluster, all, 1, 2, 3)
		dns := s.to(cluster, all, 1, 2, 3)
		dns.Protocol = vpp_nat.DNat44_UDP
		s.serve(t, web, s.to(external, all, 1, 2, 3), s.to(node, inside, 1, 2), s.to(node, outside, 2, 3), dns)
		for i, protocol := range []string{"tcp", "udp"} {
			s.protocol = protocol
			for _, from := range []string{"world", "pod2", "node"} {
				for range 3 {
					s.knock(t, from, cluster)
				}
			}
			if n := s.clients(t); n != i {
				t.Fatalf("%d clients are remembered after first packets, want %d", n, i)
			}
			endpoint, connect := s.knock(t, "world", cluster)
			connect()
			if n := s.clients(t); n != i+1 {
				t.Errorf("%d clients are remembered after a connection, want %d", n, i+1)
			}
			s.want(t, "world", endpoint, cluster)
		}
		s.protocol = ""
		s.want(t, "pod2", s.ask(t, "pod2", node), cluster, external, node)
		s.want(t, "node", s.ask(t, "node", cluster), cluster)
		for _, mark := range s.Marks() {
			if mark != 0 {
				t.Errorf("mark %#x stays", mark)
			}
		}
	})
}

// First packets with the source of a client do not prolong its time.
func TestFirstPacketsDoNotRenew(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *affinitySite) {
		cluster, _, _ := s.frontends()
		s.serve(t, s.to(cluster, all, 1, 2, 3))
		had := s.ask(t, "world", cluster)
		s.Kernel.Pass(400 * time.Second)
		if is, _ := s.knock(t, "world", cluster); is != had {
			t.Errorf("comes to %s, was with %s", is, had)
		}
		s.Kernel.Pass(200 * time.Second)
		if n := s.clients(t); n != 0 {
			t.Errorf("%d clients are remembered 600 s after the last connection", n)
		}
	})
}

// A connection that only the endpoint answers adds no client.
func TestConnectionsThatOnlyAnswer(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *affinitySite) {
		cluster, _, _ := s.frontends()
		s.serve(t, s.to(cluster, all, 1, 2, 3))
		sent := packetOf(vswitchtest.ServiceProbe{From: "world", Dst: cluster}, 1)
		o, err := s.Send(sent)
		must(t, err)
		for range 2 {
			_, err = s.Send(o.Answer(sent))
			must(t, err)
		}
		if n := s.clients(t); n != 0 {
			t.Errorf("%d clients are remembered that confirmed no answer", n)
		}
	})
}

// Connections that a client opens at the same time come to one endpoint, although none of them is
// established yet.
func TestConnectionsAtTheSameTime(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *affinitySite) {
		cluster, external, node := s.frontends()
		s.serve(t, s.to(cluster, all, 1, 2, 3), s.to(external, all, 1, 2, 3), s.to(node, all, 1, 2, 3))
		came := map[string]bool{}
		for range 8 {
			s.forgetAll()
			first, connect := s.knock(t, "world", cluster)
			for _, to := range []netip.AddrPort{external, node, cluster} {
				if is, _ := s.knock(t, "world", to); is != first {
					t.Errorf("comes to %s by %v, and to %s", is, to, first)
				}
			}
			connect()
			s.want(t, "world", first, cluster, external, node)
			came[first] = true
		}
		if len(came) < 2 {
			t.Errorf("comes to %v only", came)
		}
	})
}

// Clients that have no place are served, and counted.
func TestMoreClientsThanAreRemembered(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *affinitySite) {
		cluster, _, _ := s.frontends()
		s.serve(t, s.to(cluster, all, 1, 2, 3))
		had := s.ask(t, "pod2", cluster)
		s.Kernel.Fill(mapClients)
		came := map[string]bool{}
		for range 9 {
			came[s.ask(t, "world", cluster)] = true
		}
		if len(came) != 3 {
			t.Errorf("a client without a place comes to %v only", came)
		}
		s.want(t, "pod2", had, cluster)
		if n := s.clients(t); n != 1 {
			t.Errorf("%d clients are remembered, want 1", n)
		}
		if n, err := s.ClientsNotRemembered(t.Context()); err != nil || n == 0 {
			t.Errorf("counts %d clients (%v)", n, err)
		}
	})
}

// Neither the start of an agent nor a change of endpoints lists the clients, who may be a million,
// or adds a rule for them, for which the kernel visits them all.
// A client whose endpoint went while there was no agent comes to another one, and stays there.
func TestClientsAreNeverListed(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *affinitySite) {
		cluster, external, node := s.frontends()
		mappings := func(pods ...int) []*vpp_nat.DNat44_StaticMapping {
			return []*vpp_nat.DNat44_StaticMapping{s.to(cluster, all, pods...), s.to(external, all, pods...), s.to(node, all, pods...)}
		}
		s.serve(t, mappings(1, 2, 3)...)
		for s.ask(t, "world", node) != "pod3" {
			s.forgetAll()
		}
		upgraded, kernel := restarted(s.Host)
		upgraded.forget, s.Driver = s.Driver.forget, upgraded
		kernel.refused = mapClients
		must(t, upgraded.NAT44().Enable(t.Context(), &vpp_nat.Nat44Global{Forwarding: true}))
		upgraded.ReadAhead()
		value := &vpp_nat.DNat44{Label: "default/web", StMappings: mappings(1, 2, 3)}
		if s.ipv6 {
			value6 := vswitch.DNAT66FromDNAT44(value)
			list, err := upgraded.DestinationNAT66().List(t.Context(), []*contiv_nat.DNat66{value6})
			if must(t, err); len(list) != 1 || !proto.Equal(list[0], value6) {
				t.Errorf("found %v, want %v", list, value6)
			}
		} else {
			list, err := upgraded.NAT44().ListDNAT(t.Context(), []*vpp_nat.DNat44{value})
			if must(t, err); len(list) != 1 || !proto.Equal(list[0], value) {
				t.Errorf("found %v, want %v", list, value)
			}
		}
		s.serve(t, mappings(1, 2)...)
		now := s.ask(t, "world", node)
		if now == "pod3" {
			t.Error("comes to an endpoint that is gone")
		}
		s.want(t, "world", now, cluster, external, node)
		s.serve(t, mappings(1, 2, 3)...)
		s.want(t, "world", now, cluster, external, node)
	})
}
