package policies

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/netlink/nft/nfttest"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// site is a driver with a simulated host: left is 10.21.0.0/24, right 10.22.0.0/24, and the same
// with IPv6.
type site struct {
	*nfttest.Host
	driver *Driver
	values []proto.Message
}

func newSite() *site {
	s := &site{Host: nfttest.NewHost()}
	s.Local = func(netip.Addr) bool { return false }
	s.Route = func(to netip.Addr) string {
		for device, networks := range map[string][]string{"left": {"10.21.0.0/24", "fd21::/64"}, "right": {"10.22.0.0/24", "fd22::/64"}} {
			for _, network := range networks {
				if netip.MustParsePrefix(network).Contains(to) {
					return device
				}
			}
		}
		return ""
	}
	s.driver = New(nft.New(s.Kernel), s.ClearMarks, slog.New(slog.DiscardHandler))
	return s
}

func (s *site) set(t *testing.T, values ...proto.Message) {
	t.Helper()
	if err := s.driver.Change(t.Context(), values, without(s.values, values)); err != nil {
		t.Fatal(err)
	}
	s.values = values
}

func without(list, other []proto.Message) (rest []proto.Message) {
	for _, v := range list {
		found := false
		for _, o := range other {
			found = found || nameOf(v) == nameOf(o) && v.ProtoReflect().Descriptor() == o.ProtoReflect().Descriptor()
		}
		if !found {
			rest = append(rest, v)
		}
	}
	return rest
}

func nameOf(v proto.Message) string { return v.(interface{ GetName() string }).GetName() }

func opening(p vswitchtest.FilterProbe) nfttest.Packet {
	packet := nfttest.Packet{Src: netip.AddrPortFrom(p.Src, 40000), Dst: netip.AddrPortFrom(p.Dst, p.Port)}
	switch {
	case p.Network == "tcp":
		packet.Protocol = unix.IPPROTO_TCP
	case p.Network == "udp":
		packet.Protocol = unix.IPPROTO_UDP
	case p.Src.Is4():
		packet.Protocol, packet.Type = unix.IPPROTO_ICMP, 8
	default:
		packet.Protocol, packet.Type = unix.IPPROTO_ICMPV6, 128
	}
	return packet
}

func (s *site) send(t *testing.T, p nfttest.Packet) nfttest.Outcome {
	t.Helper()
	p.In = s.Route(p.Src.Addr())
	o, err := s.Send(p)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// IPVS sends its clients' packets from the node. They pass if they would pass when forwarded. The
// node's own packets always pass.
func TestPacketsFromTheNodeAreJudgedByTheirSource(t *testing.T) {
	s := newSite()
	for _, c := range vswitchtest.FilterCases() {
		t.Run(c.Name, func(t *testing.T) {
			s.set(t, c.Values...)
			for _, p := range c.Probes {
				for _, own := range []bool{false, true} {
					s.Forget()
					s.Local = func(addr netip.Addr) bool { return own && addr == p.Src }
					o, err := s.Send(opening(p))
					if want := own || p.Passes; err != nil || o.Passed != want {
						t.Errorf("%s from %v to %v, port %d, an address of the node %v: passed %v, want %v; by %q (%v)", p.Network, p.Src, p.Dst, p.Port, own, o.Passed, want, o.By, err)
					}
				}
			}
		})
	}
}

// The cases of the conformance suite give the same results on the simulated host: the opening
// packet of each connection, and the reply if it passes.
func TestConformanceCasesInMemory(t *testing.T) {
	s := newSite()
	for _, c := range vswitchtest.FilterCases() {
		t.Run(c.Name, func(t *testing.T) {
			s.set(t, c.Values...)
			for _, p := range c.Probes {
				s.Forget()
				sent := opening(p)
				o := s.send(t, sent)
				if o.Passed != p.Passes {
					t.Errorf("%s from %v to %v, port %d: passed %v, want %v; by %q, after %q", p.Network, p.Src, p.Dst, p.Port, o.Passed, p.Passes, o.By, o.Trace)
				}
				if !o.Passed {
					continue
				}
				if back := s.send(t, o.Answer(sent)); !back.Passed {
					t.Errorf("the answer to %s from %v to %v, port %d is dropped by %q", p.Network, p.Src, p.Dst, p.Port, back.By)
				}
			}
		})
	}
}

// For random values, packets pass exactly as package policyrules computes, even with sets and unions
// beyond their limits.
func TestRandomValuesInMemory(t *testing.T) {
	for seed, limits := range []limits{usualLimits, {set: 3, union: usualLimits.union}, {set: 4, union: 8}, {union: 2}} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) { randomValues(t, uint64(seed), limits) })
	}
}

