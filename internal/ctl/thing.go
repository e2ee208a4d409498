package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/ctl/status"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/ctl/why"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/models"
	"github.com/spf13/cobra"
)

// Prefixes of object names.
const (
	nodeWord = "node/"
	podWord  = "pod/"
)

// object is a pod, service or node named on the command line. It stands for its values. A pod's
// values are on its node, a service's on all nodes. A node's values are on the other nodes and lead
// to it.
type object struct {
	name    string // such as "pod shop/web"
	pod     *wired
	service *processor.ID
	node    *Node
	// agents have values of the object.
	agents []*Agent
	// self is the node's agent; nil if it does not answer.
	self *Agent
}

// namespaceFlag adds the flag to a command whose arguments name objects.
func namespaceFlag(cmd *cobra.Command, namespace *string) {
	cmd.Flags().StringVarP(namespace, "namespace", "n", "", "namespace of names given without one (default: any, if the name is unique)")
	cmd.PreRunE = func(_ *cobra.Command, args []string) error {
		if *namespace != "" && len(args) == 0 {
			return Misused(fmt.Errorf("-n %s needs a name: add a pod, or svc/NAME", *namespace))
		}
		return nil
	}
}

// listedNamespaceFlag adds the flag to a command that lists what is in the namespace if it has no argument.
func listedNamespaceFlag(cmd *cobra.Command, namespace *string) {
	cmd.Flags().StringVarP(namespace, "namespace", "n", "", "namespace to list; with NAME, its namespace (default: all)")
}

// checkNamespace returns an error if a name has another namespace than the flag says.
func checkNamespace(namespace, name string) error {
	own, _, qualified := strings.Cut(name, "/")
	if namespace == "" || !qualified || own == namespace {
		return nil
	}
	return Misused(fmt.Errorf("-n %s contradicts namespace %s in %q: drop one of them", namespace, own, name))
}

// objectNamed returns the object named by a word: svc/NAMESPACE/NAME, node/NAME or
// pod/NAMESPACE/NAME. The prefix is optional if such a pod or node exists. Keys are never confused
// with names: they have more parts or other prefixes.
func objectNamed(ctx context.Context, agents []*Agent, namespace, word string) (t object, found bool, err error) {
	if id, is, err := serviceNamed(ctx, agents, namespace, word); is {
		return object{name: "service " + id.String(), service: &id, agents: agents}, true, err
	}
	if name, is := strings.CutPrefix(word, nodeWord); is {
		nodes, reports := knownNodes(ctx, agents)
		if nodes[name] == nil {
			return t, true, withSilentAgents(ctx, agents, text.Hinted(fmt.Errorf("unknown node %q", name), name, slices.Sorted(maps.Keys(nodes))))
		}
		return nodeObject(ctx, agents, nodes[name], reports), true, nil
	}
	name, mustBePod := strings.CutPrefix(word, podWord)
	if strings.Count(name, "/") > 1 || name == "" {
		switch {
		case mustBePod:
			err = Misused(fmt.Errorf("pod %q: use pod/NAMESPACE/NAME, such as pod/default/web", word))
		case namespace != "":
			err = Misused(fmt.Errorf("-n %s does not apply to %q, which is a key: drop one of them", namespace, word))
		}
		return t, err != nil, err
	}
	if err := checkNamespace(namespace, name); err != nil {
		return t, true, err
	}
	pod, found, err := podNamed(ctx, agents, namespace, name)
	switch {
	case found:
		return object{name: "pod " + pod.Namespace + "/" + pod.Name, pod: &pod, agents: []*Agent{pod.agent}}, true, nil
	case err == nil && mustBePod:
		if err = onHostNetwork(ctx, agents, namespace, name); err != nil {
			break
		}
		err = withSilentAgents(ctx, agents, text.Hinted(fmt.Errorf("unknown pod %q", name), name, podNames(ctx, agents)))
	case err == nil:
		if nodes, reports := knownNodes(ctx, agents); nodes[name] != nil {
			return nodeObject(ctx, agents, nodes[name], reports), true, nil
		}
		if err = podOnSilentNode(ctx, agents, namespace, name); err == nil {
			err = onHostNetwork(ctx, agents, namespace, name)
		}
	}
	return t, err != nil, err
}

