package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/history/journal"
	"github.com/contiv/contiv/kvscheduler/record"
	"google.golang.org/protobuf/proto"
)

// ErrNotRecorded: the journal does not reach back that far, or has no such record.
var ErrNotRecorded = errors.New("not in the history (any more)")

// maxRecords is how many records are returned at once.
const maxRecords = 10_000

// Reader reads the journal in a directory. It may be used while a Recorder writes there.
type Reader struct {
	fsys fs.FS
	// runs of full segments, by name: they never change.
	runs *sync.Map
}

// NewReader returns a Reader of a directory, which need not exist.
func NewReader(fsys fs.FS) Reader { return Reader{fsys, &sync.Map{}} }

// Event is an event with the run in which it happened.
type Event struct {
	Run   int
	Event *controller.EventRecord
}

// Txn is a transaction with the run in which it was made, and the events that led to it.
type Txn struct {
	Run    int
	Txn    *record.Txn
	Events []*controller.EventRecord `json:",omitempty"`
	// Operations and Failed are how many operations there were, in an outline, which has none.
	Operations int `json:",omitempty"`
	Failed     int `json:",omitempty"`
}

// Revision is what a value was in a run.
type Revision struct {
	Run      int
	Revision record.Revision
}

// Span is a part of a history: what overlaps a time, zero times being open ends, and of that the Last records;
// 0: all.
type Span struct {
	Since, Until time.Time
	Last         int
}

func (s Span) limit() int {
	if s.Last <= 0 || s.Last > maxRecords {
		return maxRecords
	}
	return s.Last
}

// segments returns the segments; none if nothing was ever recorded.
func (r Reader) segments() ([]journal.Segment, error) {
	segments, err := journal.Segments(r.fsys)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return segments, err
}

// Runs returns the runs that left anything, oldest first.
func (r Reader) Runs() ([]Run, error) {
	segments, err := r.segments()
	if err != nil {
		return nil, err
	}
	var runs []Run
	for i, s := range segments {
		within, err := r.runsWithin(s, i < len(segments)-1)
		if err != nil {
			return nil, err
		}
		for _, run := range within {
			n := len(runs)
			if n == 0 || runs[n-1].Run != run.Run {
				runs = append(runs, run)
				continue
			}
			run.Lost += runs[n-1].Lost
			if run.End.IsZero() {
				run.End = runs[n-1].End
			}
			runs[n-1] = run
		}
	}
	if n := len(runs); n > 0 && !runs[n-1].Ended {
		runs[n-1].End = time.Time{}
	}
	return runs, nil
}

// runsWithin returns the runs that a segment tells of; those of a full one are remembered.
func (r Reader) runsWithin(s journal.Segment, full bool) (runs []Run, err error) {
	if known, ok := r.runs.Load(s.Name()); ok && full {
		return known.([]Run), nil
	}
	err = s.Read(func(l journal.Line) bool {
		runs = noteRun(runs, l)
		return true
	})
	if err == nil && full {
		r.runs.Store(s.Name(), runs)
	}
	return runs, err
}

// noteRun adds the information of a line about runs.
func noteRun(runs []Run, l journal.Line) []Run {
	switch n := len(runs); {
	case l.Kind == runLine || l.Kind == headLine:
		var run Run
		if json.Unmarshal(l.Data, &run) == nil && (n == 0 || runs[n-1].Run != run.Run) {
			return append(runs, run)
		}
	case n == 0:
	case l.Kind == stopLine:
		runs[n-1].Ended, runs[n-1].End = true, l.Time
	case l.Kind == lossLine:
		var lost loss
		if json.Unmarshal(l.Data, &lost) == nil {
			runs[n-1].Lost += lost.Lost
		}
		runs[n-1].End = l.Time
	case l.Time.After(runs[n-1].End):
		runs[n-1].End = l.Time
	}
	return runs
}

