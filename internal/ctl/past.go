package ctl

import (
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

	"github.com/contiv/contiv/internal/agent/history"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
)

// Agents with a history on disk also report the time before their start; others only their memory.
// Each start begins a run, with sequence numbers from 1. Numbers of earlier runs are written
// "3.17".

// errSeq returns an error that shows the form of a sequence number.
func errSeq(word string) error {
	return Misused(fmt.Errorf("%q is not a sequence number, such as 17, or 3.17 in run 3", word))
}

// seq is a sequence number of a run; run is 0 for the current one.
type seq struct {
	run    int
	number uint64
}

func parseSeq(word string) (s seq, err error) {
	number := word
	if run, rest, ok := strings.Cut(word, "."); ok {
		number = rest
		if s.run, err = strconv.Atoi(run); err != nil || s.run < 1 {
			return s, errSeq(word)
		}
	}
	if s.number, err = strconv.ParseUint(number, 10, 64); err != nil {
		return s, errSeq(word)
	}
	return s, nil
}

// before reports whether a number is certainly earlier than another; run 0 is the last one.
func (s seq) before(other seq) bool {
	switch {
	case s.run == other.run:
		return s.number < other.number
	case s.run == 0:
		return false
	}
	return other.run == 0 || s.run < other.run
}

func (s seq) String() string {
	if s.run == 0 {
		return strconv.FormatUint(s.number, 10)
	}
	return fmt.Sprintf("%d.%d", s.run, s.number)
}

func (s seq) query() url.Values {
	query := number("seq-num", s.number)
	query.Set("run", strconv.Itoa(s.run))
	return query
}

// runs lists the runs that an agent remembers, the current one last.
type runs []history.Run

// earlier returns the number of an earlier run, 0 for the current one.
func (r runs) earlier(run int) int {
	if len(r) == 0 || run == r[len(r)-1].Run {
		return 0
	}
	return run
}

// seq formats a sequence number.
func (r runs) seq(run int, number uint64) string {
	return seq{r.earlier(run), number}.String()
}

// started describes a run's start and how the run before ended; "" if unknown.
func (r runs) started(run int) (at time.Time, text string) {
	i := slices.IndexFunc(r, func(other history.Run) bool { return other.Run == run })
	if i < 0 {
		return at, ""
	}
	text = fmt.Sprintf("--- agent %s started, run %d", r[i].Version, run)
	if i > 0 {
		before := r[i-1]
		how := "was killed or crashed"
		if before.Ended {
			how = "was stopped"
		}
		if !before.End.IsZero() {
			how += " after " + stamp(before.End)
		}
		text += fmt.Sprintf("; run %d %s", before.Run, how)
		if before.Lost > 0 {
			text += fmt.Sprintf(", %s of it lost", count(before.Lost, "record"))
		}
	}
	return r[i].Start, text + " ---"
}

// current returns the number of the current run, and whether its history lacks records that could
// not be written but may be in memory.
func (r runs) current() (run int, lacking bool) {
	if len(r) == 0 || r[len(r)-1].Lost == 0 {
		return 0, false
	}
	return r[len(r)-1].Run, true
}

// withRemembered merges the agent's memory of the current run into its history, by number, and
// returns the last records of both; all for 0.
func withRemembered[T any](kept, remembered []T, number func(T) seq, last int) []T {
	have := make(map[seq]bool)
	for _, one := range kept {
		have[number(one)] = true
	}
	for _, one := range remembered {
		if !have[number(one)] {
			kept = append(kept, one)
		}
	}
	slices.SortStableFunc(kept, func(a, b T) int {
		return cmp.Or(cmp.Compare(number(a).run, number(b).run), cmp.Compare(number(a).number, number(b).number))
	})
	if last > 0 && last < len(kept) {
		kept = kept[len(kept)-last:]
	}
	return kept
}

// unkept reports whether an agent keeps no history, by configuration or age.
func unkept(err error) bool {
	var answered *target.StatusError
	return errors.Is(err, target.ErrNotServed) || errors.As(err, &answered) && answered.Status >= 500
}

// eventList is a part of an agent's history. In JSON, it is a list.
type eventList struct {
	runs   runs
	events []runEvent
}

// runEvent is an event with its run, 0 if unknown.
type runEvent struct {
	Run int `json:",omitempty"`
	*controller.EventRecord
}

// MarshalJSON writes the events.
func (l eventList) MarshalJSON() ([]byte, error) { return json.Marshal(l.events) }

