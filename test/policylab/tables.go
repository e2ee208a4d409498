package policylab

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/plugins/policy/oracle"
	"github.com/contiv/contiv/internal/plugins/policy/policytest"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

var (
	tables     = flag.Int("tables", 3, "random clusters, for each of which a table of pods, ports and protocols is filled with packets in the lab")
	tablesSeed = flag.Uint64("tables.seed", 1, "of the first table")
)

var tablePorts = append([]string{"icmp"}, policyPorts...)

// RandomTables sends packets between all pods on all ports, protocols and IP versions in clusters
// with random policies. They pass if and only if the oracle allows them.
func RandomTables(t *testing.T, l *lab.Lab) {
	p := newPolicyLab(t, l)
	for n := range uint64(*tables) {
		seed := *tablesSeed + n
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { p.randomTable(t, policytest.New(seed)) })
	}
	labtest.RequireQuiet(t, p.Lab)
}

type object = map[string]any

func (p *policyLab) randomTable(t *testing.T, w *policytest.World) {
	var cluster oracle.Cluster
	var lasting, ending []object
	for _, name := range []string{"x", "z"} {
		labels := w.Labels()
		cluster.Namespaces = append(cluster.Namespaces, &namespace.Namespace{Name: name, Label: NamespaceLabels(labels)})
		lasting = append(lasting, Object("v1", "Namespace", "", name, labels, nil))
	}
	pods := map[string]*pod.Pod{}
	for _, name := range []string{"x/a", "x/b", "z/a", "z/b"} {
		value := p.randomPod(w, name)
		pods[name] = value
		cluster.Pods = append(cluster.Pods, value)
		lasting = append(lasting, PodObject(value))
	}
	for _, ns := range []string{"x", "z"} {
		for i := range 1 + w.Random.IntN(3) {
			value := w.Policy(ns, fmt.Sprint("random", i))
			for _, r := range value.GetIngressRule() {
				r.Port = Known(r.GetPort())
			}
			for _, r := range value.GetEgressRule() {
				r.Port = Known(r.GetPort())
			}
			cluster.Policies = append(cluster.Policies, value)
			ending = append(ending, PolicyObject(value))
		}
	}
	for i := range w.Random.IntN(3) {
		value := w.ClusterPolicy(fmt.Sprint("random", i))
		value.Ingress, value.Egress = withPeers(value.GetIngress()), withPeers(value.GetEgress())
		cluster.ClusterPolicies = append(cluster.ClusterPolicies, value)
		ending = append(ending, clusterPolicyObject(value))
	}
	p.put(t, YAML(t, lasting))
	file := p.put(t, YAML(t, ending))
	defer func() {
		if _, err := p.Delete(t.Context(), file); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the cluster is\n%s%s", YAML(t, lasting), YAML(t, ending))
		}
	}()
	await.That(t, "packets pass as the oracle says", func() error {
		return p.differencesAt(func(from, to string, at netip.Addr, port string) bool {
			protocol, number, _ := strings.Cut(port, "/")
			c := oracle.Connection{To: oracle.End{Pod: pods[to], Addr: at}, Protocol: strings.ToUpper(protocol)}
			for _, addr := range p.pods[from].Addresses() {
				if addr.Is4() == at.Is4() {
					c.From = oracle.End{Pod: pods[from], Addr: addr}
				}
			}
			_, _ = fmt.Sscan(number, &c.Port)
			return cluster.Allowed(c)
		}, tablePorts...)
	})
}

// Known returns the ports with protocols that a manifest can name.
func Known(ports []*policy.Policy_Port) []*policy.Policy_Port {
	for _, port := range ports {
		if port.GetProtocol() == policy.Policy_Port_OTHER {
			port.Protocol = policy.Policy_Port_UDP
		}
	}
	return ports
}

// withPeers returns the rules that the API accepts.
func withPeers(rules []*policy.ClusterPolicy_Rule) []*policy.ClusterPolicy_Rule {
	return slices.DeleteFunc(rules, func(r *policy.ClusterPolicy_Rule) bool { return len(r.GetPeer()) == 0 })
}

// NamespaceLabels converts the labels of a namespace.
func NamespaceLabels(labels map[string]string) (list []*namespace.Namespace_Label) {
	for k, v := range labels {
		list = append(list, &namespace.Namespace_Label{Key: k, Value: v})
	}
	return list
}

func (p *policyLab) randomPod(w *policytest.World, name string) *pod.Pod {
	ns, short, _ := strings.Cut(name, "/")
	value := &pod.Pod{Name: short, Namespace: ns, NodeName: p.pods[name].Node, Labels: w.Labels(), Phase: pod.Pod_RUNNING}
	for _, addr := range p.pods[name].Addresses() {
		value.IpAddresses = append(value.IpAddresses, addr.String())
	}
	value.IpAddress = value.IpAddresses[0]
	for k, v := range value.GetLabels() {
		value.Label = append(value.Label, &pod.Pod_Label{Key: k, Value: v})
	}
	c := &pod.Pod_Container{Name: "c"}
	for _, port := range []string{"http", "dns"} {
		if w.Chance(70) {
			c.Port = append(c.Port, &pod.Pod_Container_Port{Name: port, ContainerPort: int32(80 + w.Random.IntN(2)), Protocol: pod.Pod_Container_Port_Protocol(w.Random.IntN(2))})
		}
	}
	value.Container = []*pod.Pod_Container{c}
	return value
}

