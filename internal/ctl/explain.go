package ctl

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/feedback"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

const (
	explainKey       = "/scheduler/explain"
	contributionsKey = "/controller/contributions"
)

// Explained is the output of "explain" for a key on one node, in the JSON of the agent's answers.
type Explained struct {
	*inspect.Explanation
	// Sources request the value or a part of it; Result is the merged value.
	Sources []controller.Contribution `json:",omitempty"`
	Result  *kvscheduler.KeyValue     `json:",omitempty"`
	// InEtcd is the published status of the value configured in etcd under the key.
	InEtcd *feedback.Status `json:",omitempty"`
	// Reason of the last transaction that changed the value; empty if no longer recorded.
	Reason string `json:",omitempty"`
}

func (e *Explained) known() bool { return e.Value != nil || len(e.Sources) > 0 || e.InEtcd != nil }

// stateOutside returns the state of a value unknown to the scheduler: an invalid value, or a merge
// directive, which the event loop handles.
func (e *Explained) stateOutside() pb.ValueState {
	if e.InEtcd != nil {
		return e.InEtcd.GetValue().GetState()
	}
	if slices.ContainsFunc(e.Sources, func(s controller.Contribution) bool { return s.Wants.Key == e.Key }) {
		return pb.ValueState_CONFIGURED
	}
	return pb.ValueState_NONEXISTENT
}

// askExplained asks an agent about a key. Older agents know less.
func askExplained(ctx context.Context, a *Agent, key string) (*Explained, error) {
	e := &Explained{}
	query := url.Values{"key": {key}}
	if err := a.Get(ctx, explainKey, query, &e.Explanation); err != nil {
		return nil, err
	}
	if e.Explanation == nil {
		return nil, fmt.Errorf("agent %s explains %s with null: check that agent and contivctl have the same version", a.Name, key)
	}
	var statuses []feedback.Status
	if a.Get(ctx, feedback.URL, query, &statuses) == nil && len(statuses) == 1 {
		e.InEtcd = &statuses[0]
	}
	if e.Value != nil && e.Value.Base != "" {
		query.Set("key", e.Value.Base)
	}
	var contributions controller.Contributions
	if a.Get(ctx, contributionsKey, query, &contributions) == nil && len(contributions.Sources) > 0 {
		e.Sources, e.Result = contributions.Sources, &contributions.Result
	}
	if e.Value != nil && e.Value.LastOperation != pb.TxnOperation_UNDEFINED {
		last := seq{number: e.Value.Txn}
		e.Reason = reasonsOf(ctx, a, []seq{last})[last]
	}
	return e, nil
}

// keysInEtcd returns the keys of the external values in etcd.
func keysInEtcd(ctx context.Context, agents []*Agent) (keys []string) {
	for _, a := range target.GetAll[[]feedback.Status](ctx, agents, feedback.URL, nil) {
		for _, s := range a.Value {
			keys = append(keys, s.GetValue().GetKey())
		}
	}
	return keys
}

// keyHelp describes the forms of KEY.
const keyHelp = "KEY is a key, or any part of it that occurs in no other key, such as its end.\n\n" + objectHelp

// objectHelp describes the forms of OBJECT.
const objectHelp = "OBJECT selects all values of a Kubernetes object: of a pod, as NAME or NAMESPACE/NAME; of a service,\n" +
	"as svc/NAMESPACE/NAME; or of a node, as NAME, the values by which other nodes reach it. Write pod/NAME\n" +
	"or node/NAME if the name is also part of a key."

func (c *cli) explainCommand() *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "explain KEY|OBJECT",
		Short: "Explain the state of a value, pod, service or node",
		Long: "Explain the state of a value on every node that has it: its requests, dependencies and errors.\n" +
			"Requests of several sources are shown in merge order; \"internal\" stands for Contiv itself, \"db\" for\n" +
			"external configuration in etcd.\n\n" + keyHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			agents, err := c.targets.Selected(ctx, nil)
			if err != nil {
				return err
			}
			if t, found, err := c.object(ctx, agents, namespace, args[0]); err != nil || found {
				if err != nil {
					return err
				}
				return c.explainObject(ctx, t)
			}
			return showKey(ctx, c, agents, args[0], askExplained, (*Explained).known, writeExplanations, presentKeys, keysInEtcd)
		},
	}
	namespaceFlag(cmd, &namespace)
	return cmd
}

func writeExplanations(p printer, good []answer[*Explained]) {
	for i, a := range good {
		if i > 0 {
			p.Printf("\n")
		}
		writeExplanation(p, a.Agent.Name, a.Value)
	}
}

