package ctl

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/ctl/target"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/plugins/ipnet"
)

// wired is a pod with the agent of its node.
type wired struct {
	ipnet.PodReport
	agent *Agent
}

// podNamed returns the pod that a word names, as NAME or NAMESPACE/NAME, if there is only one.
func podNamed(ctx context.Context, agents []*Agent, namespace, word string) (pod wired, found bool, err error) {
	var pods []wired
	for _, a := range target.GetAll[ipnet.PodsReport](ctx, agents, ipnet.PodsURL, nil) {
		for _, p := range a.Value.Pods {
			full := p.Namespace + "/" + p.Name
			if full == word || p.Name == word && cmp.Or(namespace, p.Namespace) == p.Namespace {
				pods = append(pods, wired{p, a.Agent})
			}
		}
	}
	switch len(pods) {
	case 0:
		if namespace != "" {
			err = fmt.Errorf("there is no pod %q in namespace %q: `contivctl pods` lists them", word, namespace)
		}
		return pod, false, err
	case 1:
		return pods[0], true, nil
	}
	var names []string
	for _, p := range pods {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	return pod, false, fmt.Errorf("%q means several pods: %s", word, strings.Join(names, ", "))
}

// worstFirst orders values by how much they need somebody's attention.
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

// ExplainedPod is what "explain" tells of a pod.
type ExplainedPod struct {
	Pod ipnet.PodReport `json:"pod"`
	// State is the worst of its values'.
	State string `json:"state"`
	// Values of the pod, the worst first.
	Values []*Explained `json:"values"`
}

func askExplainedPod(ctx context.Context, pod wired) (ExplainedPod, error) {
	explained := ExplainedPod{Pod: pod.PodReport, State: pb.ValueState_CONFIGURED.String()}
	for _, key := range pod.Keys {
		e, err := askExplained(ctx, pod.agent, key)
		if err != nil {
			return explained, err
		}
		explained.Values = append(explained.Values, e)
	}
	slices.SortStableFunc(explained.Values, func(a, b *Explained) int { return badness(a) - badness(b) })
	if len(explained.Values) > 0 {
		explained.State = valueState(explained.Values[0]).String()
	}
	return explained, nil
}

func valueState(e *Explained) pb.ValueState {
	if e.Value == nil {
		return pb.ValueState_MISSING
	}
	return e.Value.State
}

// explainPod shows a pod: what it is, its values, and why those that are not as they should be are so.
func (c *cli) explainPod(ctx context.Context, pod wired) error {
	value, err := askExplainedPod(ctx, pod)
	return show(c, []answer[ExplainedPod]{{Agent: pod.agent, Value: value, Err: err}}, writePod)
}

func writePod(p printer, good []answer[ExplainedPod]) {
	for _, a := range good {
		pod := a.Value.Pod
		p.Printf("%s: pod %s/%s\n", a.Agent.Name, pod.Namespace, pod.Name)
		t := p.Table("", "", "")
		t.Add(" ", "state", a.Value.State)
		t.Add(" ", "addresses", hosts(pod.IPs)+"  gateway "+pod.Gateway+"  MTU "+strconv.FormatUint(uint64(pod.MTU), 10))
		t.Add(" ", "interface", pod.Interface+" ("+pod.MAC+") in "+pod.NetNS+"  "+pod.VPPInterface+" of the vswitch")
		t.Add(" ", "container", pod.ContainerID)
		t.Print()
		p.Printf("\n")
		t = p.Table("STATE", "LAST", "KEY")
		for _, e := range a.Value.Values {
			last := ""
			if e.Value != nil {
				last = e.Value.LastOperation.String()
			}
			t.Add(valueState(e).String(), last, e.Key)
		}
		t.Print()
		for _, e := range a.Value.Values {
			if badness(e) < len(worstFirst) {
				p.Printf("\n")
				writeExplanation(p, a.Agent.Name, e)
			}
		}
	}
}

// KeyRevision is a change of one of several values.
type KeyRevision struct {
	Key string `json:"key"`
	runRevision
	before *kvscheduler.ValueSnapshot
}

// keyTimelines are the changes of several values of a node in the order in which they happened. Their
// JSON is the list.
type keyTimelines struct {
	runs      runs
	revisions []KeyRevision
}

func (t keyTimelines) MarshalJSON() ([]byte, error) { return json.Marshal(t.revisions) }

// timelinesOf returns the changes of values since a time.
func timelinesOf(ctx context.Context, a *Agent, keys []string, since time.Time) (t keyTimelines, err error) {
	t.revisions = []KeyRevision{}
	for _, key := range keys {
		line, err := timelineOf(since)(ctx, a, key)
		if err != nil {
			return t, err
		}
		t.runs = line.runs
		var before *kvscheduler.ValueSnapshot
		for _, r := range line.revisions {
			t.revisions = append(t.revisions, KeyRevision{key, r, before})
			before = r.Value
		}
	}
	slices.SortStableFunc(t.revisions, func(a, b KeyRevision) int { return a.Since.Compare(b.Since) })
	return t, nil
}

// timelineOfPod shows the changes of all values of a pod since a time.
func (c *cli) timelineOfPod(ctx context.Context, pod wired, since time.Time) error {
	all, err := timelinesOf(ctx, pod.agent, pod.Keys, since)
	return show(c, []answer[keyTimelines]{{Agent: pod.agent, Value: all, Err: err}}, writeKeyTimelines)
}

func writeKeyTimelines(p printer, good []answer[keyTimelines]) {
	t := p.Table("NODE", "SINCE", "TXN", "STATE", "KEY AND CHANGE")
	for _, a := range good {
		run, known := 0, a.Value.runs
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
		}
	}
	t.Print()
}
