package processor

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/contiv/contiv/internal/plugins/service/reserved"
)

// A packet to a node port of another node is translated there again. Two services with each other's
// node ports or external IPs as endpoints would forward it in a loop, as a new connection each
// time. So a service leads to node ports and external IPs of younger services only. Endpoints at
// those of older services, and at its own node ports, get no clients, unless the external IP's own
// service lists the endpoint, too: then a process of the node serves it, such as an ingress.
//
// Only frontends that the other service gets count. Nobody takes endpoints from a service by naming
// the address of a pod, or of an older service's endpoint.

type transport struct {
	protocol Protocol
	number   uint16
}

// requestedPorts indexes the ports that services request at addresses other than cluster IPs.
type requestedPorts struct {
	nodePorts, external map[transport]map[ID]bool
	processor           *Processor
}

func newRequestedPorts(p *Processor) *requestedPorts {
	return &requestedPorts{nodePorts: map[transport]map[ID]bool{}, external: map[transport]map[ID]bool{}, processor: p}
}

// set records a service, or removes it if nil. It returns its old and new ports.
func (r *requestedPorts) set(id ID, prev, next *service.Service) map[transport]bool {
	ports := map[transport]bool{}
	if Proxied(prev) {
		for _, port := range prev.GetPort() {
			for _, t := range []transport{{protocolOf(port.GetProtocol()), uint16(port.GetNodePort())}, {protocolOf(port.GetProtocol()), uint16(port.GetPort())}} {
				if r.nodePorts[t][id] || r.external[t][id] {
					ports[t] = true
				}
				remove(r.nodePorts, t, id)
				remove(r.external, t, id)
			}
		}
	}
	if !Proxied(next) {
		return ports
	}
	external := len(externalIPs(next)) > 0
	for _, port := range next.GetPort() {
		protocol := protocolOf(port.GetProtocol())
		if t := (transport{protocol, uint16(port.GetNodePort())}); next.GetServiceType() != "ClusterIP" && validPort(port.GetNodePort()) {
			put(r.nodePorts, t, id)
			ports[t] = true
		}
		if t := (transport{protocol, uint16(port.GetPort())}); external && validPort(port.GetPort()) {
			put(r.external, t, id)
			ports[t] = true
		}
	}
	return ports
}

func put(in map[transport]map[ID]bool, t transport, id ID) {
	if in[t] == nil {
		in[t] = map[ID]bool{}
	}
	in[t][id] = true
}

func remove(from map[transport]map[ID]bool, t transport, id ID) {
	if delete(from[t], id); len(from[t]) == 0 {
		delete(from, t)
	}
}

// loop returns the reservation of an endpoint of a service that nodes would translate again.
func (r *requestedPorts) loop(own ID, at netip.AddrPort, protocol Protocol, node Node) (reserved.Entry, bool) {
	t := transport{protocol, at.Port()}
	entry := func(owner string) (reserved.Entry, bool) {
		return reserved.Entry{Protocol: string(protocol), Port: at.Port(), Owner: owner, Endpoints: true}, true
	}
	if ids := r.nodePorts[t]; len(ids) > 0 && node.Reserved.OfNode(at.Addr()) {
		id := slices.MinFunc(slices.Collect(maps.Keys(ids)), r.processor.compareAge)
		if _, refused := node.refuses(r.processor.services[id], NodePort, at, protocol); !refused && r.processor.compareAge(id, own) <= 0 {
			return entry("the node port of service " + id.String())
		}
	}
	if len(r.external[t]) == 0 {
		return reserved.Entry{}, false
	}
	owner, has := r.processor.owner(claim{at, protocol})
	if _, used := node.inUse(owner.kind, at, protocol); used { // a process has the port
		return reserved.Entry{}, false
	}
	if has && (owner.kind == ExternalIP || owner.kind == LoadBalancer) && r.processor.compareAge(owner.id, own) < 0 && !r.processor.lists(owner.id, at, protocol) {
		return entry("the external IP of service " + owner.id.String())
	}
	return reserved.Entry{}, false
}

// blocks returns the reservation that keeps clients of a service from an endpoint.
func (n Node) blocks(own ID, at netip.AddrPort, protocol Protocol) (reserved.Entry, bool) {
	if entry, is := n.Reserved.Endpoint(at, string(protocol)); is || n.requested == nil {
		return entry, is
	}
	return n.requested.loop(own, at, protocol, n)
}

// mayBlock returns false if blocks finds no reservation for any endpoint with a port.
func (n Node) mayBlock(number uint16, protocol Protocol) bool {
	t := transport{protocol, number}
	return n.Reserved.Tunnel(number, string(protocol)) || n.requested != nil && (len(n.requested.nodePorts[t]) > 0 || len(n.requested.external[t]) > 0)
}

func (p *Processor) lists(id ID, at netip.AddrPort, protocol Protocol) bool {
	for _, s := range p.slices[id] {
		for _, port := range s.GetPorts() {
			if protocolOf(port.GetProtocol()) != protocol || port.GetPort() != int32(at.Port()) {
				continue
			}
			for _, e := range s.GetEndpoints() {
				for _, text := range e.GetAddresses() {
					if addr, err := kubeaddr.ParseAddr(text); err == nil && addr == at.Addr() {
						return true
					}
				}
			}
		}
	}
	return false
}

func (p *Processor) listing(ports map[transport]bool) (ids []ID) {
	if len(ports) == 0 {
		return nil
	}
	for id, all := range p.slices {
		found := false
		for _, s := range all {
			for _, port := range s.GetPorts() {
				found = found || ports[transport{protocolOf(port.GetProtocol()), uint16(port.GetPort())}]
			}
		}
		if found {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, ID.Compare)
	return ids
}

// leadingTo returns the services with endpoints at the ports of external IPs of services.
func (p *Processor) leadingTo(ids ...ID) []ID {
	ports := map[transport]bool{}
	for _, id := range ids {
		for _, port := range p.services[id].GetPort() {
			if t := (transport{protocolOf(port.GetProtocol()), uint16(port.GetPort())}); p.requested.external[t][id] {
				ports[t] = true
			}
		}
	}
	return p.listing(ports)
}