func randomValues(t *testing.T, seed uint64, limits limits) {
	random := rand.New(rand.NewPCG(seed, 7))
	s, reference := newSite(), policyrules.NewState()
	s.driver.limits = limits
	var addrs []netip.Addr
	for n := 2; n < 6; n++ {
		for _, text := range []string{"10.21.0.%d", "fd21::%d", "10.22.0.%d", "fd22::%d"} {
			addrs = append(addrs, netip.MustParseAddr(fmt.Sprintf(text, n)))
		}
	}
	present := map[string]proto.Message{}
	for round := range 300 {
		if random.IntN(20) == 0 {
			s.restart(t, slices.Collect(maps.Values(present)))
		}
		v := randomValue(random, addrs)
		key := fmt.Sprintf("%T %s", v, nameOf(v))
		if present[key] != nil && random.IntN(3) == 0 {
			if err := s.driver.Remove(t.Context(), v); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			reference.Remove(v)
			delete(present, key)
		} else {
			if err := s.driver.Set(t.Context(), v); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			reference.Put(v)
			present[key] = v
		}
		for range 30 {
			p := vswitchtest.FilterProbe{Src: addrs[random.IntN(len(addrs))], Network: []string{"tcp", "udp", "ping"}[random.IntN(3)], Port: uint16(80 + random.IntN(4))}
			for p.Dst = addrs[random.IntN(len(addrs))]; p.Dst.Is6() != p.Src.Is6() || p.Dst == p.Src; {
				p.Dst = addrs[random.IntN(len(addrs))]
			}
			s.Forget()
			packet := opening(p)
			want := reference.Judge(policyrules.Connection{Src: p.Src, Dst: p.Dst, Protocol: packet.Protocol, Port: p.Port})
			if o := s.send(t, packet); o.Passed != want.Allowed {
				t.Fatalf("round %d, after %v: %s from %v to %v, port %d: passed %v by %q, want %+v; values %v", round, v, p.Network, p.Src, p.Dst, p.Port, o.Passed, o.By, want, present)
			}
		}
	}
}

// restart replaces the driver, which lists the values.
func (s *site) restart(t *testing.T, values []proto.Message) {
	t.Helper()
	limits := s.driver.limits
	s.driver = New(nft.New(s.Kernel), s.ClearMarks, slog.New(slog.DiscardHandler))
	s.driver.limits = limits
	found, err := s.driver.List(t.Context(), values)
	if err != nil {
		t.Fatal(err)
	}
	missing := slices.DeleteFunc(slices.Clone(values), func(v proto.Message) bool { return slices.Contains(found, v) })
	if err := s.driver.Change(t.Context(), missing, without(found, values)); err != nil {
		t.Fatal(err)
	}
}

