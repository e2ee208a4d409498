package history

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/agent/history/journal"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// life is an agent with one kind of values, texts under x/. Values with the text "broken" fail.
type life struct {
	*Recorder
	t         *testing.T
	scheduler *kvscheduler.Scheduler
	dir       string
	events    uint64
}

type text = *wrapperspb.StringValue

// start begins a run.
func start(t *testing.T, dir string, bytes int64) *life {
	t.Helper()
	l := &life{t: t, dir: dir, Recorder: Open(Options{Dir: dir, Bytes: bytes, Age: time.Hour, Node: "node1", Version: "v1", Log: slog.New(slog.DiscardHandler)})}
	l.scheduler = kvscheduler.New(kvscheduler.Options{Logger: slog.New(slog.DiscardHandler), Recorder: l.Transaction})
	err := kvscheduler.Register(l.scheduler, kvscheduler.Descriptor[text, kvscheduler.NoMetadata]{
		Name: "x", Keys: kvscheduler.KeySpace{Prefix: "x/"}, NB: true,
		Create: func(_ context.Context, _ string, v text) (m kvscheduler.NoMetadata, err error) {
			if v.Value == "broken" {
				err = errors.New("does not work")
			}
			return m, err
		},
		Update: func(context.Context, string, text, text, kvscheduler.NoMetadata) (m kvscheduler.NoMetadata, err error) {
			return m, nil
		},
		Delete: func(context.Context, string, text, kvscheduler.NoMetadata) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.end() })
	return l
}

// end ends the run in an orderly way.
func (l *life) end() {
	l.scheduler.Close()
	l.Close()
}

// commit puts values, or deletes them if they are "", for an event.
func (l *life) commit(keyValues ...string) {
	l.t.Helper()
	txn := l.scheduler.NewTransaction()
	for i := 0; i < len(keyValues); i += 2 {
		if keyValues[i+1] == "" {
			txn.Put("x/"+keyValues[i], nil)
		} else {
			txn.Put("x/"+keyValues[i], wrapperspb.String(keyValues[i+1]))
		}
	}
	begin := time.Now()
	seq, _ := txn.Commit(context.Background(), kvscheduler.WithDescription(strings.Join(keyValues, " ")))
	l.Event(&controller.EventRecord{
		SeqNum: l.events, Name: "Test", Description: keyValues[0], ProcessingStart: begin, ProcessingEnd: time.Now(),
		Txn: &controller.TxnRecord{SeqNum: seq, Operations: 1},
	})
	l.events++
}

// moment returns a time that separates earlier from later records.
func (l *life) moment() time.Time {
	l.t.Helper()
	if err := l.Flush(context.Background()); err != nil {
		l.t.Fatal(err)
	}
	time.Sleep(time.Millisecond) // clocks may be coarse
	defer time.Sleep(time.Millisecond)
	return time.Now()
}

// get queries the REST API and returns the status.
func (l *life) get(path string, into any) int {
	l.t.Helper()
	w := httptest.NewRecorder()
	l.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			l.t.Fatalf("%s: %v: %s", path, err, w.Body)
		}
	}
	return w.Code
}

func (l *life) reader() Reader { return NewReader(os.DirFS(l.dir)) }

// crash copies the files on disk as a killed process leaves them.
func crash(t *testing.T, dir string) string {
	t.Helper()
	left := t.TempDir()
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return left
}

func have(v *record.Value) string {
	switch {
	case v == nil:
		return "gone"
	case v.Error != "":
		return v.State.String() + ": " + v.Error
	case v.Have == nil:
		return v.State.String()
	}
	return v.Have.(text).Value
}

func valuesAt(t *testing.T, r Reader, at time.Time) map[string]string {
	t.Helper()
	values, _, err := r.ValuesAt(at)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for key, v := range values {
		texts[key] = have(v)
	}
	return texts
}

func TestEverythingSurvivesARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	a := start(t, dir, 1<<20)
	a.commit("a", "1", "b", "1")
	first := a.moment()
	a.commit("a", "2", "b", "", "c", "broken")
	second := a.moment()
	left := crash(t, dir) // no end of the run

	b := start(t, left, 1<<20)
	b.commit("a", "2")
	third := b.moment()
	b.end()
	r := b.reader()

	runs, err := r.Runs()
	if err != nil || len(runs) != 2 {
		t.Fatalf("runs %v, %v", runs, err)
	}
	if a, b := runs[0], runs[1]; a.Run != 1 || a.Ended || a.End.IsZero() || a.Version != "v1" || a.Node != "node1" || b.Run != 2 || !b.Ended {
		t.Errorf("runs %+v", runs)
	}

	events, err := r.Events(Span{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%d.%d %s #%d", e.Run, e.Event.SeqNum, e.Event.Description, e.Event.Txn.SeqNum))
	}
	if diff := cmp.Diff([]string{"1.0 a #0", "1.1 a #1", "2.0 a #0"}, lines); diff != "" {
		t.Error(diff)
	}

	txns, err := r.Txns(Span{Last: 2})
	if err != nil {
		t.Fatal(err)
	}
	lines = nil
	for _, x := range txns {
		lines = append(lines, fmt.Sprintf("%d.%d %s %d operations, %d events", x.Run, x.Txn.SeqNum, x.Txn.Description, len(x.Txn.Executed), len(x.Events)))
	}
	if diff := cmp.Diff([]string{"1.1 a 2 b  c broken 3 operations, 1 events", "2.0 a 2 1 operations, 1 events"}, lines); diff != "" {
		t.Error(diff)
	}
	if one, err := r.Txn(1, 1); err != nil || one.Txn.Description != "a 2 b  c broken" || len(one.Events) != 1 {
		t.Errorf("transaction 1.1: %v, %v", one, err)
	}
	if _, err := r.Txn(2, 7); !errors.Is(err, ErrNotRecorded) {
		t.Errorf("transaction 2.7: %v", err)
	}
	if one, err := r.Event(2, 0); err != nil || one.Event.Description != "a" {
		t.Errorf("event 2.0: %v, %v", one, err)
	}

	revisions, err := r.Timeline("x/a", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	lines = nil
	for i, rev := range revisions {
		lines = append(lines, fmt.Sprintf("%d.%d %s", rev.Run, rev.Revision.Txn, have(rev.Revision.Value)))
		if last := i == len(revisions)-1; last != rev.Revision.Until.IsZero() {
			t.Errorf("revision %d lasts until %v", i, rev.Revision.Until)
		}
	}
	if diff := cmp.Diff([]string{"1.0 1", "1.1 2", "2.0 2"}, lines); diff != "" {
		t.Error(diff)
	}

	if diff := cmp.Diff(map[string]string{"x/a": "1", "x/b": "1"}, valuesAt(t, r, first)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"x/a": "2", "x/c": "FAILED: does not work"}, valuesAt(t, r, second)); diff != "" {
		t.Error(diff)
	}
	diffs, err := r.Diff(first, third)
	if err != nil {
		t.Fatal(err)
	}
	lines = nil
	for _, d := range diffs {
		lines = append(lines, d.Key+": "+have(d.From)+" -> "+have(d.To))
	}
	if diff := cmp.Diff([]string{"x/a: 1 -> 2", "x/b: 1 -> gone"}, lines); diff != "" {
		t.Error(diff)
	}
	// A value that a restart found unchanged does not differ.
	if diffs, err := r.Diff(second, third); err != nil || len(diffs) != 1 || diffs[0].Key != "x/c" {
		t.Errorf("%v, %v", diffs, err)
	}
	if _, err := r.Diff(first.Add(-time.Hour), third); !errors.Is(err, ErrNotRecorded) {
		t.Errorf("before all: %v", err)
	}
	if keys, err := r.Keys(time.Time{}); err != nil || strings.Join(keys, " ") != "x/a x/b x/c" {
		t.Errorf("keys %v, %v", keys, err)
	}
}

