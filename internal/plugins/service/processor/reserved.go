package processor

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/contiv/contiv/internal/plugins/service/reserved"
)

// Authors of services choose external IPs and often cluster IPs. Addresses that would divert
// connections to pods are refused, and so are addresses that the vswitch cannot translate.

func (n Node) refuses(svc *service.Service, kind Kind, at netip.AddrPort, protocol Protocol) (reserved.Entry, bool) {
	id := ID{svc.GetNamespace(), svc.GetName()}
	switch kind {
	case Entrance: // clients do not know this address
		return reserved.Entry{}, false
	case ClusterIP:
		return n.Reserved.ClusterIP(at, string(protocol), id.String())
	}
	if entry, is := n.ofPod(kind, at, protocol); is {
		return entry, true
	}
	if entry, is := n.nodePortOfOther(id, kind, at, protocol); is {
		return entry, true
	}
	return n.Reserved.Frontend(at, string(protocol), id.String())
}

// inUse reports whether a socket has an address and port, of this node or of the other one with the
// address. Clients then reach the socket. node is "" for this node.
func (n Node) inUse(kind Kind, at netip.AddrPort, protocol Protocol) (node string, is bool) {
	if kind == Entrance {
		return "", false
	}
	if n.Reserved.InUse(at, string(protocol)) {
		return "", true
	}
	return n.Reserved.InUseBy(at, string(protocol))
}

// Refusal is an address and port that a service does not get because nodes need it.
type Refusal struct {
	Addr     netip.AddrPort
	Protocol Protocol
	ID       ID
	// Entry is the reservation. Without an owner, a socket has the port.
	Entry reserved.Entry
	// Node is the other node with the socket, or "".
	Node string
	// Endpoint is set if the address is an endpoint's.
	Endpoint bool
}

// RefusedTo returns the refusals of a service, in order. A port in use or a host port is not refused
// if the socket or the pod is an endpoint of the service.
func (x Explainer) RefusedTo(id ID) (list []Refusal) {
	svc := x.p.services[id]
	for c, kind := range requests(svc, x.p.node) {
		if x.p.leadsToPodPort(id, kind, c) {
			continue
		}
		if entry, refused := x.p.node.refuses(svc, kind, c.addr, c.protocol); refused {
			list = append(list, Refusal{Addr: c.addr, Protocol: c.protocol, ID: id, Entry: entry})
		} else if node, used := x.p.node.inUse(kind, c.addr, c.protocol); used && !x.serves(id, c, node) {
			list = append(list, Refusal{Addr: c.addr, Protocol: c.protocol, ID: id, Node: node})
		}
	}
	list = append(list, x.p.refusedEndpoints(id)...)
	slices.SortFunc(list, Refusal.compare)
	return slices.CompactFunc(list, func(a, b Refusal) bool { return a.compare(b) == 0 })
}

func (p *Processor) refusedEndpoints(id ID) (list []Refusal) {
	svc := p.services[id]
	if !p.mayBlockEndpoints(id, p.node) || !Proxied(svc) {
		return nil
	}
	for _, ipv6 := range []bool{false, true} {
		ports := portsOf(p.slicesOf(id), ipv6)
		for _, port := range svc.GetPort() {
			protocol := protocolOf(port.GetProtocol())
			for _, c := range candidates(svc, port, ports, p.redirects, p.node, ipv6) {
				if entry, is := p.node.blocks(id, c.Addr, protocol); is {
					list = append(list, Refusal{Addr: c.Addr, Protocol: protocol, ID: id, Entry: entry, Endpoint: true})
				}
			}
		}
	}
	return list
}

func (p *Processor) mayBlockEndpoints(id ID, n Node) bool {
	for _, s := range p.slices[id] {
		for _, port := range s.GetPorts() {
			if n.mayBlock(uint16(port.GetPort()), protocolOf(port.GetProtocol())) {
				return true
			}
		}
	}
	return false
}

// Published returns the TCP addresses and ports in the EndpointSlice that has the name of its service,
// sorted. Only the author of that slice chooses them, whereas any slice may have the service's label.
func (p *Processor) Published(id ID) (list []netip.AddrPort) {
	s := p.slices[id][id.Name]
	for _, port := range s.GetPorts() {
		if protocolOf(port.GetProtocol()) != TCP || !validPort(port.GetPort()) {
			continue
		}
		for _, e := range s.GetEndpoints() {
			for _, text := range e.GetAddresses() {
				if addr, err := kubeaddr.ParseAddr(text); err == nil {
					list = append(list, netip.AddrPortFrom(addr, uint16(port.GetPort())))
				}
			}
		}
	}
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list)
}

