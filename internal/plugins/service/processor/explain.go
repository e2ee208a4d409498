package processor

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Explainer explains the translations of a processor: which endpoints are used, why others are not, and
// which addresses a service requests and does not get. It changes nothing.
type Explainer struct{ p *Processor }

// Explainer returns the explainer of the current state.
func (p *Processor) Explainer() Explainer { return Explainer{p} }

// EndpointUse is an endpoint of a service port and its use by this node.
type EndpointUse struct {
	Addr netip.AddrPort
	// Interface is set if the pod is not reached at eth0. Listed is the address in the slice.
	Interface string
	Listed    netip.Addr
	// Pod is zero if the endpoint is not a pod.
	Pod      ID
	Protocol Protocol
	// Port is the name of the service port, and may be empty.
	Port string
	// Node and Zone are empty if unknown.
	Node, Zone                  string
	Local                       bool
	Ready, Serving, Terminating bool
	// Inside and Outside report whether clients inside and outside use the endpoint.
	Inside, Outside bool
	// Why explains why one of them is false.
	Why string
}

// Endpoints returns all endpoints of an IP version of a service, even unused ones, sorted by port
// name, address and port number.
func (x Explainer) Endpoints(id ID, ipv6 bool) (list []EndpointUse) {
	svc := x.p.services[id]
	if !Proxied(svc) {
		return nil
	}
	addresses, ports := frontendAddresses(svc, x.p.node, ipv6), portsOf(x.p.slicesOf(id), ipv6)
	for _, port := range svc.GetPort() {
		found := candidates(svc, port, ports, x.p.redirects, x.p.node, ipv6)
		frontends := portFrontends(svc, port, addresses, found, x.p.node)
		for _, c := range found {
			use := EndpointUse{
				Addr: c.Addr, Interface: c.Interface, Listed: c.listed, Pod: c.pod, Protocol: protocolOf(port.GetProtocol()), Port: port.GetName(), Node: c.node, Zone: c.zone, Local: c.Local,
				Ready: c.ready, Serving: c.serving, Terminating: c.terminating,
				Inside:  slices.ContainsFunc(frontends, func(f Frontend) bool { return slices.Contains(f.Inside, c.Endpoint) }),
				Outside: slices.ContainsFunc(frontends, func(f Frontend) bool { return slices.Contains(f.Outside, c.Endpoint) }),
			}
			use.Why = c.whyNot(use, found, x.p.node)
			list = append(list, use)
		}
	}
	return list
}

// NoEndpoints explains why Endpoints finds no endpoint of a service in either IP version.
func (x Explainer) NoEndpoints(id ID) string {
	svc, all, listed := x.p.services[id], x.p.slicesOf(id), 0
	for _, s := range all {
		listed += len(s.GetEndpoints())
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(svc.GetSelector())) {
		labels = append(labels, key+"="+svc.GetSelector()[key])
	}
	selector := strings.Join(labels, ",")
	switch {
	case listed > 0:
		return "its EndpointSlices list endpoints, but with other ports than the service, or of another IP version: is each targetPort that is a name the name of a container port?"
	case selector == "" && len(all) == 0:
		return "it has neither a selector nor an EndpointSlice: create an EndpointSlice"
	case selector == "":
		return "its EndpointSlices list no endpoints, and it has no selector: add endpoints to them"
	case len(all) == 0:
		return fmt.Sprintf("it has no EndpointSlice: no pod of namespace %s has the labels of its selector (%s), or the controller manager does not run", id.Namespace, selector)
	}
	return fmt.Sprintf("its EndpointSlices list none: no pod of namespace %s that has the labels of its selector (%s) has an address; or its targetPort is a name that none of their containers has", id.Namespace, selector)
}

func (c candidate) whyNot(use EndpointUse, all []candidate, node Node) string {
	switch {
	case use.Inside && use.Outside:
		return ""
	case c.reserved != "":
		return c.reserved
	case !c.ready && !c.lastResort():
		return "not ready"
	case !use.Inside && !use.Outside && !c.ready:
		return "terminating, and others are ready"
	case use.Inside != use.Outside && !c.ready:
		return "terminating, and others are ready; on this node, it is the only one for clients outside (externalTrafficPolicy: Local)"
	case use.Inside != use.Outside && !c.Local:
		return "not on this node: not for clients outside (externalTrafficPolicy: Local)"
	case use.Inside != use.Outside:
		return "on this node: for clients outside (externalTrafficPolicy: Local); hints are for others"
	case !slices.Contains(ofCluster(all, node), c.Endpoint):
		return c.hinted()
	}
	return "not on this node (internalTrafficPolicy: Local)"
}

func (c candidate) hinted() string {
	if len(c.nodes) > 0 {
		return fmt.Sprintf("hints: for node %s", strings.Join(c.nodes, ", "))
	}
	return fmt.Sprintf("hints: for zone %s", strings.Join(c.zones, ", "))
}