func writeExplanation(p printer, node string, e *Explained) {
	v := e.Value
	if v == nil { // requested, but unknown to the scheduler
		v = &kvscheduler.ValueSnapshot{Key: e.Key, State: e.stateOutside()}
	}
	p.Printf("%s: %s\n", node, text.Line(e.Key))
	t := p.Table("", "", "")
	section := func(label string) func(texts ...string) {
		return func(texts ...string) {
			if len(texts) == 0 {
				return
			}
			for _, text := range texts {
				t.Add(" ", label, text)
				label = " "
			}
		}
	}
	section("state")(v.State.String())
	if e.Value != nil {
		section("because")(strings.TrimLeft(strings.TrimPrefix(e.Summary, e.Key), ": "))
	}
	if v.Descriptor != "" {
		section("descriptor")(v.Descriptor)
	}
	if v.LastOperation != pb.TxnOperation_UNDEFINED {
		section("operation")(fmt.Sprintf("%v in transaction #%d%s", v.LastOperation, v.Txn, prefixed(", because of ", e.Reason)))
	} else if e.Value != nil && v.State == pb.ValueState_CONFIGURED {
		section("operation")("none: it already matched when the agent started")
	}
	if v.Base != "" {
		section("derived from")(v.Base)
	}
	switch {
	case v.Want == nil && v.Have != nil:
		section("exists as")(fieldsText(v.Have))
	case v.Want != nil && v.Have != nil && v.State != pb.ValueState_CONFIGURED && !proto.Equal(v.Want, v.Have):
		// The configured value may differ in irrelevant ways, such as the order of a list.
		section("wanted")(fieldsText(v.Want))
		section("there is")(changes(v.Want, v.Have)...)
	case v.Want != nil:
		section("value")(fieldsText(v.Want))
	}
	if metadata := metadataText(v.Metadata); metadata != "" {
		section("metadata")(metadata)
	}
	section("wanted by")(sourcesText(e)...)
	section("in etcd")(inEtcdText(e.InEtcd)...)
	var needs []string
	for _, n := range e.Needs {
		needs = append(needs, needText(n))
	}
	section("needs")(needs...)
	section("derives")(v.Derived...)
	section("needed by")(e.NeededBy...)
	t.Print()
}

// sourcesText returns one line per source, with its value unless it is the current one, and a line
// for the result of several sources.
func sourcesText(e *Explained) (lines []string) {
	if len(e.Sources) == 1 && e.Sources[0].Wants.Key == e.Result.Key {
		return []string{e.Sources[0].Source}
	}
	for _, s := range e.Sources {
		text := s.Source + ": "
		if s.Wants.Key != e.Result.Key {
			text += "merge directives  "
		}
		lines = append(lines, text+fieldsText(s.Wants.Value))
	}
	switch {
	case len(lines) == 0:
	case e.Result.Value == nil:
		lines = append(lines, "merged: nothing")
	default:
		lines = append(lines, "merged: "+fieldsText(e.Result.Value))
	}
	return lines
}

// inEtcdText describes the value's status in etcd other than its state.
func inEtcdText(s *feedback.Status) (lines []string) {
	if s == nil || s.GetRevision() == 0 {
		return nil // its sources do not use etcd
	}
	text := fmt.Sprintf("revision %d", s.GetRevision())
	if s.GetValue().GetState() == pb.ValueState_INVALID {
		text += " cannot be used: " + s.GetValue().GetError()
		for _, detail := range s.GetValue().GetDetails() {
			if !strings.Contains(text, detail) { // the error already names the invalid fields
				text += "; " + detail
			}
		}
	}
	for _, warning := range s.GetWarnings() {
		lines = append(lines, "warning: "+warning)
	}
	return append([]string{text}, lines...)
}

// needText describes a dependency on one line: whether it is met, its label, and the value that
// meets it.
func needText(n inspect.ExplainedNeed) string {
	label := n.Label + ": "
	if n.Label == n.Target {
		label = ""
	}
	if n.Met {
		text := "met   " + label + n.Target
		if len(n.By) > 0 && n.By[0] != n.Target {
			text += "  by " + strings.Join(n.By, ", ")
		}
		return text
	}
	text := "UNMET " + label + n.Target
	for _, w := range n.Waiting {
		if w.Key == n.Target {
			return text + "  which is " + w.State.String()
		}
		text += "  " + w.Key + " is " + w.State.String()
	}
	if len(n.Waiting) == 0 {
		text += "  which does not exist"
	}
	if len(n.Similar) > 0 {
		text += "  did you mean " + strings.Join(n.Similar, " or ") + "?"
	}
	return text
}
