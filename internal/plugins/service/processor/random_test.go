package processor_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/plugins/service/oracle"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"google.golang.org/protobuf/proto"
)

type world struct{ *rand.Rand }

func pick[T any](w world, of ...T) T { return of[w.IntN(len(of))] }
func (w world) often() bool          { return w.IntN(4) > 0 }
func (w world) seldom() bool         { return w.IntN(6) == 0 }
func (w world) some(of ...string) (list []string) {
	for _, s := range of {
		if w.IntN(2) == 0 {
			list = append(list, s)
		}
	}
	return list
}

func (w world) node() oracle.Node {
	n := oracle.Node{
		Name: "node1", Zone: pick(w, "", "a", "b"),
		PodSubnets: []netip.Prefix{netip.MustParsePrefix("10.1.1.0/24"), netip.MustParsePrefix("fd10:1::/64")},
		Addresses:  []netip.Addr{netip.MustParseAddr("192.168.16.1"), netip.MustParseAddr("172.16.0.1"), netip.MustParseAddr("fd00::1")},
	}
	n.NodePorts = n.Addresses[w.IntN(2):]
	return n
}

func asNode(n oracle.Node) processor.Node {
	return processor.Node{Name: n.Name, Zone: n.Zone, PodSubnets: n.PodSubnets, Addresses: n.Addresses, NodePorts: n.NodePorts}
}

var portNames = []string{"http", "dns", "dns-tcp", "sctp"}

func (w world) service() *service.Service {
	s := &service.Service{
		Name: "web", Namespace: "default", ServiceType: pick(w, "ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"),
		ClusterIp: "10.96.0.10", ClusterIps: []string{"10.96.0.10", "fd96::10"},
		ExternalTrafficPolicy: pick(w, "Cluster", "Local"), InternalTrafficPolicy: pick(w, "Cluster", "Cluster", "Local"),
		ExternalIps: w.some("203.0.113.1", "2001:db8::1"), LbIngressIps: w.some("203.0.113.2", "203.0.113.1", "2001:db8::2", "192.168.16.1"),
		PublishNotReadyAddresses: w.seldom(),
	}
	if !w.often() {
		s.LoadbalancerSourceRanges = pick(w, []string{"10.1.1.0/24"}, []string{"192.0.2.9/32", "fd10:1::/64"}, []string{"2001:db8:c::/48"})
	}
	switch w.IntN(12) {
	case 0:
		s.ClusterIp, s.ClusterIps = "None", []string{"None"}
	case 1:
		s.ServiceType, s.ClusterIp, s.ClusterIps = "ExternalName", "", nil
	case 2:
		s.ClusterIps = nil
	case 3:
		s.ClusterIp, s.ClusterIps = "fd96::10", []string{"fd96::10"}
	case 4:
		s.Labels = pick(w, map[string]string{"service.kubernetes.io/service-proxy-name": "other"}, map[string]string{"service.kubernetes.io/service-proxy-name": ""}, map[string]string{"service.kubernetes.io/headless": ""})
	}
	for i, name := range portNames {
		if w.often() {
			p := &service.Service_ServicePort{Name: name, Protocol: []string{"TCP", "UDP", "TCP", "SCTP"}[i], Port: []int32{80, 53, 53, 99}[i]}
			if w.often() {
				p.NodePort = int32(30000 + i)
			}
			s.Port = append(s.Port, p)
		}
	}
	return s
}

