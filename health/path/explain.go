package path

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
	Name      string // with its namespace
	NetNS     string // path
	Interface string // in the pod
	Device    string // of the node, that leads to it; "": the interface belongs to a separate vswitch
	Addresses []netip.Addr
	MTU       int
}

// Node is a node of the cluster.
type Node struct {
	Name      string
	Addresses []netip.Addr   // of the vswitch; packets are sent to the first one
	Pods      []netip.Prefix // its pod subnets
	Gateways  []netip.Addr   // of its pods: its vswitch answers there
	// Masks are the sources, one of each IP version, that a vswitch other than the kernel gives to clients that it hides.
	Masks []netip.Addr
}

// Options of an Explainer. All must be set, except for Connected, Verdicts, OurFilter, Services and PodNetworks, and Devices with HostStack.
type Options struct {
	Node string
	// Connected returns why changes in etcd are not followed, so that the node may know an old state of the cluster only; nil: they are.
	Connected func() error
	Pods      func() ([]Pod, error)
	Nodes     func() []Node
	// MTU of pods.
	MTU func() int
	// Overhead returns the number of bytes that the tunnel to a node with the address adds to packets of
	// pods; 0 if there are no tunnels.
	Overhead func(netip.Addr) int
	// Warnings of the vswitch about settings of the host that keep packets from passing.
	Warnings func(context.Context) []string
	// HostStack: the vswitch is the kernel, so that the kernel's routes and filters apply.
	HostStack bool
	// Devices returns the devices of a separate vswitch that have addresses of the node; unused with HostStack.
	Devices func(context.Context) ([]Device, error)
	// HostServices says what processes of the host need for cluster IPs, with a separate vswitch; "": nothing.
	HostServices string
	// Services are the networks of cluster IPs, and PodNetworks those of all pods.
	Services, PodNetworks []netip.Prefix
	// OurRoute reports whether a route with the protocol number is one of ours.
	OurRoute func(protocol int) bool
	// OurTable reports whether a table of nftables is one of ours.
	OurTable func(name string) bool
	// OurFilter reports whether a filter of traffic control with the priority is one of ours; nil: none is.
	OurFilter func(priority uint16) bool
	// Verdicts has functions for services, policies and the like, in the order in which packets come by.
	Verdicts []func(ctx context.Context, q Question) Verdict
}

// Verdict is the effect of a part of the node on packets, in sentences.
type Verdict struct {
	// Wrong lists reasons why packets are refused, or why the answer may be wrong.
	Wrong []string
	// Way describes what else happens to them.
	Way []string
	// Translated: the packets go elsewhere, to one of Endpoints. Parts after this one do not see them as they were.
	Translated           bool
	Entrances, Endpoints []netip.AddrPort // see Report
	// Suspects are why nothing may answer there.
	Suspects []string
	// Client is the address with which packets of the source come to this node, if it is another one.
	Client netip.Addr
	// Hidden are those of Endpoints that see an address of this node as the source, not the client's: Seen, if that is valid.
	Hidden []netip.AddrPort
	Seen   netip.Addr
	// Sightings are, by address, further ones of Endpoints that see it.
	Sightings map[netip.Addr][]netip.AddrPort
	// Interfaces has those of Endpoints that are at another interface of their pod than eth0.
	Interfaces []PodInterface
}

// Explainer explains paths from and to a node.
type Explainer struct {
	o Options
	// busy bounds how many questions are answered at a time, since answers send packets.
	busy chan struct{}
}

// atOnce bounds how many questions are answered at a time.
const atOnce = 4

// New returns an explainer.
func New(o Options) *Explainer { return &Explainer{o, make(chan struct{}, atOnce)} }

// end of a path.
type end struct {
	addr netip.Addr
	pod  *Pod  // of this node: its interface with the address
	out  *Pod  // its interface by which packets to the other end leave
	node *Node // that has the address, or whose pod has it; nil: outside of the cluster, or of a service
	here bool
	// service: the address is in a network of cluster IPs.
	service bool
	// unused: the address is in a network of pods, and not of a node, or of a pod of this node.
	unused bool
}

