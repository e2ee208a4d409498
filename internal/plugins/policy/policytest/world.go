// Package policytest generates random clusters with policies for tests.
package policytest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/policy/oracle"
	"github.com/contiv/contiv/internal/plugins/policy/processor"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// World is a randomly changing cluster and a processor that follows it.
type World struct {
	Random          *rand.Rand
	Pods            map[string]*pod.Pod
	Namespaces      map[string]*namespace.Namespace
	Policies        map[string]*policy.Policy
	Nodes           map[string]*node.Node
	ClusterPolicies map[string]*policy.ClusterPolicy
	// Published contains the pod addresses that another node publishes.
	Published map[podmanager.PodID][]processor.Published
	Processor *processor.Processor
	Values    map[string]proto.Message
	// The changes so far, in order.
	Facts []Fact
}

// Fact is a change for a processor. Only changes of one object are ordered.
type Fact struct {
	Object string
	Apply  func(*processor.Processor)
}

func (w *World) record(object string, fact func(*processor.Processor)) {
	w.Facts = append(w.Facts, Fact{object, fact})
	fact(w.Processor)
}

// Node is the node of the processor.
const Node = "node1"

// New returns an empty cluster. The seed determines its changes.
func New(seed uint64) *World {
	return &World{
		Random: rand.New(rand.NewPCG(seed, 7)), Pods: map[string]*pod.Pod{}, Namespaces: map[string]*namespace.Namespace{}, Policies: map[string]*policy.Policy{},
		Nodes: map[string]*node.Node{}, ClusterPolicies: map[string]*policy.ClusterPolicy{}, Published: map[podmanager.PodID][]processor.Published{}, Processor: processor.New(Node), Values: map[string]proto.Message{},
	}
}

var (
	keys   = []string{"app", "tier", "env"}
	labels = []string{"a", "b", "c"}
	names  = []string{"http", "dns"}
)

func pick[T any](w *World, list ...T) T { return list[w.Random.IntN(len(list))] }

// Chance returns true with a probability in percent.
func (w *World) Chance(percent int) bool { return w.Random.IntN(100) < percent }

// Labels returns a random label set.
func (w *World) Labels() map[string]string {
	m := map[string]string{}
	for _, k := range keys {
		if w.Chance(60) {
			m[k] = pick(w, labels...)
		}
	}
	return m
}

// Change makes one random change and passes it to the processor.
func (w *World) Change() {
	ns := fmt.Sprintf("ns%d", w.Random.IntN(3))
	switch w.Random.IntN(10) {
	case 0:
		if w.Chance(30) {
			delete(w.Namespaces, ns)
			w.record("namespace "+ns, func(p *processor.Processor) { p.DeleteNamespace(ns) })
			return
		}
		value := &namespace.Namespace{Name: ns}
		for k, v := range w.Labels() {
			value.Label = append(value.Label, &namespace.Namespace_Label{Key: k, Value: v})
		}
		w.Namespaces[ns] = value
		w.record("namespace "+ns, func(p *processor.Processor) { p.SetNamespace(value) })
	case 1, 2:
		w.changePolicy(ns)
	case 3, 4:
		w.changeClusterPolicy()
	case 5:
		w.changeNode()
	default:
		w.changePod(ns)
	}
}

