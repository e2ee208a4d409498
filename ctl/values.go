package ctl

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/spf13/cobra"
)

const valueStatus = "/scheduler/status"

func (c *cli) valuesCommand() *cobra.Command {
	var states []string
	cmd := &cobra.Command{
		Use:   "values [KEY]",
		Short: "The states of the values that nodes should have, by key or the beginning of keys",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			query, err := stateQuery(states)
			if err != nil {
				return err
			}
			agents, err := c.targets.selected(ctx, nil)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return show(c, getAll[[]kvscheduler.Status](ctx, agents, valueStatus, query), writeValues)
			}
			return c.showValuesOf(ctx, agents, query, args[0])
		},
	}
	cmd.Flags().StringArrayVar(&states, "state", nil, "only values in this state, e.g. PENDING; repeatable")
	return cmd
}

// stateQuery checks the names of states, in any case of letters.
func stateQuery(states []string) (url.Values, error) {
	query := url.Values{}
	for _, s := range states {
		name := strings.ToUpper(s)
		if _, ok := pb.ValueState_value[name]; !ok {
			return nil, hinted(fmt.Errorf("--state %q is not known", s), name, slices.Sorted(maps.Keys(pb.ValueState_value)))
		}
		query.Add("state", name)
	}
	return query, nil
}

// showValuesOf shows the value with the key, or else the values whose keys begin
// with it. If no agent has any, the error says which key may have been meant.
func (c *cli) showValuesOf(ctx context.Context, agents []*Agent, query url.Values, key string) error {
	if len(query) == 0 {
		exact := getAll[[]kvscheduler.Status](ctx, agents, valueStatus, url.Values{"key": {key}})
		for i := range exact {
			exact[i].value = slices.DeleteFunc(exact[i].value, func(s kvscheduler.Status) bool {
				return s.GetValue().GetState() == pb.ValueState_NONEXISTENT
			})
		}
		if anyValue(exact) {
			return show(c, exact, writeValues)
		}
	}
	query.Set("key-prefix", key)
	answers := getAll[[]kvscheduler.Status](ctx, agents, valueStatus, query)
	if anyValue(answers) || anyError(answers) {
		return show(c, answers, writeValues)
	}
	known := make(map[string]bool)
	for _, a := range getAll[[]kvscheduler.Status](ctx, agents, valueStatus, nil) {
		for _, s := range a.value {
			known[s.GetValue().GetKey()] = true
			for _, d := range s.GetDerivedValues() {
				known[d.GetKey()] = true
			}
		}
	}
	if len(query["state"]) > 0 && hasPrefix(known, key) {
		return fmt.Errorf("no value whose key begins with %q is in that state", key)
	}
	return hinted(fmt.Errorf("there is no value with the key %q", key), key, slices.Sorted(maps.Keys(known)))
}

func anyValue[T any](answers []answer[[]T]) bool {
	return slices.ContainsFunc(answers, func(a answer[[]T]) bool { return len(a.value) > 0 })
}

func anyError[T any](answers []answer[T]) bool {
	return slices.ContainsFunc(answers, func(a answer[T]) bool { return a.err != nil })
}

func hasPrefix(keys map[string]bool, prefix string) bool {
	for k := range keys {
		if strings.HasPrefix(k, prefix) {
			return true
		}
	}
	return false
}

// writeValues shows keys, which are long, at the end of the lines, derived values
// below their base values, and errors below both.
func writeValues(p printer, good []answer[[]kvscheduler.Status]) {
	t := p.table("NODE", "STATE", "LAST", "KEY")
	for _, a := range good {
		for _, s := range a.value {
			addValue(t, a.agent.Name, "", s.GetValue())
			for _, d := range s.GetDerivedValues() {
				addValue(t, " ", "└─", d)
			}
		}
	}
	t.write()
}

func addValue(t *table, node, branch string, v *pb.ValueStatus) {
	last := ""
	if v.GetLastOperation() != pb.TxnOperation_UNDEFINED {
		last = v.GetLastOperation().String()
	}
	row := []string{node, v.GetState().String(), last, branch + v.GetKey()}
	switch {
	case v.GetError() != "":
		row[3] += "  error: " + v.GetError()
	case len(v.GetDetails()) > 0 && v.GetState() == pb.ValueState_PENDING:
		row[3] += "  waits for: " + strings.Join(v.GetDetails(), ", ")
	case len(v.GetDetails()) > 0:
		row[3] += "  " + strings.Join(v.GetDetails(), ", ")
	}
	t.add(row...)
}
