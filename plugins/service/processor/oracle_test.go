package processor_test

import (
	"net/netip"
	"strings"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/plugins/service/processor"
)

// The oracle answers one question at a time from the reference of the Kubernetes API
// (Service, EndpointSlice, "Virtual IPs and Service Proxies"), without any of the
// structures of the processor: what becomes of a connection of a client to an address?

// fate is what becomes of a connection.
type fate struct {
	// verdict is "forward", "refuse", "drop", or "none" if the service has nothing to do
	// with the address.
	verdict string
	// to are the endpoints it may go to, as texts.
	to map[string]bool
	// source reports whether the endpoint sees the address of the client.
	source bool
}

// connection is a question.
type connection struct {
	inside   bool // from a pod of the node, or the node itself
	to       netip.AddrPort
	protocol string
}

// oracle knows one service of a cluster, and the node that connections reach.
type oracle struct {
	svc    *service.Service
	slices []*endpointslice.EndpointSlice
	node   processor.Node
	// published has what each node publishes of pods.
	published map[string][]published
}

// reached is the address at which a pod with an eth0 address is reached. A node may say so of its own pods and addresses.
func (o oracle) reached(ref *endpointslice.EndpointSlice_ObjectReference, eth0 netip.Addr) netip.Addr {
	if ref.GetKind() != "Pod" || ref.GetNamespace() == "other" {
		return eth0
	}
	for node, pods := range o.published {
		for _, subnet := range subnetsOf(node) {
			for _, p := range pods {
				for _, addr := range p.addrs {
					if p.pod.Namespace == "default" && p.pod.Name == ref.GetName() && subnet.Contains(addr) && subnet.Contains(eth0) {
						return addr
					}
				}
			}
		}
	}
	return eth0
}

// published is what a node says of a pod.
type published struct {
	pod   processor.ID
	addrs []netip.Addr
}

// subnetsOf are the pod subnets of a node.
func subnetsOf(node string) []netip.Prefix {
	n := node[len("node"):]
	return []netip.Prefix{netip.MustParsePrefix("10.1." + n + ".0/24"), netip.MustParsePrefix("fd10:" + n + "::/64")}
}

func (o oracle) ask(c connection) fate {
	s := o.svc
	if s == nil || s.GetServiceType() == "ExternalName" || s.GetClusterIp() == "None" || s.GetClusterIp() == "" {
		return fate{verdict: "none"}
	}
	if _, other := s.GetLabels()["service.kubernetes.io/service-proxy-name"]; other {
		return fate{verdict: "none"}
	}
	port, kind := o.port(c)
	if port == nil || !o.hasVersion(c.to.Addr().Is6()) {
		return fate{verdict: "none"}
	}
	known := o.endpoints(port, c.to.Addr().Is6())
	everywhere := o.narrowed(usableOf(known, func(known1) bool { return true }))
	here := usableOf(known, func(e known1) bool { return o.isHere(e) })

	policy := s.GetExternalTrafficPolicy()
	if kind == "cluster" {
		policy = s.GetInternalTrafficPolicy()
	}
	answer := fate{verdict: "forward", source: true}
	chosen := everywhere
	switch {
	case kind == "cluster" && policy == "Local":
		chosen = here
	case kind != "cluster" && policy == "Local" && !c.inside:
		chosen = here
	case kind != "cluster" && policy != "Local" && !c.inside:
		answer.source = false
	}
	if len(chosen) == 0 {
		answer.verdict = "refuse"
		if kind != "cluster" && policy == "Local" && len(everywhere) > 0 {
			answer.verdict = "drop"
		}
		return answer
	}
	answer.to = map[string]bool{}
	for _, e := range chosen {
		answer.to[e.addr] = true
	}
	return answer
}

// hasVersion reports whether the service is one of the IP version: its cluster IPs tell its ipFamilies.
func (o oracle) hasVersion(ipv6 bool) bool {
	for _, text := range append(o.svc.GetClusterIps(), o.svc.GetClusterIp()) {
		if a, err := netip.ParseAddr(text); err == nil && a.Is6() == ipv6 {
			return true
		}
	}
	return false
}

