package processor

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/service"
)

// Several services may request the same address, port and protocol: a service may use another's
// cluster IP as an external IP. The kind of the address decides which of them owns it, then the age
// of the service. The others keep their other addresses.

type claim struct {
	addr     netip.AddrPort
	protocol Protocol
}

type claimant struct {
	id      ID
	kind    Kind
	created string
}

// trust orders kinds by authority: the API server assigns cluster IPs and node ports, a controller
// writes load balancers' IPs, and users choose external IPs.
var trust = map[Kind]int{ClusterIP: 0, NodePort: 1, LoadBalancer: 2, ExternalIP: 3, Entrance: 4}

func (c claimant) compare(o claimant) int {
	return cmp.Or(cmp.Compare(trust[c.kind], trust[o.kind]), cmp.Compare(c.created, o.created), c.id.Compare(o.id))
}

// compareAge sorts the oldest service first.
func (p *Processor) compareAge(a, b ID) int {
	return cmp.Or(cmp.Compare(p.services[a].GetCreationTime(), p.services[b].GetCreationTime()), a.Compare(b))
}

type claims struct {
	claimants map[claim][]claimant // sorted, the owner first
	// disputed contains claims of several services.
	disputed map[claim]struct{}
}

func claimsOf(svc *service.Service, node Node) map[claim]Kind {
	kinds := requests(svc, node)
	maps.DeleteFunc(kinds, func(c claim, kind Kind) bool {
		_, refused := node.refuses(svc, kind, c.addr, c.protocol)
		return refused
	})
	return kinds
}

func requests(svc *service.Service, node Node) map[claim]Kind {
	if !Proxied(svc) {
		return nil
	}
	if sizeOf(svc, nil, node).frontends > MaxServiceFrontends {
		return nil
	}
	kinds := map[claim]Kind{}
	for _, ipv6 := range []bool{false, true} {
		for _, a := range frontendAddresses(svc, node, ipv6) {
			for _, port := range svc.GetPort() {
				number, protocol := frontendPort(port, a.kind), protocolOf(port.GetProtocol())
				if protocol == "" || !validPort(number) {
					continue
				}
				c := claim{netip.AddrPortFrom(a.addr, uint16(number)), protocol}
				if before, ok := kinds[c]; !ok || trust[a.kind] < trust[before] {
					kinds[c] = a.kind
				}
			}
		}
	}
	return kinds
}

// add returns the other services with the same claims.
func (c *claims) add(id ID, svc *service.Service, node Node) (others []ID) {
	for key, kind := range claimsOf(svc, node) {
		for _, other := range c.claimants[key] {
			others = append(others, other.id)
		}
		c.set(key, append(c.claimants[key], claimant{id, kind, svc.GetCreationTime()}))
	}
	return others
}

func (c *claims) remove(id ID, svc *service.Service, node Node) (others []ID) {
	for key := range claimsOf(svc, node) {
		c.set(key, slices.DeleteFunc(c.claimants[key], func(o claimant) bool { return o.id == id }))
		for _, other := range c.claimants[key] {
			others = append(others, other.id)
		}
	}
	return others
}

func (c *claims) set(key claim, list []claimant) {
	slices.SortFunc(list, claimant.compare)
	c.claimants[key] = list
	if len(list) == 0 {
		delete(c.claimants, key)
	}
	if len(list) > 1 {
		c.disputed[key] = struct{}{}
	} else {
		delete(c.disputed, key)
	}
}

func (p *Processor) claimed() *claims {
	if p.claims == nil {
		p.claims = &claims{make(map[claim][]claimant, len(p.services)), map[claim]struct{}{}}
		for id := range p.services {
			p.claims.add(id, p.translated(id), p.node)
		}
	}
	return p.claims
}

// reclaim applies a change that affects the claims of services. It returns them, and services with
// common claims.
func (p *Processor) reclaim(ids map[ID]bool, apply func()) []ID {
	changed := slices.Collect(maps.Keys(ids))
	if p.claims == nil {
		apply()
		return changed
	}
	for id := range ids {
		changed = append(changed, p.claims.remove(id, p.translated(id), p.node)...)
	}
	apply()
	for id := range ids {
		changed = append(changed, p.claims.add(id, p.translated(id), p.node)...)
	}
	return changed
}

func (p *Processor) owner(c claim) (claimant, bool) {
	if list := p.claimed().claimants[c]; len(list) > 0 {
		return list[0], true
	}
	return claimant{}, false
}

func (p *Processor) own(s *Service) *Service {
	if s == nil {
		return nil
	}
	s.Frontends = slices.DeleteFunc(s.Frontends, func(f Frontend) bool {
		owner, has := p.owner(claim{f.Addr, f.Protocol})
		return has && owner.id != s.ID
	})
	if len(s.Frontends) == 0 {
		return nil
	}
	return s
}

// Lost is an address, port and protocol that a service requests and another one owns.
type Lost struct {
	Addr       netip.AddrPort
	Protocol   Protocol
	ID, HeldBy ID
}

// Lost returns all lost claims, in order.
func (x Explainer) Lost() (list []Lost) {
	all := x.p.claimed()
	for key := range all.disputed {
		list = append(list, all.lost(key)...)
	}
	slices.SortFunc(list, Lost.compare)
	return list
}

// LostBy is Lost for one service.
func (x Explainer) LostBy(id ID) (list []Lost) {
	all := x.p.claimed()
	if len(all.disputed) == 0 {
		return nil
	}
	for key := range claimsOf(x.p.translated(id), x.p.node) {
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
	all := c.claimants[key]
	for _, loser := range all[min(1, len(all)):] {
		list = append(list, Lost{key.addr, key.protocol, loser.id, all[0].id})
	}
	return list
}

func (l Lost) compare(o Lost) int {
	return cmp.Or(l.ID.Compare(o.ID), l.Addr.Compare(o.Addr), cmp.Compare(l.Protocol, o.Protocol))
}
