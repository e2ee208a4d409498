package diagram

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/google/go-cmp/cmp"
)

func TestSequenceOfTransaction(t *testing.T) {
	s := SequenceOf(&record.Txn{
		Type:   record.NBTransaction,
		Values: []record.KeyValue{{Key: "a"}},
		Executed: []record.Op{
			{Operation: pb.TxnOperation_DELETE, Key: "a", Descriptor: "da", NewState: pb.ValueState_REMOVED, Duration: time.Millisecond},
			{Operation: pb.TxnOperation_CREATE, Key: "b", Descriptor: "db", NewState: pb.ValueState_FAILED, NewErr: errors.New("a < b & c\nmore")},
			{Operation: pb.TxnOperation_CREATE, Key: "p", NewState: pb.ValueState_CONFIGURED},
		},
		Retrieved: []record.Retrieve{
			{Descriptor: "db", Keys: []string{"b", "c"}, MoreKeys: 1, After: 2, Found: 1},
			{Descriptor: "dc", After: 3, Err: errors.New("gone")},
		},
	})
	var got []string
	for _, st := range s.steps {
		line := st.from + " > " + st.to + ": " + st.shown()
		if st.failed {
			line += " (failed)"
		}
		got = append(got, line)
	}
	want := []string{
		"NB > KVScheduler: Delete a",
		"NB > KVScheduler: Commit",
		"KVScheduler > da: Delete a",
		"da > Southbound: delete 1ms",
		"KVScheduler > : a is REMOVED",
		"KVScheduler > db: Create b [FAILED]",
		"db > Southbound: create (failed)",
		"db > KVScheduler: a < b & c (failed)",
		"KVScheduler > : b is FAILED",
		"KVScheduler > db: Retrieve b, c and 1 more",
		"db > Southbound: read",
		"db > KVScheduler: 1 found",
		"KVScheduler > : CREATE p is CONFIGURED",
		"KVScheduler > dc: Retrieve all",
		"dc > Southbound: read (failed)",
		"dc > KVScheduler: error: gone (failed)",
		"KVScheduler > NB: errors",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"NB", "KVScheduler", "da", "db", "dc", "Southbound"}, s.lanes); diff != "" {
		t.Error(diff)
	}

	var svg strings.Builder
	if err := s.WriteSVG(&svg, "a <title>"); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(svg.String())); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg.String())
		}
	}
}

func TestSequencesWithoutNorthbound(t *testing.T) {
	for kind, want := range map[record.TxnType]string{
		record.SBNotification: "Southbound > KVScheduler: PushSBNotification k",
		record.RetryFailedOps: "KVScheduler > KVScheduler: retry k",
	} {
		s := SequenceOf(&record.Txn{Type: kind, Values: []record.KeyValue{{Key: "k"}}})
		if got := s.steps[0].from + " > " + s.steps[0].to + ": " + s.steps[0].text; got != want || len(s.steps) != 1 || s.lanes[0] == laneNB {
			t.Errorf("got %q of %d, lanes %v; want %q", got, len(s.steps), s.lanes, want)
		}
	}
}

func TestTextsStayBetweenTheirLanes(t *testing.T) {
	long := "CREATE config/vpp/v2/interfaces/" + strings.Repeat("very-", 20) + "long [WAS-PENDING RETRY]"
	s := &Sequence{lanes: []string{laneNB, laneScheduler, "a descriptor with a name", laneSB}, steps: []step{
		{from: laneNB, to: laneScheduler, text: "Put " + long},
		{from: laneScheduler, to: "a descriptor with a name", text: "CREATE short"},
		{from: laneSB, to: laneScheduler, text: long},
		{from: laneScheduler, text: strings.Repeat("x", 300)},
		{from: laneScheduler, to: laneScheduler, text: "retry " + long},
	}}
	l := s.layout("title")
	for i, st := range s.steps {
		from, to := s.span(st)
		room := l.x[s.lanes[to]] - l.x[s.lanes[from]]
		for _, line := range l.lines[i] {
			if textWidth(line) > room {
				t.Errorf("%q has a width of %d, but %s and %s are %d apart", line, textWidth(line), s.lanes[from], s.lanes[to], room)
			}
		}
		whole := func(text string) string { return strings.ReplaceAll(text, " ", "") }
		if whole(strings.Join(l.lines[i], "")) != whole(st.text) {
			t.Errorf("%q became %q", st.text, l.lines[i])
		}
		if i > 0 && l.y[i]-l.y[i-1] < lineHeight*len(l.lines[i]) {
			t.Errorf("step %d overlaps the previous one", i)
		}
	}
	if len(l.lines[1]) != 1 || len(l.lines[0]) == 1 {
		t.Errorf("lines are %q", l.lines)
	}
}
