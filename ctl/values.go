package ctl

import (
	"context"
	"fmt"
	"io"
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

// showValuesOf shows the values whose keys begin with the given text; if there is
// one with exactly that key, it alone. If no agent has any, the error says which
// key may have been meant.
func (c *cli) showValuesOf(ctx context.Context, agents []*Agent, query url.Values, key string) error {
	query.Set("key-prefix", key)
	answers := getAll[[]kvscheduler.Status](ctx, agents, valueStatus, query)
	found, failed := false, false
	for i, a := range answers {
		if exact := slices.IndexFunc(a.value, func(s kvscheduler.Status) bool { return s.GetValue().GetKey() == key }); exact >= 0 {
			answers[i].value = a.value[exact : exact+1]
		}
		found = found || len(a.value) > 0
		failed = failed || a.err != nil
	}
	if found || failed {
		return show(c, answers, writeValues)
	}
	all := getAll[[]kvscheduler.Status](ctx, agents, valueStatus, nil)
	known := make(map[string]bool)
	for _, a := range all {
		for _, s := range a.value {
			known[s.GetValue().GetKey()] = true
		}
	}
	if len(query["state"]) > 0 && hasPrefix(known, key) {
		return fmt.Errorf("no value with the key %q is in that state", key)
	}
	return hinted(fmt.Errorf("there is no value with the key %q", key), key, slices.Sorted(maps.Keys(known)))
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
func writeValues(w io.Writer, good []answer[[]kvscheduler.Status]) {
	t := newTable("NODE", "STATE", "LAST", "KEY")
	for _, a := range good {
		for _, s := range a.value {
			addValue(t, a.agent.Name, "", s.GetValue())
			for _, d := range s.GetDerivedValues() {
				addValue(t, "", "└ ", d)
			}
		}
	}
	t.write(w)
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
