package ctl

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/ctl/target"
	"github.com/spf13/cobra"
)

const eventHistory = "/controller/event-history"

// number is a query with one number.
func number(name string, n uint64) url.Values {
	return url.Values{name: {strconv.FormatUint(n, 10)}}
}

func (c *cli) eventsCommand() *cobra.Command {
	var r span
	var seq uint64
	var follow bool
	cmd := &cobra.Command{
		Use:   "events [NODE]",
		Short: "What happened, and what the agents did about it",
		Long: "Lists the events of the nodes, each with the transaction that it led to. With --seq, shows one\n" +
			"with the handlers that processed it.\n\n" +
			"T is " + timeForms + ".",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			one := cmd.Flags().Changed("seq")
			switch {
			case one && (follow || r.since != "" || r.until != "" || cmd.Flags().Changed("last")):
				return errors.New("--seq shows one event: drop -f, --last, --since and --until")
			case follow && (r.since != "" || r.until != ""):
				return errors.New("-f goes on from now: drop --since and --until; --last says how many earlier events to show")
			}
			since, until, err := r.times(cmd, time.Now())
			if err != nil {
				return err
			}
			if follow {
				return c.followEvents(cmd.Context(), args, r.last)
			}
			ctx, cancel := c.limited(cmd)
			defer cancel()
			if one {
				return c.showEvent(ctx, args, seq)
			}
			agents, err := c.targets.Selected(ctx, args)
			if err != nil {
				return err
			}
			return show(c, target.Ask(ctx, agents, func(ctx context.Context, a *Agent) ([]*controller.EventRecord, error) {
				return eventsOf(ctx, a, since, until, r)
			}), writeEvents)
		},
	}
	r.flags(cmd, "events")
	cmd.Flags().Uint64Var(&seq, "seq", 0, "show the event with this sequence number, in full")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on showing events as they happen")
	return cmd
}

// events returns a part of the agent's history; zero times are open ends. The
// agent knows seconds only.
func eventsOf(ctx context.Context, a *Agent, since, until time.Time, s span) (events []*controller.EventRecord, err error) {
	query := unixSpan(since, until)
	if len(query) == 0 {
		query = s.query()
	}
	if err := a.Get(ctx, eventHistory, query, &events); err != nil {
		return nil, err
	}
	events = slices.DeleteFunc(events, func(e *controller.EventRecord) bool {
		return e.ProcessingEnd.Before(since) || !until.IsZero() && e.ProcessingStart.After(until)
	})
	if n := int(s.last); n > 0 && n < len(events) {
		events = events[len(events)-n:]
	}
	return events, nil
}

func (c *cli) showEvent(ctx context.Context, args []string, seq uint64) error {
	agent, err := c.targets.One(ctx, args)
	if err != nil {
		return err
	}
	answers := target.GetAll[*controller.EventRecord](ctx, []*Agent{agent}, eventHistory, number("seq-num", seq))
	return show(c, answers, func(p printer, good []answer[*controller.EventRecord]) {
		event := *good[0].Value
		event.ProcessingStart = event.ProcessingStart.Local()
		p.Printf("%s", event.String())
		if event.Txn != nil {
			p.Printf("   see `%s txns %d --node %s`\n", c.name, event.Txn.SeqNum, agent.Name)
		}
	})
}

var eventHeader = []string{"NODE", "SEQ", "TIME", "TOOK", "TXN", "OPS", "EVENT"}

func writeEvents(p printer, good []answer[[]*controller.EventRecord]) {
	t := p.Table(eventHeader...)
	for _, a := range good {
		for _, e := range a.Value {
			t.Add(eventRow(a.Agent.Name, e)...)
		}
	}
	t.Print()
}

func eventRow(node string, e *controller.EventRecord) []string {
	txn, ops := "", ""
	if e.Txn != nil {
		txn, ops = strconv.FormatUint(e.Txn.SeqNum, 10), strconv.Itoa(e.Txn.Operations)
	}
	return []string{node, strconv.FormatUint(e.SeqNum, 10), stamp(e.ProcessingStart), took(e.ProcessingEnd.Sub(e.ProcessingStart)), txn, ops, eventText(e)}
}

// eventText is the event in a line: its name, what it is about, and what went
// wrong.
func eventText(e *controller.EventRecord) string {
	about, _, _ := strings.Cut(e.Description, "\n")
	text := about
	switch {
	case about == "":
		text = e.Name
	case !strings.HasPrefix(about, e.Name):
		text = e.Name + ": " + about
	}
	if e.IsFollowUp {
		text += fmt.Sprintf(" (follow-up to #%d)", e.FollowUpTo)
	}
	if e.ErrorStr != "" {
		failure, _, more := strings.Cut(e.ErrorStr, "\n")
		text += "  ERROR: " + failure
		if more {
			text += " …"
		}
	}
	return text
}
