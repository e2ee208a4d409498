// Package oracle decides about connections to services as the Kubernetes reference describes
// (Service, EndpointSlice, "Virtual IPs and Service Proxies"), by looping over all objects. Tests
// compare the implementation with it; the two share no code.
package oracle

import (
	"net/netip"
	"strings"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/service"
)

// Verdict is the decision about a connection.
type Verdict string

// Verdicts.
const (
	Forward Verdict = "forward"
	Refuse  Verdict = "refuse"
	Drop    Verdict = "drop"
	// None means that the service does not have the address.
	None Verdict = "none"
)

// Fate is the verdict with its details.
type Fate struct {
	Verdict Verdict
	// To contains the possible endpoints as texts.
	To map[string]bool
	// Source reports whether the endpoint sees the client's address.
	Source bool
}

// Connection is a connection of a client.
type Connection struct {
	Inside bool // from a local pod, or the node itself
	// Source ranges are ignored if From is invalid.
	From     netip.Addr
	To       netip.AddrPort
	Protocol string
}

// Node is the node that connections reach.
type Node struct {
	Name, Zone string
	PodSubnets []netip.Prefix
	// NodePorts is the subset of Addresses with open node ports.
	Addresses, NodePorts []netip.Addr
}

// Service is a service of a cluster, and the node that connections reach.
type Service struct {
	Service *service.Service
	Slices  []*endpointslice.EndpointSlice
	Node    Node
	// Published contains the pod addresses that each node publishes.
	Published map[string][]Published
}

// Nodes decide only about their own pods and addresses.
func (o Service) reached(ref *endpointslice.EndpointSlice_ObjectReference, eth0 netip.Addr) netip.Addr {
	if ref.GetKind() != "Pod" || ref.GetNamespace() == "other" {
		return eth0
	}
	for node, pods := range o.Published {
		for _, subnet := range SubnetsOf(node) {
			for _, p := range pods {
				for _, addr := range p.Addrs {
					if p.Namespace == "default" && p.Name == ref.GetName() && subnet.Contains(addr) && subnet.Contains(eth0) {
						return addr
					}
				}
			}
		}
	}
	return eth0
}

// Published is a pod's addresses as its node publishes them.
type Published struct {
	Namespace, Name string
	Addrs           []netip.Addr
}

// SubnetsOf returns the pod subnets of a node.
func SubnetsOf(node string) []netip.Prefix {
	n := node[len("node"):]
	return []netip.Prefix{netip.MustParsePrefix("10.1." + n + ".0/24"), netip.MustParsePrefix("fd10:" + n + "::/64")}
}

// Ask returns the fate of a connection.
func (o Service) Ask(c Connection) Fate {
	s := o.Service
	if s == nil || s.GetServiceType() == "ExternalName" || s.GetClusterIp() == "None" || s.GetClusterIp() == "" {
		return Fate{Verdict: None}
	}
	for _, label := range []string{"service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"} {
		if _, excluded := s.GetLabels()[label]; excluded {
			return Fate{Verdict: None}
		}
	}
	port, kind := o.port(c)
	if port == nil || !o.hasVersion(c.To.Addr().Is6()) {
		return Fate{Verdict: None}
	}
	if kind == "balancer" && !o.admits(c.From) {
		return Fate{Verdict: Drop, Source: true}
	}
	known := o.endpoints(port, c.To.Addr().Is6())
	everywhere := o.narrowed(usableOf(known, func(endpoint) bool { return true }))
	here := usableOf(known, func(e endpoint) bool { return o.isHere(e) })

	policy := s.GetExternalTrafficPolicy()
	if kind == "cluster" {
		policy = s.GetInternalTrafficPolicy()
	}
	answer := Fate{Verdict: Forward, Source: true}
	chosen := everywhere
	switch {
	case kind == "cluster" && policy == "Local":
		chosen = here
	case kind != "cluster" && policy == "Local" && !c.Inside:
		chosen = here
	case kind != "cluster" && policy != "Local" && !c.Inside:
		answer.Source = false
	}
	if len(chosen) == 0 {
		answer.Verdict = Refuse
		if kind != "cluster" && policy == "Local" && len(everywhere) > 0 {
			answer.Verdict = Drop
		}
		return answer
	}
	answer.To = map[string]bool{}
	for _, e := range chosen {
		answer.To[e.addr] = true
	}
	return answer
}

