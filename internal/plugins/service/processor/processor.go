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

// Processor joins services with their endpoint slices, which may arrive in any order. It is not
// safe for concurrent use.
type Processor struct {
	node      Node
	services  map[ID]*service.Service
	slices    map[ID]map[string]*endpointslice.EndpointSlice
	redirects Redirects
	// claims and sizes are caches; nil if not computed.
	claims    *claims
	sizes     *sizes
	requested *requestedPorts
}

// New returns an empty processor.
func New() *Processor {
	p := &Processor{}
	p.Reset()
	return p
}

// Reset forgets everything.
func (p *Processor) Reset() {
	p.node, p.services, p.slices = Node{}, map[ID]*service.Service{}, map[ID]map[string]*endpointslice.EndpointSlice{}
	p.redirects, p.claims, p.sizes = nil, nil, nil
	p.requested = newRequestedPorts(p)
	p.node.requested = p.requested
}

// SetNode replaces this node and returns the changed services.
func (p *Processor) SetNode(n Node) []ID {
	was, before := p.node, p.claims
	n.requested, n.podPorts = p.requested, was.podPorts
	p.node = n
	if was.Equal(n) {
		return nil
	}
	refused := p.sizes != nil && len(p.sizes.refused) > 0
	p.claims, p.sizes = nil, nil
	moved := was
	moved.NodePorts, moved.Reserved = n.NodePorts, n.Reserved
	if !moved.Equal(n) || refused || len(p.measured().refused) > 0 { // more changed than node port addresses and reservations
		return p.IDs()
	}
	sameReserved, samePorts := was.Reserved.Equal(n.Reserved), slices.Equal(was.NodePorts, n.NodePorts)
	changed := map[ID]bool{}
	for id, svc := range p.services {
		if (samePorts || !hasNodePorts(svc)) && (sameReserved || !p.changedByReservations(id, svc, was, n)) {
			continue
		}
		changed[id] = true
		for _, on := range []struct {
			claims *claims
			node   Node
		}{{before, was}, {p.claimed(), n}} {
			if on.claims == nil {
				continue // claims were never computed
			}
			for key := range claimsOf(svc, on.node) {
				for _, other := range on.claims.claimants[key] {
					changed[other.id] = true
				}
			}
		}
	}
	ids := slices.Collect(maps.Keys(changed))
	ids = append(ids, p.leadingTo(ids...)...)
	slices.SortFunc(ids, ID.Compare)
	return slices.Compact(ids)
}

// Node returns the last argument of SetNode.
func (p *Processor) Node() Node { return p.node }

// SetService records a service and returns the services that may have changed.
func (p *Processor) SetService(s *service.Service) []ID {
	return p.replace(ID{s.GetNamespace(), s.GetName()}, s)
}

// RemoveService removes a service and returns the services that may have changed.
func (p *Processor) RemoveService(namespace, name string) []ID {
	return p.replace(ID{namespace, name}, nil)
}

// replace returns the service first, then services with common claims, with a changed refusal, or
// with endpoints at its ports.
func (p *Processor) replace(id ID, next *service.Service) []ID {
	var changed []ID
	if p.claims != nil {
		changed = p.claims.remove(id, p.translated(id), p.node)
	}
	was := p.sizes != nil && p.sizes.refused[id]
	requesters := p.requested.requesters(id, p.services[id], next)
	var ports map[transport]bool
	changed = append(changed, p.reclaim(requesters, func() { ports = p.requested.set(id, p.services[id], next) })...)
	changed = append(changed, p.listing(ports)...)
	p.services[id] = next
	if next == nil {
		delete(p.services, id)
	}
	changed = append(changed, p.resize(id)...)
	if p.claims != nil && was == p.sizes.refused[id] { // otherwise resize has added the claims
		changed = append(changed, p.claims.add(id, p.translated(id), p.node)...)
	}
	changed = append(changed, p.leadingTo(changed...)...)
	slices.SortFunc(changed, ID.Compare)
	return append([]ID{id}, slices.DeleteFunc(slices.Compact(changed), func(o ID) bool { return o == id })...)
}

// SetSlice replaces prev, which may be nil or belong to another service, by next. It returns the services
// that may have changed.
func (p *Processor) SetSlice(prev, next *endpointslice.EndpointSlice) []ID {
	changed := p.RemoveSlice(prev)
	if next == nil {
		return changed
	}
	id := ID{next.GetNamespace(), next.GetService()}
	if p.slices[id] == nil {
		p.slices[id] = map[string]*endpointslice.EndpointSlice{}
	}
	p.slices[id][next.GetName()] = next
	changed = withID(changed, append(p.resize(id), id)...)
	return withID(changed, p.leadingTo(changed...)...)
}