func randomValue(random *rand.Rand, addrs []netip.Addr) proto.Message {
	some := func(kind string) (names []string) {
		for n := range 3 {
			if random.IntN(2) == 0 {
				names = append(names, fmt.Sprint(kind, n))
			}
		}
		return names
	}
	switch n := random.IntN(3); random.IntN(4) {
	case 0:
		set := &contiv_filter.AddressSet{Name: fmt.Sprint("set", n)}
		for _, a := range addrs {
			if random.IntN(3) == 0 {
				set.Addresses = append(set.Addresses, a.String())
			}
		}
		return set
	case 1:
		set := &contiv_filter.EndpointSet{Name: fmt.Sprint("endpoints", n)}
		for _, a := range addrs {
			if random.IntN(3) == 0 {
				set.Endpoints = append(set.Endpoints, &contiv_filter.EndpointSet_Endpoint{Address: a.String(), Protocol: contiv_filter.Protocol(random.IntN(2)), Port: uint32(80 + random.IntN(4))})
			}
		}
		return set
	case 2:
		list := &contiv_filter.AccessList{Name: fmt.Sprint("list", n), Direction: contiv_filter.AccessList_Direction(random.IntN(2))}
		for range random.IntN(4) {
			rule := &contiv_filter.AccessList_Rule{Action: contiv_filter.AccessList_Action(random.IntN(3)), AddressSets: some("set")}
			if random.IntN(3) == 0 {
				rule.EndpointSets = some("endpoints")
			}
			if random.IntN(3) == 0 {
				rule.Networks = []string{[]string{"10.21.0.0/30", "10.22.0.0/16", "fd21::/64", "0.0.0.0/0", "fd22::4/127"}[random.IntN(5)]}
			}
			if random.IntN(2) == 0 {
				first := uint32(80 + random.IntN(4))
				rule.Ports = []*contiv_filter.AccessList_Ports{{Protocol: contiv_filter.Protocol(random.IntN(2)), First: first, Last: first + uint32(random.IntN(2))}}
			}
			list.Rules = append(list.Rules, rule)
		}
		return list
	default:
		subject := &contiv_filter.Subject{Name: fmt.Sprint("pod", n), Addresses: []string{addrs[4*n].String(), addrs[4*n+1].String()}}
		stages := func() (list []*contiv_filter.Subject_Stage) {
			for range random.IntN(3) {
				list = append(list, &contiv_filter.Subject_Stage{Lists: some("list"), Deny: random.IntN(2) == 0})
			}
			return list
		}
		subject.Ingress, subject.Egress = stages(), stages()
		return subject
	}
}

// A change of values re-evaluates an existing connection, whichever direction its next packet has.
func TestConnectionsAreJudgedAgainInMemory(t *testing.T) {
	s := newSite()
	probe := vswitchtest.FilterProbe{Src: netip.MustParseAddr("10.21.0.2"), Dst: netip.MustParseAddr("10.22.0.3"), Network: "tcp", Port: 80}
	subject := &contiv_filter.Subject{Name: "prod/right", Addresses: []string{"10.22.0.3"}, Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{"l"}, Deny: true}}}
	list := &contiv_filter.AccessList{Name: "l", Rules: []*contiv_filter.AccessList_Rule{{AddressSets: []string{"clients"}}}}
	clients := func(addrs ...string) proto.Message {
		return &contiv_filter.AddressSet{Name: "clients", Addresses: addrs}
	}
	there := opening(probe)
	s.set(t, subject, list, clients("10.21.0.2"))
	back := s.send(t, there).Answer(there)
	want := func(when string, passes bool) {
		t.Helper()
		for name, p := range map[string]nfttest.Packet{"there": there, "back": back} {
			if o := s.send(t, p); o.Passed != passes {
				t.Errorf("%s, %s: passed %v, want %v; by %q", when, name, o.Passed, passes, o.By)
			}
		}
	}
	want("at first", true)
	s.set(t, subject, list, clients("10.21.0.9"))
	want("the client is in the set no more", false)
	s.set(t, subject, list, clients("10.21.0.2"))
	want("it is again", true)
	s.set(t, subject, list, clients("10.21.0.2"), &contiv_filter.Subject{Name: "prod/left", Addresses: []string{"10.21.0.2"}, Egress: []*contiv_filter.Subject_Stage{{Deny: true}}})
	want("it may not open connections", false)
	s.set(t)
	want("nothing is judged", true)
}

