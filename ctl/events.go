package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/contiv/controller"
	"github.com/spf13/cobra"
)

const eventHistory = "/controller/event-history"

// number is a query with one number.
func number(name string, n uint64) url.Values {
	return url.Values{name: {strconv.FormatUint(n, 10)}}
}

// lastN is the query for the last n records; 0: all.
func lastN(n uint) url.Values {
	if n == 0 {
		return nil
	}
	return number("last", uint64(n))
}

func (c *cli) eventsCommand() *cobra.Command {
	var last uint
	var seq uint64
	var follow bool
	cmd := &cobra.Command{
		Use:   "events [NODE]",
		Short: "What happened, and what the agents did about it",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow {
				return c.followEvents(cmd.Context(), args, last)
			}
			ctx, cancel := c.limited(cmd)
			defer cancel()
			if cmd.Flags().Changed("seq") {
				return c.showEvent(ctx, args, seq)
			}
			agents, err := c.targets.selected(ctx, args)
			if err != nil {
				return err
			}
			return show(c, getAll[[]*controller.EventRecord](ctx, agents, eventHistory, lastN(last)), writeEvents)
		},
	}
	cmd.Flags().UintVar(&last, "last", 20, "number of events of each node; 0: all that are remembered")
	cmd.Flags().Uint64Var(&seq, "seq", 0, "show the event with this sequence number, in full")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on showing events as they happen")
	cmd.MarkFlagsMutuallyExclusive("seq", "follow")
	return cmd
}

func (c *cli) showEvent(ctx context.Context, args []string, seq uint64) error {
	agent, err := c.targets.one(ctx, args)
	if err != nil {
		return err
	}
	answers := getAll[*controller.EventRecord](ctx, []*Agent{agent}, eventHistory, number("seq-num", seq))
	return show(c, answers, func(p printer, good []answer[*controller.EventRecord]) {
		event := *good[0].value
		event.ProcessingStart = event.ProcessingStart.Local()
		p.printf("%s", event.String())
	})
}

var eventHeader = []string{"NODE", "SEQ", "TIME", "TOOK", "TXN", "OPS", "EVENT"}

func writeEvents(p printer, good []answer[[]*controller.EventRecord]) {
	t := p.table(eventHeader...)
	for _, a := range good {
		for _, e := range a.value {
			t.add(eventRow(a.agent.Name, e)...)
		}
	}
	t.write()
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

// follower follows the events of one agent.
type follower struct {
	agent *Agent
	// next sequence number; nothing has been seen yet if it is 0.
	next uint64
	// away is the last error, "" while the agent answers.
	away string
}

// followedEvent is a line of followEvents' JSON output.
type followedEvent struct {
	Node  string                  `json:"node"`
	Event *controller.EventRecord `json:"event"`
}

// followEvents shows the last events, and then those that happen, until ctx ends.
// Agents may come and go meanwhile.
func (c *cli) followEvents(ctx context.Context, args []string, last uint) error {
	agents, err := c.targets.selected(ctx, args)
	if err != nil {
		return err
	}
	followers := make([]*follower, len(agents))
	for i, a := range agents {
		followers[i] = &follower{agent: a}
	}
	if last == 0 {
		last = math.MaxUint32
	}
	header := true
	ticker := time.NewTicker(c.poll)
	defer ticker.Stop()
	for {
		var events []followedEvent
		for _, a := range c.askFollowers(ctx, followers, last) {
			for _, e := range a.value {
				events = append(events, followedEvent{a.agent.Name, e})
			}
		}
		slices.SortStableFunc(events, func(a, b followedEvent) int {
			return a.Event.ProcessingStart.Compare(b.Event.ProcessingStart)
		})
		if err := c.printFollowed(events, header); err != nil {
			return err
		}
		header = header && len(events) == 0
		last = 100
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// askFollowers asks all agents for new events, and tells who left and came back.
func (c *cli) askFollowers(ctx context.Context, followers []*follower, n uint) []answer[[]*controller.EventRecord] {
	ctx, cancel := context.WithTimeout(ctx, c.targets.timeout)
	defer cancel()
	byAgent := make(map[*Agent]*follower)
	var agents []*Agent
	for _, f := range followers {
		byAgent[f.agent] = f
		agents = append(agents, f.agent)
	}
	answers := ask(ctx, agents, func(ctx context.Context, a *Agent) ([]*controller.EventRecord, error) {
		return byAgent[a].ask(ctx, n)
	})
	for _, a := range answers {
		f := byAgent[a.agent]
		switch {
		case ctx.Err() == context.Canceled:
		case a.err != nil && f.away != a.err.Error():
			f.away = a.err.Error()
			c.report(a.agent, a.err)
		case a.err == nil && f.away != "":
			f.away = ""
			fmt.Fprintf(c.errOut, "%s: %s: answers again\n", c.name, a.agent.Name)
		}
	}
	return answers
}

// ask returns the events that are new, the last n at most if nothing has been
// seen yet. An agent that was restarted counts anew.
func (f *follower) ask(ctx context.Context, n uint) ([]*controller.EventRecord, error) {
	var events []*controller.EventRecord
	if err := f.agent.get(ctx, eventHistory, number("last", uint64(n)), &events); err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, nil
	}
	oldest, newest := events[0].SeqNum, events[len(events)-1].SeqNum
	if newest+1 < f.next {
		f.next = 0
	}
	if f.next > 0 && oldest > f.next { // more happened than we asked for
		query := url.Values{"from": {strconv.FormatUint(f.next, 10)}, "to": {strconv.FormatUint(newest, 10)}}
		if err := f.agent.get(ctx, eventHistory, query, &events); err != nil {
			return nil, err
		}
	}
	events = slices.DeleteFunc(events, func(e *controller.EventRecord) bool { return e.SeqNum < f.next })
	f.next = newest + 1
	return events, nil
}

// printFollowed prints events as they come; columns cannot be aligned with what
// is not known yet, so they have fixed widths.
func (c *cli) printFollowed(events []followedEvent, header bool) error {
	const line = "%-12s %5s  %-18s %9s %5s %4s  %s\n"
	for i, e := range events {
		switch c.format {
		case asJSON:
			data, err := json.Marshal(e)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.out, "%s\n", data)
		case asYAML:
			fmt.Fprintln(c.out, "---")
			if err := c.format.encode(c.out, e); err != nil {
				return err
			}
		default:
			if header && i == 0 {
				c.printer().printf(line, anys(eventHeader)...)
			}
			c.printer().printf(line, anys(eventRow(e.Node, e.Event))...)
		}
	}
	return nil
}

func anys(texts []string) []any {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return out
}