// onHostNetwork returns an error if Kubernetes has a pod of the name on its node's network; such a
// pod has no values.
func onHostNetwork(ctx context.Context, agents []*Agent, namespace, name string) error {
	pods, _ := why.PodsInKubernetes(ctx, agents, namespace, name)
	for _, pod := range pods {
		if pod.HostNetwork {
			return Misused(fmt.Errorf("pod %s/%s uses the network of node %s (hostNetwork), so it has no values: use node/%s, or `contivctl why`", pod.Namespace, pod.Name, pod.Node, pod.Node))
		}
	}
	return nil
}

// podOnSilentNode returns an error if Kubernetes has a pod of the name on a node whose agent does
// not answer. Without it, the word could be taken for a service key.
func podOnSilentNode(ctx context.Context, agents []*Agent, namespace, name string) error {
	silent := silentAgents(ctx, agents)
	if len(silent) == 0 {
		return nil
	}
	pods, _ := why.PodsInKubernetes(ctx, agents, namespace, name)
	for _, pod := range pods {
		if slices.Contains(silent, pod.Node) {
			return fmt.Errorf("pod %s/%s is on %s, and its agent does not answer, so the state of the pod is unknown (for a service, use svc/%s)", pod.Namespace, pod.Name, pod.Node, name)
		}
	}
	return nil
}

// silentAgents returns the names of the agents that do not answer.
func silentAgents(ctx context.Context, agents []*Agent) (silent []string) {
	for _, a := range target.GetAll[ipnet.PodsReport](ctx, agents, ipnet.PodsURL, nil) {
		if a.Err != nil && !answered(a.Err) {
			silent = append(silent, a.Agent.Name)
		}
	}
	return silent
}

// withSilentAgents adds the nodes whose agents do not answer to a "not found" error, which then is
// no usage error.
func withSilentAgents(ctx context.Context, agents []*Agent, err error) error {
	silent := silentAgents(ctx, agents)
	switch len(silent) {
	case 0:
		return err
	case 1:
		return fmt.Errorf("%v; the agent of %s does not answer, so its values are unknown", err, silent[0])
	}
	return fmt.Errorf("%v; the agents of %s do not answer, so their values are unknown", err, strings.Join(silent, ", "))
}

// answered reports whether an error is an agent's answer.
func answered(err error) bool {
	var status *target.StatusError
	return errors.Is(err, target.ErrNotServed) || errors.As(err, &status)
}

// searchTimeout bounds the search for a pod on other nodes, whose agents may not answer.
const searchTimeout = 2 * time.Second

// object is objectNamed with an error that names the pod's node if only another node was asked.
func (c *cli) object(ctx context.Context, agents []*Agent, namespace, word string) (t object, found bool, err error) {
	t, found, err = objectNamed(ctx, agents, namespace, word)
	name := strings.TrimPrefix(word, podWord)
	if c.targets.Node == "" || found && err == nil || strings.Count(name, "/") > 1 {
		return t, found, err
	}
	asking, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	if all, allErr := c.targets.All(asking); allErr == nil {
		if pod, elsewhere, podErr := podNamed(asking, all, namespace, name); podErr == nil && elsewhere {
			return t, true, Misused(fmt.Errorf("pod %s/%s is on node %s, not on %s: drop --node, or use the node of the pod", pod.Namespace, pod.Name, pod.agent.Name, c.targets.Node))
		}
	}
	return t, found, err
}

func knownNodes(ctx context.Context, agents []*Agent) (map[string]*Node, []answer[nodesync.NodesReport]) {
	search, end := target.Search(ctx)
	defer end()
	reports := target.GetAll[nodesync.NodesReport](search, agents, nodesync.NodesURL, nil)
	return mergeNodes(reports), reports
}

// nodeObject returns a node as an object, with the addresses reported by its agent.
func nodeObject(ctx context.Context, agents []*Agent, node *Node, reports []answer[nodesync.NodesReport]) object {
	t := object{name: "node " + node.Name, node: node}
	for _, r := range reports {
		if r.Err != nil {
			continue
		}
		if r.Value.ThisNode != node.Name {
			t.agents = append(t.agents, r.Agent)
			continue
		}
		t.self = r.Agent
		var own ipnet.IPAMReport
		if r.Agent.Get(ctx, ipnet.IPAMURL, nil, &own) != nil {
			continue
		}
		node.PodCIDRs, node.VPPIPs = append(node.PodCIDRs, own.PodSubnetThisNode), append(node.VPPIPs, own.VxlanIP)
		if second := own.Second; second != nil {
			node.PodCIDRs, node.VPPIPs = append(node.PodCIDRs, second.PodSubnetThisNode), append(node.VPPIPs, second.VxlanIP)
		}
	}
	for _, list := range []*[]string{&node.PodCIDRs, &node.VPPIPs} {
		slices.Sort(*list)
		*list = slices.DeleteFunc(slices.Compact(*list), func(text string) bool { return text == "" })
	}
	return t
}