func (w world) slice(name string) *endpointslice.EndpointSlice {
	s := &endpointslice.EndpointSlice{Name: name, Namespace: "default", Service: "web", AddressType: endpointslice.EndpointSlice_IPv4}
	subnet := "10.1.%d.%d"
	if w.IntN(2) == 0 {
		s.AddressType, subnet = endpointslice.EndpointSlice_IPv6, "fd10:%d::%d"
	}
	for i, port := range portNames {
		if w.often() { // named target ports differ per pod and then have separate slices
			s.Ports = append(s.Ports, &endpointslice.EndpointSlice_Port{Name: port, Protocol: []string{"TCP", "UDP", "TCP", "SCTP"}[i], Port: int32(8000 + i + 10*w.IntN(2))})
		}
	}
	hints := w.IntN(3)
	for range w.IntN(5) {
		node := 1 + w.IntN(3)
		number := 2 + w.IntN(3)
		e := &endpointslice.EndpointSlice_Endpoint{Addresses: []string{fmt.Sprintf(subnet, node, number)}, NodeName: fmt.Sprintf("node%d", node)}
		if w.often() {
			e.TargetRef = &endpointslice.EndpointSlice_ObjectReference{
				Kind: pick(w, "Pod", "Pod", "Pod", "VirtualMachine"), Namespace: pick(w, "", "default", "default", "other"), Name: fmt.Sprintf("pod-%d-%d", node, number),
			}
		}
		if w.seldom() {
			e.NodeName = ""
		}
		if w.seldom() && s.AddressType == endpointslice.EndpointSlice_IPv4 {
			e.Addresses[0] = fmt.Sprintf("192.168.16.%d", node) // on the host network
		}
		switch w.IntN(5) {
		case 0:
		case 1:
			e.Serving, e.Terminating = true, true
		default:
			e.Ready, e.Serving = true, true
		}
		if hints > 0 && !w.seldom() {
			e.ForZones = w.some("a", "b")
		}
		if hints > 1 && !w.seldom() {
			e.ForNodes = w.some("node1", "node2")
		}
		// Only different slices may repeat an endpoint.
		if !slices.ContainsFunc(s.Endpoints, func(o *endpointslice.EndpointSlice_Endpoint) bool { return o.Addresses[0] == e.Addresses[0] }) {
			s.Endpoints = append(s.Endpoints, e)
		}
	}
	return s
}

func (w world) published(node int) (list []oracle.Published) {
	for pod := range 9 {
		of, number := 1+pod/3, 2+pod%3
		if !w.often() || of != node && !w.seldom() {
			continue
		}
		from := node
		if w.seldom() {
			from = 1 + w.IntN(3)
		}
		p := oracle.Published{Namespace: pick(w, "default", "default", "other"), Name: fmt.Sprintf("pod-%d-%d", of, number)}
		for _, text := range w.some(fmt.Sprintf("10.1.%d.%d", from, 100+number), fmt.Sprintf("fd10:%d::%d", from, 100+number), "10.96.0.10") {
			p.Addrs = append(p.Addrs, netip.MustParseAddr(text))
		}
		list = append(list, p)
	}
	return list
}

func redirects(p *processor.Processor, published map[string][]oracle.Published) []processor.ID {
	all := processor.Redirects{}
	for node, pods := range published {
		for _, pod := range pods {
			all.Add(node, oracle.SubnetsOf(node), processor.ID{Namespace: pod.Namespace, Name: pod.Name}, "net1", pod.Addrs...)
		}
	}
	return p.SetRedirects(all)
}

func questions() (list []oracle.Connection) {
	clients := map[bool][]string{false: {"10.1.1.9", "192.0.2.9"}, true: {"fd10:1::9", "2001:db8:c::9"}}
	for _, addr := range []string{
		"10.96.0.10", "fd96::10", "203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8::2", "192.168.16.1", "172.16.0.1", "fd00::1", "192.168.16.2", "10.96.0.11",
	} {
		to := netip.MustParseAddr(addr)
		for _, port := range []uint16{80, 53, 99, 30000, 30001, 30002, 30003, 81} {
			for _, protocol := range []string{"TCP", "UDP", "SCTP"} {
				for _, inside := range []bool{true, false} {
					for _, from := range clients[to.Is6()] {
						list = append(list, oracle.Connection{Inside: inside, From: netip.MustParseAddr(from), To: netip.AddrPortFrom(to, port), Protocol: protocol})
					}
				}
			}
		}
	}
	return list
}

func rendered(both [2]*processor.Service, c oracle.Connection) oracle.Fate {
	s := both[0]
	if c.To.Addr().Is6() {
		s = both[1]
	}
	if s == nil {
		return oracle.Fate{Verdict: oracle.None}
	}
	for _, f := range s.Frontends {
		if f.Addr != c.To || string(f.Protocol) != c.Protocol {
			continue
		}
		if f.Restricted && !slices.ContainsFunc(f.Sources, func(p netip.Prefix) bool { return p.Contains(c.From) }) {
			return oracle.Fate{Verdict: oracle.Drop, Source: true}
		}
		to, answer := f.Inside, oracle.Fate{Verdict: oracle.Forward, Source: c.Inside || f.KeepSource}
		if !c.Inside {
			to = f.Outside
		}
		if len(to) == 0 {
			answer.Verdict = oracle.Refuse
			if f.Drop && !c.Inside {
				answer.Verdict = oracle.Drop
			}
			return answer
		}
		answer.To = map[string]bool{}
		for _, e := range to {
			answer.To[e.Addr.String()] = true
		}
		return answer
	}
	return oracle.Fate{Verdict: oracle.None}
}

