package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/plugins/service/renderer/nat"
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
	// Sightings is for clients with an address of the host: by source address that arrives instead
	// of the client's, the Endpoints at which it does.
	Sightings map[netip.Addr][]netip.AddrPort
	// Interfaces lists the Endpoints at another interface than eth0.
	Interfaces []EndpointInterface
	// Suspects explains missing replies if this node does not translate the address.
	Suspects []string
	// Entrances are alternatives on this node for external clients of a cluster IP.
	Entrances []netip.AddrPort
}

// EndpointInterface is an interface, other than eth0, at which services reach a pod.
type EndpointInterface struct {
	Pod       podmanager.PodID
	Interface string
	Address   netip.Addr
}

// explainer explains connections. It changes nothing.
type explainer struct{ view }

// explain describes how this node handles a connection to a service or a host port. It returns the
// zero value for all others.
func (x *explainer) explain(c Connection) (e Explanation) {
	x.lock.Lock()
	defer x.lock.Unlock()
	if node, addr := x.sentFrom(c); addr.IsValid() {
		defer func(pod netip.Addr) {
			if e.Translated {
				e.Client = addr
				e.Way = append([]string{fmt.Sprintf("packets from %v come to this node from %v, because node %s translates traffic of its pods to addresses of other nodes (natExternalTraffic)", pod, addr, node)}, e.Way...)
			}
		}(c.From)
		c.From = addr
	}
	if owner, to, byHost := x.podAt(c); owner != "" {
		e = Explanation{Translated: true, Endpoints: []netip.AddrPort{to}, Way: []string{fmt.Sprintf("%s is a host port of pod %s: connections go to %v", c.target(), owner, to)}}
		if byHost {
			e.Hidden = e.Endpoints
		}
		return e
	}
	if !x.proxy.Translates() {
		if x.node.Addresses != nil && x.isClusterIP(c.To) {
			e.Translated = true
			e.Way = append(e.Way, fmt.Sprintf("%v is a cluster IP: services on this node are left to %s", c.To, x.translators.name()))
			e.Suspects = append(e.Suspects, x.translators.suspect())
		}
		if x.proxy == nil {
			return e
		}
	}
	x.explainService(&e, c)
	return e
}