// keys returns the keys of the object's values on an agent, sorted.
func (t object) keys(ctx context.Context, a *Agent) ([]string, error) {
	switch {
	case t.pod != nil:
		return t.pod.Keys, nil
	case t.service != nil:
		return natKeys(*t.service), nil
	}
	var values record.Statuses
	if err := a.Get(ctx, valueStatus, nil, &values); err != nil {
		return nil, err
	}
	var keys []string
	for _, v := range values {
		if key := v.GetValue().GetKey(); t.node.ledToBy(key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// requestedKeys returns the keys of the object's values that an agent has.
func (t object) requestedKeys(ctx context.Context, a *Agent) ([]string, error) {
	keys, err := t.keys(ctx, a)
	if err != nil {
		return nil, err
	}
	present, err := keysAt(ctx, a)
	if err != nil {
		return nil, err
	}
	slices.Sort(present)
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { _, there := slices.BinarySearch(present, key); return !there })
	if len(keys) == 0 {
		return nil, Misused(fmt.Errorf("node %s has no value of %s", a.Name, t.name))
	}
	return keys, nil
}

// ledToBy reports whether the value with the key leads to the node: its tunnel and values that
// depend on it, neighbours with its addresses, and routes to it and its pods.
func (n *Node) ledToBy(key string) bool {
	if _, ok := models.ForKey(key); !ok {
		return false
	}
	parts := strings.Split(key, "/")
	if n.ID > 0 && slices.ContainsFunc(parts, func(part string) bool {
		return part == ipnet.OverlayMAC(n.ID) || strings.HasPrefix(part, "vxlan-") && strings.HasSuffix(part, fmt.Sprintf("-%d", n.ID))
	}) {
		return true
	}
	for i, part := range parts {
		addr, err := netip.ParseAddr(part)
		if err != nil {
			continue
		}
		if i+1 < len(parts) { // a network, if its length follows
			if network, err := netip.ParsePrefix(part + "/" + parts[i+1]); err == nil && inPrefixes(network, n.PodCIDRs) {
				return true
			}
		}
		for _, ip := range slices.Concat(n.VPPIPs, n.MgmtIPs) {
			if own, _, _ := strings.Cut(ip, "/"); own == addr.String() {
				return true
			}
		}
	}
	return false
}

// inPrefixes reports whether one of the prefixes contains the network.
func inPrefixes(network netip.Prefix, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Bits() <= network.Bits() && p.Contains(network.Addr())
	})
}

// showValuesOfObject shows the states of an object's values.
func (c *cli) showValuesOfObject(ctx context.Context, t object, query url.Values) error {
	all := 0
	answers := target.Ask(ctx, t.agents, func(ctx context.Context, a *Agent) (record.Statuses, error) {
		if t.node != nil {
			values, err := valuesOf(ctx, a, url.Values{})
			return slices.DeleteFunc(values, func(s record.Status) bool { return !t.node.ledToBy(s.GetValue().GetKey()) }), err
		}
		keys, err := t.keys(ctx, a)
		if err != nil {
			return nil, err
		}
		return valuesWith(ctx, a, keys)
	})
	for i := range answers {
		all += len(answers[i].Value)
		answers[i].Value = slices.DeleteFunc(answers[i].Value, func(s record.Status) bool { return !inState(s, query["state"]) })
	}
	if !anyValue(answers) && !anyError(answers) {
		if all > 0 {
			return fmt.Errorf("%s has %s, but none in that state", t.name, count(all, "value"))
		}
		return Misused(fmt.Errorf("no node has values of %s", t.name))
	}
	return show(c, answers, writeValues)
}

// valuesWith returns the states of the existing values with the keys.
func valuesWith(ctx context.Context, a *Agent, keys []string) (values record.Statuses, err error) {
	for _, key := range keys {
		value, err := byKey[record.Status](valueStatus)(ctx, a, key)
		if err != nil {
			return nil, err
		}
		if value.GetValue().GetState() != pb.ValueState_NONEXISTENT {
			values = append(values, value)
		}
	}
	return values, nil
}

