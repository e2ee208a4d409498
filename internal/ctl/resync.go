package ctl

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/ctl/status"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/spf13/cobra"
)

const (
	downstreamResync = "/scheduler/downstream-resync"
	databaseResync   = "/controller/resync"
)

func (c *cli) resyncCommand() *cobra.Command {
	var database bool
	cmd := &cobra.Command{
		Use:   "resync [NODE]",
		Short: "Compare the vswitch with the configuration and repair differences",
		Long: "Read the state of the vswitch on each node and repair differences from the configuration. Correct\n" +
			"values are not touched. Failed operations are retried as usual.\n\n" +
			"With --database, each node instead reads etcd again and recomputes the configuration, in the\n" +
			"background; \"contivctl events\" shows the result.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			agents, err := c.targets.Selected(ctx, args)
			if err != nil {
				return err
			}
			if database {
				answers := target.Ask(ctx, agents, func(ctx context.Context, a *Agent) (string, error) { return readDatabase(ctx, a) })
				return show(c, answers, func(p printer, good []answer[string]) {
					for _, a := range good {
						p.Printf("%s: %s, see `%s events %s`\n", a.Agent.Name, a.Value, c.name, a.Agent.Name)
					}
				})
			}
			answers := target.Ask(ctx, agents, func(ctx context.Context, a *Agent) (r resynced, err error) {
				r.RecordedTxn = &kvscheduler.RecordedTxn{}
				if err := a.Post(ctx, downstreamResync, url.Values{"retry": {"true"}}, nil, r.RecordedTxn); err != nil {
					return r, err
				}
				r.missing = unconfigured(ctx, a)
				return r, nil
			})
			if err := show(c, answers, writeResyncs); err != nil {
				return err
			}
			for _, a := range answers {
				if failures(a.Value.RecordedTxn) > 0 {
					return ErrReported // the table says it
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&database, "database", false, "read etcd again and recompute the configuration, instead of reading the vswitch")
	return cmd
}

// resynced is a resync's transaction, with the number of values, by state, that it cannot repair.
type resynced struct {
	*kvscheduler.RecordedTxn
	missing map[pb.ValueState]int
}

// notConfigured lists the states of requested values that do not exist.
var notConfigured = []pb.ValueState{
	pb.ValueState_PENDING, pb.ValueState_RETRYING, pb.ValueState_FAILED, pb.ValueState_INVALID, pb.ValueState_UNIMPLEMENTED, pb.ValueState_MISSING,
}

// unconfigured counts the values that are not configured, by state; empty if unknown.
func unconfigured(ctx context.Context, a *Agent) map[pb.ValueState]int {
	query := url.Values{}
	for _, state := range notConfigured {
		query.Add("state", state.String())
	}
	var values record.Statuses
	_ = a.Get(ctx, valueStatus, query, &values)
	counts := make(map[pb.ValueState]int)
	for _, s := range values {
		for _, v := range append(s.GetDerivedValues(), s.GetValue()) {
			if slices.Contains(notConfigured, v.GetState()) {
				counts[v.GetState()]++
			}
		}
	}
	return counts
}

// readDatabase requests a resync with etcd and returns a text about its time.
func readDatabase(ctx context.Context, a *Agent) (when string, err error) {
	var dispatched string
	if err := a.Post(ctx, databaseResync, nil, nil, &dispatched); err != nil {
		return "", err
	}
	if p, err := status.AskReady(ctx, a); err == nil && p.Database != "" {
		return "reads etcd again when it reaches it, which it does not now (" + p.Database + ")", nil
	}
	return "reads etcd again", nil
}

// failures counts the operations that failed.
func failures(t *kvscheduler.RecordedTxn) (n int) {
	for _, op := range t.Executed {
		if op.NewErr != nil {
			n++
		}
	}
	return n
}

// writeResyncs prints one line per node, with the operations below.
func writeResyncs(p printer, good []answer[resynced]) {
	t := p.Table("NODE", "TXN", "TOOK", "RESULT")
	for _, a := range good {
		txn := a.Value
		var repaired []string
		for _, op := range txn.Executed {
			switch {
			case op.NewErr != nil:
				repaired = append(repaired, fmt.Sprintf("%v %s  error: %v", op.Operation, op.Key, op.NewErr))
			case !op.NOOP && op.NewState != pb.ValueState_OBTAINED:
				repaired = append(repaired, fmt.Sprintf("%v %s", op.Operation, op.Key))
			}
		}
		result := "nothing to repair"
		if len(repaired) > 0 {
			result = "repaired with " + count(len(repaired), "operation")
		}
		if n := failures(txn.RecordedTxn); n > 0 {
			result = fmt.Sprintf("%s, of which %d failed", count(len(repaired), "operation"), n)
		}
		for _, state := range notConfigured {
			if n := txn.missing[state]; n > 0 {
				result += fmt.Sprintf("; %s %v, see values --state %v", count(n, "value"), state, state)
			}
		}
		t.Add(a.Agent.Name, strconv.FormatUint(txn.SeqNum, 10), took(txn.Stop.Sub(txn.Start)), result)
		for _, line := range repaired {
			t.Add(" ", " ", " ", "  "+line)
		}
	}
	t.Print()
}
