package pathexplain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// Pod is a pod of this node.
type Pod struct {
	Name      string // namespace/name
	NetNS     string // path
	Interface string // in the pod
	Device    string // the node's device to it; "" if the interface belongs to a separate vswitch
	Addresses []netip.Addr
	MTU       int
}

// Node is a node of the cluster.
type Node struct {
	Name      string
	Addresses []netip.Addr   // of the vswitch; packets go to the first
	Pods      []netip.Prefix // its pod subnets
	Gateways  []netip.Addr   // gateways of its pods, where its vswitch answers
	// Masks lists, per IP version, the source address that a separate vswitch gives to masqueraded
	// clients.
	Masks []netip.Addr
}

// Options of an Explainer. Optional are Connected, Verdicts, OurFilter, IsClusterIP and PodNetworks,
// and Devices with HostStack.
type Options struct {
	Node string
	// Connected returns why changes in etcd are not followed, so that the node's view of the
	// cluster may be outdated; nil if they are.
	Connected func() error
	Pods      func() ([]Pod, error)
	Nodes     func() []Node
	// MTU of pods.
	MTU func() int
	// Overhead returns the bytes that the tunnel to a node's address adds to pods' packets; 0
	// without tunnels.
	Overhead func(netip.Addr) int
	// Warnings of the vswitch about host settings that block packets.
	Warnings func(context.Context) []string
	// HostStack: the vswitch is the kernel, so the kernel's routes and filters apply.
	HostStack bool
	// Devices returns the devices of a separate vswitch that have the node's addresses; unused with
	// HostStack.
	Devices func(context.Context) ([]Device, error)
	// HostServices returns the requirement for host processes to reach cluster IPs with a separate
	// vswitch; "" if none.
	HostServices string
	// IsClusterIP reports whether an address is in a range of cluster IPs.
	IsClusterIP func(netip.Addr) bool
	// PodNetworks are the networks of all pods.
	PodNetworks []netip.Prefix
	// OurRoute reports whether a route with the protocol number is ours.
	OurRoute func(protocol int) bool
	// OurTable reports whether an nftables table is ours.
	OurTable func(name string) bool
	// OurFilter reports whether a traffic control filter with the priority is ours; nil: none is.
	OurFilter func(priority uint16) bool
	// Verdicts has the functions of services, policies and others, in the order in which packets
	// meet them.
	Verdicts []func(ctx context.Context, q Question) Verdict
}

// Verdict is the effect of a part of the node on packets.
type Verdict struct {
	// Wrong lists, as sentences, reasons why packets are refused or why the answer may be wrong.
	Wrong []string
	// Way lists, as sentences, the other effects.
	Way []string
	// Translated: the packets go to one of Endpoints instead. Later parts see them translated.
	Translated           bool
	Entrances, Endpoints []netip.AddrPort // see Report
	// Suspects lists possible reasons for a missing answer.
	Suspects []string
	// Client is the source address of the packets at this node, if it was translated.
	Client netip.Addr
	// Hidden lists the Endpoints that see an address of this node as the source instead of the
	// client's: Seen, if that is valid.
	Hidden []netip.AddrPort
	Seen   netip.Addr
	// Sightings lists further Endpoints by the source address that they see.
	Sightings map[netip.Addr][]netip.AddrPort
	// Interfaces lists the Endpoints on a pod interface other than eth0.
	Interfaces []PodInterface
}

// Explainer explains paths from and to a node.
type Explainer struct {
	o Options
	// busy limits concurrent questions, because answers send packets.
	busy chan struct{}
}

// atOnce is the limit of concurrent questions.
const atOnce = 4

func New(o Options) *Explainer { return &Explainer{o, make(chan struct{}, atOnce)} }

// end of a path.
type end struct {
	addr netip.Addr
	pod  *Pod  // of this node: its interface that has the address
	out  *Pod  // its interface towards the other end
	node *Node // has the address, or its pod has; nil if outside the cluster or of a service
	here bool
	// process: processes of the node itself send from the address.
	process bool
	// service: the address is in a network of cluster IPs.
	service bool
	// unused: the address is in a pod network but belongs to no known node or local pod.
	unused bool
}

// isNode reports whether the end is this node itself.
func (e end) isNode() bool { return e.here && e.pod == nil }

// ofPods reports whether the address belongs to a pod or is a gateway of pods.
func (e end) ofPods() bool {
	return e.pod != nil || e.node != nil && !e.process && !slices.Contains(e.node.Addresses, e.addr)
}

