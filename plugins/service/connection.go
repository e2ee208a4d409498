package service

import (
	"cmp"
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
	// Protocol is "TCP", "UDP" or "SCTP". An ICMP echo has protocol "" and port 0.
	Protocol processor.Protocol
	Port     uint16
}

// Explanation describes how a node handles a connection.
type Explanation struct {
	// Wrong explains refusals, Way all other steps.
	Wrong, Way []string
	// Translated is set for an address of a service or host port, even without Endpoints.
	Translated bool
	Endpoints  []netip.AddrPort
	// Client is the source address with which packets of From reach this node, if another node
	// changes it.
	Client netip.Addr
	// Hidden is the subset of Endpoints that see an address of the node instead of the client's.
	// The address is Seen, if valid.
	Hidden []netip.AddrPort
	Seen   netip.Addr
	// Sightings maps addresses to the Endpoints that see them instead of the client's, for clients
	// of the host's addresses.
	Sightings map[netip.Addr][]netip.AddrPort
	// Interfaces lists the Endpoints at another interface than eth0.
	Interfaces []EndpointInterface
	// Suspects explains missing replies if this node does not translate the address.
	Suspects []string
	// Entrances are alternatives on this node for external clients of a cluster IP.
	Entrances []netip.AddrPort
}

// Explain describes how this node handles a connection to a service or a host port. It returns the
// zero value for all others.
func (s *Service) Explain(c Connection) (e Explanation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if node, addr := s.sentFrom(c); addr.IsValid() {
		defer func(pod netip.Addr) {
			if e.Translated {
				e.Client = addr
				e.Way = append([]string{fmt.Sprintf("packets from %v come to this node from %v, because node %s translates traffic of its pods to addresses of other nodes (natExternalTraffic)", pod, addr, node)}, e.Way...)
			}
		}(c.From)
		c.From = addr
	}
	if owner, to, byHost := s.podAt(c); owner != "" {
		e = Explanation{Translated: true, Endpoints: []netip.AddrPort{to}, Way: []string{fmt.Sprintf("%s is a host port of pod %s: connections go to %v", c.target(), owner, to)}}
		if byHost {
			e.Hidden = e.Endpoints
		}
		return e
	}
	if !s.translates() {
		if s.self.addresses != nil && s.isClusterIP(c.To) {
			e.Translated = true
			e.Way = append(e.Way, fmt.Sprintf("%v is a cluster IP: services on this node are left to %s", c.To, s.translator()))
			e.Suspects = append(e.Suspects, s.suspect())
		}
		if s.proxy == nil {
			return e
		}
	}
	s.explainService(&e, c)
	return e
}

func (s *Service) explainService(e *Explanation, c Connection) {
	if there, redirected := s.redirected(e, c); redirected {
		e.Translated = true
		c = there
	}
	found := s.services.At(c.To)
	var ports []string
	for _, svc := range found {
		for _, f := range svc.Frontends {
			if f.Addr.Addr() != c.To {
				continue
			}
			if f.Addr.Port() == c.Port && f.Protocol == c.Protocol {
				e.Translated = true
				if f.Kind == processor.ClusterIP && !s.isInside(c.From) {
					s.explainEntrances(e, c, svc, f)
				} else {
					s.explainFrontend(e, c, svc.ID, f)
				}
				return
			}
			ports = append(ports, fmt.Sprintf("%d/%s", f.Addr.Port(), f.Protocol))
		}
	}
	switch why := s.refusedAt(c); {
	case why != "":
		e.Way = append(e.Way, fmt.Sprintf("%s: %s", c.target(), why))
		return
	case s.translates() && s.closedNodePort(c) != "":
		e.Wrong = append(e.Wrong, s.closedNodePort(c))
		return
	case !s.isClusterIP(c.To):
		return
	case !s.translates() && len(found) > 0 && c.Port != 0: // this also holds for other service proxies
		e.Wrong, e.Suspects = append(e.Wrong, noPort(found[0].ID, c, ports)), nil
		return
	case !s.translates():
		return
	case len(found) == 0:
		e.Wrong = append(e.Wrong, fmt.Sprintf("%v is a cluster IP that no service has: clients are refused", c.To))
	case c.Port == 0:
		e.Wrong = append(e.Wrong, fmt.Sprintf("%v is the cluster IP of service %v: it answers no pings; ask for a port, such as %s", c.To, found[0].ID, ports[0]))
	default:
		e.Wrong = append(e.Wrong, noPort(found[0].ID, c, ports)+": clients are refused")
	}
	e.Translated = true
}

