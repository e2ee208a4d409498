package processor

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/service"
)

type candidate struct {
	Endpoint
	ready, serving, terminating bool
	zones, nodes                []string
	slice                       string
	node, zone                  string // "" if unknown
	// listed is the address in the slice, which is eth0's for a pod.
	listed netip.Addr
	pod    ID // zero if it is not a pod
	// reserved is the reason to keep clients from the endpoint, or "".
	reserved string
}

// lastResort reports whether the endpoint can be used while none is ready.
func (c candidate) lastResort() bool { return !c.ready && c.serving && c.terminating }

type portID struct {
	name     string
	protocol Protocol
}

type listedPort struct {
	slice  *endpointslice.EndpointSlice
	number uint16
}

// listedPorts indexes the ports of all slices of a service and IP version, because a service may
// have thousands of ports.
type listedPorts map[portID][]listedPort

func portsOf(slicesOf []*endpointslice.EndpointSlice, ipv6 bool) listedPorts {
	family := endpointslice.EndpointSlice_IPv4
	if ipv6 {
		family = endpointslice.EndpointSlice_IPv6
	}
	ports := listedPorts{}
	for _, s := range slicesOf {
		if s.GetAddressType() != family {
			continue
		}
		for _, p := range s.GetPorts() {
			if validPort(p.GetPort()) {
				id := portID{p.GetName(), protocolOf(p.GetProtocol())}
				ports[id] = append(ports[id], listedPort{s, uint16(p.GetPort())})
			}
		}
	}
	return ports
}

// candidates returns the sorted, unique endpoints of a service port. Slices may repeat an endpoint.
func candidates(svc *service.Service, port *service.Service_ServicePort, ports listedPorts, redirects Redirects, node Node, ipv6 bool) []candidate {
	var list []candidate
	protocol := protocolOf(port.GetProtocol())
	for _, p := range ports[portID{port.GetName(), protocol}] {
		list = slices.Grow(list, len(p.slice.GetEndpoints()))
		for _, e := range p.slice.GetEndpoints() {
			if c, ok := newCandidate(svc, p.slice, e, p.number, protocol, redirects, node, ipv6); ok {
				list = append(list, c)
			}
		}
	}
	slices.SortFunc(list, compareCandidates)
	return slices.CompactFunc(list, func(a, b candidate) bool { return a.Addr == b.Addr })
}

// newCandidate returns false if the endpoint has no usable address.
func newCandidate(svc *service.Service, s *endpointslice.EndpointSlice, e *endpointslice.EndpointSlice_Endpoint, port uint16, protocol Protocol, redirects Redirects, node Node, ipv6 bool) (candidate, bool) {
	if len(e.GetAddresses()) == 0 {
		return candidate{}, false
	}
	addr, ok := usable(e.GetAddresses()[0], ipv6)
	if !ok {
		return candidate{}, false
	}
	endpoint := Endpoint{Addr: netip.AddrPortFrom(addr, port), Local: node.has(e.GetNodeName(), addr)}
	pod, _ := podOf(s, e)
	if r, ok := redirects.at(pod, addr); ok {
		endpoint.Addr, endpoint.Interface, endpoint.Eth0 = netip.AddrPortFrom(r.Addr, port), r.Interface, addr
	}
	c := candidate{
		Endpoint:    endpoint,
		ready:       e.GetReady() || svc.GetPublishNotReadyAddresses(),
		serving:     e.GetServing(),
		terminating: e.GetTerminating(),
		zones:       e.GetForZones(),
		nodes:       e.GetForNodes(),
		slice:       s.GetName(),
		node:        e.GetNodeName(),
		zone:        e.GetZone(),
		listed:      addr,
		pod:         pod,
	}
	if entry, is := node.blocks(ID{svc.GetNamespace(), svc.GetName()}, endpoint.Addr, protocol); is {
		c.ready, c.serving, c.reserved = false, false, entry.String()
	}
	return c, true
}

// Manually written endpoints often lack a node name. Their address decides.
func (n Node) has(nodeName string, addr netip.Addr) bool {
	if nodeName != "" {
		return nodeName == n.Name
	}
	return slices.Contains(n.Addresses, addr) || slices.ContainsFunc(n.PodSubnets, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// compareCandidates sorts the best entry of an endpoint first: usable, then local. Slice names make
// the result independent of the order of slices.
func compareCandidates(a, b candidate) int {
	rank := func(c candidate) int {
		switch {
		case c.ready:
			return 0
		case c.lastResort():
			return 1
		}
		return 2
	}
	return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(rank(a), rank(b)), compareBool(a.Local, b.Local), cmp.Compare(a.slice, b.slice),
		slices.Compare(a.nodes, b.nodes), slices.Compare(a.zones, b.zones), a.listed.Compare(b.listed))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// choose returns the filtered candidates that are ready, or else the last resorts.
func choose(list []candidate, filter func(candidate) bool) []candidate {
	pick := func(usable func(candidate) bool) []candidate {
		unfit := func(c candidate) bool { return !usable(c) || !filter(c) }
		if !slices.ContainsFunc(list, unfit) {
			return list
		}
		return slices.DeleteFunc(slices.Clone(list), unfit)
	}
	if ready := pick(func(c candidate) bool { return c.ready }); len(ready) > 0 {
		return ready
	}
	return pick(candidate.lastResort)
}

func ofCluster(list []candidate, node Node) []Endpoint {
	chosen := choose(list, func(candidate) bool { return true })
	if len(chosen) == 0 || !chosen[0].ready { // hints apply to ready endpoints
		return endpoints(chosen)
	}
	if hinted := hintedAt(chosen, func(c candidate) []string { return c.nodes }, node.Name); len(hinted) > 0 {
		return endpoints(hinted)
	}
	if hinted := hintedAt(chosen, func(c candidate) []string { return c.zones }, node.Zone); len(hinted) > 0 {
		return endpoints(hinted)
	}
	return endpoints(chosen)
}

// hintedAt returns the candidates with a hint for a name, or none unless all have hints.
func hintedAt(list []candidate, hints func(candidate) []string, name string) (hinted []candidate) {
	for _, c := range list {
		if len(hints(c)) == 0 {
			return nil
		}
		if name != "" && slices.Contains(hints(c), name) {
			hinted = append(hinted, c)
		}
	}
	return hinted
}

func ofNode(list []candidate) []Endpoint {
	return endpoints(choose(list, func(c candidate) bool { return c.Local }))
}

func endpoints(list []candidate) []Endpoint {
	if len(list) == 0 {
		return nil
	}
	out := make([]Endpoint, 0, len(list))
	for _, c := range list {
		out = append(out, c.Endpoint)
	}
	return out
}