// visit calls back with the lines of the given kinds between two times, with their runs, newest segment
// first, until enough reports so after a segment.
func (r Reader) visit(kinds string, s Span, enough func() bool, visit func(run int, l journal.Line)) error {
	segments, err := r.segments()
	if err != nil {
		return err
	}
	for _, segment := range slices.Backward(segments) {
		if !s.Until.IsZero() && segment.First.After(s.Until.Add(time.Minute)) { // of long transactions
			continue
		}
		run := 0
		if err := segment.Read(func(l journal.Line) bool {
			if l.Kind == runLine || l.Kind == headLine {
				run = runOf(l)
			}
			if strings.IndexByte(kinds, l.Kind) >= 0 && !l.Time.Before(s.Since) {
				visit(run, l)
			}
			return true
		}); err != nil {
			return err
		}
		if enough() || segment.First.Before(s.Since) {
			return nil
		}
	}
	return nil
}

func runOf(l journal.Line) int {
	var run struct{ Run int }
	_ = json.Unmarshal(l.Data, &run)
	return run.Run
}

// collect returns the last lines of a span, oldest first, decoded into records.
func collect[T any](r Reader, kind byte, s Span, decode func(run int, data []byte) (record T, begins time.Time, err error)) ([]T, error) {
	type raw struct {
		run  int
		data []byte
	}
	var lines, segment []raw
	err := r.visit(string(kind), s, func() bool {
		lines = append(segment, lines...)
		segment = nil
		return len(lines) >= s.limit()
	}, func(run int, l journal.Line) {
		if !s.Until.IsZero() {
			if _, begins, err := decode(run, l.Data); err != nil || begins.After(s.Until) {
				return
			}
		}
		if segment = append(segment, raw{run, bytes.Clone(l.Data)}); len(segment) > 2*s.limit() {
			segment = slices.Clone(segment[len(segment)-s.limit():])
		}
	})
	lines = append(segment, lines...)
	records := []T{}
	for _, l := range lines[max(0, len(lines)-s.limit()):] {
		if record, _, err := decode(l.run, l.data); err == nil {
			records = append(records, record)
		}
	}
	return records, err
}

// Events returns the events of a span, oldest first, 10 000 at most.
func (r Reader) Events(s Span) ([]Event, error) {
	return collect(r, eventLine, s, func(run int, data []byte) (Event, time.Time, error) {
		e := Event{Run: run}
		err := json.Unmarshal(data, &e.Event)
		if err == nil && e.Event == nil {
			err = ErrNotRecorded
		}
		if err != nil {
			return e, time.Time{}, err
		}
		return e, e.Event.ProcessingStart, nil
	})
}

// Txns returns the transactions of a span, oldest first, 10 000 at most.
func (r Reader) Txns(s Span) ([]Txn, error) {
	txns, err := collect(r, txnLine, s, func(run int, data []byte) (Txn, time.Time, error) {
		t := Txn{Run: run, Txn: &record.Txn{}}
		err := json.Unmarshal(data, t.Txn)
		return t, t.Txn.Start, err
	})
	if err != nil || len(txns) == 0 {
		return txns, err
	}
	return txns, r.addCauses(txns)
}

// Outlines returns what Txns does, without values and operations.
func (r Reader) Outlines(s Span) ([]Txn, error) {
	txns, err := collect(r, txnLine, s, func(run int, data []byte) (Txn, time.Time, error) {
		var o record.Outline
		err := json.Unmarshal(data, &o)
		return Txn{Run: run, Txn: &o.Txn, Operations: o.Operations, Failed: o.Failed}, o.Start, err
	})
	if err != nil || len(txns) == 0 {
		return txns, err
	}
	return txns, r.addCauses(txns)
}

// addCauses adds the events that led to transactions.
func (r Reader) addCauses(txns []Txn) error {
	type id struct {
		run int
		seq uint64
	}
	byID := make(map[id]*Txn)
	for i := range txns {
		byID[id{txns[i].Run, txns[i].Txn.SeqNum}] = &txns[i]
	}
	s := Span{Since: txns[0].Txn.Start, Until: txns[len(txns)-1].Txn.Stop}
	return r.visit(string(eventLine), s, func() bool { return false }, func(run int, l journal.Line) {
		var e controller.EventRecord
		if json.Unmarshal(l.Data, &e) != nil || e.Txn == nil {
			return
		}
		if t := byID[id{run, e.Txn.SeqNum}]; t != nil {
			t.Events = append(t.Events, &e)
		}
	})
}