func (e end) outside() bool {
	return e.pod == nil && e.node == nil && !e.service && !e.here && !e.unused
}

func (e end) String() string {
	switch {
	case e.pod != nil:
		return fmt.Sprintf("pod %s (%v)", e.pod.Name, e.addr)
	case e.node != nil && (e.process || slices.Contains(e.node.Addresses, e.addr)):
		return fmt.Sprintf("node %s (%v)", e.node.Name, e.addr)
	case e.node != nil:
		return fmt.Sprintf("%v of the pods of node %s", e.addr, e.node.Name)
	case e.unused:
		return fmt.Sprintf("%v of the pod network, used by no pod", e.addr)
	case e.service:
		return fmt.Sprintf("cluster IP %v", e.addr)
	}
	return fmt.Sprintf("%v outside of the cluster", e.addr)
}

// Explain answers a question.
func (e *Explainer) Explain(ctx context.Context, q Question) (*Report, error) {
	select {
	case e.busy <- struct{}{}:
		defer func() { <-e.busy }()
	case <-ctx.Done():
		return nil, errors.New("too many requests: try again later")
	}
	pods, err := e.o.Pods()
	if err != nil {
		return nil, err
	}
	nodes := e.o.Nodes()
	from, to := e.end(q.From, pods, nodes), e.end(q.To, pods, nodes)
	if i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == q.FromNode }); i >= 0 {
		from = end{addr: q.From, node: &nodes[i], here: q.FromNode == e.o.Node, process: true}
	}
	r := &Report{Node: e.o.Node, From: from.String(), To: to.String(), Source: from.here, Destination: to.here,
		Findings: []Finding{}, Way: []string{}, Probes: []Probe{}, Links: []Link{}, Neighbours: []Neighbour{}}
	if e.o.Connected != nil {
		if err := e.o.Connected(); err != nil {
			r.Stale = err.Error()
		}
	}
	if !from.here && !to.here {
		if from.outside() && (to.service || to.outside()) { // any node can answer for the service
			e.verdicts(ctx, r, q)
		}
		return r, nil
	}
	for _, at := range []struct {
		this, other *end
		isSource    bool
	}{{&from, &to, true}, {&to, &from, false}} {
		if at.this.pod != nil {
			at.this.out = r.pod(at.this.pod, pods, at.this.addr, at.other.addr)
			e.content(r, *at.this, q, at.isSource)
		} else if at.this.here && at.this.node == nil {
			r.find("node "+e.o.Node, fmt.Sprintf("%v is in the pod subnet of this node, but no pod has it", at.this.addr))
		}
	}
	for _, warning := range slices.Concat(e.o.Warnings(ctx), e.Network().tracking()) {
		r.find("node "+e.o.Node, warning)
	}
	if from.here && to.unused && !to.here {
		r.find("node "+e.o.Node, fmt.Sprintf("%v is in the pod network, but no node has this subnet", to.addr))
	}
	e.verdicts(ctx, r, q)
	if text := unrouted(to.addr); r.translated && from.isNode() && text != "" {
		r.find("node "+e.o.Node, text)
	}
	e.suspectServices(r, from, to)
	if e.o.HostStack {
		e.host(ctx, r, q, from, to)
	} else {
		e.ownStack(ctx, r, q, from, to)
	}
	if from.here {
		e.probe(ctx, r, q, from, to)
	}
	return r, nil
}

// suspectServices adds the requirement for host processes to reach a cluster IP that the vswitch
// translates.
func (e *Explainer) suspectServices(r *Report, from, to end) {
	if r.translated && from.isNode() && to.service && e.o.HostServices != "" {
		r.Suspects = append(r.Suspects, Finding{"node " + e.o.Node, e.o.HostServices})
	}
}

