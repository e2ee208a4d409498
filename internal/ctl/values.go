package ctl

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/controller/feedback"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/spf13/cobra"
)

const valueStatus = "/scheduler/status"

func (c *cli) valuesCommand() *cobra.Command {
	var namespace string
	var states []string
	cmd := &cobra.Command{
		Use:   "values [KEY|OBJECT]",
		Short: "List the states of values",
		Long: "List values with their states. Derived values are listed below the value they derive from. KEY is a\n" +
			"key or any part of keys, including the shortened form with … in tables.\n\n" + objectHelp,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			query, err := stateQuery(states)
			if err != nil {
				return err
			}
			agents, err := c.targets.Selected(ctx, nil)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return show(c, askValues(ctx, agents, query), writeValues)
			}
			if t, found, err := c.object(ctx, agents, namespace, args[0]); err != nil || found {
				if err != nil {
					return err
				}
				return c.showValuesOfObject(ctx, t, query)
			}
			return c.showValuesOf(ctx, agents, query, args[0])
		},
	}
	namespaceFlag(cmd, &namespace)
	cmd.Flags().StringSliceVar(&states, "state", nil, "list only values in these states, e.g. FAILED,PENDING; repeatable")
	return listing(cmd)
}

// askValues asks the agents for the states of their values, including undecodable ones in etcd,
// which never reach the scheduler.
func askValues(ctx context.Context, agents []*Agent, query url.Values) []answer[record.Statuses] {
	return target.Ask(ctx, agents, func(ctx context.Context, a *Agent) (record.Statuses, error) { return valuesOf(ctx, a, query) })
}

func valuesOf(ctx context.Context, a *Agent, query url.Values) (values record.Statuses, err error) {
	if err := a.Get(ctx, valueStatus, query, &values); err != nil {
		return nil, err
	}
	if states := query["state"]; len(states) > 0 && !slices.Contains(states, pb.ValueState_INVALID.String()) {
		return values, nil
	}
	return addInvalid(ctx, a, values), nil
}

// addInvalid adds undecodable values from etcd.
func addInvalid(ctx context.Context, a *Agent, values record.Statuses) record.Statuses {
	invalid := pb.ValueState_INVALID
	known := map[string]bool{}
	for _, v := range values {
		known[v.GetValue().GetKey()] = v.GetValue().GetState() == invalid
	}
	var given []feedback.Status
	_ = a.Get(ctx, feedback.URL, nil, &given) // older agents and agents without etcd have none
	for _, s := range given {
		v := s.GetValue()
		if v.GetState() != invalid || known[v.GetKey()] {
			continue
		}
		v.Error = strings.Join(append([]string{v.GetError()}, v.GetDetails()...), "; ")
		values = append(values, record.Status{BaseValueStatus: &pb.BaseValueStatus{Value: v}})
	}
	slices.SortStableFunc(values, func(a, b record.Status) int {
		return strings.Compare(a.GetValue().GetKey(), b.GetValue().GetKey())
	})
	return values
}

// stateQuery checks the names of states, ignoring case, and returns the query.
func stateQuery(states []string) (url.Values, error) {
	query := url.Values{}
	for _, s := range states {
		name := strings.ToUpper(s)
		if _, ok := pb.ValueState_value[name]; !ok {
			return nil, text.Hinted(fmt.Errorf("--state %q is not known", s), name, slices.Sorted(maps.Keys(pb.ValueState_value)))
		}
		query.Add("state", name)
	}
	return query, nil
}

// maxNamedKeys is the number of keys up to which a request names them; otherwise it asks for all
// values.
const maxNamedKeys = 50

// showValuesOf shows the values whose keys a word selects. If none match, the error suggests a key.
func (c *cli) showValuesOf(ctx context.Context, agents []*Agent, query url.Values, word string) error {
	keys := append(presentKeys(ctx, agents), keysInEtcd(ctx, agents)...)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	found := matching(keys, word)
	answers := target.Ask(ctx, agents, func(ctx context.Context, a *Agent) (record.Statuses, error) {
		about := url.Values{}
		if len(found) <= maxNamedKeys {
			about["about"] = found
		}
		values, err := valuesOf(ctx, a, about)
		if isRefused(err) { // by an older agent
			return valuesOf(ctx, a, url.Values{})
		}
		return values, err
	})
	if len(found) == 0 {
		_ = reportErrors(c, answers)
		return c.unknown(ctx, agents, word, keys)
	}
	for i := range answers {
		answers[i].Value = slices.DeleteFunc(answers[i].Value, func(s record.Status) bool {
			return !slices.ContainsFunc(s.Keys(), func(key string) bool { _, ok := slices.BinarySearch(found, key); return ok }) ||
				!inState(s, query["state"])
		})
	}
	if !anyValue(answers) && !anyError(answers) {
		return fmt.Errorf("%s with the key %q, but none in that state", count(len(found), "value"), word)
	}
	return show(c, answers, writeValues)
}

// inState reports whether the value, or one derived from it, is in one of the states; always true
// without states.
func inState(s record.Status, states []string) bool {
	is := func(v *pb.ValueStatus) bool { return slices.Contains(states, v.GetState().String()) }
	return len(states) == 0 || is(s.GetValue()) || slices.ContainsFunc(s.GetDerivedValues(), is)
}

func anyValue[L ~[]T, T any](answers []answer[L]) bool {
	return slices.ContainsFunc(answers, func(a answer[L]) bool { return len(a.Value) > 0 })
}

func anyError[T any](answers []answer[T]) bool {
	return slices.ContainsFunc(answers, func(a answer[T]) bool { return a.Err != nil })
}

// writeValues prints values with their keys at the end of the line, derived values below their base
// values, and errors behind the keys.
func writeValues(p printer, good []answer[record.Statuses]) {
	t := p.Table("NODE", "STATE", "LAST", "KEY")
	for _, a := range good {
		for _, s := range a.Value {
			addValue(t, a.Agent.Name, "", s.GetValue())
			for _, d := range s.GetDerivedValues() {
				addValue(t, " ", "└─", d)
			}
		}
	}
	t.Print()
}

func addValue(t *text.Table, node, branch string, v *pb.ValueStatus) {
	row := []string{node, v.GetState().String(), lastText(v.GetState(), v.GetLastOperation()), branch + v.GetKey()}
	switch {
	case v.GetError() != "":
		row[3] += "  error: " + v.GetError()
	case len(v.GetDetails()) > 0 && v.GetState() == pb.ValueState_PENDING:
		row[3] += "  waits for: " + strings.Join(v.GetDetails(), ", ")
	case len(v.GetDetails()) > 0:
		row[3] += "  " + strings.Join(v.GetDetails(), ", ")
	}
	t.Add(row...)
}

// lastText names the last operation on a value. Values that were correct at the agent's start have
// none.
func lastText(state pb.ValueState, last pb.TxnOperation) string {
	switch {
	case last != pb.TxnOperation_UNDEFINED:
		return last.String()
	case state == pb.ValueState_CONFIGURED:
		return "found"
	}
	return ""
}