// eventsOf returns a part of the agent's history; zero times are open ends.
func eventsOf(ctx context.Context, a *Agent, since, until time.Time, s span) (eventList, error) {
	list := eventList{events: []runEvent{}}
	var kept history.Events
	err := a.Get(ctx, history.EventsURL, s.between(since, until), &kept)
	if err == nil {
		list.runs = kept.Runs
		for _, e := range kept.Events {
			list.events = append(list.events, runEvent{e.Run, e.Event})
		}
	}
	run, lacking := list.runs.current()
	if err != nil && !unkept(err) || err == nil && !lacking {
		return list, err
	}
	events, err := rememberedEvents(ctx, a, since, until, s)
	var remembered []runEvent
	for _, e := range events {
		remembered = append(remembered, runEvent{run, e})
	}
	list.events = withRemembered(list.events, remembered, func(e runEvent) seq { return seq{e.Run, e.SeqNum} }, int(s.last))
	return list, err
}

// between queries the records between two times, or the last ones if both are zero.
func (s span) between(since, until time.Time) url.Values {
	query := s.query()
	setTime(query, "since", since)
	setTime(query, "until", until)
	return query
}

// eventOf returns one event.
func eventOf(ctx context.Context, a *Agent, s seq) (e *controller.EventRecord, err error) {
	if s.run == 0 {
		if err = a.Get(ctx, eventHistory, number("seq-num", s.number), &e); !target.IsNotFound(err) {
			return e, err
		}
	}
	var kept history.Event
	if keptErr := a.Get(ctx, history.EventURL, s.query(), &kept); keptErr != nil {
		return nil, cmp.Or(err, keptErr)
	}
	return kept.Event, nil
}

// txnList is a part of an agent's history. In JSON, it is a list.
type txnList struct {
	runs runs
	txns []causedTxn
}

// MarshalJSON writes the transactions.
func (l txnList) MarshalJSON() ([]byte, error) { return json.Marshal(l.txns) }

// txnsOf returns a part of the agent's history. An outline has no operations, and only the values
// of notifications; older agents send them nevertheless.
func txnsOf(ctx context.Context, a *Agent, since, until time.Time, s span, outline bool) (txnList, error) {
	list := txnList{txns: []causedTxn{}}
	query := s.between(since, until)
	if outline {
		query.Set("outline", "true")
	}
	var kept history.Txns
	err := a.Get(ctx, history.TxnsURL, query, &kept)
	if err == nil {
		list.runs = kept.Runs
		for _, t := range kept.Txns {
			txn := caused(t.Txn, t.Events, t.Run)
			txn.operations, txn.failed = max(txn.operations, t.Operations), max(txn.failed, t.Failed)
			list.txns = append(list.txns, txn)
		}
	}
	run, lacking := list.runs.current()
	if err != nil && !unkept(err) || err == nil && !lacking {
		return list, err
	}
	var txns []*kvscheduler.RecordedTxn
	query.Del("outline")
	if err := a.Get(ctx, txnHistory, query, &txns); err != nil {
		return list, err
	}
	remembered := causes(ctx, a, txns)
	for i := range remembered {
		remembered[i].run = run
	}
	list.txns = withRemembered(list.txns, remembered, func(t causedTxn) seq { return seq{t.run, t.SeqNum} }, int(s.last))
	return list, nil
}

// txnOf returns one transaction.
func txnOf(ctx context.Context, a *Agent, s seq) (t causedTxn, err error) {
	if s.run == 0 {
		var txn kvscheduler.RecordedTxn
		if err = a.Get(ctx, txnHistory, number("seq-num", s.number), &txn); err == nil {
			return causes(ctx, a, []*kvscheduler.RecordedTxn{&txn})[0], nil
		}
		if !target.IsNotFound(err) {
			return t, err
		}
	}
	var kept history.Txn
	if keptErr := a.Get(ctx, history.TxnURL, s.query(), &kept); keptErr != nil {
		return t, cmp.Or(err, keptErr)
	}
	return caused(kept.Txn, kept.Events, kept.Run), nil
}

// timeline holds the revisions of a value. In JSON, it is a list.
type timeline struct {
	runs      runs
	revisions []runRevision
}

// runRevision is a revision with its run, 0 if unknown.
type runRevision struct {
	Run int `json:",omitempty"`
	// Reason of the transaction; empty if unknown.
	Reason string `json:",omitempty"`
	kvscheduler.Revision
}

// MarshalJSON writes the revisions.
func (t timeline) MarshalJSON() ([]byte, error) { return json.Marshal(t.revisions) }

// timelineOf returns a function that asks an agent for a value's revisions since a time.
func timelineOf(since time.Time) func(context.Context, *Agent, string) (timeline, error) {
	return func(ctx context.Context, a *Agent, key string) (timeline, error) {
		lines, err := timelinesBy(ctx, a, []string{key}, since)
		return lines[key], err
	}
}

