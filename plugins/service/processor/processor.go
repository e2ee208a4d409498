package processor

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/service"
)

// Processor joins services with their endpoint slices, which may come and go in any order.
// Its methods are for one goroutine.
type Processor struct {
	node     Node
	services map[ID]*service.Service
	slices   map[ID]map[string]*endpointslice.EndpointSlice // by service, then by their own name
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
}

// SetNode records this node. It returns the services that look different now.
func (p *Processor) SetNode(n Node) []ID {
	was := p.node
	p.node = n
	if was.Equal(n) {
		return nil
	}
	was.NodePorts = n.NodePorts
	if !was.Equal(n) {
		return p.IDs()
	}
	return slices.DeleteFunc(p.IDs(), func(id ID) bool { return !hasNodePorts(p.services[id]) })
}

// Node returns the last argument of SetNode.
func (p *Processor) Node() Node { return p.node }

// SetService records a service. It returns the services that may look different now.
func (p *Processor) SetService(s *service.Service) []ID {
	id := ID{s.GetNamespace(), s.GetName()}
	p.services[id] = s
	return []ID{id}
}

// RemoveService is SetService for a service that no longer exists.
func (p *Processor) RemoveService(namespace, name string) []ID {
	id := ID{namespace, name}
	delete(p.services, id)
	return []ID{id}
}

// SetSlice records a slice; prev is its previous state, nil for a new one. A slice may belong to
// another service than before.
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
	if !slices.Contains(changed, id) {
		changed = append(changed, id)
	}
	return changed
}

// RemoveSlice is SetSlice for a slice that no longer exists. It ignores nil.
func (p *Processor) RemoveSlice(prev *endpointslice.EndpointSlice) []ID {
	if prev == nil {
		return nil
	}
	id := ID{prev.GetNamespace(), prev.GetService()}
	if delete(p.slices[id], prev.GetName()); len(p.slices[id]) == 0 {
		delete(p.slices, id)
	}
	return []ID{id}
}

// IDs returns all services, in order.
func (p *Processor) IDs() []ID { return slices.SortedFunc(maps.Keys(p.services), ID.Compare) }

// Len returns the number of known services.
func (p *Processor) Len() int { return len(p.services) }

// Service returns what this node does for an IP version of a service, nil if nothing.
func (p *Processor) Service(id ID, ipv6 bool) *Service {
	svc := p.services[id]
	if svc == nil {
		return nil
	}
	return Compute(svc, p.slicesOf(id), p.node, ipv6)
}

// At returns the services that have the address, or have a node port on it, in order.
func (p *Processor) At(addr netip.Addr) (list []*Service) {
	for id, svc := range p.services {
		if !Proxied(svc) || !slices.ContainsFunc(frontendAddresses(svc, p.node, addr.Is6()), func(a frontendAddress) bool { return a.addr == addr }) {
			continue
		}
		if s := p.Service(id, addr.Is6()); s != nil {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *Service) int { return a.ID.Compare(b.ID) })
	return list
}

func (p *Processor) slicesOf(id ID) []*endpointslice.EndpointSlice {
	return slices.Collect(maps.Values(p.slices[id]))
}

// HealthCheck is the health check port of a service with the external traffic policy Local, at which
// load balancers ask each node for local endpoints.
type HealthCheck struct {
	ID   ID
	Port uint16
	// Endpoints is the number of different endpoints on this node, of any IP version.
	Endpoints int
}

// HealthChecks returns the health checks of all services, in order.
func (p *Processor) HealthChecks() (list []HealthCheck) {
	for id, svc := range p.services {
		port := svc.GetHealthCheckNodePort()
		if !Proxied(svc) || svc.GetServiceType() != "LoadBalancer" || svc.GetExternalTrafficPolicy() != policyLocal || !validPort(port) {
			continue
		}
		list = append(list, HealthCheck{ID: id, Port: uint16(port), Endpoints: p.localEndpoints(svc, id)})
	}
	slices.SortFunc(list, func(a, b HealthCheck) int { return a.ID.Compare(b.ID) })
	return list
}

// localEndpoints counts the addresses on this node that traffic from outside goes to.
func (p *Processor) localEndpoints(svc *service.Service, id ID) int {
	of := p.slicesOf(id)
	addresses := map[string]bool{}
	for _, ipv6 := range []bool{false, true} {
		for _, port := range svc.GetPort() {
			for _, c := range candidates(svc, port, of, p.node, ipv6) {
				if c.Local && c.ready {
					addresses[c.Addr.Addr().String()] = true
				}
			}
		}
	}
	return len(addresses)
}

func hasNodePorts(s *service.Service) bool {
	return slices.ContainsFunc(s.GetPort(), func(p *service.Service_ServicePort) bool { return p.GetNodePort() != 0 })
}