// The first subject of an IP version adds its rules and sets to existing lists. No additional
// packet passes meanwhile, nor after a restart.
func TestRulesAreOfTheVersionsOfSubjects(t *testing.T) {
	s := newSite()
	probe := func(src, dst string, port uint16) vswitchtest.FilterProbe {
		return vswitchtest.FilterProbe{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), Network: "tcp", Port: port}
	}
	subject := func(addrs ...string) proto.Message {
		return &contiv_filter.Subject{Name: "prod/right", Addresses: addrs, Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{"l"}, Deny: true}}}
	}
	clients := &contiv_filter.AddressSet{Name: "clients", Addresses: []string{"10.21.0.2", "fd21::2"}}
	list := &contiv_filter.AccessList{Name: "l", Rules: []*contiv_filter.AccessList_Rule{
		{AddressSets: []string{"clients"}, Ports: []*contiv_filter.AccessList_Ports{{Protocol: contiv_filter.Protocol_TCP, First: 80, Last: 80}}},
	}}
	of6 := func() (names []string) {
		for name := range s.driver.have.sets {
			if strings.HasPrefix(name, addressSet+"6-") {
				names = append(names, name)
			}
		}
		return names
	}
	want := func(when string, passes map[vswitchtest.FilterProbe]bool) {
		t.Helper()
		for p, want := range passes {
			s.Forget()
			if o := s.send(t, opening(p)); o.Passed != want {
				t.Errorf("%s: from %v to %v, port %d: passed %v, want %v; by %q", when, p.Src, p.Dst, p.Port, o.Passed, want, o.By)
			}
		}
	}
	four := map[vswitchtest.FilterProbe]bool{
		probe("10.21.0.2", "10.22.0.3", 80): true, probe("10.21.0.2", "10.22.0.3", 81): false, probe("10.21.0.9", "10.22.0.3", 80): false,
	}
	six := map[vswitchtest.FilterProbe]bool{
		probe("fd21::2", "fd22::3", 80): true, probe("fd21::2", "fd22::3", 81): false, probe("fd21::9", "fd22::3", 80): false,
	}

	s.set(t, clients, list, subject("10.22.0.3"))
	want("with IPv4", four)
	if sets := of6(); len(sets) > 0 {
		t.Errorf("no subject has IPv6, but the sets %q exist", sets)
	}
	s.driver = New(nft.New(s.Kernel), s.ClearMarks, slog.New(slog.DiscardHandler))
	if found, err := s.driver.List(t.Context(), s.values); err != nil || len(found) != len(s.values) {
		t.Errorf("after a restart, %d of %d values are found, %v", len(found), len(s.values), err)
	}
	if err := s.driver.Set(t.Context(), subject("10.22.0.3", "fd22::3")); err != nil {
		t.Fatal(err)
	}
	want("with both", four)
	want("with both", six)
	s.driver = New(nft.New(s.Kernel), s.ClearMarks, slog.New(slog.DiscardHandler))
	s.values = []proto.Message{clients, list, subject("10.22.0.3", "fd22::3")}
	if found, err := s.driver.List(t.Context(), s.values); err != nil || len(found) != len(s.values) {
		t.Errorf("after another restart, %d of %d values are found, %v", len(found), len(s.values), err)
	}
	want("after another restart", six)
}

// Connection marks outlive the values, the table and the agent. A connection that was once allowed
// is judged by later values.
func TestConnectionsAreJudgedAgainByALaterTable(t *testing.T) {
	there := opening(vswitchtest.FilterProbe{Src: netip.MustParseAddr("10.21.0.2"), Dst: netip.MustParseAddr("10.22.0.3"), Network: "udp", Port: 80})
	subject := func(deny bool) proto.Message {
		return &contiv_filter.Subject{Name: "prod/right", Addresses: []string{"10.22.0.3"}, Ingress: []*contiv_filter.Subject_Stage{{Deny: deny}}}
	}
	for name, between := range map[string]func(*site){
		"nothing":                 func(*site) {},
		"the agent restarts":      func(s *site) { s.restart(t, nil) },
		"others remove the table": func(s *site) { s.removeTable(t) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite()
			for range 5 {
				s.set(t, subject(false))
				if o := s.send(t, s.send(t, there).Answer(there)); !o.Passed {
					t.Fatalf("%q drops an answer that nothing denies", o.By)
				}
			}
			s.set(t, subject(true))
			if o := s.send(t, there); o.Passed {
				t.Errorf("a connection that is denied passes")
			}
			s.set(t)
			between(s)
			for n := range 10 {
				s.set(t, subject(true), addressSetOf(n))
				if o := s.send(t, there); o.Passed {
					t.Errorf("after %d changes, a connection that is denied passes", n)
				}
			}
		})
	}
}