func (x *explainer) explainService(e *Explanation, c Connection) {
	if there, redirected := x.redirected(e, c); redirected {
		e.Translated = true
		c = there
	}
	found := x.proxy.Services.At(c.To)
	var ports []string
	for _, svc := range found {
		for _, f := range svc.Frontends {
			if f.Addr.Addr() != c.To {
				continue
			}
			if f.Addr.Port() == c.Port && f.Protocol == c.Protocol {
				e.Translated = true
				if f.Kind == processor.ClusterIP && !x.isInside(c.From) {
					x.explainEntrances(e, c, svc, f)
				} else {
					x.explainFrontend(e, c, svc.ID, f)
				}
				return
			}
			ports = append(ports, fmt.Sprintf("%d/%s", f.Addr.Port(), f.Protocol))
		}
	}
	tooLarge := ""
	if len(found) == 0 && x.proxy.Translates() {
		tooLarge = x.tooLargeAt(c.To)
	}
	switch why := x.refusedAt(c); {
	case why != "":
		e.Way = append(e.Way, fmt.Sprintf("%s: %s", c.target(), why))
		return
	case x.proxy.Translates() && x.closedNodePort(c) != "":
		e.Wrong = append(e.Wrong, x.closedNodePort(c))
		return
	case tooLarge != "":
		e.Wrong = append(e.Wrong, tooLarge)
		e.Translated = x.isClusterIP(c.To)
		return
	case !x.isClusterIP(c.To):
		return
	case !x.proxy.Translates() && len(found) > 0 && c.Port != 0: // this also holds for other service proxies
		e.Wrong, e.Suspects = append(e.Wrong, noPort(found[0].ID, c, ports)), nil
		return
	case !x.proxy.Translates():
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

// tooLargeAt returns why the service with an address is not translated if it is too large, else "".
func (x *explainer) tooLargeAt(addr netip.Addr) string {
	services := x.proxy.Services.Explainer()
	id, refused := services.TooLargeAt(addr)
	if !refused {
		return ""
	}
	return notTranslated(id, services.TooLarge(id))
}

func notTranslated(id processor.ID, why string) string {
	return fmt.Sprintf("service %v is not translated: %s", id, why)
}

func noPort(id processor.ID, c Connection, ports []string) string {
	return fmt.Sprintf("service %v has no port %d/%s, but %s", id, c.Port, c.Protocol, strings.Join(ports, ", "))
}

// sentFrom returns the node of a client and the address with which that node masquerades packets of
// its pods to other nodes, if it does. All nodes have the same natExternalTraffic.
func (x *explainer) sentFrom(c Connection) (node string, addr netip.Addr) {
	if x.node.Nodes == nil || !x.sources.ThroughMain(c.To.Is6()) || x.isInside(c.From) || !slices.Contains(x.node.VSwitchAddresses(), c.To) {
		return "", addr
	}
	for _, other := range x.node.Nodes.GetAllNodes() {
		if !slices.ContainsFunc(x.node.Addresses.PodSubnets(other), func(p netip.Prefix) bool { return p.Contains(c.From) }) {
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
func (x *explainer) closedNodePort(c Connection) string {
	open := x.node.Settings.NodePortAddresses
	if len(open) == 0 || !slices.Contains(x.node.AllAddresses(), c.To) || slices.Contains(x.node.Settings.OpenOn([]netip.Addr{c.To}), c.To) {
		return ""
	}
	id, ok := x.proxy.Services.Explainer().WithNodePort(c.Protocol, c.Port)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d/%s is a node port of service %v, and not open at %v: nodePortAddresses in service.conf has only %v", c.Port, c.Protocol, id, c.To, open)
}

func (c Connection) target() string {
	return fmt.Sprintf("%v/%s", netip.AddrPortFrom(c.To, c.Port), c.Protocol)
}

func (x *explainer) explainFrontend(e *Explanation, c Connection, id processor.ID, f processor.Frontend) {
	name := fmt.Sprintf("%s (%s of service %v)", c.target(), f.Kind, id)
	wrong := func(format string, args ...any) {
		e.Wrong = append(e.Wrong, name+fmt.Sprintf(format, args...))
	}
	unrestricted := x.proxy.Unrestricted(id) && x.isInside(c.From)
	if f.Restricted && !unrestricted && !slices.ContainsFunc(f.Sources, func(p netip.Prefix) bool { return p.Contains(c.From) }) {
		wrong(": %v is in none of loadBalancerSourceRanges, so its packets are dropped", c.From)
		return
	}
	endpoints, outside := f.Inside, ""
	if !x.isInside(c.From) {
		endpoints, outside = f.Outside, " for clients outside of this node"
	}
	switch {
	case len(endpoints) == 0 && outside != "" && f.Drop:
		wrong(" has no endpoint on this node (externalTrafficPolicy: Local): packets of clients outside are dropped; %s", x.proxy.Services.Explainer().NoEndpoint(id, f, true))
		return
	case len(endpoints) == 0:
		wrong(" has no endpoint%s: clients are refused; %s", outside, x.proxy.Services.Explainer().NoEndpoint(id, f, outside != ""))
		return
	}
	if x.proxy.Translates() {
		x.wantConfigured(e, name+" is not translated as it should be", nat.Key(id, f.Addr.Addr().Is6()))
	}
	const most = 5
	var texts []string
	if e.Seen.IsValid() && !f.KeepSource && x.node.SharesCard() { // the routes translate, see translatedByRoutes
		e.Seen = x.node.Loopback(c.To.Is6())
	}
	hidden := e.Seen.IsValid() || !x.isInside(c.From) && (!f.KeepSource || f.Kind == processor.ClusterIP)
	for i, endpoint := range endpoints {
		if hidden {
			e.Hidden = append(e.Hidden, endpoint.Addr)
		}
		text := endpoint.Addr.String()
		if at, ok := x.interfaceAt(endpoint); ok {
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
	if !x.proxy.Translates() {
		to = "should go to"
		e.Suspects = []string{x.translators.suspect()}
	}
	e.Way = append(e.Way, fmt.Sprintf("%s: connections%s %s %s", name, outside, to, strings.Join(texts, ", ")))
}

func (x *explainer) wantConfigured(e *Explanation, what, key string) {
	if x.value == nil {
		return
	}
	if v := x.value(key, false); v.State != "CONFIGURED" {
		e.Wrong = append(e.Wrong, strings.TrimSuffix(fmt.Sprintf("%s: %s is %s: %s", what, v.Key, v.State, v.Error), ": "))
	}
}

// explainEntrances lists the addresses at which external clients of a cluster IP reach the
// service's port. A closed entrance is not an error, because another node may have it open.
func (x *explainer) explainEntrances(e *Explanation, c Connection, svc *processor.Service, port processor.Frontend) {
	for _, f := range svc.Frontends {
		if f.Kind == processor.ClusterIP || f.Kind == processor.Entrance || f.Port != port.Port || f.Protocol != port.Protocol {
			continue
		}
		for _, addr := range x.hostAddressesOf(f) {
			var at Explanation
			to := Connection{c.From, addr, f.Protocol, f.Addr.Port()}
			if x.proxy.Translates() {
				x.explainService(&at, to)
			} else {
				x.explainFrontend(&at, to, svc.ID, f)
			}
			e.addEntrance(netip.AddrPortFrom(addr, f.Addr.Port()), at)
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
func (x *explainer) hostAddressesOf(f processor.Frontend) []netip.Addr {
	if host := x.proxy.Entrances.HostAddresses(f); len(host) > 0 {
		return host
	}
	return []netip.Addr{f.Addr.Addr()}
}

func (e *Explanation) addEntrance(entrance netip.AddrPort, at Explanation) {
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
func (x *explainer) isInside(addr netip.Addr) bool {
	if x.proxy == nil {
		return slices.ContainsFunc(x.node.PodSubnets(), func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	node := x.proxy.Services.Node()
	return slices.Contains(node.Addresses, addr) || slices.ContainsFunc(node.PodSubnets, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func (x *explainer) isClusterIP(addr netip.Addr) bool {
	plan := x.node.Addresses.Plan()
	return slices.ContainsFunc(plan.Families(), func(f ipam.Plan) bool { return f.Subnets.IsClusterIP(addr) })
}

// byHost is set if the host redirects the port, not the vswitch.
func (x *explainer) podAt(c Connection) (owner string, to netip.AddrPort, byHost bool) {
	for _, pod := range x.ports.Local() {
		open, _ := x.hostPorts.Open(pod)
		for _, f := range open.Frontends {
			if f.Addr == netip.AddrPortFrom(c.To, c.Port) && f.Protocol == c.Protocol {
				return pod.ID.String(), f.Inside[0].Addr, false
			}
		}
		for _, f := range open.Redirects {
			if f.GetAddress() == c.To.String() && f.GetPort() == uint32(c.Port) && f.GetProtocol() == localnode.RedirectProtocols[c.Protocol] {
				to, _ := netip.ParseAddr(f.GetToAddress())
				return pod.ID.String(), netip.AddrPortFrom(to, uint16(cmp.Or(f.GetToPort(), f.GetPort()))), true
			}
		}
	}
	return "", netip.AddrPort{}, false
}

func (x *explainer) interfaceAt(endpoint processor.Endpoint) (EndpointInterface, bool) {
	if endpoint.Interface == "" {
		return EndpointInterface{}, false
	}
	for pod, redirects := range x.proxy.Services.Redirects() {
		for _, r := range redirects {
			if r.Addr == endpoint.Addr.Addr() && r.Subnet.Contains(endpoint.Eth0) {
				return EndpointInterface{podmanager.PodID{Namespace: pod.Namespace, Name: pod.Name}, r.Interface, r.Addr}, true
			}
		}
	}
	return EndpointInterface{}, false
}

func (x *explainer) refusedAt(c Connection) string {
	at := netip.AddrPortFrom(c.To, c.Port)
	for _, r := range x.proxy.Services.Explainer().Refused() {
		if !r.Endpoint && r.Addr == at && r.Protocol == c.Protocol {
			return fmt.Sprintf("service %v asks for it, but %s", r.ID, refusal(x.node, r))
		}
	}
	return ""
}