// Each segment begins with all values, so deleted segments do not matter.
func TestValuesWithoutTheSegmentsBefore(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir, 40<<10)
	l.commit("early", "yes")
	for i := range 400 {
		l.commit("a", fmt.Sprint(i))
	}
	l.moment()
	if runs, err := l.reader().Runs(); err != nil || len(runs) != 1 || runs[0].Run != 1 || !runs[0].End.IsZero() {
		t.Errorf("runs %+v, %v", runs, err)
	}
	files, _ := filepath.Glob(dir + "/*")
	if _, err := os.Stat(dir + "/00000001.log.gz"); err == nil || len(files) < 3 {
		t.Fatalf("nothing was forgotten: %v", files)
	}
	txns, err := l.reader().Txns(Span{})
	if err != nil || len(txns) < 20 || len(txns) > 399 {
		t.Fatalf("%d transactions, %v", len(txns), err)
	}
	for _, x := range txns[1:] {
		got := valuesAt(t, l.reader(), x.Txn.Stop)
		want := map[string]string{"x/early": "yes", "x/a": strings.TrimPrefix(x.Txn.Description, "a ")}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("after transaction %d: %s", x.Txn.SeqNum, diff)
		}
	}
	// A cached full segment yields the same runs as the file.
	remembers := l.reader()
	for range 2 {
		runs, err := remembers.Runs()
		again, _ := l.reader().Runs()
		if diff := cmp.Diff(again, runs); err != nil || diff != "" {
			t.Errorf("%v: %s", err, diff)
		}
	}
	// A new run continues the numbering although the first line of the previous run is gone.
	l.end()
	if l = start(t, dir, 40<<10); l.run.Run != 2 {
		t.Errorf("run %d", l.run.Run)
	}
}

// A failing disk is reported. When it works again, the recorded values are right.
func TestDiskThatFailsForAWhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	if err := os.Symlink("nowhere", dir); err != nil { // a directory is needed here
		t.Fatal(err)
	}
	l := start(t, dir, 1<<20)
	l.commit("a", "1")
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := l.Problems(t.Context()); len(p) != 1 || !strings.Contains(p[0], "history is not recorded: ") {
		t.Errorf("problems %q", p)
	}
	// Meanwhile, readers see that records are missing.
	var events Events
	if code := l.get(EventsURL, &events); code != http.StatusOK || len(events.Runs) != 1 || events.Runs[0].Run != 1 || events.Runs[0].Lost != 2 {
		t.Errorf("runs %+v, status %d", events.Runs, code)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	l.tryNow()
	l.commit("b", "1")
	now := l.moment()
	if p := l.Problems(t.Context()); len(p) != 0 {
		t.Errorf("problems %q", p)
	}
	if diff := cmp.Diff(map[string]string{"x/a": "1", "x/b": "1"}, valuesAt(t, l.reader(), now)); diff != "" {
		t.Error(diff)
	}
	// the lost transaction and its event
	if runs, err := l.reader().Runs(); err != nil || len(runs) != 1 || runs[0].Lost != 2 {
		t.Errorf("runs %+v, %v", runs, err)
	}
}

// Recording resumes after a disk failure even if nothing else happens.
func TestDiskIsTriedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	if err := os.Symlink("nowhere", dir); err != nil { // a directory is needed here
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		l := start(t, dir, 1<<20)
		l.commit("a", "1")
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * retryDelay)
		synctest.Wait()
		if p := l.Problems(t.Context()); len(p) != 0 {
			t.Errorf("problems %q", p)
		}
		if diff := cmp.Diff(map[string]string{"x/a": "1"}, valuesAt(t, l.reader(), time.Now())); diff != "" {
			t.Error(diff)
		}
		var events Events
		if l.get(EventsURL, &events); len(events.Runs) != 1 || events.Runs[0].Lost != 2 {
			t.Errorf("runs %+v", events.Runs)
		}
	})
}

// tryNow skips the delay after a disk failure.
func (l *life) tryNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retryNow = true
}

// A full queue drops records without blocking. The values are right afterwards.
func TestQueueIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir, 1<<20)
	l.commit("a", "1")
	l.moment()
	l.mu.Lock() // blocks the writer
	for i := range queueLength + maxBatch + 10 {
		l.queueOrLose(i)
	}
	l.mu.Unlock()
	l.commit("b", "2") // may be lost, too
	l.moment()
	l.commit("c", "3")
	now := l.moment()
	if diff := cmp.Diff(map[string]string{"x/a": "1", "x/b": "2", "x/c": "3"}, valuesAt(t, l.reader(), now)); diff != "" {
		t.Error(diff)
	}
	if runs, err := l.reader().Runs(); err != nil || runs[0].Lost < 9 {
		t.Errorf("runs %+v, %v", runs, err)
	}
}

