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

	"github.com/contiv/contiv/internal/agent/history/journal"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/lib/jsontext"
	"github.com/contiv/contiv/kvscheduler/record"
	"google.golang.org/protobuf/proto"
)

// ErrNotRecorded is returned if the journal does not contain the requested record or time.
var ErrNotRecorded = errors.New("not in the history")

// maxRecords bounds the number of records in a result.
const maxRecords = 10_000

// Reader reads the journal in a directory, even while a Recorder writes it.
type Reader struct {
	fsys fs.FS
	// runs caches the runs of full segments, which never change, by name.
	runs *sync.Map
}

// NewReader returns a Reader of a directory, which need not exist.
func NewReader(fsys fs.FS) Reader { return Reader{fsys, &sync.Map{}} }

// Event is an event with its run.
type Event struct {
	Run   int
	Event *controller.EventRecord
}

// Txn is a transaction with its run and the events that caused it.
type Txn struct {
	Run    int
	Txn    *record.Txn
	Events []*controller.EventRecord `json:",omitempty"`
	// Operations and Failed count the operations of an outline, which omits the operations
	// themselves.
	Operations int `json:",omitempty"`
	Failed     int `json:",omitempty"`
}

// Revision is a revision of a value with its run.
type Revision struct {
	Run      int
	Revision record.Revision
}

// Span selects the records that overlap a time range, and the Last of them. A zero time is an open
// end. A zero Last selects all.
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

// segments returns the segments, none if nothing has been recorded.
func (r Reader) segments() ([]journal.Segment, error) {
	segments, err := journal.Segments(r.fsys)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return segments, err
}

