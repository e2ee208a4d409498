package ctl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/diagram"
	"github.com/spf13/cobra"
)

const txnHistory = "/scheduler/txn-history"

func (c *cli) txnsCommand() *cobra.Command {
	var r span
	cmd := &cobra.Command{
		Use:   "txns [SEQ]",
		Short: "List the scheduler's transactions, or show one",
		Long: "List the scheduler's transactions with the events that caused them. Retries and notifications of the\n" +
			"vswitch have no event. With SEQ, show one transaction with its operations; -o diagram draws it as a\n" +
			"Mermaid sequence diagram, -o svg as an image.\n\n" +
			"T is " + timeForms + ".",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			if len(args) == 1 {
				one, err := parseSeq(args[0])
				if err != nil {
					return fmt.Errorf("%w: select a node with --node", err)
				}
				return c.showTxn(ctx, one)
			}
			if c.format == asDiagram || c.format == asSVG {
				return Misused(errors.New("a diagram shows one transaction: add its sequence number"))
			}
			since, until, err := r.times(cmd, c.now())
			if err != nil {
				return err
			}
			agents, err := c.targets.Selected(ctx, nil)
			if err != nil {
				return err
			}
			return show(c, target.Ask(ctx, agents, func(ctx context.Context, a *Agent) (txnList, error) {
				return txnsOf(ctx, a, since, until, r, c.format == asTable || c.format == asName)
			}), writeTxns)
		},
	}
	r.flags(cmd, "transactions")
	return withFormats(cmd, asTable, asWide, asJSON, asYAML, asJSONPath, asName, asDiagram, asSVG)
}

// span is a part of a history.
type span struct {
	last         uint
	since, until string
}

func (s *span) flags(cmd *cobra.Command, what string) {
	cmd.Flags().UintVar(&s.last, "last", 20, "number of "+what+" to show for each node; 0: all recorded")
	cmd.Flags().StringVar(&s.since, "since", "", "show only records since T")
	cmd.Flags().StringVar(&s.until, "until", "", "show only records until T")
}

// times returns the limits, zero if not given. With limits, all records between them are shown
// unless --last is given.
func (s *span) times(cmd *cobra.Command, now time.Time) (since, until time.Time, err error) {
	if s.since != "" {
		if since, err = parseTime(s.since, now); err != nil {
			return since, until, fmt.Errorf("--since: %w", err)
		}
	}
	if s.until != "" {
		if until, err = parseTime(s.until, now); err != nil {
			return since, until, fmt.Errorf("--until: %w", err)
		}
	}
	if !until.IsZero() && until.Before(since) {
		return since, until, Misused(fmt.Errorf("--until %s is before --since %s", s.until, s.since))
	}
	if (s.since != "" || s.until != "") && !cmd.Flags().Changed("last") {
		s.last = 0
	}
	return since, until, nil
}

// query returns the query for the last records.
func (s *span) query() url.Values {
	if s.last == 0 {
		return url.Values{}
	}
	return number("last", uint64(s.last))
}

// causedTxn is a transaction with the events that caused it, if recorded. Events of a burst share a
// transaction.
type causedTxn struct {
	*kvscheduler.RecordedTxn
	events []*controller.EventRecord
	run    int // 0: not known
	// operations and failed count the operations, which an outline omits.
	operations, failed int
}

func caused(t *kvscheduler.RecordedTxn, events []*controller.EventRecord, run int) causedTxn {
	return causedTxn{t, events, run, len(t.Executed), failures(t)}
}

// MarshalJSON adds the run and the numbers of the events to the record.
func (t causedTxn) MarshalJSON() ([]byte, error) {
	record, err := t.RecordedTxn.MarshalJSON()
	if err != nil {
		return nil, err
	}
	numbers := []uint64{}
	for _, e := range t.events {
		numbers = append(numbers, e.SeqNum)
	}
	events, err := json.Marshal(struct {
		Run    int `json:",omitempty"`
		Events []uint64
	}{t.run, numbers})
	// {"Events":[…]} and {"SeqNum":…} become one object.
	return append(append(events[:len(events)-1], ','), record[1:]...), err
}

// eventNumbers formats the numbers of the events: "7", or "1-6" for several.
func (t causedTxn) eventNumbers(known runs) string {
	switch n := len(t.events); n {
	case 0:
		return ""
	case 1:
		return known.seq(t.run, t.events[0].SeqNum)
	default:
		return fmt.Sprintf("%s-%d", known.seq(t.run, t.events[0].SeqNum), t.events[n-1].SeqNum)
	}
}

