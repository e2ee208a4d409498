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
	// Protocol is "TCP", "UDP" or "SCTP"; "" with port 0: an ICMP echo.
	Protocol processor.Protocol
	Port     uint16
}

// Explanation is what a node does with a connection, in sentences.
type Explanation struct {
	// Wrong has the reasons why clients are refused, Way what else happens to them.
	Wrong, Way []string
	// Translated: the address is a service's or a host port; the connection goes to one of Endpoints, or nowhere.
	Translated bool
	Endpoints  []netip.AddrPort
	// Client is the address with which packets of From come to this node, if it is another one: Endpoints on this node see it.
	Client netip.Addr
	// Hidden are those of Endpoints that see an address of the node instead of the client's: Seen, if that is valid.
	Hidden []netip.AddrPort
	Seen   netip.Addr
	// Sightings are, by address, those of Endpoints that see it instead of the client's if it enters at an address of the host.
	Sightings map[netip.Addr][]netip.AddrPort
	// Interfaces has those of Endpoints that are at another interface of their pod than eth0.
	Interfaces []EndpointInterface
	// Suspects are why nothing may answer, where this node does not know who translates the address.
	Suspects []string
	// Entrances of this node are for clients from outside of the cluster, which asked for a cluster IP.
	Entrances []netip.AddrPort
}

// Explain returns what this node does with a connection to an address of a service, or to a host port.
// It returns nothing about other connections.
func (s *Service) Explain(c Connection) (e Explanation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if node, addr := s.sentFrom(c); addr.IsValid() {
		defer func(pod netip.Addr) {
			if e.Translated {
				e.Client = addr
				e.Way = append([]string{fmt.Sprintf("packets from %v come to this node from %v, because node %s translates what its pods send to addresses of other nodes (natExternalTraffic)", pod, addr, node)}, e.Way...)
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

// explainService adds what becomes of a connection to an address of a service.
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
	case !s.translates() && len(found) > 0 && c.Port != 0: // whoever translates, there is no such port
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

// noPort says that a service has no such port.
func noPort(id processor.ID, c Connection, ports []string) string {
	return fmt.Sprintf("service %v has no port %d/%s, but %s", id, c.Port, c.Protocol, strings.Join(ports, ", "))
}

// sentFrom returns the node of a client, and the address that this gives to what its pods send to addresses of other nodes; none if the
// client's packets come as they are. All nodes of a cluster have the same natExternalTraffic.
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

// closedNodePort says that a node port is not open at an address of this node; "" if it is none, or open.
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

// version is the index of an address's IP version.
func version(addr netip.Addr) int {
	if addr.Is6() {
		return 1
	}
	return 0
}

func (c Connection) target() string {
	return fmt.Sprintf("%v/%s", netip.AddrPortFrom(c.To, c.Port), c.Protocol)
}

// explainFrontend adds the endpoints that a client gets, or why it gets none.
func (s *Service) explainFrontend(e *Explanation, c Connection, id processor.ID, f processor.Frontend) {
	name := fmt.Sprintf("%s (%s of service %v)", c.target(), f.Kind, id)
	wrong := func(format string, args ...any) {
		e.Wrong = append(e.Wrong, name+fmt.Sprintf(format, args...))
	}
	_, unrestricted := s.limited[limitRanges][id]
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

// wantConfigured adds what is wrong because a value is not configured.
func (s *Service) wantConfigured(e *Explanation, what, key string) {
	if s.proxy.Value == nil {
		return
	}
	if v := s.proxy.Value(key, false); v.State != "CONFIGURED" {
		e.Wrong = append(e.Wrong, strings.TrimSuffix(fmt.Sprintf("%s: %s is %s: %s", what, v.Key, v.State, v.Error), ": "))
	}
}

// explainEntrances adds where on this node clients from outside of the cluster reach the port of a service that has a cluster
// IP, and what becomes of them there. That an entrance is closed here is no mistake: another node may have it open.
func (s *Service) explainEntrances(e *Explanation, c Connection, svc *processor.Service, port processor.Frontend) {
	for _, f := range svc.Frontends {
		if f.Kind == processor.ClusterIP || f.Kind == processor.Entrance || f.Port != port.Port || f.Protocol != port.Protocol {
			continue
		}
		for _, addr := range s.entered(f) {
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
		e.Way = append(e.Way, fmt.Sprintf("%s itself leads clients outside to endpoints as well, if their routes to %v lead to this node", c.target(), c.To))
	}
}

// entered returns the addresses at which clients outside come to a frontend: those of the host, which sends them to the interconnect, where
// the frontend is at that.
func (s *Service) entered(f processor.Frontend) []netip.Addr {
	if host := s.redirectedTo(f); len(host) > 0 {
		return host
	}
	return []netip.Addr{f.Addr.Addr()}
}

// enter adds what becomes of connections at an entrance.
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

// addMissing adds what is not in a list yet.
func addMissing(list, more []netip.AddrPort) []netip.AddrPort {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}

// isInside reports whether a client is a pod of this node, or the node.
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

// podAt returns the pod that gets a connection to a host port, "" if there is none; byHost: the host sends it there, not the vswitch.
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

// translator returns what translates services if not the vswitch.
func (s *Service) translator() string {
	if s.disabled != "" {
		return "somebody else: found " + s.disabled
	}
	return "kube-proxy"
}
