package nat

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/netlink/nft"
	"github.com/contiv/contiv/netlink/nft/nfttest"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vswitchtest"
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
	ipv6  bool
	drawn uint32 // what the next packet draws
	port  uint16 // of the last connection
}

func newAffinitySite(t *testing.T, ipv6 bool) *affinitySite {
	t.Helper()
	v, h := newSite(t)
	must(t, v.ServiceNetworks().Create(t.Context(), &contiv_nat.ServiceNetwork{
		Inside: []string{"10.31.0.0/16", "fd31::/32"}, ServiceSubnets: []string{"10.96.0.0/16", "fd96::/64"},
	}))
	s := &affinitySite{Driver: v, Host: h, ipv6: ipv6, port: 1000}
	h.Random = func(n uint32) uint32 { return s.drawn % n }
	return s
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

// ask opens a connection from a pod or the world and returns its endpoint. Each call draws another
// slot.
func (s *affinitySite) ask(t *testing.T, from string, to netip.AddrPort) string {
	t.Helper()
	s.drawn++
	s.port++
	s.Forget()
	o, err := s.Send(packetOf(vswitchtest.ServiceProbe{From: from, Network: "tcp", Dst: to}, s.port))
	must(t, err)
	if !o.Passed || o.Dst.Port() != 8080 {
		t.Fatalf("from %s to %v: %+v", from, to, o)
	}
	return o.Out
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
				s.drawn++ // out of step with the addresses
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

// earlier rewrites the table as versions before nat-clients left it, with the endpoints of clients.
func (s *affinitySite) earlier(t *testing.T, has map[netip.AddrPort]int) {
	t.Helper()
	f := nat4
	if s.ipv6 {
		f = nat6
	}
	must(t, s.nat.Locked(func() error {
		b := f.batch()
		for _, scope := range natScopes {
			b.FlushChain(scope.chain())
		}
		for _, scope := range natScopes {
			b.DeleteSet(scope.port())
			b.DeleteSet(scope.apart())
			b.DeleteSet(scope.usable())
		}
		b.DeleteSet(mapClients)
		legacy := f.newSet(mapAffinity, f.affinity, f.backend)
		legacy.Dynamic, legacy.HasTimeout, legacy.Size = true, true, affinitySize
		b.AddSet(legacy)
		for at, pod := range has {
			client := packetOf(vswitchtest.ServiceProbe{From: "world", Dst: at}, 1).Src.Addr()
			b.AddElements([]nft.Element{{Set: mapAffinity, Key: serviceKey(at.Addr(), 6, at.Port()) + addrKey(client),
				Data: backendKey(netip.AddrPortFrom(addressAt(fmt.Sprint("pod", pod), at.Addr()).Next(), 8080))}})
		}
		return s.nat.Commit(b)
	}))
}

func TestAffinitySurvivesTheUpgrade(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *affinitySite) {
		cluster, external, node := s.frontends()
		mappings := []*vpp_nat.DNat44_StaticMapping{s.to(cluster, all, 1, 2, 3), s.to(external, all, 1, 2, 3), s.to(node, all, 1, 2, 3)}
		network := &contiv_nat.ServiceNetwork{Inside: []string{"10.31.0.0/16", "fd31::/32"}, ServiceSubnets: []string{"10.96.0.0/16", "fd96::/64"}}
		for pod := 1; pod <= 3; pod++ {
			s.forgetAll()
			s.serve(t, mappings...)
			s.earlier(t, map[netip.AddrPort]int{node: pod})
			upgraded, _ := restarted(s.Host)
			upgraded.forget, s.Driver = s.Driver.forget, upgraded
			found, err := upgraded.NAT44().Global(t.Context(), &vpp_nat.Nat44Global{Forwarding: true})
			if must(t, err); found != nil && !s.ipv6 {
				t.Fatal("the table of an earlier version is taken for one of this")
			}
			must(t, upgraded.NAT44().Enable(t.Context(), &vpp_nat.Nat44Global{Forwarding: true}))
			must(t, upgraded.ServiceNetworks().Create(t.Context(), network))
			s.serve(t, mappings...)
			s.want(t, "world", fmt.Sprint("pod", pod), node)
			s.Kernel.Pass(400 * time.Second)
			s.want(t, "world", fmt.Sprint("pod", pod), node)
			// A new address gives the client one endpoint for all addresses.
			s.want(t, "world", s.ask(t, "world", cluster), cluster, external, node)
			s.forgetAll()
			s.want(t, "world", s.ask(t, "world", node), cluster, external, node)
		}
	})
}

func TestClientsOfEndpointsThatWentUnseen(t *testing.T) {
	eachVersion(t, func(t *testing.T, s *affinitySite) {
		cluster, external, node := s.frontends()
		s.serve(t, s.to(cluster, all, 1, 2, 3), s.to(external, all, 1, 2, 3), s.to(node, all, 1, 2, 3))
		for s.ask(t, "world", node) != "pod3" {
			s.forgetAll()
		}
		d := s.dnat4()
		if s.ipv6 {
			d = s.dnat6()
		}
		fewer := []*vpp_nat.DNat44_StaticMapping{s.to(cluster, all, 1, 2), s.to(external, all, 1, 2), s.to(node, all, 1, 2)}
		value := &vpp_nat.DNat44{Label: "default/web", StMappings: fewer}
		mappings, err := d.render(value)
		must(t, err)
		must(t, d.nat.Locked(func() error { // no clients are deleted
			_, err := d.apply([]natChange{{label: value.GetLabel(), value: value, mappings: mappings}})
			return err
		}))
		upgraded, _ := restarted(s.Host)
		upgraded.forget, s.Driver = s.Driver.forget, upgraded
		d.Driver, d.state = upgraded, &upgraded.nat.dnat
		if s.ipv6 {
			d.state = &upgraded.nat.dnat6
		}
		for _, good := range []bool{false, true} {
			list, err := d.list([]*vpp_nat.DNat44{value})
			must(t, err)
			if is := len(list) == 1 && proto.Equal(list[0], value); is != good {
				t.Errorf("found %v, as it should be: %v, want %v", list, is, good)
			}
			must(t, d.set([]*vpp_nat.DNat44{value}))
		}
		s.want(t, "world", s.ask(t, "world", node), cluster, external, node)
	})
}