// isNode reports whether the end is this node itself.
func (e end) isNode() bool { return e.here && e.pod == nil }

// ofPods reports whether the address is of a pod, or a gateway of pods.
func (e end) ofPods() bool {
	return e.pod != nil || e.node != nil && !slices.Contains(e.node.Addresses, e.addr)
}

func (e end) outside() bool {
	return e.pod == nil && e.node == nil && !e.service && !e.here && !e.unused
}

func (e end) String() string {
	switch {
	case e.pod != nil:
		return fmt.Sprintf("pod %s (%v)", e.pod.Name, e.addr)
	case e.node != nil && slices.Contains(e.node.Addresses, e.addr):
		return fmt.Sprintf("node %s (%v)", e.node.Name, e.addr)
	case e.node != nil:
		return fmt.Sprintf("%v of the pods of node %s", e.addr, e.node.Name)
	case e.unused:
		return fmt.Sprintf("%v of the pod network, which no pod has", e.addr)
	case e.service:
		return fmt.Sprintf("cluster IP %v", e.addr)
	}
	return fmt.Sprintf("%v outside of the cluster", e.addr)
}

// Explain returns the answer to a question.
func (e *Explainer) Explain(ctx context.Context, q Question) (*Report, error) {
	select {
	case e.busy <- struct{}{}:
		defer func() { <-e.busy }()
	case <-ctx.Done():
		return nil, errors.New("too many questions are being answered: try again")
	}
	pods, err := e.o.Pods()
	if err != nil {
		return nil, err
	}
	nodes := e.o.Nodes()
	from, to := e.end(q.From, pods, nodes), e.end(q.To, pods, nodes)
	r := &Report{Node: e.o.Node, From: from.String(), To: to.String(), Source: from.here, Destination: to.here,
		Findings: []Finding{}, Way: []string{}, Probes: []Probe{}, Links: []Link{}, Neighbours: []Neighbour{}}
	if e.o.Connected != nil {
		if err := e.o.Connected(); err != nil {
			r.Stale = err.Error()
		}
	}
	if !from.here && !to.here {
		if from.outside() && (to.service || to.outside()) { // any node may be asked for the service
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
			r.find("node "+e.o.Node, fmt.Sprintf("%v is in the pod subnet of this node, and no pod has it", at.this.addr))
		}
	}
	for _, warning := range slices.Concat(e.o.Warnings(ctx), e.Network().tracking()) {
		r.find("node "+e.o.Node, warning)
	}
	if from.here && to.unused && !to.here {
		r.find("node "+e.o.Node, fmt.Sprintf("%v is in the pod network, and no node has this part of it", to.addr))
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

// suspectServices says what processes of the host may lack to reach a cluster IP that the vswitch translates.
func (e *Explainer) suspectServices(r *Report, from, to end) {
	if r.translated && from.isNode() && to.service && e.o.HostServices != "" {
		r.Suspects = append(r.Suspects, Finding{"node " + e.o.Node, e.o.HostServices})
	}
}

// verdicts adds the effects of policies, services and the like.
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

// sightings adds by which addresses policies see the client of hidden endpoints. On the kernel, those of this node judge before the
// source is translated; to others, it is the address of the way out. as is the address if it is known.
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

// unrouted says that the node's own processes have no route to an address of a service; "" if they have one.
func unrouted(addr netip.Addr) string {
	if _, err := netlink.RouteGet(addr.AsSlice()); err != nil {
		return fmt.Sprintf("its own processes have no route to %v (%v), and need one, because addresses of services are translated after routing: a default route is enough", addr, err)
	}
	return ""
}

func (e *Explainer) end(addr netip.Addr, pods []Pod, nodes []Node) end {
	x := end{addr: addr, service: slices.ContainsFunc(e.o.Services, func(p netip.Prefix) bool { return p.Contains(addr) })}
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
