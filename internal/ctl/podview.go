package ctl

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/ctl/podpath"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/kvscheduler"
)

// wired is a pod with the agent of its node.
type wired struct {
	ipnet.PodReport
	agent *Agent
}

// podNamed returns the pod named NAME or NAMESPACE/NAME, if it is unique.
func podNamed(ctx context.Context, agents []*Agent, namespace, word string) (pod wired, found bool, err error) {
	var pods []wired
	search, end := target.Search(ctx)
	defer end()
	for _, a := range target.GetAll[ipnet.PodsReport](search, agents, ipnet.PodsURL, nil) {
		for _, p := range a.Value.Pods {
			full := p.Namespace + "/" + p.Name
			if full == word || p.Name == word && cmp.Or(namespace, p.Namespace) == p.Namespace {
				pods = append(pods, wired{p, a.Agent})
			}
		}
	}
	if slices.ContainsFunc(pods, func(p wired) bool { return !p.Former }) { // the sandboxes of former pods have the same names
		pods = slices.DeleteFunc(pods, func(p wired) bool { return p.Former })
	}
	switch len(pods) {
	case 0:
		if namespace != "" {
			err = withSilentAgents(ctx, agents, Misused(fmt.Errorf("unknown pod %q in namespace %q: `contivctl pods` lists them", word, namespace)))
		}
		return pod, false, err
	case 1:
		return pods[0], true, nil
	}
	var names []string
	for _, p := range pods {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	return pod, false, Misused(fmt.Errorf("%q matches several pods: %s", word, strings.Join(names, ", ")))
}

// worstFirst orders states by urgency.
var worstFirst = []pb.ValueState{pb.ValueState_FAILED, pb.ValueState_RETRYING, pb.ValueState_INVALID, pb.ValueState_UNIMPLEMENTED, pb.ValueState_PENDING, pb.ValueState_MISSING}

func badness(e *Explained) int {
	if e.Value == nil {
		return len(worstFirst) - 1
	}
	if i := slices.Index(worstFirst, e.Value.State); i >= 0 {
		return i
	}
	return len(worstFirst)
}

// ExplainedPod is the output of "explain" for a pod.
type ExplainedPod struct {
	Pod ipnet.PodReport `json:"pod"`
	// State is the worst state of its values.
	State string `json:"state"`
	// Path is a drawing of its packets' path through the node.
	Path podpath.Drawing `json:"path"`
	// Policies that select the pod; Services with it as an endpoint.
	Policies []policy.PolicyReport   `json:"policies"`
	Services []service.ServiceReport `json:"services"`
	// HostPorts requested by the pod.
	HostPorts []service.HostPortReport `json:"hostPorts,omitempty"`
	// Values of the pod, the worst first.
	Values []*Explained `json:"values"`
}

func askExplainedPod(ctx context.Context, pod wired) (ExplainedPod, error) {
	explained := ExplainedPod{Pod: pod.PodReport, Policies: []policy.PolicyReport{}, Services: []service.ServiceReport{}}
	var err error
	if explained.Values, err = explainAll(ctx, pod.agent, pod.Keys); err != nil {
		return explained, err
	}
	explained.State = worstState(explained.Values)
	explained.Path = podpath.Draw(ctx, pod.agent, pod.PodReport)
	// Older agents and agents without Kubernetes have none.
	var policies policy.Report
	if pod.agent.Get(ctx, policy.URL, nil, &policies) == nil {
		for _, p := range policies.Policies {
			if slices.Contains(p.Pods, pod.Namespace+"/"+pod.Name) {
				explained.Policies = append(explained.Policies, p)
			}
		}
	}
	for _, ip := range pod.IPs {
		var services service.Report
		addr, _, _ := strings.Cut(ip, "/")
		if pod.agent.Get(ctx, service.URL, url.Values{"endpoint": {addr}}, &services) == nil {
			explained.Services = addServices(explained.Services, services.Services)
			explained.HostPorts = addHostPorts(explained.HostPorts, services.HostPorts)
		}
	}
	return explained, nil
}

// addHostPorts appends the host ports that the list lacks.
func addHostPorts(list, more []service.HostPortReport) []service.HostPortReport {
	for _, port := range more {
		if !slices.ContainsFunc(list, func(o service.HostPortReport) bool { return o.Port == port.Port && o.PodPort == port.PodPort }) {
			list = append(list, port)
		}
	}
	return list
}

// addServices merges the services of another address of a pod: each service appears once, with all
// endpoints.
func addServices(list, more []service.ServiceReport) []service.ServiceReport {
	for _, s := range more {
		i := slices.IndexFunc(list, func(o service.ServiceReport) bool { return o.Namespace == s.Namespace && o.Name == s.Name })
		if i < 0 {
			list = append(list, s)
			continue
		}
		list[i].Details = append(list[i].Details, s.Details...)
	}
	return list
}

// explainAll explains values, the worst first.
func explainAll(ctx context.Context, a *Agent, keys []string) ([]*Explained, error) {
	list := []*Explained{}
	for _, key := range keys {
		e, err := askExplained(ctx, a, key)
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	slices.SortStableFunc(list, func(a, b *Explained) int { return badness(a) - badness(b) })
	return list, nil
}

// worstState returns the state of the first value of explainAll's result.
func worstState(values []*Explained) string {
	if len(values) == 0 {
		return pb.ValueState_CONFIGURED.String()
	}
	return valueState(values[0]).String()
}

func valueState(e *Explained) pb.ValueState {
	if e.Value == nil {
		return pb.ValueState_MISSING
	}
	return e.Value.State
}

func writePod(p printer, good []answer[ExplainedPod]) {
	for _, a := range good {
		pod := a.Value.Pod
		p.Printf("%s: pod %s/%s\n", a.Agent.Name, pod.Namespace, pod.Name)
		t := p.Table("", "", "")
		t.Add(" ", "state", a.Value.State)
		t.Add(" ", "addresses", hosts(pod.IPs)+"  gateway "+pod.Gateway+"  MTU "+strconv.FormatUint(uint64(pod.MTU), 10))
		t.Add(" ", "interface", pod.Interface+" ("+pod.MAC+") in "+pod.NetNS+"  "+pod.VPPInterface+" of the vswitch")
		for _, i := range pod.CustomInterfaces {
			t.Add(" ", "further", customIfText(i))
		}
		for _, text := range pod.Refused {
			t.Add(" ", "refused", text)
		}
		t.Add(" ", "container", pod.ContainerID)
		label := "policies"
		for _, policy := range a.Value.Policies {
			t.Add(" ", label, policyText(policy))
			label = " "
		}
		label = "services"
		for _, service := range a.Value.Services {
			t.Add(" ", label, serviceText(service))
			label = " "
		}
		label = "host ports"
		for _, port := range a.Value.HostPorts {
			t.Add(" ", label, hostPortText(port))
			label = " "
		}
		t.Print()
		for i, line := range a.Value.Path.Lines(p.Text, cmp.Or(p.Width, text.DefaultWidth)-2) {
			if i == 0 {
				p.Printf("\n")
			}
			p.Printf("  %s\n", line)
		}
		p.Printf("\n")
		writeWorstFirst(p, a.Agent.Name, a.Value.Values)
	}
}

// customIfText describes a pod's custom interface on one line.
func customIfText(i ipnet.CustomIfReport) string {
	text := i.Name + " (" + i.MAC + ")  " + cmp.Or(strings.Join(i.IPs, ","), "no address") + "  network " + i.Network
	if i.ServiceEndpoint {
		text += "  for services"
	}
	if i.Problem != "" {
		return text + "  not made: " + i.Problem
	}
	return text + "  " + i.VPPInterface + " of the vswitch"
}

// hostPortText describes a pod's host port on one line.
func hostPortText(p service.HostPortReport) string {
	var open []string
	for _, addr := range p.Open {
		open = append(open, addr.String())
	}
	text := fmt.Sprintf("%s to port %d", p.Port, p.PodPort)
	if len(open) > 0 {
		text += "  at " + strings.Join(open, ", ")
	}
	if len(p.Problems) > 0 {
		text += "  not open: " + strings.Join(p.Problems, "; ")
	}
	return text
}

// policyText describes a pod's policy on one line.
func policyText(policy policy.PolicyReport) string {
	text := policy.ID()
	if policy.Tier != "NetworkPolicy" {
		text += " (" + policy.Tier + ")"
	}
	if !policy.Realised {
		text += "  not realised: " + strings.Join(policy.Reasons, "; ")
	}
	return text
}

// serviceText describes a pod's service on one line, with the reason if the node does not use the
// pod.
func serviceText(s service.ServiceReport) string {
	text := s.Namespace + "/" + s.Name
	for _, f := range clusterIPsOf(s) {
		text += "  " + f
	}
	for _, e := range s.Details {
		if !e.Inside && !e.Outside {
			text += "  its endpoint " + endpointText(e) + " is not used: " + e.Why
		}
	}
	return text
}

// clusterIPsOf returns a service's cluster IPs with ports and protocols: "10.96.0.100:80 TCP,UDP".
func clusterIPsOf(s service.ServiceReport) (list []string) {
	const most = 6
	var addresses []string
	protocols := map[string][]string{}
	for _, f := range s.Frontends {
		if f.Kind != processor.ClusterIP {
			continue
		}
		if protocols[f.Address] == nil {
			addresses = append(addresses, f.Address)
		}
		protocols[f.Address] = append(protocols[f.Address], string(f.Protocol))
	}
	for _, address := range addresses[:min(len(addresses), most)] {
		list = append(list, address+" "+strings.Join(protocols[address], ","))
	}
	if len(addresses) > most {
		list = append(list, fmt.Sprintf("and %d more", len(addresses)-most))
	}
	return list
}

// writeWorstFirst prints values with their states, and the reason below each one with a problem.
func writeWorstFirst(p printer, node string, values []*Explained) {
	t := p.Table("STATE", "LAST", "KEY")
	for _, e := range values {
		last := ""
		if e.Value != nil {
			last = lastText(e.Value.State, e.Value.LastOperation)
		}
		t.Add(valueState(e).String(), last, e.Key)
	}
	t.Print()
	for _, e := range values {
		if badness(e) < len(worstFirst) {
			p.Printf("\n")
			writeExplanation(p, node, e)
		}
	}
}

// KeyRevision is a change of one of several values.
type KeyRevision struct {
	Key string `json:"key"`
	runRevision
	before *kvscheduler.ValueSnapshot
}

// keyTimelines holds the changes of several values of a node in order. In JSON, it is a list.
type keyTimelines struct {
	runs      runs
	revisions []KeyRevision
}

func (t keyTimelines) MarshalJSON() ([]byte, error) { return json.Marshal(t.revisions) }

// timelinesOf returns the changes of values since a time.
func timelinesOf(ctx context.Context, a *Agent, keys []string, since time.Time) (t keyTimelines, err error) {
	t.revisions = []KeyRevision{}
	lines, err := timelinesBy(ctx, a, keys, since)
	if err != nil {
		return t, err
	}
	for _, key := range keys {
		line := lines[key]
		t.runs = line.runs
		var before *kvscheduler.ValueSnapshot
		for _, r := range line.revisions {
			t.revisions = append(t.revisions, KeyRevision{key, r, before})
			before = r.Value
		}
	}
	slices.SortStableFunc(t.revisions, func(a, b KeyRevision) int { return a.Since.Compare(b.Since) })
	revisions := make([]*runRevision, len(t.revisions))
	for i := range t.revisions {
		revisions[i] = &t.revisions[i].runRevision
	}
	t.runs.explain(ctx, a, revisions)
	return t, nil
}

func writeKeyTimelines(p printer, good []answer[keyTimelines]) {
	t := p.Table("NODE", "SINCE", "TXN", "STATE", "KEY AND CHANGE")
	for _, a := range good {
		run, known := 0, a.Value.runs
		var last seq
		for _, r := range a.Value.revisions {
			if r.Run != run {
				if at, text := known.started(r.Run); text != "" && run > 0 {
					t.Add(a.Agent.Name, stamp(at), "", "", text)
				}
				run = r.Run
			}
			state := "gone"
			if r.Value != nil {
				state = r.Value.State.String()
			}
			t.Add(a.Agent.Name, stamp(r.Since), known.seq(r.Run, r.Txn), state, r.Key)
			if change := changeText(r.before, r.Value); change != "" {
				t.Add(" ", " ", " ", " ", "  "+change)
			}
			if r.Reason != "" && (r.Run != last.run || r.Txn != last.number) { // once for all values of a transaction
				t.Add(" ", " ", " ", " ", "  because of "+r.Reason)
			}
			last = seq{r.Run, r.Txn}
		}
	}
	t.Print()
}