func withID(list []ID, more ...ID) []ID {
	for _, id := range more {
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// RemoveSlice removes a slice and returns the services that may have changed. It ignores nil.
func (p *Processor) RemoveSlice(prev *endpointslice.EndpointSlice) []ID {
	if prev == nil {
		return nil
	}
	id := ID{prev.GetNamespace(), prev.GetService()}
	if delete(p.slices[id], prev.GetName()); len(p.slices[id]) == 0 {
		delete(p.slices, id)
	}
	changed := withID([]ID{id}, p.resize(id)...)
	return withID(changed, p.leadingTo(changed...)...)
}

// IDs returns all services, in order.
func (p *Processor) IDs() []ID { return slices.SortedFunc(maps.Keys(p.services), ID.Compare) }

// Unproxied explains why a service is not translated, or returns "" for an unknown service.
func (x Explainer) Unproxied(id ID) string {
	if x.p.services[id] == nil {
		return ""
	}
	if text := x.TooLarge(id); text != "" {
		return text
	}
	if ignored := x.PodAddresses(id); len(ignored) > 0 {
		return fmt.Sprintf("%v, of the pod network or for broadcasts, cannot be a service's: choose others, or leave them out", ignored)
	}
	return unproxied(x.p.services[id])
}

// Len returns the number of known services.
func (p *Processor) Len() int { return len(p.services) }

// Service returns the translation of one IP version of a service without the addresses that other
// services own, or nil.
func (p *Processor) Service(id ID, ipv6 bool) *Service {
	svc := p.translated(id)
	if svc == nil {
		return nil
	}
	return p.own(Compute(svc, p.slicesOf(id), p.redirects, p.node, ipv6))
}

// At returns the services with an address, or a node port on it; the owner of the cluster IP first.
func (p *Processor) At(addr netip.Addr) (list []*Service) {
	for id, svc := range p.services {
		if !Proxied(svc) || !slices.ContainsFunc(frontendAddresses(svc, p.node, addr.Is6()), func(a frontendAddress) bool { return a.addr == addr }) {
			continue
		}
		// Another service may own all ports of the address.
		if s := p.Service(id, addr.Is6()); s != nil && slices.ContainsFunc(s.Frontends, func(f Frontend) bool { return f.Addr.Addr() == addr }) {
			list = append(list, s)
		}
	}
	kind := func(s *Service) int {
		at := slices.IndexFunc(s.Frontends, func(f Frontend) bool { return f.Addr.Addr() == addr })
		return trust[s.Frontends[at].Kind]
	}
	slices.SortFunc(list, func(a, b *Service) int { return cmp.Or(cmp.Compare(kind(a), kind(b)), a.ID.Compare(b.ID)) })
	return list
}

func (p *Processor) slicesOf(id ID) []*endpointslice.EndpointSlice {
	return slices.Collect(maps.Values(p.slices[id]))
}

// HealthCheck is the health check port of a service with the external traffic policy Local.
type HealthCheck struct {
	ID   ID
	Port uint16
	// Endpoints is the number of distinct local endpoints.
	Endpoints int
}

// HealthChecks returns the health checks of all services, in order.
func (p *Processor) HealthChecks() (list []HealthCheck) {
	for id, svc := range p.services {
		port := svc.GetHealthCheckNodePort()
		if !Proxied(svc) || svc.GetServiceType() != "LoadBalancer" || svc.GetExternalTrafficPolicy() != policyLocal || !validPort(port) {
			continue
		}
		check := HealthCheck{ID: id, Port: uint16(port)}
		if p.translated(id) != nil {
			check.Endpoints = p.localEndpoints(svc, id)
		}
		list = append(list, check)
	}
	slices.SortFunc(list, func(a, b HealthCheck) int { return a.ID.Compare(b.ID) })
	return list
}

// Served is an endpoint of a service port.
type Served struct {
	Endpoint
	Protocol Protocol
	// Port is the name of the service port, and may be empty.
	Port string
}

// OnNode returns the local endpoints of an IP version of a service, even if they are not ready.
func (p *Processor) OnNode(id ID, ipv6 bool) []Served {
	return slices.DeleteFunc(p.endpoints(id, ipv6), func(e Served) bool { return !e.Local })
}

// Direct returns the local endpoints of an IP version of a service that see the addresses of external
// clients. It includes endpoints that are not ready: they may still have connections.
func (p *Processor) Direct(s *Service, ipv6 bool) []Served {
	ports := map[string]bool{}
	for _, f := range s.Frontends {
		if f.KeepSource && f.Kind != ClusterIP {
			ports[f.Port] = true
		}
	}
	if len(ports) == 0 {
		return nil
	}
	return slices.DeleteFunc(p.OnNode(s.ID, ipv6), func(e Served) bool { return !ports[e.Port] })
}

func (p *Processor) endpoints(id ID, ipv6 bool) (list []Served) {
	svc, ports := p.services[id], portsOf(p.slicesOf(id), ipv6)
	for _, port := range svc.GetPort() {
		protocol := protocolOf(port.GetProtocol())
		if protocol == "" {
			continue
		}
		for _, c := range candidates(svc, port, ports, p.redirects, p.node, ipv6) {
			list = append(list, Served{c.Endpoint, protocol, port.GetName()})
		}
	}
	return list
}

// localEndpoints returns the larger count of the two IP versions, so that dual-stack pods count
// once.
func (p *Processor) localEndpoints(svc *service.Service, id ID) (most int) {
	for _, ipv6 := range []bool{false, true} {
		if len(frontendAddresses(svc, p.node, ipv6)) == 0 {
			continue
		}
		addresses := map[netip.Addr]bool{}
		ports := portsOf(p.slicesOf(id), ipv6)
		for _, port := range svc.GetPort() {
			for _, c := range candidates(svc, port, ports, p.redirects, p.node, ipv6) {
				if c.Local && c.ready {
					addresses[c.Addr.Addr()] = true
				}
			}
		}
		most = max(most, len(addresses))
	}
	return most
}

// HasNodePorts reports whether a service has node ports.
func (p *Processor) HasNodePorts(id ID) bool { return hasNodePorts(p.services[id]) }

func hasNodePorts(s *service.Service) bool {
	return slices.ContainsFunc(s.GetPort(), func(p *service.Service_ServicePort) bool { return p.GetNodePort() != 0 })
}