// ChangedByReservations reports whether a new table would change services.
func (p *Processor) ChangedByReservations(t *reserved.Table) bool {
	now := p.node
	now.Reserved = t
	for id, svc := range p.services {
		if p.changedByReservations(id, svc, p.node, now) {
			return true
		}
	}
	return false
}

// Refused returns the refusals of all services, in order.
func (x Explainer) Refused() (list []Refusal) {
	for id := range x.p.services {
		list = append(list, x.RefusedTo(id)...)
	}
	slices.SortFunc(list, Refusal.compare)
	return list
}

func (r Refusal) compare(o Refusal) int {
	return cmp.Or(r.ID.Compare(o.ID), r.Addr.Compare(o.Addr), cmp.Compare(r.Protocol, o.Protocol), compareBool(r.Endpoint, o.Endpoint))
}

func (p *Processor) changedByReservations(id ID, svc *service.Service, was, now Node) bool {
	type state struct {
		entry reserved.Entry
		node  string
		used  bool
	}
	stateOf := func(n Node, c claim, kind Kind) (s state) {
		s.entry, _ = n.refuses(svc, kind, c.addr, c.protocol)
		s.node, s.used = n.inUse(kind, c.addr, c.protocol)
		return s
	}
	for c, kind := range requests(svc, now) {
		if stateOf(was, c, kind) != stateOf(now, c, kind) {
			return true
		}
	}
	if !p.mayBlockEndpoints(id, was) && !p.mayBlockEndpoints(id, now) {
		return false
	}
	addresses := func(n Node) (list []netip.AddrPort) {
		at := *p
		at.node = n
		for _, r := range at.refusedEndpoints(id) {
			list = append(list, r.Addr)
		}
		return list
	}
	return !slices.Equal(addresses(was), addresses(now))
}

// serves reports whether the socket at an address and port is an endpoint of a service. It belongs to the
// other node with the name, or to this one.
func (x Explainer) serves(id ID, c claim, node string) bool {
	list, sameNode := x.p.OnNode, func(addr netip.Addr) bool { return slices.Contains(x.p.node.Addresses, addr) }
	if node != "" {
		list, sameNode = x.p.endpoints, func(addr netip.Addr) bool { return x.p.node.Reserved.OfOther(addr, c.addr.Addr()) }
	}
	return slices.ContainsFunc(list(id, c.addr.Addr().Is6()), func(e Served) bool {
		return e.Protocol == c.protocol && e.Addr.Port() == c.addr.Port() && (e.Addr == c.addr || sameNode(e.Addr.Addr()))
	})
}

func (n Node) ofHost(addr netip.Addr) bool { return slices.Contains(n.Host, addr) }

// broadcast cannot be a connection's destination.
var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

func (n Node) ofPods(addr netip.Addr) bool {
	return addr == broadcast || slices.ContainsFunc(n.PodNetworks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// HostAddresses returns the external and load balancer IPs of a service in Node.Host.
func (x Explainer) HostAddresses(id ID) []netip.Addr {
	svc := x.p.services[id]
	if !Proxied(svc) {
		return nil
	}
	return reservedOf(externalIPs(svc), x.p.node.ofHost)
}

// PodAddresses returns the addresses of a service that are in Node.PodNetworks or equal to
// broadcast.
func (x Explainer) PodAddresses(id ID) []netip.Addr {
	svc := x.p.services[id]
	if !Proxied(svc) {
		return nil
	}
	return reservedOf(append(clusterIPs(svc), externalIPs(svc)...), x.p.node.ofPods)
}

func externalIPs(svc *service.Service) []string {
	asked := slices.Clone(svc.GetExternalIps())
	if svc.GetServiceType() == "LoadBalancer" {
		asked = append(asked, svc.GetLbIngressIps()...)
	}
	return asked
}

func clusterIPs(svc *service.Service) []string {
	if ips := svc.GetClusterIps(); len(ips) > 0 {
		return slices.Clone(ips)
	}
	return []string{svc.GetClusterIp()}
}

func reservedOf(asked []string, reserved func(netip.Addr) bool) (list []netip.Addr) {
	for _, text := range asked {
		if addr, err := kubeaddr.ParseAddr(text); err == nil && reserved(addr) {
			list = append(list, addr)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}
