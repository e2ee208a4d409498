package processor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/service"
)

// NoEndpoint explains why a frontend has no endpoint for clients outside, or inside.
func (x Explainer) NoEndpoint(id ID, f Frontend, outside bool) string {
	svc, ipv6 := x.p.services[id], f.Addr.Addr().Is6()
	ports := portsOf(x.p.slicesOf(id), ipv6)
	var port *service.Service_ServicePort
	var own []candidate
	others := false
	for _, each := range svc.GetPort() {
		list := candidates(svc, each, ports, x.p.redirects, x.p.node, ipv6)
		if each.GetName() == f.Port && protocolOf(each.GetProtocol()) == f.Protocol {
			port, own = each, list
		} else {
			others = others || len(list) > 0
		}
	}
	able := slices.DeleteFunc(slices.Clone(own), func(c candidate) bool { return !c.ready && !c.lastResort() })
	policy := ""
	switch {
	case f.Kind == ClusterIP && svc.GetInternalTrafficPolicy() == policyLocal:
		policy = "internalTrafficPolicy: Local"
	case f.Kind != ClusterIP && outside && svc.GetExternalTrafficPolicy() == policyLocal:
		policy = "externalTrafficPolicy: Local"
	}
	switch {
	case len(own) == 0 && others:
		return "other ports of the service have endpoints, and this one has none: " + unlisted(port)
	case len(own) == 0:
		return x.NoEndpoints(id)
	case !slices.ContainsFunc(own, func(c candidate) bool { return c.reserved == "" }):
		return "clients are not led to its endpoints, because " + own[0].reserved
	case len(able) == 0:
		return fmt.Sprintf("none of its %d endpoints is ready", len(own))
	case policy != "" && !slices.ContainsFunc(able, func(c candidate) bool { return c.Local }):
		return fmt.Sprintf("none is on this node (%s), but on %s", policy, strings.Join(nodesOf(able), ", "))
	}
	return ""
}

func unlisted(port *service.Service_ServicePort) string {
	if name := port.GetTargetPort().GetStringVal(); name != "" {
		return fmt.Sprintf("no container of its pods has a port with the name %q, its targetPort", name)
	}
	return "no EndpointSlice of the service lists it"
}

func nodesOf(list []candidate) (names []string) {
	const most = 3
	for _, c := range list {
		if name := cmp.Or(c.node, c.Addr.Addr().String()); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	return names
}

// Settings are the translation settings of a service.
type Settings struct {
	// "Cluster" or "Local". External is empty without external addresses.
	Internal, External string
	// HealthCheckNodePort is 0 without a health check.
	HealthCheckNodePort int32
}

// Settings returns the settings of a service.
func (x Explainer) Settings(id ID) Settings {
	const cluster = "Cluster"
	svc := x.p.services[id]
	s := Settings{Internal: cmp.Or(svc.GetInternalTrafficPolicy(), cluster), HealthCheckNodePort: svc.GetHealthCheckNodePort()}
	if t := svc.GetServiceType(); t == "NodePort" || t == "LoadBalancer" || len(svc.GetExternalIps()) > 0 {
		s.External = cmp.Or(svc.GetExternalTrafficPolicy(), cluster)
	}
	return s
}

// WithNodePort returns the service with a node port, even if the port is closed.
func (x Explainer) WithNodePort(protocol Protocol, port uint16) (id ID, ok bool) {
	for id, svc := range x.p.services {
		if t := svc.GetServiceType(); !Proxied(svc) || t != "NodePort" && t != "LoadBalancer" {
			continue
		}
		for _, each := range svc.GetPort() {
			if each.GetNodePort() == int32(port) && port != 0 && protocolOf(each.GetProtocol()) == protocol {
				return id, true
			}
		}
	}
	return id, false
}