// Runs returns the runs in the journal, oldest first.
func (r Reader) Runs() ([]Run, error) {
	segments, err := r.segments()
	if err != nil {
		return nil, err
	}
	r.forget(segments)
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

// runsWithin returns the runs in a segment. It caches the runs of full segments.
func (r Reader) runsWithin(s journal.Segment, full bool) (runs []Run, err error) {
	if known, ok := r.runs.Load(s.Name()); ok && full {
		return known.([]Run), nil
	}
	read := func(kinds string) error {
		runs = nil
		return s.ReadOnly(kinds, func(l journal.Line) bool {
			runs = noteRun(runs, l)
			return true
		})
	}
	if !full { // a later line may change the last run
		err = read(runKinds)
		if crashed := func(r Run) bool { return !r.Ended }; err != nil || len(runs) == 0 || !slices.ContainsFunc(runs[:len(runs)-1], crashed) {
			return runs, err
		}
	}
	if err = read(""); err == nil && full {
		r.runs.Store(s.Name(), runs)
	}
	return runs, err
}

// runKinds lists the kinds of lines about runs.
var runKinds = string([]byte{runLine, headLine, stopLine, lossLine})

// forget removes deleted segments from the cache.
func (r Reader) forget(segments []journal.Segment) {
	r.runs.Range(func(name, _ any) bool {
		if !slices.ContainsFunc(segments, func(s journal.Segment) bool { return s.Name() == name }) {
			r.runs.Delete(name)
		}
		return true
	})
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

// visit calls visit for the lines of the given kinds within a span, newest segment first, until
// enough returns true after a segment.
func (r Reader) visit(kinds string, s Span, enough func() bool, visit func(run int, l journal.Line)) error {
	segments, err := r.segments()
	if err != nil {
		return err
	}
	for _, segment := range slices.Backward(segments) {
		if !s.Until.IsZero() && segment.First.After(s.Until.Add(time.Minute)) { // transactions may take long
			continue
		}
		run := 0
		if err := segment.ReadOnly(kinds+string([]byte{runLine, headLine}), func(l journal.Line) bool {
			if l.Kind == runLine || l.Kind == headLine {
				run = runOf(l)
			} else if !l.Time.Before(s.Since) {
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

// collect returns the last records of a span, oldest first. visitOther, if not nil, receives the
// lines of otherKinds in the same segments.
func collect[T any](r Reader, kind byte, s Span, decode func(run int, data []byte) (record T, begins time.Time, err error),
	otherKinds string, visitOther func(run int, l journal.Line)) ([]T, error) {
	type line struct {
		run    int
		data   []byte // nil: decoded
		record T
	}
	var lines, segment []line
	err := r.visit(string(kind)+otherKinds, s, func() bool {
		lines = append(segment, lines...)
		segment = nil
		return len(lines) >= s.limit()
	}, func(run int, l journal.Line) {
		if l.Kind != kind {
			visitOther(run, l)
			return
		}
		found := line{run: run}
		if s.Until.IsZero() && s.Last > 0 { // it may not be among the last ones
			found.data = bytes.Clone(l.Data)
		} else {
			record, begins, err := decode(run, l.Data)
			if err != nil || !s.Until.IsZero() && begins.After(s.Until) {
				return
			}
			found.record = record
		}
		if segment = append(segment, found); len(segment) > 2*s.limit() {
			segment = slices.Clone(segment[len(segment)-s.limit():])
		}
	})
	lines = append(segment, lines...)
	records := []T{}
	for _, l := range lines[max(0, len(lines)-s.limit()):] {
		if l.data != nil {
			var err error
			if l.record, _, err = decode(l.run, l.data); err != nil {
				continue
			}
		}
		records = append(records, l.record)
	}
	return records, err
}

// Events returns the events of a span, oldest first, at most 10 000.
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
	}, "", nil)
}

// Txns returns the transactions of a span, oldest first, at most 10 000.
func (r Reader) Txns(s Span) ([]Txn, error) {
	return r.txns(s, func(data []byte) (t Txn, err error) {
		t.Txn = &record.Txn{}
		err = t.Txn.UnmarshalJSON(data)
		return t, err
	})
}

// Outlines returns the same as Txns, without values and operations.
func (r Reader) Outlines(s Span) ([]Txn, error) {
	return r.txns(s, func(data []byte) (Txn, error) {
		var o record.Outline
		err := o.UnmarshalJSON(data)
		return Txn{Txn: &o.Txn, Operations: o.Operations, Failed: o.Failed}, err
	})
}

// txns returns transactions with the events that caused them. Events end later, so their lines are
// in the same segments or in newer ones.
func (r Reader) txns(s Span, decode func(data []byte) (Txn, error)) ([]Txn, error) {
	events := map[id][][]byte{}
	txns, err := collect(r, txnLine, s, func(run int, data []byte) (Txn, time.Time, error) {
		t, err := decode(data)
		if err != nil {
			return t, time.Time{}, err
		}
		t.Run = run
		return t, t.Txn.Start, nil
	}, string(eventLine), func(run int, l journal.Line) {
		if seq, ok := txnOfEvent(l.Data); ok {
			of := id{run, seq}
			events[of] = append(events[of], bytes.Clone(l.Data))
		}
	})
	for i, t := range txns {
		for _, data := range events[id{t.Run, t.Txn.SeqNum}] {
			var e controller.EventRecord
			if json.Unmarshal(data, &e) == nil {
				txns[i].Events = append(txns[i].Events, &e)
			}
		}
	}
	return txns, err
}

// id identifies a transaction.
type id struct {
	run int
	seq uint64
}

// txnOfEvent decodes only the number of the transaction that an event caused.
func txnOfEvent(data []byte) (seq uint64, ok bool) {
	r := jsontext.NewReader(data)
	r.Object(func(name []byte) {
		if string(name) != "Txn" || r.Null() {
			r.Skip()
			return
		}
		ok = true
		r.Object(func(name []byte) {
			if string(name) == "SeqNum" {
				seq = r.Uint()
			} else {
				r.Skip()
			}
		})
	})
	return seq, ok && r.End() == nil
}

// addCauses adds the events that caused a transaction.
func (r Reader) addCauses(t *Txn) error {
	s := Span{Since: t.Txn.Start, Until: t.Txn.Stop}
	return r.visit(string(eventLine), s, func() bool { return false }, func(run int, l journal.Line) {
		var e controller.EventRecord
		if seq, ok := txnOfEvent(l.Data); ok && run == t.Run && seq == t.Txn.SeqNum && json.Unmarshal(l.Data, &e) == nil {
			t.Events = append(t.Events, &e)
		}
	})
}

// orLast returns run, or the number of the last run if run is 0.
func (r Reader) orLast(run int) int {
	if run != 0 {
		return run
	}
	return r.lastRun()
}

// lastRun returns the number of the last run, 0 if there was none. Each segment begins with its
// run.
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

// Event returns an event of a run; run 0 is the last one. It returns ErrNotRecorded if the event is
// missing.
func (r Reader) Event(run int, seq uint64) (e Event, err error) {
	run = r.orLast(run)
	found := false
	prefix := fmt.Appendf(nil, `{"SeqNum":%d,`, seq)
	err = r.visit(string(eventLine), Span{}, func() bool { return found }, func(of int, l journal.Line) {
		var record controller.EventRecord
		if of == run && bytes.HasPrefix(l.Data, prefix) && json.Unmarshal(l.Data, &record) == nil {
			e, found = Event{run, &record}, true
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("event #%d of run %d is %w", seq, run, ErrNotRecorded)
	}
	return e, err
}

// Txn returns a transaction of a run; run 0 is the last one. It returns ErrNotRecorded if the
// transaction is missing.
func (r Reader) Txn(run int, seq uint64) (t Txn, err error) {
	run = r.orLast(run)
	found := false
	prefix := fmt.Appendf(nil, `{"SeqNum":%d,`, seq)
	err = r.visit(string(txnLine), Span{}, func() bool { return found }, func(of int, l journal.Line) {
		var txn record.Txn
		if of == run && bytes.HasPrefix(l.Data, prefix) && txn.UnmarshalJSON(l.Data) == nil {
			t, found = Txn{Run: run, Txn: &txn}, true
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("transaction #%d of run %d is %w", seq, run, ErrNotRecorded)
	}
	if err != nil {
		return t, err
	}
	err = r.addCauses(&t)
	return t, err
}

// Timeline returns the revisions of a value, oldest first. A run starts without values, so it ends
// the last revision of the previous run.
func (r Reader) Timeline(key string, since time.Time) ([]Revision, error) {
	byKey, err := r.Timelines([]string{key}, since)
	if err != nil {
		return nil, err
	}
	return byKey[key], nil
}

// Timelines returns the timelines of several keys in one pass.
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
		if ok && byKey[string(key)] == nil {
			return
		}
		c, err := readChange(l.Data)
		if err == nil && byKey[c.Key] != nil && !c.Silent {
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

// readChange decodes the line of a change.
func readChange(data []byte) (c change, err error) {
	var value []byte
	r := jsontext.NewReader(data)
	r.Object(func(name []byte) {
		switch string(name) {
		case "Txn":
			c.Txn = r.Uint()
		case "Key":
			c.Key = r.String()
		case "Value":
			value = r.Raw()
		case "Silent":
			c.Silent = r.Bool()
		default:
			r.Skip()
		}
	})
	if err := r.End(); err != nil || value == nil || string(value) == "null" {
		return c, err
	}
	c.Value = &record.Value{}
	return c, c.Value.UnmarshalJSON(value)
}

// keyOf extracts the key of a change or value without decoding the rest. ok is false if the line
// must be decoded.
func keyOf(data []byte) (key []byte, ok bool) {
	const name, within = `"Key":"`, 48 // only a number precedes it
	begin := bytes.Index(data[:min(len(data), within)], []byte(name))
	if begin < 0 {
		return nil, false
	}
	key = data[begin+len(name):]
	end := bytes.IndexAny(key, `"\\`)
	if end < 0 || key[end] != '"' {
		return nil, false
	}
	return key[:end], true
}

// Keys returns the sorted keys of all values that changed since a time.
func (r Reader) Keys(since time.Time) ([]string, error) {
	keys := map[string]bool{}
	err := r.visit(string([]byte{changeLine, valueLine}), Span{Since: since}, func() bool { return false }, func(_ int, l journal.Line) {
		if key, ok := keyOf(l.Data); ok && keys[string(key)] {
			return
		}
		var c struct{ Key string }
		if json.Unmarshal(l.Data, &c) == nil {
			keys[c.Key] = true
		}
	})
	return slices.Sorted(maps.Keys(keys)), err
}

// ValuesAt returns the values at a time, by key, and the run of that time.
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
		if l.Time.After(at) && l.Kind != eventLine { // events may end later than the lines after them
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
			if key, _ := keyAndValue(l.Data); key != "" {
				values[key] = bytes.Clone(l.Data)
			}
		case changeLine:
			key, value := keyAndValue(l.Data)
			if value == nil {
				delete(values, key)
			} else {
				values[key] = bytes.Clone(value)
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
		if err := v.UnmarshalJSON(data); err == nil {
			decoded[key] = &v
		}
	}
	return decoded, run, nil
}

// keyAndValue decodes the line of a change or value. It returns zero values for a damaged line.
func keyAndValue(data []byte) (key string, value []byte) {
	r := jsontext.NewReader(data)
	r.Object(func(name []byte) {
		switch string(name) {
		case "Key":
			key = r.String()
		case "Value":
			value = r.Raw()
		default:
			r.Skip()
		}
	})
	if r.End() != nil {
		return "", nil
	}
	return key, value
}

// Diff returns the values that differ between two times, sorted by key. The times may belong to
// different runs.
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

// same reports whether two values look the same to a user. The actual value of a wanted one is not
// compared, because reading it back may change its form.
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