// timelinesBy returns the revisions of values since a time, by key, from the agent's history or
// else its memory; from both for a run with an incomplete history.
func timelinesBy(ctx context.Context, a *Agent, keys []string, since time.Time) (map[string]timeline, error) {
	lines := make(map[string]timeline)
	query := url.Values{"key": keys}
	setTime(query, "since", since)
	var kept history.Timelines
	err := a.Get(ctx, history.TimelinesURL, query, &kept)
	if err != nil && !unkept(err) {
		return nil, err
	}
	run, lacking := runs(kept.Runs).current()
	for _, key := range keys {
		line := timeline{runs: kept.Runs, revisions: []runRevision{}}
		for _, r := range kept.ByKey[key] {
			line.revisions = append(line.revisions, runRevision{Run: r.Run, Revision: r.Revision})
		}
		if err != nil || lacking {
			revisions, err := byKey[[]kvscheduler.Revision](keyTimeline)(ctx, a, key)
			if err != nil {
				return nil, err
			}
			line.remember(run, revisions, since)
		}
		lines[key] = line
	}
	return lines, nil
}

// remember adds an agent's remembered revisions of a run. They replace the history's from the first
// of them on, because the history may lack their ends.
func (t *timeline) remember(run int, revisions []kvscheduler.Revision, since time.Time) {
	if len(revisions) > 0 {
		t.revisions = slices.DeleteFunc(t.revisions, func(r runRevision) bool { return r.Run == run && !r.Since.Before(revisions[0].Since) })
	}
	for _, r := range revisions {
		if r.Until.IsZero() || r.Until.After(since) {
			t.revisions = append(t.revisions, runRevision{Run: run, Revision: r})
		}
	}
}

// maxReasons is the number of transactions, the last ones, whose reasons are requested.
const maxReasons = 30

// reasonsOf returns the reasons of transactions, if the agent remembers them.
func reasonsOf(ctx context.Context, a *Agent, txns []seq) map[seq]string {
	reasons := make(map[seq]string)
	for _, one := range txns[max(0, len(txns)-maxReasons):] {
		if _, known := reasons[one]; known {
			continue
		}
		if txn, err := txnOf(ctx, a, one); err == nil {
			reasons[one] = reasonText(txn)
		}
	}
	return reasons
}

// reasonText returns the reason of a transaction: its event or its description. If several events
// share it, the record does not tell which one changed a value, but only events that changed
// something count.
func reasonText(t causedTxn) string {
	text := txnText(t.RecordedTxn)
	events := slices.DeleteFunc(slices.Clone(t.events), func(e *controller.EventRecord) bool {
		return !slices.ContainsFunc(e.Handlers, func(h controller.HandlerRecord) bool { return h.Change != "" })
	})
	if len(events) == 0 {
		events = t.events
	}
	more := ""
	switch len(events) {
	case 0:
	case 1:
	case 2:
		more = fmt.Sprintf(", or event %d", events[1].SeqNum)
	default:
		more = fmt.Sprintf(", or one of the %d events after it until %d", len(events)-1, events[len(events)-1].SeqNum)
	}
	if len(events) > 0 {
		text = "event " + seq{t.run, events[0].SeqNum}.String() + ", " + eventText(events[0])
	}
	text, _, _ = strings.Cut(text, "\n")
	return text + more
}

// explain adds their reasons to revisions.
func (t *timeline) explain(ctx context.Context, a *Agent) {
	revisions := make([]*runRevision, len(t.revisions))
	for i := range t.revisions {
		revisions[i] = &t.revisions[i]
	}
	t.runs.explain(ctx, a, revisions)
}

// explain adds reasons to the revisions in several runs of an agent.
func (r runs) explain(ctx context.Context, a *Agent, revisions []*runRevision) {
	txns := make([]seq, len(revisions))
	for i, revision := range revisions {
		txns[i] = seq{r.earlier(revision.Run), revision.Txn}
	}
	reasons := reasonsOf(ctx, a, txns)
	for i, revision := range revisions {
		revision.Reason = reasons[txns[i]]
	}
}

// diffOf returns the differences between two moments.
func diffOf(ctx context.Context, a *Agent, from, to moment) (diffs record.Diffs, err error) {
	query := url.Values{}
	for name, m := range map[string]moment{"from": from, "to": to} {
		t, err := m.at(ctx, a)
		if err != nil {
			return nil, err
		}
		setTime(query, name, t)
	}
	if begin, err := from.at(ctx, a); err == nil && beforeStart(ctx, a, begin) {
		if err := a.Get(ctx, history.DiffURL, query, &diffs); err == nil || !unkept(err) && !target.IsNotFound(err) {
			return diffs, err
		}
	}
	diffs = nil
	err = a.Get(ctx, valueDiff, query, &diffs)
	return diffs, err
}

// beforeStart reports whether a time is before the agent's start.
func beforeStart(ctx context.Context, a *Agent, t time.Time) bool {
	var stats kvscheduler.Stats
	return !t.IsZero() && a.Get(ctx, schedulerStats, nil, &stats) == nil && t.Before(stats.Since)
}
