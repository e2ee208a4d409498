package processor

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/plugins/service/reserved"
	"google.golang.org/protobuf/proto"
)

func claiming(namespace, name, clusterIP string, nodePort int32, external ...string) *service.Service {
	kind := "ClusterIP"
	if nodePort > 0 {
		kind = "NodePort"
	}
	return &service.Service{Namespace: namespace, Name: name, ClusterIp: clusterIP, ServiceType: kind, ExternalIps: external,
		Port: []*service.Service_ServicePort{{Protocol: "TCP", Port: 443, NodePort: nodePort}}}
}

// have lists the owned frontends as "namespace/name address:port kind".
func have(p *Processor) (list []string) {
	for _, id := range p.IDs() {
		if s := p.Service(id, false); s != nil {
			for _, f := range s.Frontends {
				list = append(list, fmt.Sprint(id, " ", f.Addr, " ", f.Kind))
			}
		}
	}
	return list
}

// External IPs do not affect the service that owns the address, in any order of creation.
func TestClaims(t *testing.T) {
	api := claiming("default", "kubernetes", "10.96.0.1", 0)
	web := claiming("default", "web", "10.96.0.2", 30443, "203.0.113.1")
	lb := claiming("default", "lb", "10.96.0.3", 0)
	lb.ServiceType, lb.LbIngressIps = "LoadBalancer", []string{"203.0.113.2"}
	evil := claiming("aaa", "evil", "10.96.0.9", 0, "10.96.0.1", "203.0.113.2", "203.0.113.3")
	port := claiming("aaa", "port", "10.96.0.10", 0, "192.168.16.1")
	port.Port[0].Port = 30443
	late := claiming("zzz", "late", "10.96.0.11", 0, "203.0.113.1")
	node := Node{Name: "node1", NodePorts: []netip.Addr{netip.MustParseAddr("192.168.16.1")}}
	want := []string{
		"aaa/evil 10.96.0.9:443 ClusterIP", "aaa/evil 203.0.113.3:443 ExternalIP", "aaa/port 10.96.0.10:30443 ClusterIP",
		"default/kubernetes 10.96.0.1:443 ClusterIP", "default/lb 10.96.0.3:443 ClusterIP", "default/lb 203.0.113.2:443 LoadBalancer",
		"default/web 10.96.0.2:443 ClusterIP", "default/web 192.168.16.1:30443 NodePort", "default/web 203.0.113.1:443 ExternalIP",
		"zzz/late 10.96.0.11:443 ClusterIP",
	}
	all := []*service.Service{api, web, lb, evil, port, late}
	for range 50 {
		p := New()
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		early := rand.IntN(len(all) + 1)
		for i, svc := range all {
			if i == early {
				p.SetNode(node)
				have(p) // the claims are computed from here on
			}
			p.SetService(svc)
		}
		p.SetNode(node)
		if got := have(p); !slices.Equal(got, want) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
		if lost := p.Explainer().Lost(); len(lost) != 4 || lost[0].HeldBy.Name != "kubernetes" {
			t.Errorf("lost %v, want four addresses", lost)
		}
		if lost := p.Explainer().LostBy(ID{"aaa", "evil"}); len(lost) != 2 || lost[0].Addr.String() != "10.96.0.1:443" || lost[0].HeldBy.Name != "kubernetes" {
			t.Errorf("evil lost %v, want the API server's address and the load balancer's", lost)
		}
		if lost := p.Explainer().LostBy(ID{"default", "kubernetes"}); lost != nil {
			t.Errorf("the API server's service lost %v", lost)
		}
	}
}

