package ctl

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/agent/history"
	"github.com/contiv/contiv/kvscheduler"
)

// timeForms lists the forms of a time.
const timeForms = `"10:31:05", "2026-11-20 10:31:05", RFC 3339, "-5m" (five minutes ago) or "now"`

// momentHelp explains the forms of a moment.
const momentHelp = "A moment is a time, " + timeForms + ",\n" +
	`or the end of a transaction, "txn:12", or "txn:3.12" for transaction 12 of run 3.`

// parseTime parses a time. A time of day without a date is the most recent in the past; without a
// zone, it is local.
func parseTime(text string, now time.Time) (time.Time, error) {
	t, err := timeOf(text, now)
	return t, Misused(err)
}

func timeOf(text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, notFuture(text, t, now)
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d > 0 {
			return now, fmt.Errorf("%q is in the future: for the past, use %q", text, "-"+strings.TrimPrefix(text, "+"))
		}
		return now.Add(d), nil
	}
	for _, form := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return t, notFuture(text, t, now)
		}
	}
	// As tables show it.
	if t, err := time.ParseInLocation("01-02 15:04:05", text, now.Location()); err == nil {
		t = t.AddDate(now.Year(), 0, 0)
		if t.After(now) {
			t = t.AddDate(-1, 0, 0)
		}
		return t, nil
	}
	for _, form := range []string{"15:04:05", "15:04"} {
		if t, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			year, month, day := now.Date()
			t = time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location())
			if t.After(now) {
				t = t.AddDate(0, 0, -1)
			}
			return t, nil
		}
	}
	return now, fmt.Errorf("%q is not a time: use %s", text, timeForms)
}

func notFuture(text string, t, now time.Time) error {
	if t.After(now.Add(time.Minute)) { // clocks differ
		return fmt.Errorf("%s is in the future: the time is %s", text, now.Format("2006-01-02 15:04:05 MST"))
	}
	return nil
}

// moment is a time, or the end of a transaction, whose time depends on the agent.
type moment struct {
	text  string
	time  time.Time
	txn   seq
	isTxn bool
}

// parseMoment parses a moment; an empty text is a zero time.
func parseMoment(flag, text string, now time.Time) (m moment, err error) {
	m.text = text
	if text == "" {
		return m, nil
	}
	// Transactions are shown as "#12", but the shell takes that for a comment.
	word, named := strings.CutPrefix(text, "txn:")
	if !named {
		word, named = strings.CutPrefix(text, "#")
	}
	if named {
		m.isTxn = true
		if m.txn, err = parseSeq(word); err != nil {
			return m, Misused(fmt.Errorf("%s: %q is not a transaction: use its sequence number, such as txn:12", flag, text))
		}
		return m, nil
	}
	if m.time, err = parseTime(text, now); err != nil {
		err = fmt.Errorf("%s: %w", flag, err)
		if _, notNumber := strconv.ParseUint(text, 10, 64); notNumber == nil {
			err = Misused(fmt.Errorf("%s: %q is not a time: did you mean transaction %q?", flag, text, "txn:"+text))
		}
	}
	return m, err
}

// at returns the time of the moment for an agent.
func (m moment) at(ctx context.Context, a *Agent) (time.Time, error) {
	if !m.isTxn {
		return m.time, nil
	}
	txn, err := txnOf(ctx, a, m.txn)
	if err != nil {
		return time.Time{}, err
	}
	return txn.Stop, nil
}

const schedulerStats = "/scheduler/stats"

// noteStart prints a note if the agent started between the moment and now: values may differ
// because of that, or only seem to without history.
func (c *cli) noteStart(ctx context.Context, a *Agent, m moment) {
	var stats kvscheduler.Stats
	if m.isTxn || m.time.IsZero() || a.Get(ctx, schedulerStats, nil, &stats) != nil || !stats.Since.After(m.time) {
		return
	}
	known := "nothing is known of " + m.text
	var kept []history.Run
	if a.Get(ctx, history.RunsURL, nil, &kept) == nil && len(kept) > 0 && !kept[0].Start.After(m.time) {
		known = "differences may come from that"
	}
	fmt.Fprintf(c.errOut, "%s: %s: its agent was started at %s: %s\n", c.name, a.Name, stamp(stats.Since), known)
}

// setTime adds a non-zero time to a query in the scheduler's format.
func setTime(query url.Values, name string, t time.Time) {
	if !t.IsZero() {
		query.Set(name, t.Format(time.RFC3339Nano))
	}
}
