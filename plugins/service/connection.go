package service

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/plugins/ipam"
	"github.com/contiv/contiv/plugins/service/processor"
	"github.com/contiv/contiv/plugins/service/renderer/nat"
)

// Connection is a connection that a client opens.
type Connection struct {
	From, To netip.Addr
	// Protocol is "TCP", "UDP" or "SCTP"; "" with port 0: an ICMP echo.
	Protocol processor.Protocol
	Port     uint16
}

// Explain returns what this node does with a connection to an address of a service, or to a host port:
// why clients are refused, or what else happens to it. It returns nothing about other connections.
func (s *Service) Explain(c Connection) (wrong, way []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owner, to := s.hostPortAt(c); owner != "" {
		return nil, []string{fmt.Sprintf("%s is a host port of pod %s: connections go to %v", c.target(), owner, to)}
	}
	if !s.translates() {
		if s.self.addresses != nil && s.isClusterIP(c.To) {
			way = append(way, fmt.Sprintf("%v is a cluster IP: services on this node are left to %s", c.To, s.translator()))
		}
		if s.proxy == nil {
			return nil, way
		}
	}
	found := s.services.At(c.To)
	var ports []string
	for _, svc := range found {
		for _, f := range svc.Frontends {
			if f.Addr.Addr() != c.To {
				continue
			}
			if f.Addr.Port() == c.Port && f.Protocol == c.Protocol {
				wrong, ends := s.explainFrontend(c, svc.ID, f)
				return wrong, append(way, ends...)
			}
			ports = append(ports, fmt.Sprintf("%d/%s", f.Addr.Port(), f.Protocol))
		}
	}
	switch {
	case !s.translates() || !s.isClusterIP(c.To):
	case len(found) == 0:
		wrong = append(wrong, fmt.Sprintf("%v is a cluster IP that no service has: clients are refused", c.To))
	case c.Port == 0:
		wrong = append(wrong, fmt.Sprintf("%v is the cluster IP of service %v: it answers no pings; ask for a port, such as %s", c.To, found[0].ID, ports[0]))
	default:
		wrong = append(wrong, fmt.Sprintf("service %v has no port %d/%s, but %s: clients are refused", found[0].ID, c.Port, c.Protocol, strings.Join(ports, ", ")))
	}
	return wrong, way
}

func (c Connection) target() string {
	return fmt.Sprintf("%v/%s", netip.AddrPortFrom(c.To, c.Port), c.Protocol)
}

// explainFrontend returns the endpoints that a client gets, or why it gets none.
func (s *Service) explainFrontend(c Connection, id processor.ID, f processor.Frontend) (wrong, way []string) {
	name := fmt.Sprintf("%s (%s of service %v)", c.target(), f.Kind, id)
	details := fmt.Sprintf("`contivctl services %v` says why", id)
	if f.Restricted && (s.caps.ClientScopes || !s.isInside(c.From)) && !slices.ContainsFunc(f.Sources, func(p netip.Prefix) bool { return p.Contains(c.From) }) {
		return []string{fmt.Sprintf("%s: %v is in none of loadBalancerSourceRanges, so its packets are dropped", name, c.From)}, nil
	}
	endpoints, outside := f.Inside, ""
	if !s.isInside(c.From) {
		endpoints, outside = f.Outside, " for clients outside of this node"
	}
	switch {
	case len(endpoints) == 0 && outside != "" && f.Drop:
		return []string{fmt.Sprintf("%s has no endpoint on this node (externalTrafficPolicy: Local): packets of clients outside are dropped; %s", name, details)}, nil
	case len(endpoints) == 0:
		return []string{fmt.Sprintf("%s has no endpoint%s: clients are refused; %s", name, outside, details)}, nil
	}
	if s.proxy.Value != nil && s.translates() {
		if v := s.proxy.Value(nat.Key(id, f.Addr.Addr().Is6()), false); v.State != "CONFIGURED" {
			wrong = append(wrong, strings.TrimSuffix(fmt.Sprintf("%s is not translated as it should be: %s is %s: %s", name, v.Key, v.State, v.Error), ": "))
		}
	}
	const most = 5
	var texts []string
	for _, e := range endpoints[:min(len(endpoints), most)] {
		texts = append(texts, e.Addr.String())
	}
	if n := len(endpoints) - most; n > 0 {
		texts = append(texts, fmt.Sprintf("%d more", n))
	}
	return wrong, []string{fmt.Sprintf("%s: connections%s go to %s; ask for one of these what else is on the way", name, outside, strings.Join(texts, ", "))}
}

// isInside reports whether a client is a pod of this node, or the node.
func (s *Service) isInside(addr netip.Addr) bool {
	node := s.services.Node()
	return slices.Contains(node.Addresses, addr) || slices.ContainsFunc(node.PodSubnets, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func (s *Service) isClusterIP(addr netip.Addr) bool {
	plan := s.self.addresses.Plan()
	return slices.ContainsFunc(plan.Families(), func(f ipam.Plan) bool { return f.Subnets.Service.IsValid() && f.Subnets.Service.Contains(addr) })
}

// hostPortAt returns the pod that gets a connection to a host port, "" if there is none.
func (s *Service) hostPortAt(c Connection) (owner string, to netip.AddrPort) {
	for _, pod := range s.podsWithHostPorts() {
		frontends, _ := s.frontendsOf(pod)
		for _, f := range frontends {
			if f.Addr == netip.AddrPortFrom(c.To, c.Port) && f.Protocol == c.Protocol {
				return pod.ID.String(), f.Inside[0].Addr
			}
		}
	}
	return "", netip.AddrPort{}
}

// translator returns what translates services if not the vswitch.
func (s *Service) translator() string {
	if s.disabled != "" {
		return "somebody else: found " + s.disabled
	}
	return "kube-proxy"
}