// Object returns a Kubernetes object as JSON; spec may be nil.
func Object(apiVersion, kind, ns, name string, labels map[string]string, spec object) object {
	metadata := object{"name": name, "labels": labels}
	if ns != "" {
		metadata["namespace"] = ns
	}
	o := object{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	if spec != nil {
		o["spec"] = spec
	}
	return o
}

// PodObject returns a pod with one container.
func PodObject(p *pod.Pod) object {
	ports := []object{}
	for _, port := range p.GetContainer()[0].GetPort() {
		o := object{"name": port.GetName(), "containerPort": port.GetContainerPort(), "protocol": port.GetProtocol().String()}
		if port.GetHostPort() != 0 {
			o["hostPort"] = port.GetHostPort()
		}
		ports = append(ports, o)
	}
	return Object("v1", "Pod", p.GetNamespace(), p.GetName(), p.GetLabels(),
		object{"nodeName": p.GetNodeName(), "containers": []object{{"name": "c", "image": "none", "ports": ports}}})
}

func selectorObject(s *policy.Policy_LabelSelector) object {
	labels, expressions := object{}, []object{}
	for _, l := range s.GetMatchLabel() {
		labels[l.GetKey()] = l.GetValue()
	}
	for _, e := range s.GetMatchExpression() {
		x := object{"key": e.GetKey(), "operator": []string{"In", "NotIn", "Exists", "DoesNotExist"}[e.GetOperator()]}
		if len(e.GetValue()) > 0 {
			x["values"] = e.GetValue()
		}
		expressions = append(expressions, x)
	}
	return object{"matchLabels": labels, "matchExpressions": expressions}
}

// PolicyObject returns a NetworkPolicy.
func PolicyObject(p *policy.Policy) object {
	spec := object{"podSelector": selectorObject(p.GetPods())}
	if types := [][]string{nil, {"Ingress"}, {"Egress"}, {"Ingress", "Egress"}}[p.GetPolicyType()]; types != nil {
		spec["policyTypes"] = types
	}
	rule := func(side string, peers []*policy.Policy_Peer, ports []*policy.Policy_Port) object {
		return object{side: all(peers, peerObject), "ports": all(ports, portObject)}
	}
	spec["ingress"] = all(p.GetIngressRule(), func(r *policy.Policy_IngressRule) object { return rule("from", r.GetFrom(), r.GetPort()) })
	spec["egress"] = all(p.GetEgressRule(), func(r *policy.Policy_EgressRule) object { return rule("to", r.GetTo(), r.GetPort()) })
	return Object("networking.k8s.io/v1", "NetworkPolicy", p.GetNamespace(), p.GetName(), nil, spec)
}

func all[T any](list []T, write func(T) object) []object {
	objects := []object{}
	for _, v := range list {
		objects = append(objects, write(v))
	}
	return objects
}

func peerObject(p *policy.Policy_Peer) object {
	o := object{}
	if b := p.GetIpBlock(); b != nil {
		o["ipBlock"] = object{"cidr": b.GetCidr(), "except": b.GetExcept()}
	}
	if p.GetPods() != nil {
		o["podSelector"] = selectorObject(p.GetPods())
	}
	if p.GetNamespaces() != nil {
		o["namespaceSelector"] = selectorObject(p.GetNamespaces())
	}
	return o
}

func portObject(p *policy.Policy_Port) object {
	o := object{"protocol": p.GetProtocol().String()}
	switch port := p.GetPort(); {
	case port == nil:
	case port.GetType() == policy.Policy_Port_PortNameOrNumber_NAME:
		o["port"] = port.GetName()
	default:
		o["port"] = port.GetNumber()
	}
	if p.GetEndPort() != 0 {
		o["endPort"] = p.GetEndPort()
	}
	return o
}

func clusterPolicyObject(p *policy.ClusterPolicy) object {
	podsOf := func(s *policy.ClusterPolicy_Pods) object {
		return object{"pods": object{"namespaceSelector": selectorObject(s.GetNamespaces()), "podSelector": selectorObject(s.GetPods())}}
	}
	rules := func(side string, list []*policy.ClusterPolicy_Rule) []object {
		return all(list, func(r *policy.ClusterPolicy_Rule) object {
			o := object{"action": []string{"Accept", "Deny", "Pass"}[r.GetAction()]}
			o[side] = all(r.GetPeer(), func(peer *policy.ClusterPolicy_Peer) object {
				switch {
				case peer.GetPods() != nil:
					return podsOf(peer.GetPods())
				case peer.GetNodes() != nil:
					return object{"nodes": selectorObject(peer.GetNodes())}
				}
				return object{"networks": peer.GetNetworks()}
			})
			if len(r.GetPort()) > 0 {
				o["protocols"] = all(r.GetPort(), clusterPortObject)
			}
			return o
		})
	}
	return Object("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy", "", p.GetName(), nil, object{
		"tier": []string{"Admin", "Baseline"}[p.GetTier()], "priority": p.GetPriority(), "subject": podsOf(p.GetSubject()),
		"ingress": rules("from", p.GetIngress()), "egress": rules("to", p.GetEgress()),
	})
}

func clusterPortObject(p *policy.ClusterPolicy_Port) object {
	if p.GetName() != "" {
		return object{"destinationNamedPort": p.GetName()}
	}
	o := object{}
	if p.GetFirst() != 0 {
		o["destinationPort"] = object{"range": object{"start": p.GetFirst(), "end": p.GetLast()}}
	}
	return object{strings.ToLower(p.GetProtocol().String()): o}
}

// YAML renders objects as documents.
func YAML(t testing.TB, objects []map[string]any) string {
	t.Helper()
	var text strings.Builder
	for _, o := range objects {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "---\n%s\n", data)
	}
	return text.String()
}
