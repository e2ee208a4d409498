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

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/spf13/cobra"
)

const eventHistory = "/controller/event-history"

// number returns a query with one number.
func number(name string, n uint64) url.Values {
	return url.Values{name: {strconv.FormatUint(n, 10)}}
}

func (c *cli) eventsCommand() *cobra.Command {
	var r span
	var one string
	var follow bool
	cmd := &cobra.Command{
		Use:   "events [NODE]",
		Short: "List the events that agents have processed",
		Long: "List the events of each node with the transactions that they caused. With --seq, show one event with\n" +
			"the handlers that processed it.\n\n" +
			"T is " + timeForms + ".",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case one != "" && (follow || r.since != "" || r.until != "" || cmd.Flags().Changed("last")):
				return Misused(errors.New("--seq shows one event: drop -f, --last, --since and --until"))
			case follow && (r.since != "" || r.until != ""):
				return Misused(errors.New("-f shows new events: drop --since and --until; --last sets the number of earlier events"))
			}
			since, until, err := r.times(cmd, c.now())
			if err != nil {
				return err
			}
			if follow {
				if err := c.checkFollowed(); err != nil {
					return err
				}
				return c.followEvents(cmd.Context(), args, r.last)
			}
			ctx, cancel := c.limited(cmd)
			defer cancel()
			if one != "" {
				seq, err := parseSeq(one)
				if err != nil {
					return fmt.Errorf("--seq: %w", err)
				}
				return c.showEvent(ctx, args, seq)
			}
			agents, err := c.targets.Selected(ctx, args)
			if err != nil {
				return err
			}
			return show(c, target.Ask(ctx, agents, func(ctx context.Context, a *Agent) (eventList, error) {
				return eventsOf(ctx, a, since, until, r)
			}), writeEvents)
		},
	}
	r.flags(cmd, "events")
	cmd.Flags().StringVar(&one, "seq", "", "sequence number of the event to show in full; 3.17: event 17 of run 3")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep showing events as they occur")
	return listing(cmd)
}

// rememberedEvents returns a part of the events since the agent's start. The agent's query has a
// resolution of one second.
func rememberedEvents(ctx context.Context, a *Agent, since, until time.Time, s span) (events []*controller.EventRecord, err error) {
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

func (c *cli) showEvent(ctx context.Context, args []string, one seq) error {
	agent, err := c.targets.One(ctx, args)
	if err != nil {
		return err
	}
	answers := target.Ask(ctx, []*Agent{agent}, func(ctx context.Context, a *Agent) (*controller.EventRecord, error) { return eventOf(ctx, a, one) })
	if c.format == asName && answers[0].Err == nil {
		c.writeNames([]string{one.String()})
		return nil
	}
	return show(c, answers, func(p printer, good []answer[*controller.EventRecord]) {
		event := *good[0].Value
		event.ProcessingStart = event.ProcessingStart.Local()
		p.Printf("%s", event.String())
		if event.Txn != nil {
			p.Printf("   see `%s txns %s --node %s`\n", c.name, seq{one.run, event.Txn.SeqNum}, agent.Name)
		}
	})
}

var eventHeader = []string{"NODE", "SEQ", "TIME", "TOOK", "TXN", "OPS", "EVENT"}

func writeEvents(p printer, good []answer[eventList]) {
	t := p.Table(eventHeader...)
	t.Spare("TOOK", "OPS")
	for _, a := range good {
		run := 0
		for _, e := range a.Value.events {
			if e.Run != run {
				if at, text := a.Value.runs.started(e.Run); text != "" && (run > 0 || a.Value.runs.earlier(e.Run) > 0) {
					t.Add(a.Agent.Name, "", stamp(at), "", "", "", text)
				}
				run = e.Run
			}
			t.Add(eventRow(a.Agent.Name, a.Value.runs, e)...)
		}
	}
	t.Print()
}

func eventRow(node string, known runs, e runEvent) []string {
	txn, ops := "", ""
	if e.Txn != nil {
		txn, ops = known.seq(e.Run, e.Txn.SeqNum), strconv.Itoa(e.Txn.Operations)
	}
	return []string{node, known.seq(e.Run, e.SeqNum), stamp(e.ProcessingStart), took(e.ProcessingEnd.Sub(e.ProcessingStart)), txn, ops, eventText(e.EventRecord)}
}

// eventText describes an event on one line: its name, its subject, and its error.
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