// explainObject shows an object and its values, with the reason for each value with a problem.
func (c *cli) explainObject(ctx context.Context, t object) error {
	switch {
	case t.pod != nil:
		value, err := askExplainedPod(ctx, *t.pod)
		return show(c, []answer[ExplainedPod]{{Agent: t.pod.agent, Value: value, Err: err}}, writePod)
	case t.service != nil:
		return c.explainService(ctx, t.agents, *t.service)
	}
	return c.explainNode(ctx, t)
}

// explainNode shows a node's health and how other nodes reach it.
func (c *cli) explainNode(ctx context.Context, t object) error {
	explained := ExplainedNode{Node: *t.node, Verdict: health.Broken, Remarks: []string{"its agent does not answer"}}
	if t.self != nil { // as in "status", which compares nodes
		probes := target.Ask(ctx, append([]*Agent{t.self}, t.agents...), status.Ask)
		status.Compare(probes, c.from == "")
		if self := probes[0]; self.Err == nil {
			explained.Verdict, explained.Remarks, explained.Notes = self.Value.Verdict, status.Remarks(self.Value, c.now()), self.Value.Notes
		} else {
			explained.Remarks = []string{self.Err.Error()}
		}
	}
	answers := target.Ask(ctx, t.agents, func(ctx context.Context, a *Agent) (ExplainedNode, error) {
		explained := explained
		keys, err := t.keys(ctx, a)
		if err == nil {
			explained.Values, err = explainAll(ctx, a, keys)
		}
		explained.State = worstState(explained.Values)
		return explained, err
	})
	if len(answers) == 0 { // no other node
		explained.Values = []*Explained{}
		answers = []answer[ExplainedNode]{{Agent: t.self, Value: explained}}
	}
	return show(c, answers, writeNode)
}

func writeNode(p printer, good []answer[ExplainedNode]) {
	for i, a := range good {
		node := a.Value.Node
		if i == 0 {
			p.Printf("node %s: %s\n", node.Name, a.Value.Verdict)
			t := p.Table("", "", "")
			addAll := func(label string, texts []string) {
				for _, text := range texts {
					t.Add(" ", label, text)
					label = " "
				}
			}
			addAll("because", a.Value.Remarks)
			addAll("notes", a.Value.Notes)
			t.Add(" ", "ID", strconv.FormatUint(uint64(node.ID), 10))
			t.Add(" ", "addresses", hosts(node.VPPIPs))
			t.Add(" ", "pods", strings.Join(node.PodCIDRs, ", "))
			t.Print()
		}
		if a.Value.State == "" {
			p.Printf("\nno other node leads to it\n")
			continue
		}
		p.Printf("\n%s: values that lead to node %s: %s\n", a.Agent.Name, node.Name, a.Value.State)
		writeWorstFirst(p, a.Agent.Name, a.Value.Values)
	}
}

// ExplainedNode is the output of "explain" for a node, on another node.
type ExplainedNode struct {
	Node Node `json:"node"`
	// Verdict on the node, from its own agent.
	Verdict string `json:"verdict"`
	// Remarks are the reasons for the verdict.
	Remarks []string `json:"remarks,omitempty"`
	// Notes of the status.
	Notes []string `json:"notes,omitempty"`
	// State is the worst state of the values; empty if no other node exists.
	State string `json:"state,omitempty"`
	// Values that lead to the node, the worst first.
	Values []*Explained `json:"values"`
}

var errNoHistory = errors.New("its history has no values")

// timelineOfObject shows the changes to an object's values since a time.
func (c *cli) timelineOfObject(ctx context.Context, t object, since time.Time) error {
	answers := target.Ask(ctx, t.agents, func(ctx context.Context, a *Agent) (keyTimelines, error) {
		keys, err := t.keys(ctx, a)
		if err != nil {
			return keyTimelines{}, err
		}
		if t.node != nil { // including values that no longer exist
			for _, key := range pastKeys(ctx, []*Agent{a}) {
				if t.node.ledToBy(key) && !slices.Contains(keys, key) {
					keys = append(keys, key)
				}
			}
		}
		all, err := timelinesOf(ctx, a, keys, since)
		if err == nil && len(all.revisions) == 0 && t.pod == nil {
			err = t.unchanged(ctx, a, keys, since)
		}
		return all, err
	})
	known := func(a answer[keyTimelines]) bool { return !errors.Is(a.Err, errNoHistory) }
	if t.service != nil && !slices.ContainsFunc(answers, known) {
		return Misused(fmt.Errorf("no node has, or had in its history, values of %s", t.name))
	}
	return show(c, answers, writeKeyTimelines)
}

