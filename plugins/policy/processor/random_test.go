package processor_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/filter"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/policy/oracle"
	"github.com/contiv/contiv/plugins/policy/processor"
	"google.golang.org/protobuf/proto"
)

var (
	steps     = flag.Int("steps", 1200, "random changes of the cluster; 1000000 for a long run")
	stepsSeed = flag.Uint64("steps.seed", 0, "of the first cluster")
)

// world is a cluster that changes at random, and what the processor made of it.
type world struct {
	t          *testing.T
	rnd        *rand.Rand
	pods       map[string]*pod.Pod
	namespaces map[string]*namespace.Namespace
	policies   map[string]*policy.Policy
	nodes      map[string]*node.Node
	cluster    map[string]*policy.ClusterPolicy
	processor  *processor.Processor
	values     map[string]proto.Message
}

const thisNode = "node1"

func newWorld(t *testing.T, seed uint64) *world {
	return &world{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), pods: map[string]*pod.Pod{}, namespaces: map[string]*namespace.Namespace{},
		policies: map[string]*policy.Policy{}, nodes: map[string]*node.Node{}, cluster: map[string]*policy.ClusterPolicy{}, processor: processor.New(thisNode), values: map[string]proto.Message{}}
}

var (
	keys   = []string{"app", "tier", "env"}
	labels = []string{"a", "b", "c"}
	names  = []string{"http", "dns"}
)

func pick[T any](w *world, list ...T) T { return list[w.rnd.IntN(len(list))] }

func (w *world) chance(percent int) bool { return w.rnd.IntN(100) < percent }

func (w *world) labelMap() map[string]string {
	m := map[string]string{}
	for _, k := range keys {
		if w.chance(60) {
			m[k] = pick(w, labels...)
		}
	}
	return m
}