// The kind of the address comes first, then the service's creation, then its name. Services of older
// records have no time, and count as oldest.
func TestOwnersOfAddresses(t *testing.T) {
	const first, second = "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"
	clusterIP := map[string]string{"aaa": "10.96.0.2", "zzz": "10.96.0.3"}
	external := func(namespace, created string) *service.Service {
		s := claiming(namespace, "web", clusterIP[namespace], 0, "203.0.113.1")
		s.CreationTime = created
		return s
	}
	balancer := func(namespace, created string) *service.Service {
		s := claiming(namespace, "web", clusterIP[namespace], 0)
		s.ServiceType, s.LbIngressIps, s.CreationTime = "LoadBalancer", []string{"203.0.113.1"}, created
		return s
	}
	for name, test := range map[string]struct {
		owner, other *service.Service
	}{
		"the older one, for external IPs":                   {external("zzz", first), external("aaa", second)},
		"the older one, for load balancers' IPs":            {balancer("zzz", first), balancer("aaa", second)},
		"a load balancer's IP before an older external IP":  {balancer("zzz", second), external("aaa", first)},
		"the first name, if both are of one second":         {external("aaa", first), external("zzz", first)},
		"one without time":                                  {external("zzz", ""), external("aaa", first)},
		"the first name, without times":                     {external("aaa", ""), external("zzz", "")},
		"a load balancer's IP before one without time":      {balancer("zzz", second), external("aaa", "")},
		"the older one, whose IP is also a load balancer's": {func() *service.Service { s := balancer("zzz", first); s.ExternalIps = s.LbIngressIps; return s }(), balancer("aaa", second)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range [][]*service.Service{{test.owner, test.other}, {test.other, test.owner}} {
				p := New()
				for _, s := range order {
					p.SetService(s)
					have(p) // computes the claims
				}
				lost := p.Explainer().Lost()
				if len(lost) != 1 || lost[0].HeldBy.Namespace != test.owner.GetNamespace() {
					t.Errorf("lost %v, want that %s has the address", lost, test.owner.GetNamespace())
				}
			}
		})
	}
}

// A node port belongs to its service at the addresses of all nodes, also for clients of other nodes.
func TestNodePortsBelongToTheirServiceOnAllNodes(t *testing.T) {
	const this, other, outside = "192.168.16.1", "192.168.16.2", "203.0.113.1"
	node := Node{
		Name: "node1", NodePorts: []netip.Addr{netip.MustParseAddr(this)},
		Reserved: reserved.New(reserved.Addresses{Nodes: []netip.Addr{netip.MustParseAddr(this), netip.MustParseAddr(other)}}, nil, nil),
	}
	victim := claiming("zzz", "web", "10.96.0.2", 30443)
	victim.CreationTime = "2026-11-02T00:00:00Z"
	external := claiming("aaa", "web", "10.96.0.3", 0, this, other, outside)
	external.CreationTime, external.Port[0].Port = "2026-11-01T00:00:00Z", 30443
	balancer := proto.CloneOf(external)
	balancer.ServiceType, balancer.LbIngressIps, balancer.ExternalIps = "LoadBalancer", external.GetExternalIps(), nil
	clusterIP := "aaa/web 10.96.0.3:30443 ClusterIP"
	of := func(kind Kind, addresses ...string) []string {
		list := []string{clusterIP}
		for _, addr := range addresses {
			list = append(list, fmt.Sprintf("aaa/web %s:30443 %s", addr, kind))
		}
		return list
	}
	for kind, requester := range map[Kind]*service.Service{ExternalIP: external, LoadBalancer: balancer} {
		for _, order := range [][]*service.Service{{victim, requester}, {requester, victim}} {
			p := New()
			p.SetNode(node)
			for _, svc := range order {
				p.SetService(svc)
				have(p) // computes the claims
			}
			want := append(of(kind, outside), "zzz/web 10.96.0.2:443 ClusterIP", "zzz/web "+this+":30443 NodePort")
			if got := have(p); !slices.Equal(got, want) {
				t.Errorf("%s: got  %q\nwant %q", kind, got, want)
			}
			refused := p.Explainer().RefusedTo(ID{"aaa", "web"})
			if len(refused) != 2 || refused[1].Addr.Addr().String() != other || refused[1].Entry.String() != "port 30443/TCP is reserved for the node port of service zzz/web" {
				t.Errorf("%s: refused %v", kind, refused)
			}
			if changed := p.RemoveService("zzz", "web"); !slices.Contains(changed, ID{"aaa", "web"}) {
				t.Errorf("%s: changed %v", kind, changed)
			}
			if got, want := have(p), of(kind, this, other, outside); !slices.Equal(got, want) {
				t.Errorf("%s without the node port: got  %q\nwant %q", kind, got, want)
			}
		}
	}
	own := proto.CloneOf(external)
	own.ServiceType, own.Port[0].NodePort = "NodePort", 30443
	p := New()
	p.SetNode(node)
	p.SetService(own)
	if refused := p.Explainer().Refused(); len(refused) > 0 {
		t.Errorf("a service is refused at its own node port: %v", refused)
	}
}