// unchanged explains why an object's values have no change since a time.
func (t object) unchanged(ctx context.Context, a *Agent, keys []string, since time.Time) error {
	if !since.IsZero() {
		if ever, err := timelinesBy(ctx, a, keys, time.Time{}); err != nil {
			return err
		} else if slices.ContainsFunc(keys, func(key string) bool { return len(ever[key].revisions) > 0 }) {
			return fmt.Errorf("no value of %s has changed since %s", t.name, stamp(since))
		}
	}
	return fmt.Errorf("%w of %s", errNoHistory, t.name)
}

// oneAgent returns the agent whose values are drawn. If several have values, the error names them.
func (t object) oneAgent(ctx context.Context) (*Agent, error) {
	agents := t.agents
	if t.service != nil && len(agents) > 1 {
		var err error
		if agents, err = t.having(ctx); err != nil {
			return nil, err
		}
	}
	switch len(agents) {
	case 0:
		return nil, errors.New("no other node answers")
	case 1:
		return agents[0], nil
	}
	return nil, Misused(fmt.Errorf("several nodes have values of %s: select one with --node: %s", t.name, strings.Join(target.Names(agents), ", ")))
}

// having returns the agents with values of the object, or an error if none has.
func (t object) having(ctx context.Context) (agents []*Agent, err error) {
	for _, a := range target.Ask(ctx, t.agents, t.requestedKeys) {
		if len(a.Value) > 0 {
			agents = append(agents, a.Agent)
		}
	}
	if len(agents) == 0 {
		return nil, withSilentAgents(ctx, t.agents, Misused(fmt.Errorf("no node has values of %s", t.name)))
	}
	return agents, nil
}

// A name without a namespace means the object in the namespace of -n, or else the only one of that
// name. An unknown name is taken to be in the namespace "default"; agents suggest corrections.

// checkName returns an error unless the word is NAME or NAMESPACE/NAME.
func checkName(kind, word string) error {
	parts := strings.Split(word, "/")
	if len(parts) > 2 || slices.Contains(parts, "") {
		return Misused(fmt.Errorf("%q is not a name of a %s: use NAME or NAMESPACE/NAME, such as default/web", word, kind))
	}
	return nil
}

// serviceID returns the full name of a service.
func serviceID(ctx context.Context, agents []*Agent, namespace, word string) (string, error) {
	if err := cmp.Or(checkName("service", word), checkNamespace(namespace, word)); err != nil {
		return "", err
	}
	if strings.Contains(word, "/") || namespace != "" {
		return inNamespace(namespace, word), nil
	}
	var ids []string
	for _, a := range target.GetAll[service.Report](ctx, agents, service.URL, nil) {
		for _, s := range a.Value.Services {
			ids = append(ids, s.Namespace+"/"+s.Name)
		}
	}
	return onlyOne("services", ids, word)
}

// policyID returns the full name of a policy. A ClusterNetworkPolicy has no namespace.
func policyID(ctx context.Context, agents []*Agent, namespace, word string) (string, error) {
	if err := cmp.Or(checkName("policy", word), checkNamespace(namespace, word)); err != nil {
		return "", err
	}
	if strings.Contains(word, "/") || namespace != "" {
		return inNamespace(namespace, word), nil
	}
	var ids []string
	for _, a := range target.GetAll[policy.Report](ctx, agents, policy.URL, nil) {
		for _, p := range a.Value.Policies {
			if p.ID() == word {
				return word, nil
			}
			ids = append(ids, p.ID())
		}
	}
	return onlyOne("policies", ids, word)
}

// onlyIn returns the elements of a list that are in a namespace; all if none is given.
func onlyIn[T any](namespace string, list []T, of func(T) string) []T {
	if namespace == "" {
		return list
	}
	return slices.DeleteFunc(list, func(element T) bool { return of(element) != namespace })
}

func inNamespace(namespace, word string) string {
	if strings.Contains(word, "/") {
		return word
	}
	return cmp.Or(namespace, "default") + "/" + word
}

// onlyOne returns the ID of a name, or an error if it is not unique.
func onlyOne(kind string, ids []string, name string) (string, error) {
	slices.Sort(ids)
	ids = slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return !strings.HasSuffix(id, "/"+name) })
	switch len(ids) {
	case 0:
		return inNamespace("", name), nil
	case 1:
		return ids[0], nil
	}
	return "", Misused(fmt.Errorf("%q matches several %s: %s: add the namespace, for example with -n", name, kind, strings.Join(ids, ", ")))
}
