package processor

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/contiv/api/contiv/service"
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
		if lost := p.Lost(); len(lost) != 4 || lost[0].HeldBy.Name != "kubernetes" {
			t.Errorf("lost %v, want four addresses", lost)
		}
		if lost := p.LostBy(ID{"aaa", "evil"}); len(lost) != 2 || lost[0].Addr.String() != "10.96.0.1:443" || lost[0].HeldBy.Name != "kubernetes" {
			t.Errorf("evil lost %v, want the API server's address and the load balancer's", lost)
		}
		if lost := p.LostBy(ID{"default", "kubernetes"}); lost != nil {
			t.Errorf("the API server's service lost %v", lost)
		}
	}
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

// A change of one service returns all services that gain or lose addresses.
func TestClaimsChangeHands(t *testing.T) {
	world := []*service.Service{
		claiming("a", "a", "10.96.0.1", 30001), claiming("b", "b", "10.96.0.2", 30002, "10.96.0.1", "203.0.113.1"),
		claiming("c", "c", "10.96.0.3", 0, "203.0.113.1", "192.168.16.1"), claiming("d", "d", "10.96.0.1", 30001, "203.0.113.1"),
	}
	world[2].Port[0].Port = 30001
	nodes := []Node{{Name: "n"}, {Name: "n", NodePorts: []netip.Addr{netip.MustParseAddr("192.168.16.1")}}, {Name: "m"}}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		p := New()
		seen := map[ID][]string{}
		for step := range 20 {
			svc := world[r.IntN(len(world))]
			var changed []ID
			switch r.IntN(3) {
			case 0:
				changed = p.SetService(svc)
			case 1:
				changed = p.RemoveService(svc.GetNamespace(), svc.GetName())
			case 2:
				changed = p.SetNode(nodes[r.IntN(len(nodes))])
			}
			fresh := New()
			fresh.SetNode(p.node)
			for _, svc := range p.services {
				fresh.SetService(svc)
			}
			for _, svc := range world {
				id := ID{svc.GetNamespace(), svc.GetName()}
				var now []string
				for _, of := range []*Processor{p, fresh} {
					now = nil
					if s := of.Service(id, false); s != nil {
						for _, f := range s.Frontends {
							now = append(now, f.Addr.String())
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