// queueOrLose is push for a caller that holds the lock.
func (l *life) queueOrLose(i int) {
	select {
	case l.queue <- item{event: &controller.EventRecord{SeqNum: uint64(100 + i), ProcessingEnd: time.Now()}}:
	default:
		l.lost.Add(1)
	}
}

func TestREST(t *testing.T) {
	l := start(t, t.TempDir(), 1<<20)
	l.commit("a", "1")
	l.commit("a", "2")
	get := l.get
	var events Events
	if get(EventsURL+"?last=1", &events); len(events.Runs) != 1 || len(events.Events) != 1 || events.Events[0].Event.SeqNum != 1 {
		t.Errorf("events %+v", events)
	}
	var txns Txns
	if get(TxnsURL, &txns); len(txns.Txns) != 2 || len(txns.Txns[1].Events) != 1 {
		t.Errorf("transactions %+v", txns)
	}
	var outlines Txns
	if get(TxnsURL+"?outline=true&last=1", &outlines); len(outlines.Txns) != 1 || outlines.Txns[0].Txn.SeqNum != txns.Txns[1].Txn.SeqNum ||
		outlines.Txns[0].Operations != 1 || len(outlines.Txns[0].Txn.Executed) > 0 || len(outlines.Txns[0].Events) != 1 {
		t.Errorf("outlines %+v", outlines)
	}
	var timelines Timelines
	if get(TimelinesURL+"?key=x/a&key=x/none", &timelines); len(timelines.ByKey) != 2 || len(timelines.ByKey["x/a"]) != 2 || timelines.ByKey["x/none"] == nil {
		t.Errorf("timelines %+v", timelines)
	}
	var timeline Timeline
	if get(TimelineURL+"?key=x/a", &timeline); len(timeline.Revisions) != 2 {
		t.Errorf("timeline %+v", timeline)
	}
	for path, want := range map[string]int{
		EventURL + "?run=1&seq-num=7":          http.StatusNotFound,
		EventURL + "?run=x":                    http.StatusBadRequest,
		EventsURL + "?since=yesterday":         http.StatusBadRequest,
		DiffURL + "?from=2001-01-01T00:00:00Z": http.StatusNotFound,
		TxnURL + "?run=1&seq-num=1":            http.StatusOK,
		KeysURL:                                http.StatusOK,
		RunsURL:                                http.StatusOK,
		DiffURL + "?from=" + events.Events[0].Event.ProcessingEnd.Format(time.RFC3339Nano): http.StatusOK,
	} {
		if code := get(path, nil); code != want {
			t.Errorf("%s: %d, not %d", path, code, want)
		}
	}
	w := httptest.NewRecorder()
	l.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, FilesURL, nil))
	archive := tar.NewReader(w.Body)
	if h, err := archive.Next(); err != nil || h.Name != "00000001.log" {
		t.Fatalf("%v, %v", h, err)
	}
	if data, err := io.ReadAll(archive); err != nil || !strings.Contains(string(data), `"x/a"`) {
		t.Errorf("%s, %v", data, err)
	}
}

// The writer waits until a burst of events ends, or for at most longestGathering.
func TestWriterWaitsForEndOfBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := Open(Options{Dir: dir, Bytes: 1 << 20, Age: time.Hour, Log: slog.New(slog.DiscardHandler)})
		defer r.Close()
		written := func() int {
			t.Helper()
			synctest.Wait()
			events, err := NewReader(os.DirFS(dir)).Events(Span{})
			if err != nil {
				t.Fatal(err)
			}
			return len(events)
		}
		pushed := 0
		for begin := time.Now(); time.Since(begin) < longestGathering; {
			if n := written(); n != 0 {
				t.Fatalf("%d events are written %v after the first", n, time.Since(begin))
			}
			r.Event(&controller.EventRecord{SeqNum: uint64(pushed), Name: "Test", ProcessingEnd: time.Now()})
			pushed++
			time.Sleep(quietPeriod / 2)
		}
		if n := written(); n != pushed {
			t.Errorf("%d of %d events are written after %v", n, pushed, longestGathering)
		}
	})
}