// The order of events and the previous state do not matter.
func TestRandomClusters(t *testing.T) {
	id := processor.ID{Namespace: "default", Name: "web"}
	all, seen := questions(), map[string]int{}
	for seed := range uint64(800) {
		w := world{rand.New(rand.NewPCG(seed, 15))}
		p := processor.New()
		o := oracle.Service{Published: map[string][]oracle.Published{}}
		slicesOf := map[string]*endpointslice.EndpointSlice{}
		var events []func()
		node := func() {
			n := w.node()
			events = append(events, func() { p.SetNode(asNode(n)); o.Node = n })
		}
		svc := func() {
			s := w.service()
			gone := w.seldom()
			events = append(events, func() {
				if p.SetService(s); gone {
					p.RemoveService("default", "web")
					o.Service = nil
					return
				}
				o.Service = s
			})
		}
		slice := func(name string) {
			s := w.slice(name)
			gone := w.seldom()
			events = append(events, func() {
				p.SetSlice(slicesOf[name], s)
				if slicesOf[name] = s; gone {
					p.RemoveSlice(s)
					delete(slicesOf, name)
				}
			})
		}
		for range 1 + w.IntN(2) {
			node()
			svc()
		}
		for _, name := range []string{"s1", "s2", "s3", "s4"} {
			for range w.IntN(3) {
				slice(name)
			}
		}
		for range w.IntN(6) {
			n := 1 + w.IntN(3)
			pods := w.published(n)
			events = append(events, func() {
				o.Published[fmt.Sprintf("node%d", n)] = pods
				before := [2]*processor.Service{p.Service(id, false), p.Service(id, true)}
				changed := redirects(p, o.Published)
				if now := [2]*processor.Service{p.Service(id, false), p.Service(id, true)}; len(changed) == 0 && !reflect.DeepEqual(before, now) {
					t.Fatalf("seed %d: a redirect is not reported: %+v, before %+v", seed, now, before)
				}
			})
		}
		w.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		for _, event := range events {
			event()
		}
		o.Slices = slices.Collect(maps.Values(slicesOf))
		both := [2]*processor.Service{p.Service(id, false), p.Service(id, true)}
		for _, c := range all {
			want, got := o.Ask(c), rendered(both, c)
			if want.Verdict != got.Verdict || !maps.Equal(want.To, got.To) || want.Source != got.Source {
				t.Fatalf("seed %d: %+v\n got %+v\nwant %+v\nservice %v\nslices %v\nnode %+v", seed, c, got, want, o.Service, o.Slices, o.Node)
			}
			seen[fmt.Sprint(want.Verdict, want.Source)]++
			if anybody := (oracle.Connection{Inside: c.Inside, To: c.To, Protocol: c.Protocol}); want.Verdict == oracle.Drop && o.Ask(anybody).Verdict == oracle.Forward {
				seen["not in source ranges"]++
			}
			for to := range want.To {
				if addr := netip.MustParseAddrPort(to).Addr().String(); strings.HasPrefix(addr, "10.1.") && len(addr) > len("10.1.1.1") || strings.Contains(addr, "::10") {
					seen["redirected"]++
				}
			}
		}
		unchangedByRepetition(t, p, o, slicesOf, both)
	}
	for _, kind := range []string{"forwardtrue", "forwardfalse", "refusetrue", "refusefalse", "droptrue", "nonefalse", "redirected", "not in source ranges"} {
		if seen[kind] < 50 {
			t.Errorf("too few questions with the answer %q: %v", kind, seen)
		}
	}
}

// A reset processor with the final state returns the same.
func unchangedByRepetition(t *testing.T, p *processor.Processor, o oracle.Service, of map[string]*endpointslice.EndpointSlice, was [2]*processor.Service) {
	t.Helper()
	p.Reset()
	for _, s := range of {
		p.SetSlice(nil, proto.CloneOf(s))
	}
	if o.Service != nil {
		p.SetService(o.Service)
	}
	p.SetNode(asNode(o.Node))
	redirects(p, o.Published)
	for i, ipv6 := range []bool{false, true} {
		if got := p.Service(processor.ID{Namespace: "default", Name: "web"}, ipv6); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", was[i]) {
			t.Fatalf("after a restart:\n%+v\nbefore:\n%+v", got, was[i])
		}
	}
}
