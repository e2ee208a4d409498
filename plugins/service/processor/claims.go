package processor

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/service"
)

// Services may ask for the same address, port and protocol: anybody who may create services may give one the
// cluster IP of another as an external IP. Then one of them has it, whichever came first, and the others are
// without it: their other addresses do not suffer.

// claim is what one service can have.
type claim struct {
	addr     netip.AddrPort
	protocol Protocol
}

// claimant is a service that asks for a claim.
type claimant struct {
	id   ID
	kind Kind
}

// trust orders kinds by who decides about them: cluster IPs, node ports and the addresses of load balancers are
// assigned by the cluster, external IPs are what users write.
var trust = map[Kind]int{ClusterIP: 0, LoadBalancer: 1, NodePort: 2, ExternalIP: 3, Entrance: 4}

func (c claimant) compare(o claimant) int {
	return cmp.Or(cmp.Compare(trust[c.kind], trust[o.kind]), c.id.Compare(o.id))
}

// claims has the services that ask for something.
type claims struct {
	of map[claim][]claimant // the best first
	// disputed are those that several ask for: few, if any.
	disputed map[claim]struct{}
}

// claimsOf returns what a service asks for and can have.
func claimsOf(svc *service.Service, node Node) map[claim]Kind {
	of := requests(svc, node)
	maps.DeleteFunc(of, func(c claim, kind Kind) bool {
		_, refused := node.refuses(svc, kind, c.addr, c.protocol)
		return refused
	})
	return of
}

// requests returns what a service asks for.
func requests(svc *service.Service, node Node) map[claim]Kind {
	if !Proxied(svc) {
		return nil
	}
	if sizeOf(svc, nil, node).frontends > MaxServiceFrontends {
		return nil
	}
	of := map[claim]Kind{}
	for _, ipv6 := range []bool{false, true} {
		for _, a := range frontendAddresses(svc, node, ipv6) {
			for _, port := range svc.GetPort() {
				number, protocol := frontendPort(port, a.kind), protocolOf(port.GetProtocol())
				if protocol == "" || !validPort(number) {
					continue
				}
				c := claim{netip.AddrPortFrom(a.addr, uint16(number)), protocol}
				if before, ok := of[c]; !ok || trust[a.kind] < trust[before] {
					of[c] = a.kind
				}
			}
		}
	}
	return of
}

// add adds a service. It returns the others that ask for the same.
func (c *claims) add(id ID, svc *service.Service, node Node) (others []ID) {
	for key, kind := range claimsOf(svc, node) {
		for _, other := range c.of[key] {
			others = append(others, other.id)
		}
		c.set(key, append(c.of[key], claimant{id, kind}))
	}
	return others
}

// remove is the opposite of add, with the same service and node.
func (c *claims) remove(id ID, svc *service.Service, node Node) (others []ID) {
	for key := range claimsOf(svc, node) {
		c.set(key, slices.DeleteFunc(c.of[key], func(o claimant) bool { return o.id == id }))
		for _, other := range c.of[key] {
			others = append(others, other.id)
		}
	}
	return others
}

func (c *claims) set(key claim, of []claimant) {
	slices.SortFunc(of, claimant.compare)
	c.of[key] = of
	if len(of) == 0 {
		delete(c.of, key)
	}
	if len(of) > 1 {
		c.disputed[key] = struct{}{}
	} else {
		delete(c.disputed, key)
	}
}

// claimed returns all claims, which it finds when they are needed first.
func (p *Processor) claimed() *claims {
	if p.claims == nil {
		p.claims = &claims{make(map[claim][]claimant, len(p.services)), map[claim]struct{}{}}
		for id := range p.services {
			p.claims.add(id, p.translated(id), p.node)
		}
	}
	return p.claims
}

// own leaves out the frontends that belong to other services.
func (p *Processor) own(s *Service) *Service {
	if s == nil {
		return nil
	}
	all := p.claimed()
	s.Frontends = slices.DeleteFunc(s.Frontends, func(f Frontend) bool {
		of := all.of[claim{f.Addr, f.Protocol}]
		return len(of) > 0 && of[0].id != s.ID
	})
	if len(s.Frontends) == 0 {
		return nil
	}
	return s
}

// Lost is an address, port and protocol that a service asks for and another one has.
type Lost struct {
	Addr       netip.AddrPort
	Protocol   Protocol
	ID, HeldBy ID
}

// Lost returns all, in order.
func (p *Processor) Lost() (list []Lost) {
	all := p.claimed()
	for key := range all.disputed {
		list = append(list, all.lost(key)...)
	}
	slices.SortFunc(list, Lost.compare)
	return list
}

// LostBy is Lost for one service.
func (p *Processor) LostBy(id ID) (list []Lost) {
	all := p.claimed()
	if len(all.disputed) == 0 {
		return nil
	}
	for key := range claimsOf(p.translated(id), p.node) {
		for _, l := range all.lost(key) {
			if l.ID == id {
				list = append(list, l)
			}
		}
	}
	slices.SortFunc(list, Lost.compare)
	return list
}

func (c *claims) lost(key claim) (list []Lost) {
	of := c.of[key]
	for _, loser := range of[min(1, len(of)):] {
		list = append(list, Lost{key.addr, key.protocol, loser.id, of[0].id})
	}
	return list
}

func (l Lost) compare(o Lost) int {
	return cmp.Or(l.ID.Compare(o.ID), l.Addr.Compare(o.Addr), cmp.Compare(l.Protocol, o.Protocol))
}