// change makes one random change and tells the processor.
func (w *world) change() {
	ns := fmt.Sprintf("ns%d", w.rnd.IntN(3))
	switch w.rnd.IntN(10) {
	case 0:
		if w.chance(30) {
			delete(w.namespaces, ns)
			w.processor.DeleteNamespace(ns)
			return
		}
		value := &namespace.Namespace{Name: ns}
		for k, v := range w.labelMap() {
			value.Label = append(value.Label, &namespace.Namespace_Label{Key: k, Value: v})
		}
		w.namespaces[ns] = value
		w.processor.SetNamespace(value)
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

func (w *world) changePod(ns string) {
	n := w.rnd.IntN(4)
	name := fmt.Sprintf("pod%d", n)
	id := podmanager.PodID{Namespace: ns, Name: name}
	if w.chance(25) {
		delete(w.pods, id.String())
		w.processor.DeleteLocal(id)
		w.processor.DeletePod(id)
		return
	}
	value := &pod.Pod{Name: name, Namespace: ns, NodeName: fmt.Sprintf("node%d", 1+n%2), Labels: w.labelMap(),
		Phase: pick(w, pod.Pod_RUNNING, pod.Pod_RUNNING, pod.Pod_RUNNING, pod.Pod_SUCCEEDED), HostNetwork: n == 3 && w.chance(50)}
	for k, v := range value.Labels {
		value.Label = append(value.Label, &pod.Pod_Label{Key: k, Value: v})
	}
	for _, addr := range address(ns, n) {
		value.IpAddresses = append(value.IpAddresses, addr.String())
	}
	value.IpAddress = value.IpAddresses[0]
	for i, portName := range names {
		if !w.chance(60) {
			continue
		}
		c := &pod.Pod_Container{Name: portName, Restartable: w.chance(50), Port: []*pod.Pod_Container_Port{{
			Name: portName, ContainerPort: int32(80 + 10*i + w.rnd.IntN(2)), Protocol: pick(w, pod.Pod_Container_Port_TCP, pod.Pod_Container_Port_UDP)}}}
		if w.chance(50) {
			value.Container = append(value.Container, c)
		} else {
			value.InitContainer = append(value.InitContainer, c)
		}
	}
	w.pods[id.String()] = value
	wire := func() {
		if value.NodeName == thisNode && !value.HostNetwork {
			w.processor.SetLocal(id, processor.Local{Addresses: address(ns, n), Interface: "tap-" + name})
		} else {
			w.processor.DeleteLocal(id)
		}
	}
	if w.chance(50) {
		wire()
		w.processor.SetPod(value)
	} else {
		w.processor.SetPod(value)
		wire()
	}
}

func address(ns string, n int) []netip.Addr {
	return []netip.Addr{
		netip.MustParseAddr(fmt.Sprintf("10.1.%s.%d", ns[2:], n+2)),
		netip.MustParseAddr(fmt.Sprintf("fd10:%s::%d", ns[2:], n+2)),
	}
}

func (w *world) selector() *policy.Policy_LabelSelector {
	s := &policy.Policy_LabelSelector{}
	for range w.rnd.IntN(3) {
		if w.chance(50) {
			s.MatchLabel = append(s.MatchLabel, &policy.Policy_Label{Key: pick(w, keys...), Value: pick(w, labels...)})
			continue
		}
		e := &policy.Policy_LabelSelector_LabelExpression{Key: pick(w, keys...), Operator: policy.Policy_LabelSelector_LabelExpression_Operator(w.rnd.IntN(4))}
		if e.Operator < 2 {
			for range 1 + w.rnd.IntN(2) {
				e.Value = append(e.Value, pick(w, labels...))
			}
		}
		s.MatchExpression = append(s.MatchExpression, e)
	}
	return s
}

func (w *world) peers() (list []*policy.Policy_Peer) {
	for range w.rnd.IntN(3) {
		p := &policy.Policy_Peer{}
		switch w.rnd.IntN(4) {
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

func (w *world) ports() (list []*policy.Policy_Port) {
	for range w.rnd.IntN(3) {
		p := &policy.Policy_Port{Protocol: pick(w, policy.Policy_Port_TCP, policy.Policy_Port_UDP, policy.Policy_Port_SCTP, policy.Policy_Port_OTHER)}
		switch w.rnd.IntN(4) {
		case 0:
		case 1:
			p.Port = &policy.Policy_Port_PortNameOrNumber{Type: policy.Policy_Port_PortNameOrNumber_NAME, Name: pick(w, names...)}
		default:
			p.Port = &policy.Policy_Port_PortNameOrNumber{Number: pick[int32](w, 80, 81, 90)}
			if w.chance(40) {
				p.EndPort = p.Port.Number + int32(w.rnd.IntN(12))
			}
		}
		list = append(list, p)
	}
	return list
}

func (w *world) changePolicy(ns string) {
	name := fmt.Sprintf("policy%d", w.rnd.IntN(4))
	if w.chance(35) {
		delete(w.policies, ns+"/"+name)
		w.processor.DeletePolicy(processor.PolicyID{Namespace: ns, Name: name})
		return
	}
	value := &policy.Policy{Name: name, Namespace: ns, Pods: w.selector(), PolicyType: policy.Policy_PolicyType(w.rnd.IntN(4))}
	for range w.rnd.IntN(3) {
		value.IngressRule = append(value.IngressRule, &policy.Policy_IngressRule{From: w.peers(), Port: w.ports()})
	}
	for range w.rnd.IntN(3) {
		value.EgressRule = append(value.EgressRule, &policy.Policy_EgressRule{To: w.peers(), Port: w.ports()})
	}
	w.policies[ns+"/"+name] = value
	w.processor.SetPolicy(value)
}

func (w *world) changeNode() {
	n := 1 + w.rnd.IntN(3)
	name := fmt.Sprint("node", n)
	if w.chance(20) {
		delete(w.nodes, name)
		w.processor.DeleteNode(name)
		return
	}
	value := &node.Node{Name: name, Labels: w.labelMap(), Addresses: []*node.NodeAddress{
		{Type: node.NodeAddress_NodeHostName, Address: name},
		{Type: node.NodeAddress_NodeInternalIP, Address: fmt.Sprint("192.168.16.", n)}, {Type: node.NodeAddress_NodeInternalIP, Address: fmt.Sprint("fd99::", n)}}}
	if w.chance(30) { // two nodes claim one address
		value.Addresses = append(value.Addresses, &node.NodeAddress{Type: node.NodeAddress_NodeExternalIP, Address: "192.168.16.9"})
	}
	w.nodes[name] = value
	w.processor.SetNode(value)
}

func (w *world) clusterPods() *policy.ClusterPolicy_Pods {
	return &policy.ClusterPolicy_Pods{Namespaces: w.selector(), Pods: w.selector()}
}

func (w *world) clusterRules(egress bool) (list []*policy.ClusterPolicy_Rule) {
	for range w.rnd.IntN(4) {
		r := &policy.ClusterPolicy_Rule{Action: policy.ClusterPolicy_Action(w.rnd.IntN(3))}
		for range w.rnd.IntN(3) {
			kind := w.rnd.IntN(3)
			switch {
			case egress && kind == 0:
				r.Peer = append(r.Peer, &policy.ClusterPolicy_Peer{Nodes: w.selector()})
			case egress && kind == 1:
				r.Peer = append(r.Peer, &policy.ClusterPolicy_Peer{Networks: pick(w, []string{"10.1.0.0/16", "fd10:1::/64"}, []string{"0.0.0.0/0"}, []string{"192.168.16.0/29", "10.1.0.0/24", "::/0"})})
			default:
				r.Peer = append(r.Peer, &policy.ClusterPolicy_Peer{Pods: w.clusterPods()})
			}
		}
		for range w.rnd.IntN(3) {
			p := &policy.ClusterPolicy_Port{Protocol: pick(w, policy.Policy_Port_TCP, policy.Policy_Port_UDP, policy.Policy_Port_SCTP)}
			switch w.rnd.IntN(3) {
			case 0:
				p = &policy.ClusterPolicy_Port{Name: pick(w, names...)}
			case 1:
				p.First = pick[int32](w, 80, 81, 90)
				p.Last = p.First + int32(w.rnd.IntN(12))
			}
			r.Port = append(r.Port, p)
		}
		list = append(list, r)
	}
	return list
}

func (w *world) changeClusterPolicy() {
	name := pick(w, "guard", "guard-1", "guard.1", "guard0") // not in the order of their lists' keys
	if w.chance(35) {
		delete(w.cluster, name)
		w.processor.DeletePolicy(processor.PolicyID{Name: name})
		return
	}
	value := &policy.ClusterPolicy{Name: name, Tier: policy.ClusterPolicy_Tier(w.rnd.IntN(2)), Priority: int32(w.rnd.IntN(3)), Ingress: w.clusterRules(false), Egress: w.clusterRules(true)}
	if w.chance(95) {
		value.Subject = w.clusterPods()
	}
	w.cluster[name] = value
	w.processor.SetClusterPolicy(value)
}

// take takes over what the processor says.
func (w *world) take() {
	values, gone := w.processor.Changes()
	for _, v := range values {
		w.values[models.Key(v)] = v
	}
	for _, key := range gone {
		delete(w.values, key)
	}
}

// check compares with the oracle what becomes of a part, in percent, of all pairs of ends.
func (w *world) check(percent int) {
	w.t.Helper()
	state := filter.NewState()
	for _, v := range w.values {
		state.Put(v)
	}
	cluster := oracle.Cluster{Pods: slices.Collect(maps.Values(w.pods)), Namespaces: slices.Collect(maps.Values(w.namespaces)), Policies: slices.Collect(maps.Values(w.policies)),
		Nodes: slices.Collect(maps.Values(w.nodes)), ClusterPolicies: slices.Collect(maps.Values(w.cluster))}
	for family := range 2 {
		ends := []oracle.End{{Addr: netip.MustParseAddr([]string{"192.168.16.9", "fd99::1"}[family])}, {Addr: netip.MustParseAddr([]string{"192.168.16.1", "fd99::9"}[family])}}
		for _, p := range cluster.Pods {
			ends = append(ends, oracle.End{Pod: p, Addr: netip.MustParseAddr(p.GetIpAddresses()[family])})
		}
		for _, from := range ends {
			for _, to := range ends {
				if percent < 100 && !w.chance(percent) {
					continue
				}
				w.checkPair(state, cluster, from, to)
			}
		}
	}
}

var protocols = map[string]uint8{"TCP": filter.TCP, "UDP": filter.UDP, "SCTP": filter.SCTP, "ICMP": 1}

func (w *world) checkPair(state *filter.State, cluster oracle.Cluster, from, to oracle.End) {
	w.t.Helper()
	// This node is asked about its own pods only.
	mine := func(e oracle.End) bool { return e.Pod != nil && e.Pod.GetNodeName() == thisNode }
	for name, number := range protocols {
		for _, port := range []int{0, 80, 85, 90, 91} {
			if (name == "ICMP") != (port == 0) {
				continue
			}
			conn := oracle.Connection{From: from, To: to, Protocol: name, Port: port}
			leaves := !mine(from) || cluster.Egress(conn) && (from.Pod.GetHostNetwork() || !cluster.MayBeDenied(from.Pod, false))
			arrives := !mine(to) || cluster.Ingress(conn) && (to.Pod.GetHostNetwork() || !cluster.MayBeDenied(to.Pod, true))
			want := from.Addr == to.Addr || leaves && arrives
			c := filter.Connection{Src: from.Addr, Dst: to.Addr, Protocol: number, Port: uint16(port)}
			got := state.Judge(c)
			explained := true
			for _, e := range state.Explain(c) {
				explained = explained && e.Allowed
			}
			if explained != got.Allowed {
				w.t.Fatalf("%v to %v, %s %d: judged %v, explained as %+v", from, to, name, port, got.Allowed, state.Explain(c))
			}
			if got.Allowed != want {
				w.t.Fatalf("%v to %v, %s %d: got %+v, want %v\npolicies %v, %v\nnamespaces %v\nvalues %v", from, to, name, port, got, want, cluster.Policies, cluster.ClusterPolicies, cluster.Namespaces, w.values)
			}
		}
	}
}

// worldSteps is after how many changes another cluster takes over.
const worldSteps = 100

// A long run looks at all pairs of ends after some of the batches only: go test -timeout 0 -steps 1000000.
func TestAgreesWithOracle(t *testing.T) {
	long := *steps > 1200
	for seed := range uint64(*steps / worldSteps) {
		seed += *stepsSeed
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for done, batch := 0, 0; done < worldSteps; batch++ {
				size := 1 + w.rnd.IntN(4) // batches of several sizes
				for range size {
					w.change()
				}
				done += size
				w.take()
				percent := 100
				if long && batch%8 != 0 {
					percent = 5
				}
				w.check(percent)
			}
			w.checkFresh()
		})
	}
}

// checkFresh: whatever way led here, the values are those of a processor that was
// given the same in any other order.
func (w *world) checkFresh() {
	fresh := processor.New(thisNode)
	var steps []func()
	for _, p := range w.pods {
		steps = append(steps, func() { fresh.SetPod(p) })
	}
	for id, local := range w.processor.Locals() {
		steps = append(steps, func() { fresh.SetLocal(id, *local) })
	}
	for _, n := range w.namespaces {
		steps = append(steps, func() { fresh.SetNamespace(n) })
	}
	for _, p := range w.policies {
		steps = append(steps, func() { fresh.SetPolicy(p) })
	}
	for _, p := range w.cluster {
		steps = append(steps, func() { fresh.SetClusterPolicy(p) })
	}
	for _, n := range w.nodes {
		steps = append(steps, func() { fresh.SetNode(n) })
	}
	w.rnd.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	values := map[string]proto.Message{}
	for _, step := range steps {
		step()
		if w.chance(50) {
			changed, gone := fresh.Changes()
			for _, v := range changed {
				values[models.Key(v)] = v
			}
			for _, key := range gone {
				delete(values, key)
			}
		}
	}
	changed, gone := fresh.Changes()
	for _, v := range changed {
		values[models.Key(v)] = v
	}
	for _, key := range gone {
		delete(values, key)
	}
	for key, v := range w.values {
		if !proto.Equal(v, values[key]) {
			w.t.Errorf("%s\nhave %v\nwant %v", key, v, values[key])
		}
	}
	for key := range values {
		if w.values[key] == nil {
			w.t.Errorf("%s is missing", key)
		}
	}
}