// causes finds the events that caused transactions. It ignores errors, because the transactions are
// useful without events.
func causes(ctx context.Context, a *Agent, txns []*kvscheduler.RecordedTxn) []causedTxn {
	out := make([]causedTxn, len(txns))
	if len(txns) == 0 {
		return out
	}
	first := slices.MinFunc(txns, func(a, b *kvscheduler.RecordedTxn) int { return cmp.Compare(a.Start.UnixNano(), b.Start.UnixNano()) })
	last := slices.MaxFunc(txns, func(a, b *kvscheduler.RecordedTxn) int { return cmp.Compare(a.Stop.UnixNano(), b.Stop.UnixNano()) })
	var events []*controller.EventRecord
	_ = a.Get(ctx, eventHistory, unixSpan(first.Start, last.Stop), &events)
	byTxn := make(map[uint64][]*controller.EventRecord)
	for _, e := range events {
		if e.Txn != nil {
			byTxn[e.Txn.SeqNum] = append(byTxn[e.Txn.SeqNum], e)
		}
	}
	for i, t := range txns {
		out[i] = caused(t, byTxn[t.SeqNum], 0)
	}
	return out
}

// unixSpan returns the query for a span of time, widened to whole seconds; zero times are open
// ends.
func unixSpan(since, until time.Time) url.Values {
	query := url.Values{}
	if !since.IsZero() {
		query.Set("since", strconv.FormatInt(since.Unix(), 10))
	}
	if !until.IsZero() {
		query.Set("until", strconv.FormatInt(until.Unix()+1, 10))
	}
	return query
}

func (c *cli) showTxn(ctx context.Context, one seq) error {
	agent, err := c.targets.One(ctx, nil)
	if err != nil {
		return err
	}
	answers := target.Ask(ctx, []*Agent{agent}, func(ctx context.Context, a *Agent) (causedTxn, error) { return txnOf(ctx, a, one) })
	if (c.format == asDiagram || c.format == asSVG) && answers[0].Err == nil {
		txn := answers[0].Value.RecordedTxn
		var drawing bytes.Buffer
		if c.format == asSVG {
			title := strings.ReplaceAll(fmt.Sprintf("%s #%s %s", agent.Name, one, txnText(txn)), "\n", " ")
			s := diagram.SequenceOf(txn)
			s.Shorten(c.printer().Text)
			err = s.WriteSVG(&drawing, c.printer().Text(title))
		} else {
			err = diagram.SequenceOf(txn).WriteMermaid(&drawing)
		}
		if err != nil {
			return err
		}
		fmt.Fprint(c.out, c.printer().Text(drawing.String()))
		return nil
	}
	if c.format == asName && answers[0].Err == nil {
		c.writeNames([]string{one.String()})
		return nil
	}
	return show(c, answers, func(p printer, good []answer[causedTxn]) {
		writeTxn(p, agent.Name, one.run, good[0].Value, c.name)
	})
}

func writeTxns(p printer, good []answer[txnList]) {
	t := p.Table("NODE", "SEQ", "TIME", "TOOK", "EVENT", "OPS", "FAILED", "TRANSACTION")
	t.Spare("TOOK", "OPS")
	for _, a := range good {
		run, known := 0, a.Value.runs
		for _, txn := range a.Value.txns {
			if txn.run != run {
				if at, text := known.started(txn.run); text != "" && (run > 0 || known.earlier(txn.run) > 0) {
					t.Add(a.Agent.Name, "", stamp(at), "", "", "", "", text)
				}
				run = txn.run
			}
			t.Add(a.Agent.Name, known.seq(txn.run, txn.SeqNum), stamp(txn.Start), took(txn.Stop.Sub(txn.Start)), txn.eventNumbers(known),
				strconv.Itoa(txn.operations), strconv.Itoa(txn.failed), txnText(txn.RecordedTxn))
		}
	}
	t.Print()
}

// txnText describes the origin and purpose of a transaction.
func txnText(t *kvscheduler.RecordedTxn) string {
	text := ""
	switch {
	case t.Type == kvscheduler.SBNotification:
		text = noticed(t)
	case t.Type == kvscheduler.RetryFailedOps:
		text = fmt.Sprintf("retry of #%d, attempt %d", t.RetryForTxn, t.RetryAttempt)
	case t.Type == kvscheduler.RetryUnimplOps:
		text = "retry of unimplemented values"
	case t.Resync == kvscheduler.FullResync:
		text = "full resync"
	case t.Resync == kvscheduler.UpstreamResync:
		text = "upstream resync"
	case t.Resync == kvscheduler.DownstreamResync:
		text = "downstream resync"
	}
	about := purpose(t.Description)
	switch {
	case about == "":
		return text
	case text == "":
		return about
	}
	return text + ": " + about
}

// purpose shortens a description with a line per event handler and changed service. The transaction
// itself shows all.
func purpose(description string) string {
	const most = 3
	of, lines, _ := strings.Cut(description, "\n* ")
	all := strings.Split(lines, "\n* ")
	switch {
	case lines == "":
		return of
	case len(all) > most+1:
		all = append(all[:most], fmt.Sprintf("and %d more", len(all)-most))
	}
	return of + "; " + strings.Join(all, "; ")
}