// orLast returns the number of the last run in place of 0.
func (r Reader) orLast(run int) int {
	if run != 0 {
		return run
	}
	return r.lastRun()
}

// lastRun returns the number of the last run; 0 if there was none. Each segment begins with its run.
func (r Reader) lastRun() int {
	segments, err := r.segments()
	if err != nil {
		return 0
	}
	for _, s := range slices.Backward(segments) {
		if runs, err := r.runsWithin(s, false); err == nil && len(runs) > 0 {
			return runs[len(runs)-1].Run
		}
	}
	return 0
}

// Event returns an event of a run, 0 being the last one; ErrNotRecorded.
func (r Reader) Event(run int, seq uint64) (e Event, err error) {
	run = r.orLast(run)
	found := false
	err = r.visit(string(eventLine), Span{}, func() bool { return found }, func(of int, l journal.Line) {
		var record controller.EventRecord
		if of == run && json.Unmarshal(l.Data, &record) == nil && record.SeqNum == seq {
			e, found = Event{run, &record}, true
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("event #%d of run %d is %w", seq, run, ErrNotRecorded)
	}
	return e, err
}

// Txn returns a transaction of a run, 0 being the last one; ErrNotRecorded.
func (r Reader) Txn(run int, seq uint64) (t Txn, err error) {
	run = r.orLast(run)
	found := false
	prefix := fmt.Appendf(nil, `{"SeqNum":%d,`, seq)
	err = r.visit(string(txnLine), Span{}, func() bool { return found }, func(of int, l journal.Line) {
		var txn record.Txn
		if of == run && bytes.HasPrefix(l.Data, prefix) && json.Unmarshal(l.Data, &txn) == nil {
			t, found = Txn{Run: run, Txn: &txn}, true
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("transaction #%d of run %d is %w", seq, run, ErrNotRecorded)
	}
	if err != nil {
		return t, err
	}
	one := []Txn{t}
	err = r.addCauses(one)
	return one[0], err
}

// Timeline returns what a value was, oldest first. A new run starts from nothing: the last revision
// of the run before ends with it.
func (r Reader) Timeline(key string, since time.Time) ([]Revision, error) {
	byKey, err := r.Timelines([]string{key}, since)
	if err != nil {
		return nil, err
	}
	return byKey[key], nil
}

// Timelines returns what Timeline does of each of several keys; what is read is read once.
func (r Reader) Timelines(keys []string, since time.Time) (map[string][]Revision, error) {
	byKey := make(map[string][]Revision, len(keys))
	for _, key := range keys {
		byKey[key] = []Revision{}
	}
	within := map[string][]Revision{} // the segment
	err := r.visit(string(changeLine), Span{Since: since}, func() bool {
		for key, revisions := range within {
			byKey[key] = append(revisions, byKey[key]...)
		}
		within = map[string][]Revision{}
		return false
	}, func(run int, l journal.Line) {
		key, ok := keyOf(l.Data)
		if ok && byKey[key] == nil {
			return
		}
		var c change
		if json.Unmarshal(l.Data, &c) == nil && byKey[c.Key] != nil && !c.Silent {
			within[c.Key] = append(within[c.Key], Revision{run, record.Revision{Txn: c.Txn, Since: l.Time, Value: c.Value}})
		}
	})
	for _, revisions := range byKey {
		for i := range revisions[:max(0, len(revisions)-1)] {
			revisions[i].Revision.Until = revisions[i+1].Revision.Since
		}
	}
	return byKey, err
}

// keyOf returns the key of a change without decoding the rest; not ok: it is not found so easily.
func keyOf(data []byte) (key string, ok bool) {
	_, after, found := bytes.Cut(data, []byte(`,"Key":"`))
	end := bytes.IndexAny(after, `"\\`)
	if !found || end < 0 || after[end] != '"' {
		return "", false
	}
	return string(after[:end]), true
}

// Keys returns the keys of all values that changed since a time, sorted.
func (r Reader) Keys(since time.Time) ([]string, error) {
	keys := map[string]bool{}
	err := r.visit(string([]byte{changeLine, valueLine}), Span{Since: since}, func() bool { return false }, func(_ int, l journal.Line) {
		var c struct{ Key string }
		if json.Unmarshal(l.Data, &c) == nil {
			keys[c.Key] = true
		}
	})
	return slices.Sorted(maps.Keys(keys)), err
}

// ValuesAt returns the values that there were at a time, by key, and in which run.
func (r Reader) ValuesAt(at time.Time) (map[string]*record.Value, int, error) {
	segments, err := r.segments()
	if err != nil {
		return nil, 0, err
	}
	i := len(segments) - 1
	for i >= 0 && segments[i].First.After(at) {
		i--
	}
	if i < 0 {
		since := ""
		if len(segments) > 0 {
			since = ", which begins at " + segments[0].First.Format(time.RFC3339)
		}
		return nil, 0, fmt.Errorf("%s is %w%s", at.Format(time.RFC3339), ErrNotRecorded, since)
	}
	values, run := map[string]json.RawMessage{}, 0
	err = segments[i].Read(func(l journal.Line) bool {
		if l.Time.After(at) && l.Kind != eventLine { // events may end later than what follows them
			return false
		}
		switch l.Kind {
		case runLine:
			clear(values)
			run = runOf(l)
		case headLine:
			run = runOf(l)
		case checkpointLine:
			clear(values)
		case valueLine:
			var v struct{ Key string }
			if json.Unmarshal(l.Data, &v) == nil {
				values[v.Key] = bytes.Clone(l.Data)
			}
		case changeLine:
			var c struct {
				Key   string
				Value json.RawMessage
			}
			if json.Unmarshal(l.Data, &c) != nil {
				break
			}
			if c.Value == nil {
				delete(values, c.Key)
			} else {
				values[c.Key] = c.Value
			}
		}
		return true
	})
	if err != nil {
		return nil, 0, err
	}
	decoded := make(map[string]*record.Value, len(values))
	for key, data := range values {
		var v record.Value
		if err := json.Unmarshal(data, &v); err == nil {
			decoded[key] = &v
		}
	}
	return decoded, run, nil
}

// Diff returns the values that differ between two moments, sorted by key; also those of different runs.
func (r Reader) Diff(from, to time.Time) ([]record.Diff, error) {
	a, _, err := r.ValuesAt(from)
	if err != nil {
		return nil, err
	}
	b, _, err := r.ValuesAt(to)
	if err != nil {
		return nil, err
	}
	diffs := []record.Diff{}
	for key, old := range a {
		if now := b[key]; now == nil || !same(old, now) {
			diffs = append(diffs, record.Diff{Key: key, From: old, To: now})
		}
	}
	for key, now := range b {
		if a[key] == nil {
			diffs = append(diffs, record.Diff{Key: key, To: now})
		}
	}
	slices.SortFunc(diffs, func(a, b record.Diff) int { return strings.Compare(a.Key, b.Key) })
	return diffs, nil
}

// same reports whether people see no difference. What exists of a value that is wanted is read back in another form
// than the one that it was made in.
func same(a, b *record.Value) bool {
	return a.State == b.State && a.Error == b.Error && equal(a.Want, b.Want) &&
		(a.Have == nil) == (b.Have == nil) && (a.Want != nil || equal(a.Have, b.Have))
}

func equal(a, b proto.Message) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	x, known := a.(*record.RawValue)
	y, too := b.(*record.RawValue)
	if known && too {
		return x.JSON == y.JSON
	}
	return known == too && proto.Equal(a, b)
}