// verdicts adds the effects of policies, services and others.
func (e *Explainer) verdicts(ctx context.Context, r *Report, q Question) {
	echo := Question{From: q.From, To: q.To, Seen: q.Seen}
	for _, verdict := range e.o.Verdicts {
		v := verdict(ctx, q)
		for _, text := range v.Wrong {
			r.find("node "+e.o.Node, text)
		}
		for _, text := range v.Way {
			r.Way = append(r.Way, fmt.Sprintf("node %s: %s", e.o.Node, text))
		}
		for _, text := range v.Suspects {
			r.Suspects = append(r.Suspects, Finding{"node " + e.o.Node, text})
		}
		r.Entrances, r.Endpoints = append(r.Entrances, v.Entrances...), append(r.Endpoints, v.Endpoints...)
		r.Interfaces = append(r.Interfaces, v.Interfaces...)
		seen := q
		if v.Client.IsValid() {
			seen.From = v.Client
		}
		e.sightings(r, seen, v.Hidden, v.Seen)
		for _, as := range slices.SortedFunc(maps.Keys(v.Sightings), netip.Addr.Compare) {
			e.sightings(r, seen, v.Sightings[as], as)
		}
		for _, endpoint := range v.Endpoints {
			if v.Client.IsValid() && !slices.Contains(v.Hidden, endpoint) {
				r.Sightings = append(r.Sightings, Sighting{endpoint, v.Client})
			}
		}
		if v.Translated {
			r.translated = true
			return
		}
		r.NoEcho = r.NoEcho || q.Protocol != "" && len(v.Wrong) == 0 && len(verdict(ctx, echo).Wrong) > 0
	}
}

// sightings adds the addresses by which policies see the client of hidden endpoints. On the kernel,
// local endpoints' policies apply before source translation; remote ones see the address of the
// outgoing device. as is the address if it is known.
func (e *Explainer) sightings(r *Report, q Question, hidden []netip.AddrPort, as netip.Addr) {
	if len(hidden) == 0 {
		return
	}
	if as.IsValid() {
		r.Way = append(r.Way, fmt.Sprintf("node %s: endpoints, and their network policies, see %v, not %v", e.o.Node, as, q.From))
		for _, endpoint := range hidden {
			r.Sightings = append(r.Sightings, Sighting{endpoint, as})
		}
		return
	}
	nodes, told := e.o.Nodes(), map[netip.Addr]bool{}
	if !e.o.HostStack {
		for _, n := range nodes {
			mask, ok := sameVersion(n.Masks, q.From)
			if n.Name != e.o.Node || !ok {
				continue
			}
			r.Way = append(r.Way, fmt.Sprintf("node %s: endpoints, and their network policies, see %v, not %v (externalTrafficPolicy: Cluster)", e.o.Node, mask, q.From))
			for _, endpoint := range hidden {
				r.Sightings = append(r.Sightings, Sighting{endpoint, mask})
			}
		}
		return
	}
	for _, endpoint := range hidden {
		seen := q.From
		own := slices.ContainsFunc(nodes, func(n Node) bool {
			return n.Name == e.o.Node && slices.ContainsFunc(n.Pods, func(p netip.Prefix) bool { return p.Contains(endpoint.Addr()) })
		})
		if _, src, err := routeTo(endpoint.Addr()); !own && err == nil && src.IsValid() {
			if seen = src; !told[src] {
				r.Way = append(r.Way, fmt.Sprintf("node %s: network policies of endpoints on other nodes see %v, not %v (externalTrafficPolicy: Cluster)", e.o.Node, src, q.From))
			}
			told[src] = true
		}
		r.Sightings = append(r.Sightings, Sighting{endpoint, seen})
	}
}

// unrouted returns a finding if the node's own processes have no route to a service address, or "".
func unrouted(addr netip.Addr) string {
	if _, err := netlink.RouteGet(addr.AsSlice()); err != nil {
		return fmt.Sprintf("its own processes have no route to %v (%v): add one, such as a default route, because services are translated after routing", addr, err)
	}
	return ""
}

func (e *Explainer) end(addr netip.Addr, pods []Pod, nodes []Node) end {
	x := end{addr: addr, service: e.o.IsClusterIP != nil && e.o.IsClusterIP(addr)}
	for i, pod := range pods {
		if slices.Contains(pod.Addresses, addr) {
			x.pod, x.here = &pods[i], true
		}
	}
	for i, n := range nodes {
		if slices.Contains(n.Addresses, addr) || slices.ContainsFunc(n.Pods, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			x.node = &nodes[i]
			x.here = x.here || n.Name == e.o.Node
		}
	}
	if x.pod == nil && x.here && !slices.Contains(x.node.Addresses, addr) && !slices.Contains(x.node.Gateways, addr) {
		x.node = nil // a pod that does not exist
	}
	x.unused = x.pod == nil && x.node == nil && slices.ContainsFunc(e.o.PodNetworks, func(p netip.Prefix) bool { return p.Contains(addr) })
	return x
}
