package processor

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/service"
)

// Limits of services, for both IP versions together. A frontend is an address with port and
// protocol. A target is an endpoint or source range of a frontend. Services beyond their limits are
// not translated, and neither are the largest ones beyond the limits of the node.
const (
	MaxServiceFrontends = 4096
	MaxServiceTargets   = 131_072
	MaxNodeFrontends    = 40_960
	MaxNodeTargets      = 262_144
)

type size struct{ frontends, targets int }

func (s size) String() string {
	return fmt.Sprintf("%d frontends with %d targets", s.frontends, s.targets)
}

func (s size) plus(o size) size { return size{s.frontends + o.frontends, s.targets + o.targets} }

func (s size) minus(o size) size { return size{s.frontends - o.frontends, s.targets - o.targets} }

func (s size) fits(bound size) bool {
	return s.frontends <= bound.frontends && s.targets <= bound.targets
}

// share is the larger of the two shares of the node's limits.
func (s size) share() int {
	return max(s.frontends*(nodeBound.targets/nodeBound.frontends), s.targets)
}

var (
	serviceBound = size{MaxServiceFrontends, MaxServiceTargets}
	nodeBound    = size{MaxNodeFrontends, MaxNodeTargets}
)

// sizeOf multiplies, because the frontends of a service may be too many to list.
func sizeOf(svc *service.Service, slicesOf []*endpointslice.EndpointSlice, node Node) (s size) {
	if !Proxied(svc) {
		return size{}
	}
	ranges, _ := sourceRanges(svc)
	for _, ipv6 := range []bool{false, true} {
		addresses := map[Kind]int{}
		for _, a := range frontendAddresses(svc, node, ipv6) {
			addresses[a.kind]++
		}
		if len(addresses) == 0 {
			continue
		}
		ports := portsOf(slicesOf, ipv6)
		for _, port := range svc.GetPort() {
			protocol := protocolOf(port.GetProtocol())
			if protocol == "" {
				continue
			}
			endpoints := 0
			for _, p := range ports[portID{port.GetName(), protocol}] {
				endpoints += len(p.slice.GetEndpoints())
			}
			for kind, n := range addresses {
				if !validPort(frontendPort(port, kind)) {
					continue
				}
				s.frontends += n
				s.targets += n * endpoints
				if kind == LoadBalancer {
					s.targets += n * len(ranges)
				}
			}
		}
	}
	return s
}

type sizes struct {
	byID map[ID]size
	// fitting is the sum of the services that are not beyond their limits.
	beyond  map[ID]bool
	fitting size
	refused map[ID]bool
}

func (z *sizes) set(id ID, s size) {
	if old := z.byID[id]; old.fits(serviceBound) {
		z.fitting = z.fitting.minus(old)
	}
	delete(z.byID, id)
	delete(z.beyond, id)
	if s == (size{}) {
		return
	}
	z.byID[id] = s
	if s.fits(serviceBound) {
		z.fitting = z.fitting.plus(s)
	} else {
		z.beyond[id] = true
	}
}

// choose returns the services whose refusal changed.
func (z *sizes) choose() (flipped []ID) {
	before := z.refused
	z.refused = maps.Clone(z.beyond)
	var fitting []ID
	if !z.fitting.fits(nodeBound) {
		for id := range z.byID {
			if !z.beyond[id] {
				fitting = append(fitting, id)
			}
		}
	}
	slices.SortFunc(fitting, func(a, b ID) int {
		return cmp.Or(cmp.Compare(z.byID[a].share(), z.byID[b].share()), a.Compare(b))
	})
	sum := size{}
	for _, id := range fitting {
		if sum = sum.plus(z.byID[id]); !sum.fits(nodeBound) {
			z.refused[id] = true
		}
	}
	for _, ids := range []map[ID]bool{before, z.refused} {
		for id := range ids {
			if before[id] != z.refused[id] {
				flipped = append(flipped, id)
			}
		}
	}
	return flipped
}

func (p *Processor) measured() *sizes {
	if p.sizes == nil {
		p.sizes = &sizes{byID: map[ID]size{}, beyond: map[ID]bool{}}
		for id, svc := range p.services {
			p.sizes.set(id, sizeOf(svc, p.slicesOf(id), p.node))
		}
		p.sizes.choose()
	}
	return p.sizes
}

// resize also returns the services that gain or lose room on the node.
func (p *Processor) resize(id ID) (changed []ID) {
	if p.sizes == nil {
		return nil
	}
	p.sizes.set(id, sizeOf(p.services[id], p.slicesOf(id), p.node))
	for _, other := range p.sizes.choose() {
		changed = append(changed, other)
		if p.claims == nil {
			continue
		}
		if p.sizes.refused[other] {
			changed = append(changed, p.claims.remove(other, p.services[other], p.node)...)
		} else {
			changed = append(changed, p.claims.add(other, p.services[other], p.node)...)
		}
	}
	slices.SortFunc(changed, ID.Compare)
	return slices.Compact(changed)
}

// translated returns nil if the service is refused for its size.
func (p *Processor) translated(id ID) *service.Service {
	if p.measured().refused[id] {
		return nil
	}
	return p.services[id]
}

// TooLarge explains why a service is refused for its size, or returns "".
func (x Explainer) TooLarge(id ID) string {
	all := x.p.measured()
	s := all.byID[id]
	switch {
	case !all.refused[id]:
		return ""
	case s.frontends > MaxServiceFrontends:
		return fmt.Sprintf("its addresses and ports come to %d frontends, and a service may have %d: split it, or remove addresses or ports", s.frontends, MaxServiceFrontends)
	case s.targets > MaxServiceTargets:
		return fmt.Sprintf("its %d frontends, each with all endpoints and source ranges, come to %d targets, and a service may have %d: split it, or remove addresses, ports or endpoints", s.frontends, s.targets, MaxServiceTargets)
	}
	return fmt.Sprintf("it has %v and does not fit: all services of the node have %v, and %v are translated, the smallest services first", s, all.fitting, nodeBound)
}

// TooLargeAt returns a service that has the address, other than as a node port, and was refused for
// its size.
func (x Explainer) TooLargeAt(addr netip.Addr) (id ID, refused bool) {
	for _, id := range x.AllTooLarge() {
		has := func(a frontendAddress) bool { return a.addr == addr && a.kind != NodePort }
		if slices.ContainsFunc(frontendAddresses(x.p.services[id], x.p.node, addr.Is6()), has) {
			return id, true
		}
	}
	return ID{}, false
}

// AllTooLarge returns the services refused for their size, in order.
func (x Explainer) AllTooLarge() []ID {
	return slices.SortedFunc(maps.Keys(x.p.measured().refused), ID.Compare)
}