func noPort(id processor.ID, c Connection, ports []string) string {
	return fmt.Sprintf("service %v has no port %d/%s, but %s", id, c.Port, c.Protocol, strings.Join(ports, ", "))
}

// sentFrom returns the node of a client and the address with which that node masquerades packets of
// its pods to other nodes, if it does. All nodes have the same natExternalTraffic.
func (s *Service) sentFrom(c Connection) (node string, addr netip.Addr) {
	if s.self.nodes == nil || !s.leavesByMain[version(c.To)] || s.isInside(c.From) || !slices.Contains(s.vswitchAddresses(), c.To) {
		return "", addr
	}
	for _, other := range s.self.nodes.GetAllNodes() {
		if !slices.ContainsFunc(s.self.addresses.PodSubnets(other), func(p netip.Prefix) bool { return p.Contains(c.From) }) {
			continue
		}
		for _, ip := range other.VPPIPs {
			if ip.Addr().Is4() == c.From.Is4() {
				return other.Name, ip.Addr()
			}
		}
	}
	return "", addr
}

// closedNodePort returns "" unless a closed node port has the address.
func (s *Service) closedNodePort(c Connection) string {
	open := s.proxy.Settings.NodePortAddresses
	if len(open) == 0 || !slices.Contains(s.self.ownAddresses(), c.To) || slices.Contains(s.proxy.Settings.OpenOn([]netip.Addr{c.To}), c.To) {
		return ""
	}
	id, ok := s.services.WithNodePort(c.Protocol, c.Port)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d/%s is a node port of service %v, and not open at %v: nodePortAddresses in service.conf has only %v", c.Port, c.Protocol, id, c.To, open)
}

func version(addr netip.Addr) int {
	if addr.Is6() {
		return 1
	}
	return 0
}

func (c Connection) target() string {
	return fmt.Sprintf("%v/%s", netip.AddrPortFrom(c.To, c.Port), c.Protocol)
}

func (s *Service) explainFrontend(e *Explanation, c Connection, id processor.ID, f processor.Frontend) {
	name := fmt.Sprintf("%s (%s of service %v)", c.target(), f.Kind, id)
	wrong := func(format string, args ...any) {
		e.Wrong = append(e.Wrong, name+fmt.Sprintf(format, args...))
	}
	_, unrestricted := s.appliedLimits[limitRanges][id]
	unrestricted = unrestricted && s.isInside(c.From)
	if f.Restricted && !unrestricted && !slices.ContainsFunc(f.Sources, func(p netip.Prefix) bool { return p.Contains(c.From) }) {
		wrong(": %v is in none of loadBalancerSourceRanges, so its packets are dropped", c.From)
		return
	}
	endpoints, outside := f.Inside, ""
	if !s.isInside(c.From) {
		endpoints, outside = f.Outside, " for clients outside of this node"
	}
	switch {
	case len(endpoints) == 0 && outside != "" && f.Drop:
		wrong(" has no endpoint on this node (externalTrafficPolicy: Local): packets of clients outside are dropped; %s", s.services.Nowhere(id, f, true))
		return
	case len(endpoints) == 0:
		wrong(" has no endpoint%s: clients are refused; %s", outside, s.services.Nowhere(id, f, outside != ""))
		return
	}
	if s.translates() {
		s.wantConfigured(e, name+" is not translated as it should be", nat.Key(id, f.Addr.Addr().Is6()))
	}
	const most = 5
	var texts []string
	if e.Seen.IsValid() && !f.KeepSource && s.config.Resolved().Stolen != nil { // the routes translate, see translatedByRoutes
		e.Seen = s.self.loopback(c.To.Is6())
	}
	hidden := e.Seen.IsValid() || !s.isInside(c.From) && (!f.KeepSource || f.Kind == processor.ClusterIP)
	for i, endpoint := range endpoints {
		if hidden {
			e.Hidden = append(e.Hidden, endpoint.Addr)
		}
		text := endpoint.Addr.String()
		if at, ok := s.interfaceAt(endpoint); ok {
			e.Interfaces = append(e.Interfaces, at)
			text += fmt.Sprintf(" (%s of pod %v)", at.Interface, at.Pod)
		}
		if e.Endpoints = append(e.Endpoints, endpoint.Addr); i < most {
			texts = append(texts, text)
		}
	}
	if n := len(endpoints) - most; n > 0 {
		texts = append(texts, fmt.Sprintf("%d more", n))
	}
	to := "go to"
	if !s.translates() {
		to = "should go to"
		e.Suspects = []string{s.suspect()}
	}
	e.Way = append(e.Way, fmt.Sprintf("%s: connections%s %s %s", name, outside, to, strings.Join(texts, ", ")))
}