func (w *World) changePod(ns string) {
	n := w.Random.IntN(4)
	name := fmt.Sprintf("pod%d", n)
	id := podmanager.PodID{Namespace: ns, Name: name}
	if w.Chance(25) {
		delete(w.Pods, id.String())
		w.record("local "+id.String(), func(p *processor.Processor) { p.DeleteLocal(id) })
		w.record("pod "+id.String(), func(p *processor.Processor) { p.DeletePod(id) })
		return
	}
	value := &pod.Pod{Name: name, Namespace: ns, NodeName: fmt.Sprintf("node%d", 1+n%2), Labels: w.Labels(),
		Phase: pick(w, pod.Pod_RUNNING, pod.Pod_RUNNING, pod.Pod_RUNNING, pod.Pod_SUCCEEDED), HostNetwork: n == 3 && w.Chance(50)}
	for k, v := range value.Labels {
		value.Label = append(value.Label, &pod.Pod_Label{Key: k, Value: v})
	}
	for _, addr := range address(ns, n) {
		value.IpAddresses = append(value.IpAddresses, addr.String())
	}
	value.IpAddress = value.IpAddresses[0]
	for i, portName := range names {
		if !w.Chance(60) {
			continue
		}
		c := &pod.Pod_Container{Name: portName, Restartable: w.Chance(50), Port: []*pod.Pod_Container_Port{{
			Name: portName, ContainerPort: int32(80 + 10*i + w.Random.IntN(2)), Protocol: pick(w, pod.Pod_Container_Port_TCP, pod.Pod_Container_Port_UDP)}}}
		if w.Chance(50) {
			value.Container = append(value.Container, c)
		} else {
			value.InitContainer = append(value.InitContainer, c)
		}
	}
	w.Pods[id.String()] = value
	wire := func() {
		if value.NodeName == Node && !value.HostNetwork {
			w.record("local "+id.String(), func(p *processor.Processor) {
				p.SetLocal(id, processor.Local{Addresses: address(ns, n), Interface: "tap-" + name})
			})
		} else {
			w.record("local "+id.String(), func(p *processor.Processor) { p.DeleteLocal(id) })
		}
	}
	learn := func() { w.record("pod "+id.String(), func(p *processor.Processor) { p.SetPod(value) }) }
	if w.Chance(50) {
		wire()
		learn()
	} else {
		learn()
		wire()
	}
	if value.NodeName != Node && w.Chance(50) {
		w.publish(id, ns, n)
	}
}

// Some published addresses are in the subnet of a node that does not run the pod.
func (w *World) publish(id podmanager.PodID, ns string, n int) {
	delete(w.Published, id)
	if w.Chance(70) {
		for i, addr := range address(ns, n+100) {
			subnets := [][]string{{"10.1.0.0/16", "fd10::/12"}, {"10.9.0.0/16", "fd20::/12"}}
			w.Published[id] = append(w.Published[id], processor.Published{Addr: addr, Subnet: netip.MustParsePrefix(pick(w, subnets...)[i])})
		}
	}
	now := maps.Clone(w.Published)
	w.record("published", func(p *processor.Processor) { p.SetPublished(now) })
}

func address(ns string, n int) []netip.Addr {
	return []netip.Addr{
		netip.MustParseAddr(fmt.Sprintf("10.1.%s.%d", ns[2:], n+2)),
		netip.MustParseAddr(fmt.Sprintf("fd10:%s::%d", ns[2:], n+2)),
	}
}

func (w *World) selector() *policy.Policy_LabelSelector {
	s := &policy.Policy_LabelSelector{}
	for range w.Random.IntN(3) {
		if w.Chance(50) {
			s.MatchLabel = append(s.MatchLabel, &policy.Policy_Label{Key: pick(w, keys...), Value: pick(w, labels...)})
			continue
		}
		e := &policy.Policy_LabelSelector_LabelExpression{Key: pick(w, keys...), Operator: policy.Policy_LabelSelector_LabelExpression_Operator(w.Random.IntN(4))}
		if e.Operator < 2 {
			for range 1 + w.Random.IntN(2) {
				e.Value = append(e.Value, pick(w, labels...))
			}
		}
		s.MatchExpression = append(s.MatchExpression, e)
	}
	return s
}

func (w *World) peers() (list []*policy.Policy_Peer) {
	for range w.Random.IntN(3) {
		p := &policy.Policy_Peer{}
		switch w.Random.IntN(4) {
		case 0:
			p.IpBlock = pick(w,
				&policy.Policy_Peer_IPBlock{Cidr: "10.1.0.0/16", Except: []string{"10.1.1.0/24", "10.1.2.3/32"}},
				&policy.Policy_Peer_IPBlock{Cidr: "0.0.0.0/0", Except: []string{"10.1.0.0/22"}},
				&policy.Policy_Peer_IPBlock{Cidr: "fd10:1::/64", Except: []string{"fd10:1::3/128"}},
				&policy.Policy_Peer_IPBlock{Cidr: "192.168.16.0/24"})
		case 1:
			p.Pods = w.selector()
		case 2:
			p.Namespaces = w.selector()
		case 3:
			p.Pods, p.Namespaces = w.selector(), w.selector()
		}
		list = append(list, p)
	}
	return list
}

