package ctl

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

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