// Records are collected and then written together.
func TestRecordsAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := Open(Options{Dir: dir, Bytes: 1 << 20, Age: time.Hour, Log: slog.New(slog.DiscardHandler)})
		defer r.Close()
		for i := range uint64(3) {
			r.Event(&controller.EventRecord{SeqNum: i, Name: "Test", ProcessingEnd: time.Now()})
		}
		written := func() int {
			t.Helper()
			events, err := NewReader(os.DirFS(dir)).Events(Span{})
			if err != nil {
				t.Fatal(err)
			}
			return len(events)
		}
		time.Sleep(quietPeriod - time.Nanosecond)
		synctest.Wait()
		if n := written(); n != 0 {
			t.Errorf("%d events are written before", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := written(); n != 3 {
			t.Errorf("%d events are written after", n)
		}
	})
}

// A transaction of many values is written in pieces, so that it is not in memory as a whole.
func TestLargeTransactionsAreWrittenInPieces(t *testing.T) {
	var handed *kvscheduler.Committed
	l := start(t, t.TempDir(), 64<<20)
	l.scheduler.Close()
	l.scheduler = kvscheduler.New(kvscheduler.Options{Logger: slog.New(slog.DiscardHandler), Recorder: func(c kvscheduler.Committed) { handed = &c }})
	txn := l.scheduler.NewTransaction()
	for i := range 8 {
		txn.Put(fmt.Sprint("x/", i), wrapperspb.String(strings.Repeat("a", pieceSize/2)))
	}
	_, _ = txn.Commit(context.Background())
	var kinds []byte
	pieces := 0
	err := new(encoder).write([]item{{txn: handed}}, func(lines ...journal.Line) error {
		pieces++
		for _, line := range lines {
			kinds = append(kinds, line.Kind)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if string(kinds) != "TVVVVVVVV" {
		t.Errorf("lines %s", kinds)
	}
	if pieces < 4 {
		t.Errorf("%d pieces", pieces)
	}
}

// A reader caches only the runs of existing segments.
func TestRunsOfForgottenSegmentsAreForgotten(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir, 16<<10)
	reader := l.reader()
	for i := range 100 {
		l.commit("a", strings.Repeat("long ", 100)+fmt.Sprint(i))
		if i%10 == 0 {
			l.moment()
			if _, err := reader.Runs(); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.moment()
	if _, err := reader.Runs(); err != nil {
		t.Fatal(err)
	}
	segments, err := reader.segments()
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	reader.runs.Range(func(any, any) bool {
		known++
		return true
	})
	if known == 0 || known >= len(segments) {
		t.Errorf("runs of %d segments are cached, %d segments exist, the last one not full", known, len(segments))
	}
}

// An agent ends without compressing a full segment, which takes time. The next run starts a new
// segment.
func TestEndDoesNotWaitForAFullSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		run := func(seq uint64) {
			t.Helper()
			r := Open(Options{Dir: dir, Bytes: 1 << 20, Age: time.Hour, Log: slog.New(slog.DiscardHandler)})
			r.Event(&controller.EventRecord{SeqNum: seq, Name: "Test", Description: strings.Repeat("long ", 1<<14), ProcessingEnd: time.Now()})
			if seq == 1 {
				time.Sleep(longestGathering) // it is written before the end
				synctest.Wait()
			}
			r.Close()
		}
		for seq, want := range []string{"00000001.log", "00000001.log.gz 00000002.log"} {
			run(uint64(seq))
			files, err := filepath.Glob(dir + "/*")
			for i := range files {
				files[i] = filepath.Base(files[i])
			}
			if got := strings.Join(files, " "); err != nil || got != want {
				t.Errorf("after run %d: %s, want %s", seq, got, want)
			}
		}
		if events, err := NewReader(os.DirFS(dir)).Events(Span{}); err != nil || len(events) != 2 {
			t.Errorf("%d events, want 2 (%v)", len(events), err)
		}
	})
}