// port finds the port that the connection is for, and whether its address is a cluster
// IP ("cluster"), one from outside ("external") or one of the node ("node").
func (o oracle) port(c connection) (*service.Service_ServicePort, string) {
	to := c.to.Addr().String()
	among := func(list ...string) bool {
		for _, text := range list {
			if a, err := netip.ParseAddr(text); err == nil && a.String() == to {
				return true
			}
		}
		return false
	}
	kind := ""
	switch {
	case among(append(o.svc.GetClusterIps(), o.svc.GetClusterIp())...):
		kind = "cluster"
	case among(o.svc.GetExternalIps()...):
		kind = "external"
	case o.svc.GetServiceType() == "LoadBalancer" && among(o.svc.GetLbIngressIps()...):
		kind = "external"
	}
	if kind != "" {
		for _, p := range o.svc.GetPort() {
			if uint16(p.GetPort()) == c.to.Port() && p.GetProtocol() == c.protocol {
				return p, kind
			}
		}
	}
	if t := o.svc.GetServiceType(); t != "NodePort" && t != "LoadBalancer" {
		return nil, ""
	}
	for _, a := range o.node.NodePorts {
		if a != c.to.Addr() {
			continue
		}
		for _, p := range o.svc.GetPort() {
			if p.GetNodePort() != 0 && uint16(p.GetNodePort()) == c.to.Port() && p.GetProtocol() == c.protocol {
				return p, "node"
			}
		}
	}
	return nil, ""
}

// known1 is what all slices together say of one endpoint.
type known1 struct {
	addr, node                 string
	eth0                       netip.Addr
	ready, serving, going      bool
	zoneHints, nodeHints, name string
}

func (o oracle) endpoints(port *service.Service_ServicePort, ipv6 bool) map[string]known1 {
	all := map[string]known1{}
	for _, s := range o.slices {
		if (s.GetAddressType() == endpointslice.EndpointSlice_IPv6) != ipv6 {
			continue
		}
		for _, p := range s.GetPorts() {
			if p.GetName() != port.GetName() || p.GetProtocol() != port.GetProtocol() {
				continue
			}
			for _, e := range s.GetEndpoints() {
				eth0 := netip.MustParseAddr(e.GetAddresses()[0])
				addr := netip.AddrPortFrom(o.reached(e.GetTargetRef(), eth0), uint16(p.GetPort())).String()
				k := known1{
					addr: addr, eth0: eth0, node: e.GetNodeName(), name: s.GetName(), serving: e.GetServing(), going: e.GetTerminating(),
					ready: e.GetReady() || o.svc.GetPublishNotReadyAddresses(), zoneHints: join(e.GetForZones()), nodeHints: join(e.GetForNodes()),
				}
				// Copies differ only while the endpoint's state changes: the better one counts.
				if old, ok := all[addr]; !ok || better(k, old) {
					all[addr] = k
				}
			}
		}
	}
	return all
}

func join(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return "," + strings.Join(list, ",") + ","
}

func better(a, b known1) bool {
	points := func(k known1) int {
		if k.ready {
			return 2
		}
		if k.serving && k.going {
			return 1
		}
		return 0
	}
	if points(a) != points(b) {
		return points(a) > points(b)
	}
	return a.name < b.name
}

func (o oracle) isHere(e known1) bool {
	if e.node != "" {
		return e.node == o.node.Name
	}
	for _, p := range o.node.PodSubnets {
		if p.Contains(e.eth0) {
			return true
		}
	}
	for _, a := range o.node.Addresses {
		if a == e.eth0 {
			return true
		}
	}
	return false
}

// usableOf: ready ones, else those that serve while they terminate.
func usableOf(all map[string]known1, wanted func(known1) bool) map[string]known1 {
	ready, rest := map[string]known1{}, map[string]known1{}
	for addr, e := range all {
		switch {
		case !wanted(e):
		case e.ready:
			ready[addr] = e
		case e.serving && e.going:
			rest[addr] = e
		}
	}
	if len(ready) > 0 {
		return ready
	}
	return rest
}

// narrowed applies hints.
func (o oracle) narrowed(usable map[string]known1) map[string]known1 {
	for _, hint := range []struct {
		of   func(known1) string
		mine string
	}{{func(e known1) string { return e.nodeHints }, o.node.Name}, {func(e known1) string { return e.zoneHints }, o.node.Zone}} {
		all, mine := true, map[string]known1{}
		for addr, e := range usable {
			all = all && e.ready && hint.of(e) != ""
			if hint.mine != "" && strings.Contains(hint.of(e), ","+hint.mine+",") {
				mine[addr] = e
			}
		}
		if all && len(mine) > 0 {
			return mine
		}
	}
	return usable
}