func (w *World) ports() (list []*policy.Policy_Port) {
	for range w.Random.IntN(3) {
		p := &policy.Policy_Port{Protocol: pick(w, policy.Policy_Port_TCP, policy.Policy_Port_UDP, policy.Policy_Port_SCTP, policy.Policy_Port_OTHER)}
		switch w.Random.IntN(4) {
		case 0:
		case 1:
			p.Port = &policy.Policy_Port_PortNameOrNumber{Type: policy.Policy_Port_PortNameOrNumber_NAME, Name: pick(w, names...)}
		default:
			p.Port = &policy.Policy_Port_PortNameOrNumber{Number: pick[int32](w, 80, 81, 90)}
			if w.Chance(40) {
				p.EndPort = p.Port.Number + int32(w.Random.IntN(12))
			}
		}
		list = append(list, p)
	}
	return list
}

func (w *World) changePolicy(ns string) {
	name := fmt.Sprintf("policy%d", w.Random.IntN(4))
	if w.Chance(35) {
		delete(w.Policies, ns+"/"+name)
		w.record("policy "+ns+"/"+name, func(p *processor.Processor) { p.DeletePolicy(processor.PolicyID{Namespace: ns, Name: name}) })
		return
	}
	value := w.Policy(ns, name)
	w.Policies[ns+"/"+name] = value
	w.record("policy "+ns+"/"+name, func(p *processor.Processor) { p.SetPolicy(value) })
}

// Policy returns a random policy of the namespace.
func (w *World) Policy(ns, name string) *policy.Policy {
	value := &policy.Policy{Name: name, Namespace: ns, Pods: w.selector(), PolicyType: policy.Policy_PolicyType(w.Random.IntN(4))}
	for range w.Random.IntN(3) {
		value.IngressRule = append(value.IngressRule, &policy.Policy_IngressRule{From: w.peers(), Port: w.ports()})
	}
	for range w.Random.IntN(3) {
		value.EgressRule = append(value.EgressRule, &policy.Policy_EgressRule{To: w.peers(), Port: w.ports()})
	}
	return value
}

func (w *World) changeNode() {
	n := 1 + w.Random.IntN(3)
	name := fmt.Sprint("node", n)
	if w.Chance(20) {
		delete(w.Nodes, name)
		w.record("node "+name, func(p *processor.Processor) { p.DeleteNode(name) })
		return
	}
	value := &node.Node{Name: name, Labels: w.Labels(), Addresses: []*node.NodeAddress{
		{Type: node.NodeAddress_NodeHostName, Address: name},
		{Type: node.NodeAddress_NodeInternalIP, Address: fmt.Sprint("192.168.16.", n)}, {Type: node.NodeAddress_NodeInternalIP, Address: fmt.Sprint("fd99::", n)}}}
	if w.Chance(30) {
		value.Addresses = append(value.Addresses, &node.NodeAddress{Type: node.NodeAddress_NodeExternalIP, Address: "192.168.16.9"})
	}
	w.Nodes[name] = value
	w.record("node "+name, func(p *processor.Processor) { p.SetNode(value) })
}

func (w *World) clusterPods() *policy.ClusterPolicy_Pods {
	return &policy.ClusterPolicy_Pods{Namespaces: w.selector(), Pods: w.selector()}
}

func (w *World) clusterRules(egress bool) (list []*policy.ClusterPolicy_Rule) {
	for range w.Random.IntN(4) {
		r := &policy.ClusterPolicy_Rule{Action: policy.ClusterPolicy_Action(w.Random.IntN(3))}
		for range w.Random.IntN(3) {
			kind := w.Random.IntN(3)
			switch {
			case egress && kind == 0:
				r.Peer = append(r.Peer, &policy.ClusterPolicy_Peer{Nodes: w.selector()})
			case egress && kind == 1:
				r.Peer = append(r.Peer, &policy.ClusterPolicy_Peer{Networks: pick(w, []string{"10.1.0.0/16", "fd10:1::/64"}, []string{"0.0.0.0/0"}, []string{"192.168.16.0/29", "10.1.0.0/24", "::/0"})})
			default:
				r.Peer = append(r.Peer, &policy.ClusterPolicy_Peer{Pods: w.clusterPods()})
			}
		}
		for range w.Random.IntN(3) {
			p := &policy.ClusterPolicy_Port{Protocol: pick(w, policy.Policy_Port_TCP, policy.Policy_Port_UDP, policy.Policy_Port_SCTP)}
			switch w.Random.IntN(3) {
			case 0:
				p = &policy.ClusterPolicy_Port{Name: pick(w, names...)}
			case 1:
				p.First = pick[int32](w, 80, 81, 90)
				p.Last = p.First + int32(w.Random.IntN(12))
			}
			r.Port = append(r.Port, p)
		}
		list = append(list, r)
	}
	return list
}

