package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/ctl/status"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/spf13/cobra"
)

// follower follows the events of one agent.
type follower struct {
	agent *Agent
	// next is the expected sequence number; 0 before the first event.
	next uint64
	// newest is the time of the event before next. It differs after a restart of the agent, which
	// reuses numbers.
	newest time.Time
	// trouble is the last reported error of the agent, "" while it answers.
	trouble string
}

// followedEvent is a line of the JSON output of followEvents.
type followedEvent struct {
	Node  string                  `json:"node"`
	Event *controller.EventRecord `json:"event"`
}

// followEvents shows the last events and then new ones until ctx ends. Agents may restart
// meanwhile.
func (c *cli) followEvents(ctx context.Context, args []string, last uint) error {
	agents, err := c.targets.Selected(ctx, args)
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
			for _, e := range a.Value {
				events = append(events, followedEvent{a.Agent.Name, e})
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

// askFollowers asks all agents for new events, and reports agents that stop or resume answering.
func (c *cli) askFollowers(ctx context.Context, followers []*follower, n uint) []answer[[]*controller.EventRecord] {
	ctx, cancel := context.WithTimeout(ctx, c.targets.Timeout)
	defer cancel()
	byAgent := make(map[*Agent]*follower)
	var agents []*Agent
	for _, f := range followers {
		byAgent[f.agent] = f
		agents = append(agents, f.agent)
	}
	answers := target.Ask(ctx, agents, func(ctx context.Context, a *Agent) ([]*controller.EventRecord, error) {
		return byAgent[a].ask(ctx, n)
	})
	for _, a := range answers {
		f := byAgent[a.Agent]
		trouble := kindOfTrouble(a.Err)
		switch {
		case ctx.Err() == context.Canceled || trouble == f.trouble:
			continue
		case a.Err != nil:
			c.report(a.Agent, a.Err)
		default:
			fmt.Fprintf(c.errOut, "%s: %s: answers again\n", c.name, a.Agent.Name)
		}
		f.trouble = trouble
	}
	return answers
}

// kindOfTrouble maps errors of one outage to the same text: while an agent restarts, connections
// are refused, broken and lost.
func kindOfTrouble(err error) string {
	var away *target.UnreachableError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &away):
		return status.Unreachable
	}
	return err.Error()
}

// ask returns the new events, at most the last n at first. A restarted agent numbers its events
// from the start.
func (f *follower) ask(ctx context.Context, n uint) ([]*controller.EventRecord, error) {
	var events []*controller.EventRecord
	if err := f.agent.Get(ctx, eventHistory, number("last", uint64(n)), &events); err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, nil
	}
	oldest, newest := events[0].SeqNum, events[len(events)-1]
	if newest.SeqNum+1 < f.next {
		f.restart()
	}
	if f.next > 0 && oldest >= f.next { // more happened than we asked for
		query := url.Values{"from": {strconv.FormatUint(f.next-1, 10)}, "to": {strconv.FormatUint(newest.SeqNum, 10)}}
		if err := f.agent.Get(ctx, eventHistory, query, &events); err != nil {
			return nil, err
		}
	}
	for _, e := range events {
		if e.SeqNum+1 == f.next && !e.Enqueued.Equal(f.newest) {
			f.restart()
			return f.ask(ctx, n)
		}
	}
	events = slices.DeleteFunc(events, func(e *controller.EventRecord) bool { return e.SeqNum < f.next })
	f.next, f.newest = newest.SeqNum+1, newest.Enqueued
	return events, nil
}

// restart forgets the position in a restarted agent's events.
func (f *follower) restart() { f.next, f.newest = 0, time.Time{} }

// printFollowed prints events as they arrive, in columns of fixed widths, because later rows are
// unknown.
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
				c.printer().Printf(line, anys(eventHeader)...)
			}
			c.printer().Printf(line, anys(eventRow(e.Node, nil, runEvent{0, e.Event}))...)
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

// watched lists the commands that support -w.
var watched = []string{
	"nodes", "nodeconfig", "pods", "ipam", "interfaces", "drops", "services", "policies", "status", "why", "txns", "values", "dump", "explain", "timeline",
}

// watchable adds the flag -w to a command, which then runs repeatedly and prints changed output.
func (c *cli) watchable(cmd *cobra.Command) {
	watch, once := false, cmd.RunE
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print the output again whenever it changes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !watch {
			return once(cmd, args)
		}
		return c.again(cmd.Context(), func() error { return once(cmd, args) })
	}
}

// again runs a command repeatedly until ctx ends. A usage error of the first run ends it.
func (c *cli) again(ctx context.Context, once func() error) error {
	out, errOut := c.out, c.errOut
	c.watching = true
	defer func() { c.out, c.errOut, c.watching = out, errOut, false }()
	var last string
	for first := true; ; first = false {
		var text, trouble bytes.Buffer
		c.out, c.errOut = plainBuffer(&text), plainBuffer(&trouble)
		err := once()
		c.out, c.errOut = out, errOut
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, ErrReported) {
			if first {
				return err // a mistake in the arguments
			}
			fmt.Fprintf(&trouble, "%s: %v\n", c.name, err)
		}
		if now := trouble.String() + text.String(); now != last {
			if c.format == asTable {
				fmt.Fprintf(c.out, "%s\n", stamp(time.Now()))
			}
			writeThrough(errOut, &trouble)
			writeThrough(out, &text)
			last = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(4 * c.poll):
		}
	}
}

var plainBuffer, writeThrough = text.Plain, text.WritePlain