// The cluster IPs determine the IP versions of a service.
func (o Service) hasVersion(ipv6 bool) bool {
	for _, text := range append(o.Service.GetClusterIps(), o.Service.GetClusterIp()) {
		if a, err := netip.ParseAddr(text); err == nil && a.Is6() == ipv6 {
			return true
		}
	}
	return false
}

func (o Service) admits(client netip.Addr) bool {
	ranges := o.Service.GetLoadbalancerSourceRanges()
	for _, text := range ranges {
		if netip.MustParsePrefix(text).Contains(client) {
			return true
		}
	}
	return len(ranges) == 0 || !client.IsValid()
}

// The kind of an address is "cluster", "balancer", "external" or "node".
func (o Service) port(c Connection) (*service.Service_ServicePort, string) {
	to := c.To.Addr().String()
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
	case among(append(o.Service.GetClusterIps(), o.Service.GetClusterIp())...):
		kind = "cluster"
	case o.Service.GetServiceType() == "LoadBalancer" && among(o.Service.GetLbIngressIps()...):
		kind = "balancer"
	case among(o.Service.GetExternalIps()...):
		kind = "external"
	}
	if kind != "" {
		for _, p := range o.Service.GetPort() {
			if uint16(p.GetPort()) == c.To.Port() && p.GetProtocol() == c.Protocol {
				return p, kind
			}
		}
	}
	if t := o.Service.GetServiceType(); t != "NodePort" && t != "LoadBalancer" {
		return nil, ""
	}
	for _, a := range o.Node.NodePorts {
		if a != c.To.Addr() {
			continue
		}
		for _, p := range o.Service.GetPort() {
			if p.GetNodePort() != 0 && uint16(p.GetNodePort()) == c.To.Port() && p.GetProtocol() == c.Protocol {
				return p, "node"
			}
		}
	}
	return nil, ""
}

type endpoint struct {
	addr, node                 string
	eth0                       netip.Addr
	ready, serving, going      bool
	zoneHints, nodeHints, name string
}

func (o Service) endpoints(port *service.Service_ServicePort, ipv6 bool) map[string]endpoint {
	all := map[string]endpoint{}
	for _, s := range o.Slices {
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
				k := endpoint{
					addr: addr, eth0: eth0, node: e.GetNodeName(), name: s.GetName(), serving: e.GetServing(), going: e.GetTerminating(),
					ready: e.GetReady() || o.Service.GetPublishNotReadyAddresses(), zoneHints: join(e.GetForZones()), nodeHints: join(e.GetForNodes()),
				}
				// Copies differ only while the endpoint's state changes.
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

func better(a, b endpoint) bool {
	points := func(k endpoint) int {
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

func (o Service) isHere(e endpoint) bool {
	if e.node != "" {
		return e.node == o.Node.Name
	}
	for _, p := range o.Node.PodSubnets {
		if p.Contains(e.eth0) {
			return true
		}
	}
	for _, a := range o.Node.Addresses {
		if a == e.eth0 {
			return true
		}
	}
	return false
}

// Ready endpoints, or else endpoints that serve while they terminate.
func usableOf(all map[string]endpoint, wanted func(endpoint) bool) map[string]endpoint {
	ready, rest := map[string]endpoint{}, map[string]endpoint{}
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

func (o Service) narrowed(usable map[string]endpoint) map[string]endpoint {
	for _, hint := range []struct {
		of   func(endpoint) string
		mine string
	}{{func(e endpoint) string { return e.nodeHints }, o.Node.Name}, {func(e endpoint) string { return e.zoneHints }, o.Node.Zone}} {
		all, mine := true, map[string]endpoint{}
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