func (w *World) changeClusterPolicy() {
	name := pick(w, "guard", "guard-1", "guard.1", "guard0") // sorted differently from the keys of their lists
	if w.Chance(35) {
		delete(w.ClusterPolicies, name)
		w.record("policy "+name, func(p *processor.Processor) { p.DeletePolicy(processor.PolicyID{Name: name}) })
		return
	}
	value := w.ClusterPolicy(name)
	if w.Chance(5) {
		value.Subject = nil
	}
	w.ClusterPolicies[name] = value
	w.record("policy "+name, func(p *processor.Processor) { p.SetClusterPolicy(value) })
}

// ClusterPolicy returns a random policy of any tier.
func (w *World) ClusterPolicy(name string) *policy.ClusterPolicy {
	return &policy.ClusterPolicy{Name: name, Subject: w.clusterPods(), Tier: policy.ClusterPolicy_Tier(w.Random.IntN(2)), Priority: int32(w.Random.IntN(3)), Ingress: w.clusterRules(false), Egress: w.clusterRules(true)}
}

// InAnotherOrder shuffles the changes, except for the order within an object.
func (w *World) InAnotherOrder() (facts []Fact) {
	rest := map[string][]Fact{}
	var turns []string
	for _, f := range w.Facts {
		rest[f.Object] = append(rest[f.Object], f)
		turns = append(turns, f.Object)
	}
	w.Random.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	for _, object := range turns {
		facts = append(facts, rest[object][0])
		rest[object] = rest[object][1:]
	}
	return facts
}

// Take applies the processor's changes to Values and returns them.
func (w *World) Take() (set, removed []proto.Message) {
	set, gone := w.Processor.Changes()
	for _, v := range set {
		w.Values[models.Key(v)] = v
	}
	for _, key := range gone {
		removed = append(removed, w.Values[key])
		delete(w.Values, key)
	}
	return set, removed
}

// Cluster returns the input of the oracle.
func (w *World) Cluster() oracle.Cluster {
	return oracle.Cluster{Pods: slices.Collect(maps.Values(w.Pods)), Namespaces: slices.Collect(maps.Values(w.Namespaces)), Policies: slices.Collect(maps.Values(w.Policies)),
		Nodes: slices.Collect(maps.Values(w.Nodes)), ClusterPolicies: slices.Collect(maps.Values(w.ClusterPolicies))}
}

// Ends returns all pods at their own and published addresses, and addresses without a pod. Version
// 0 is IPv4, 1 is IPv6.
func (w *World) Ends(version int) []oracle.End {
	ends := []oracle.End{{Addr: netip.MustParseAddr([]string{"192.168.16.9", "fd99::1"}[version])}, {Addr: netip.MustParseAddr([]string{"192.168.16.1", "fd99::9"}[version])}}
	for _, p := range w.Pods {
		own := netip.MustParseAddr(p.GetIpAddresses()[version])
		ends = append(ends, oracle.End{Pod: p, Addr: own})
		if of := w.Published[podmanager.IDOf(p)]; len(of) > 0 {
			end := oracle.End{Addr: of[version].Addr}
			if of[version].Subnet.Contains(own) {
				end.Pod = p
			}
			ends = append(ends, end)
		}
	}
	return ends
}

// Passes returns the oracle's verdict about the local pods.
func Passes(cluster oracle.Cluster, conn oracle.Connection) bool {
	mine := func(e oracle.End) bool { return e.Pod != nil && e.Pod.GetNodeName() == Node }
	leaves := !mine(conn.From) || cluster.Egress(conn) && (conn.From.Pod.GetHostNetwork() || !cluster.MayBeDenied(conn.From.Pod, false))
	arrives := !mine(conn.To) || cluster.Ingress(conn) && (conn.To.Pod.GetHostNetwork() || !cluster.MayBeDenied(conn.To.Pod, true))
	return conn.From.Addr == conn.To.Addr || leaves && arrives
}

// Connections returns connections between two ends: to ports at the limits of policy rules, and
// ICMP.
func Connections(from, to oracle.End) (list []oracle.Connection) {
	for _, protocol := range []string{"TCP", "UDP", "SCTP"} {
		for _, port := range []int{80, 85, 90, 91} {
			list = append(list, oracle.Connection{From: from, To: to, Protocol: protocol, Port: port})
		}
	}
	return append(list, oracle.Connection{From: from, To: to, Protocol: "ICMP"})
}