func (s *Service) wantConfigured(e *Explanation, what, key string) {
	if s.proxy.Value == nil {
		return
	}
	if v := s.proxy.Value(key, false); v.State != "CONFIGURED" {
		e.Wrong = append(e.Wrong, strings.TrimSuffix(fmt.Sprintf("%s: %s is %s: %s", what, v.Key, v.State, v.Error), ": "))
	}
}

// explainEntrances lists the addresses at which external clients of a cluster IP reach the
// service's port. A closed entrance is not an error, because another node may have it open.
func (s *Service) explainEntrances(e *Explanation, c Connection, svc *processor.Service, port processor.Frontend) {
	for _, f := range svc.Frontends {
		if f.Kind == processor.ClusterIP || f.Kind == processor.Entrance || f.Port != port.Port || f.Protocol != port.Protocol {
			continue
		}
		for _, addr := range s.hostAddressesOf(f) {
			var at Explanation
			to := Connection{c.From, addr, f.Protocol, f.Addr.Port()}
			if s.translates() {
				s.explainService(&at, to)
			} else {
				s.explainFrontend(&at, to, svc.ID, f)
			}
			e.enter(netip.AddrPortFrom(addr, f.Addr.Port()), at)
		}
	}
	if len(e.Way) == 0 {
		e.Wrong = append(e.Wrong, fmt.Sprintf("service %v is for clients inside of the cluster: it has no node port and no external address", svc.ID))
	}
	if len(port.Outside) > 0 {
		e.Way = append(e.Way, fmt.Sprintf("%s itself also forwards clients outside to endpoints, if their routes to %v lead to this node", c.target(), c.To))
	}
}

// hostAddressesOf returns the host's addresses if the host redirects them to the frontend.
func (s *Service) hostAddressesOf(f processor.Frontend) []netip.Addr {
	if host := s.redirectedTo(f); len(host) > 0 {
		return host
	}
	return []netip.Addr{f.Addr.Addr()}
}

func (e *Explanation) enter(entrance netip.AddrPort, at Explanation) {
	e.Way = append(e.Way, slices.Concat(at.Wrong, at.Way)...)
	if len(at.Endpoints) > 0 {
		e.Entrances = append(e.Entrances, entrance)
	}
	e.Endpoints = addMissing(e.Endpoints, at.Endpoints)
	e.Interfaces = append(e.Interfaces, at.Interfaces...)
	switch {
	case len(at.Hidden) == 0:
	case at.Seen.IsValid():
		if e.Sightings == nil {
			e.Sightings = map[netip.Addr][]netip.AddrPort{}
		}
		e.Sightings[at.Seen] = addMissing(e.Sightings[at.Seen], at.Hidden)
	default:
		e.Hidden = addMissing(e.Hidden, at.Hidden)
	}
}

func addMissing(list, more []netip.AddrPort) []netip.AddrPort {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}

// isInside reports whether the client is a local pod or the node itself.
func (s *Service) isInside(addr netip.Addr) bool {
	if s.services == nil {
		return slices.ContainsFunc(s.self.podSubnets(), func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	node := s.services.Node()
	return slices.Contains(node.Addresses, addr) || slices.ContainsFunc(node.PodSubnets, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func (s *Service) isClusterIP(addr netip.Addr) bool {
	plan := s.self.addresses.Plan()
	return slices.ContainsFunc(plan.Families(), func(f ipam.Plan) bool { return f.Subnets.Service.IsValid() && f.Subnets.Service.Contains(addr) })
}

// byHost is set if the host redirects the port, not the vswitch.
func (s *Service) podAt(c Connection) (owner string, to netip.AddrPort, byHost bool) {
	for _, pod := range s.podsWithHostPorts() {
		open, _ := s.portsOf(pod)
		for _, f := range open.frontends {
			if f.Addr == netip.AddrPortFrom(c.To, c.Port) && f.Protocol == c.Protocol {
				return pod.ID.String(), f.Inside[0].Addr, false
			}
		}
		for _, f := range open.redirects {
			if f.GetAddress() == c.To.String() && f.GetPort() == uint32(c.Port) && f.GetProtocol() == redirectProtocols[c.Protocol] {
				to, _ := netip.ParseAddr(f.GetToAddress())
				return pod.ID.String(), netip.AddrPortFrom(to, uint16(cmp.Or(f.GetToPort(), f.GetPort()))), true
			}
		}
	}
	return "", netip.AddrPort{}, false
}

func (s *Service) translator() string {
	if s.conflictingProxy != "" {
		return "another proxy: found " + s.conflictingProxy
	}
	return "kube-proxy"
}