// A record that gets its time changes the owner at once.
func TestOwnersFollowTheTime(t *testing.T) {
	p := New()
	victim, late := claiming("zzz", "web", "10.96.0.2", 0, "203.0.113.1"), claiming("aaa", "web", "10.96.0.3", 0, "203.0.113.1")
	late.CreationTime = "2026-11-02T00:00:00Z"
	p.SetService(victim)
	p.SetService(late)
	have(p)
	victim = proto.CloneOf(victim)
	victim.CreationTime = "2026-11-03T00:00:00Z"
	if changed := p.SetService(victim); len(changed) != 2 {
		t.Errorf("changed: %v, want both", changed)
	}
	if lost := p.Explainer().Lost(); len(lost) != 1 || lost[0].ID.Namespace != "zzz" {
		t.Errorf("lost %v, want that the older service has the address", lost)
	}
}

// Host ports of pods have precedence over external IPs, and nothing else.
func TestPodPorts(t *testing.T) {
	external := claiming("aaa", "external", "10.96.0.2", 0, "192.168.16.1")
	external.Port[0].Name = "https"
	balancer := claiming("zzz", "balancer", "10.96.0.3", 0)
	balancer.ServiceType, balancer.LbIngressIps, balancer.Port[0].Port = "LoadBalancer", []string{"192.168.16.1"}, 8443
	p := New()
	p.SetNode(Node{Name: "node1", Addresses: []netip.Addr{netip.MustParseAddr("192.168.16.1")}})
	p.SetService(external)
	p.SetService(balancer)
	want := func(when string, want ...string) {
		t.Helper()
		if got := have(p); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	all := []string{"aaa/external 10.96.0.2:443 ClusterIP", "aaa/external 192.168.16.1:443 ExternalIP", "zzz/balancer 10.96.0.3:8443 ClusterIP", "zzz/balancer 192.168.16.1:8443 LoadBalancer"}
	want("without host ports", all...)
	port := func(at string) PodPort {
		return PodPort{Addr: netip.MustParseAddrPort(at), Protocol: TCP, Pod: "default/web", To: netip.MustParseAddrPort("10.1.1.2:8080")}
	}
	if changed := p.SetPodPorts([]PodPort{port("192.168.16.1:9000")}); len(changed) > 0 {
		t.Errorf("a port of no service changes %v", changed)
	}
	if changed := p.SetPodPorts([]PodPort{port("192.168.16.1:443"), port("192.168.16.1:8443")}); !slices.Contains(changed, ID{"aaa", "external"}) {
		t.Errorf("changed: %v", changed)
	}
	want("with host ports", all[0], all[2], all[3])
	if refused := p.Explainer().Refused(); len(refused) != 1 || refused[0].ID.Name != "external" || refused[0].Entry.String() != "port 443/TCP is reserved for the host port of pod default/web" {
		t.Errorf("refused: %v", refused)
	}
	p.SetSlice(nil, &endpointslice.EndpointSlice{Name: "s", Namespace: "aaa", Service: "external", AddressType: endpointslice.EndpointSlice_IPv4,
		Ports:     []*endpointslice.EndpointSlice_Port{{Name: "https", Port: 8080, Protocol: "TCP"}},
		Endpoints: []*endpointslice.EndpointSlice_Endpoint{{Addresses: []string{"10.1.1.2"}, NodeName: "node1", Ready: true}}})
	if refused := p.Explainer().Refused(); len(refused) > 0 {
		t.Errorf("the pod is an endpoint of the service, and refused: %v", refused)
	}
	p.SetPodPorts(nil)
	want("without them again", all...)
}

func TestServicesAtAClaimedAddress(t *testing.T) {
	p := New()
	p.SetService(claiming("zzz", "web", "10.96.0.1", 0))
	p.SetService(claiming("aaa", "thief", "10.96.0.9", 0, "10.96.0.1"))
	other := claiming("aaa", "other", "10.96.0.10", 0, "10.96.0.1")
	other.Port[0].Port = 80
	p.SetService(other)
	list := p.At(netip.MustParseAddr("10.96.0.1"))
	if len(list) != 2 || list[0].ID.Name != "web" || list[1].ID.Name != "other" {
		t.Errorf("%v", list)
	}
}

// A change of one service returns all services that gain or lose addresses or endpoints.
func TestClaimsChangeHands(t *testing.T) {
	world := []*service.Service{
		claiming("a", "a", "10.96.0.1", 30001), claiming("b", "b", "10.96.0.2", 30002, "10.96.0.1", "203.0.113.1"),
		claiming("c", "c", "10.96.0.3", 0, "203.0.113.1", "192.168.16.1"), claiming("d", "d", "10.96.0.1", 30001, "203.0.113.1"),
	}
	world[2].Port[0].Port = 30001
	balancer := claiming("f", "f", "10.96.0.6", 0)
	balancer.ServiceType, balancer.LbIngressIps, balancer.Port[0].Port = "LoadBalancer", []string{"192.168.16.1", "192.168.16.2"}, 30002
	world = append(world, balancer)
	for _, s := range world {
		s.Port[0].Name = "http"
	}
	leads := func(name, to string) *endpointslice.EndpointSlice {
		at := netip.MustParseAddrPort(to)
		return &endpointslice.EndpointSlice{Name: name + to, Namespace: name, Service: name, AddressType: endpointslice.EndpointSlice_IPv4,
			Ports:     []*endpointslice.EndpointSlice_Port{{Name: "http", Port: int32(at.Port()), Protocol: "TCP"}},
			Endpoints: []*endpointslice.EndpointSlice_Endpoint{{Addresses: []string{at.Addr().String()}, Ready: true, Serving: true}}}
	}
	slicesOf := []*endpointslice.EndpointSlice{leads("a", "203.0.113.1:443"), leads("b", "192.168.16.1:30001"), leads("d", "203.0.113.1:443"), leads("d", "10.96.0.1:443"), leads("e", "10.1.1.2:80"), leads("e", "203.0.113.1:443"), leads("e", "10.96.0.1:443"), leads("f", "10.1.1.2:80"), leads("e", "192.168.16.2:30002")}
	world = append(world, claiming("e", "e", "10.96.0.5", 0))
	world[len(world)-1].Port[0].Name = "http"
	addresses := reserved.Addresses{Nodes: []netip.Addr{netip.MustParseAddr("192.168.16.1"), netip.MustParseAddr("192.168.16.2")}}
	free, taken := reserved.New(addresses, nil, nil), reserved.New(addresses, []reserved.Entry{{Protocol: "TCP", Port: 443, Addr: netip.MustParseAddr("203.0.113.1")}, {Protocol: "TCP", Port: 30001}}, nil)
	nodePorts := []netip.Addr{netip.MustParseAddr("192.168.16.1")}
	nodes := []Node{{Name: "n", Reserved: free}, {Name: "n", NodePorts: nodePorts, Reserved: free}, {Name: "n", NodePorts: nodePorts, Reserved: taken}, {Name: "m"}}
	at := func(text string) PodPort {
		return PodPort{Addr: netip.MustParseAddrPort(text), Protocol: TCP, Pod: "default/pod", To: netip.MustParseAddrPort("10.1.1.2:80")}
	}
	podPorts := [][]PodPort{nil, {at("192.168.16.1:30001")}, {at("203.0.113.1:443"), at("192.168.16.1:30001")}}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 0))
		p := New()
		seen := map[ID][]string{}
		var ports []PodPort
		for step := range 60 {
			svc := world[r.IntN(len(world))]
			var changed []ID
			switch r.IntN(6) {
			case 0:
				svc = proto.CloneOf(svc)
				svc.CreationTime = []string{"", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"}[r.IntN(3)]
				changed = p.SetService(svc)
			case 1:
				changed = p.RemoveService(svc.GetNamespace(), svc.GetName())
			case 2:
				changed = p.SetNode(nodes[r.IntN(len(nodes))])
			case 3:
				next := slicesOf[r.IntN(len(slicesOf))]
				changed = p.SetSlice(next, next)
			case 4:
				changed = p.RemoveSlice(slicesOf[r.IntN(len(slicesOf))])
			case 5:
				ports = podPorts[r.IntN(len(podPorts))]
				changed = p.SetPodPorts(ports)
			}
			fresh := New()
			fresh.SetNode(p.node)
			fresh.SetPodPorts(ports)
			for _, svc := range p.services {
				fresh.SetService(svc)
			}
			for _, of := range p.slices {
				for _, slice := range of {
					fresh.SetSlice(nil, slice)
				}
			}
			for _, svc := range world {
				id := ID{svc.GetNamespace(), svc.GetName()}
				var now []string
				for _, of := range []*Processor{p, fresh} {
					now = nil
					if s := of.Service(id, false); s != nil {
						for _, f := range s.Frontends {
							now = append(now, fmt.Sprint(f.Addr, f.Inside))
						}
					}
					if !slices.Equal(now, seen[id]) && !slices.Contains(changed, id) {
						t.Fatalf("seed %d, step %d: %v has %v, had %v, and is not among the changed %v", seed, step, id, now, seen[id], changed)
					}
				}
				seen[id] = now
			}
		}
	}
}