// Generation numbers recur. A connection that was idle meanwhile is judged by the current values,
// even if the agent restarts or another party removes the table.
func TestASilentConnectionDoesNotMeetItsGenerationAgain(t *testing.T) {
	there := opening(vswitchtest.FilterProbe{Src: netip.MustParseAddr("10.21.0.2"), Dst: netip.MustParseAddr("10.22.0.3"), Network: "udp", Port: 80})
	subject := func(deny bool) proto.Message {
		return &contiv_filter.Subject{Name: "prod/right", Addresses: []string{"10.22.0.3"}, Ingress: []*contiv_filter.Subject_Stage{{Deny: deny}}}
	}
	other := func(n int) proto.Message {
		return &contiv_filter.Subject{Name: "prod/other", Addresses: []string{fmt.Sprintf("10.22.0.%d", 4+n%2)}, Ingress: []*contiv_filter.Subject_Stage{{Deny: true}}}
	}
	for _, opened := range []int{1, 100, lastGeneration/2 - 1, lastGeneration / 2, lastGeneration/2 + 1, 60000, lastGeneration - 1, lastGeneration} {
		for name, between := range map[string]func(*site){
			"nothing":                 func(*site) {},
			"restarts":                func(s *site) { s.restart(t, nil) },
			"the table was removed":   func(s *site) { s.removeTable(t) },
			"the last agent knew not": func(s *site) { s.removeTable(t); s.restart(t, nil) },
		} {
			t.Run(fmt.Sprintf("opened in %d, %s", opened, name), func(t *testing.T) {
				s := newSite()
				s.set(t, subject(false))
				s.driver.judged = opened - 1
				if opened == 1 {
					s.driver.judged = lastGeneration
				}
				s.set(t, subject(false), other(1))
				if o := s.send(t, s.send(t, there).Answer(there)); !o.Passed {
					t.Fatalf("%q drops an answer that nothing denies", o.By)
				}
				s.set(t, subject(true), other(2))
				between(s)
				var passed []int
				s.set(t, subject(true), other(2))
				s.set(t, subject(true), other(3))
				for n := range lastGeneration {
					generation := (s.driver.judged+n)%lastGeneration + 1
					near := func(g int) bool { return generation-g >= -2 && generation-g <= 2 }
					if !near(1) && !near(lastGeneration/2) && !near(lastGeneration) && !near(opened) {
						continue
					}
					passed = append(passed, generation)
				}
				for n, generation := range passed {
					s.driver.judged = (generation+lastGeneration-2)%lastGeneration + 1
					s.set(t, subject(true), other(n))
					if s.driver.judged != generation {
						t.Fatalf("it is generation %d, want %d", s.driver.judged, generation)
					}
					for _, mark := range s.Marks() {
						if mark&markMask>>markShift == uint32(generation) {
							t.Fatalf("in generation %d, a connection that is denied passes", generation)
						}
					}
				}
				if o := s.send(t, there); o.Passed {
					t.Error("a connection that is denied passes")
				}
			})
		}
	}
}

func (s *site) removeTable(t *testing.T) {
	t.Helper()
	b := batch()
	b.DeleteTable()
	if err := nft.New(s.Kernel).Commit(&b); err != nil {
		t.Fatal(err)
	}
}
