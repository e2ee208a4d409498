package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

const (
	keyTimeline = "/scheduler/key-timeline"
	valueDiff   = "/scheduler/diff"
)

func (c *cli) timelineCommand() *cobra.Command {
	var namespace, since string
	cmd := &cobra.Command{
		Use:   "timeline KEY|OBJECT",
		Short: "Show the history of a value, pod, service or node",
		Long: "Show each change of an existing or deleted value with its transaction.\n\n" + keyHelp + "\n\n" +
			"T is " + timeForms + ".",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			var begin time.Time
			if since != "" {
				var err error
				if begin, err = parseTime(since, c.now()); err != nil {
					return fmt.Errorf("--since: %w", err)
				}
			}
			agents, err := c.targets.Selected(ctx, nil)
			if err != nil {
				return err
			}
			if t, found, err := c.object(ctx, agents, namespace, args[0]); err != nil || found {
				if err != nil {
					return err
				}
				return c.timelineOfObject(ctx, t, begin)
			}
			known := func(t timeline) bool { return len(t.revisions) > 0 }
			question := func(ctx context.Context, a *Agent, key string) (timeline, error) {
				line, err := timelineOf(begin)(ctx, a, key)
				line.explain(ctx, a)
				return line, err
			}
			return showKey(ctx, c, agents, args[0], question, known, writeTimelines, presentKeys, pastKeys)
		},
	}
	namespaceFlag(cmd, &namespace)
	cmd.Flags().StringVar(&since, "since", "", "show only changes since T")
	return cmd
}

func writeTimelines(p printer, good []answer[timeline]) {
	if len(good) > 0 {
		revisions := good[0].Value.revisions
		if i := slices.IndexFunc(revisions, func(r runRevision) bool { return r.Value != nil }); i >= 0 {
			p.Printf("%s\n", text.Line(revisions[i].Value.Key))
		}
	}
	t := p.Table("NODE", "SINCE", "FOR", "TXN", "STATE", "CHANGE")
	t.Spare("FOR")
	for _, a := range good {
		var before *kvscheduler.ValueSnapshot
		run, known := 0, a.Value.runs
		for _, r := range a.Value.revisions {
			started := r.Run != run
			if started {
				if at, text := known.started(r.Run); text != "" && run > 0 {
					t.Add(a.Agent.Name, stamp(at), "", "", "", text)
				}
				run = r.Run
			}
			lasted, state := "", "gone"
			if !r.Until.IsZero() {
				lasted = took(r.Until.Sub(r.Since))
			}
			if r.Value != nil {
				state = r.Value.State.String()
			}
			change := changeText(before, r.Value)
			if change == "" && started && r.Value != nil && r.Value.LastOperation == pb.TxnOperation_UNDEFINED {
				change = "found by the agent that started"
			}
			t.Add(a.Agent.Name, stamp(r.Since), lasted, known.seq(r.Run, r.Txn), state, change)
			if r.Reason != "" {
				t.Add(" ", " ", " ", " ", " ", "because of "+r.Reason)
			}
			before = r.Value
		}
	}
	t.Print()
}

// of returns the requested value, or else the existing one.
func of(v *kvscheduler.ValueSnapshot) proto.Message {
	switch {
	case v == nil:
		return nil
	case v.Want != nil:
		return v.Want
	}
	return v.Have
}

// changeText describes a change: a new value's content, or the changed fields, and the error.
func changeText(from, to *kvscheduler.ValueSnapshot) string {
	if to == nil {
		return ""
	}
	var texts []string
	switch {
	case from == nil:
		texts = append(texts, fieldsText(of(to)))
	default:
		texts = append(texts, changes(of(from), of(to))...)
		if len(texts) == 0 && to.Have == nil && from.Have != nil {
			texts = append(texts, "removed from the southbound")
		}
	}
	if to.Error != "" {
		failure, _, _ := strings.Cut(to.Error, "\n")
		texts = append(texts, "error: "+failure)
	}
	if to.LastOperation != 0 && (from == nil || len(texts) == 0) {
		texts = append([]string{to.LastOperation.String()}, texts...)
	}
	return strings.Join(texts, "  ")
}

func (c *cli) diffCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "diff --from T [--to T] [NODE]",
		Short: "Show the values that differ between two moments",
		Long: "Show the values that were added, changed or removed between two moments.\n\n" +
			momentHelp,
		Example: "  diff --from -5m\n  diff --from txn:11 --to txn:12 node1   # changes of transaction 12",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			if from == "" {
				return Misused(errors.New("--from is missing: use " + timeForms + `, or "txn:12" for the end of transaction 12`))
			}
			now := c.now()
			a, err := parseMoment("--from", from, now)
			if err != nil {
				return err
			}
			b, err := parseMoment("--to", to, now)
			if err != nil {
				return err
			}
			if !a.isTxn && !b.isTxn && !b.time.IsZero() && !b.time.After(a.time) || a.isTxn && b.isTxn && !a.txn.before(b.txn) {
				return Misused(fmt.Errorf("--to %s is not after --from %s", to, from))
			}
			agents, err := c.targets.Selected(ctx, args)
			if err != nil {
				return err
			}
			err = show(c, target.Ask(ctx, agents, func(ctx context.Context, agent *Agent) (record.Diffs, error) {
				return diffOf(ctx, agent, a, b)
			}), writeDiffs)
			for _, agent := range agents {
				c.noteStart(ctx, agent, a)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "earlier moment")
	cmd.Flags().StringVar(&from, "since", "", "same as --from")
	cmd.Flags().StringVar(&to, "to", "", "later moment (default: now)")
	return listing(cmd)
}

// writeDiffs prints a line per differing value, with the changed fields below.
func writeDiffs(p printer, good []answer[record.Diffs]) {
	var same []string
	t := p.Table("NODE", "WHAT", "STATE", "TXN", "KEY")
	for _, a := range good {
		if len(a.Value) == 0 {
			same = append(same, a.Agent.Name)
		}
		for _, d := range a.Value {
			what, state, txn := "changed", "", ""
			switch {
			case d.From == nil:
				what = "new"
			case d.To == nil:
				what, state = "gone", d.From.State.String()
			}
			if d.To != nil {
				state, txn = d.To.State.String(), strconv.FormatUint(d.To.Txn, 10)
				if d.From != nil && d.From.State != d.To.State {
					state = d.From.State.String() + " → " + state
				}
			}
			t.Add(a.Agent.Name, what, state, txn, d.Key)
			if d.From != nil && d.To != nil {
				if text := changeText(d.From, d.To); text != "" {
					t.Add(" ", " ", " ", " ", "  "+text)
				}
			}
		}
	}
	if !t.Empty() {
		t.Print()
	}
	if len(same) > 0 {
		p.Printf("no difference on %s\n", strings.Join(same, ", "))
	}
}
