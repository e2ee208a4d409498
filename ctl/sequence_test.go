package ctl

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/google/go-cmp/cmp"
)

func TestSequenceOfTransaction(t *testing.T) {
	s := sequenceOf(&kvscheduler.RecordedTxn{
		Type:   kvscheduler.NBTransaction,
		Values: []kvscheduler.KeyValue{{Key: "a"}},
		Executed: []kvscheduler.RecordedOp{
			{Operation: pb.TxnOperation_DELETE, Key: "a", Descriptor: "da", NewState: pb.ValueState_REMOVED, Duration: time.Millisecond},
			{Operation: pb.TxnOperation_CREATE, Key: "b", Descriptor: "db", NewState: pb.ValueState_FAILED, NewErr: errors.New("a < b & c\nmore")},
			{Operation: pb.TxnOperation_CREATE, Key: "p", NewState: pb.ValueState_CONFIGURED},
		},
		Retrieved: []kvscheduler.RecordedRetrieve{
			{Descriptor: "db", Keys: []string{"b", "c"}, MoreKeys: 1, After: 2, Found: 1},
			{Descriptor: "dc", After: 3, Err: errors.New("gone")},
		},
	})
	var got []string
	for _, st := range s.steps {
		line := st.from + " > " + st.to + ": " + st.text
		if st.failed {
			line += " (failed)"
		}
		got = append(got, line)
	}
	want := []string{
		"NB > KVScheduler: Delete a",
		"NB > KVScheduler: Commit",
		"KVScheduler > da: DELETE a",
		"da > Southbound: 1ms",
		"KVScheduler > : a is REMOVED",
		"KVScheduler > db: CREATE b [FAILED]",
		"db > Southbound: 0s (failed)",
		"db > KVScheduler: a < b & c (failed)",
		"KVScheduler > : b is FAILED",
		"KVScheduler > db: RETRIEVE b and 2 more",
		"db > Southbound: 0s",
		"db > KVScheduler: 1 found",
		"KVScheduler > : p is CONFIGURED",
		"KVScheduler > dc: RETRIEVE all",
		"dc > Southbound: 0s (failed)",
		"dc > KVScheduler: gone (failed)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"NB", "KVScheduler", "da", "db", "dc", "Southbound"}, s.lanes); diff != "" {
		t.Error(diff)
	}

	var svg strings.Builder
	if err := s.writeSVG(&svg, "a <title>"); err != nil {
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
	for kind, want := range map[kvscheduler.TxnType]string{
		kvscheduler.SBNotification: "Southbound > KVScheduler: notify k",
		kvscheduler.RetryFailedOps: "KVScheduler > KVScheduler: retry k",
	} {
		s := sequenceOf(&kvscheduler.RecordedTxn{Type: kind, Values: []kvscheduler.KeyValue{{Key: "k"}}})
		if got := s.steps[0].from + " > " + s.steps[0].to + ": " + s.steps[0].text; got != want || len(s.steps) != 1 || s.lanes[0] == laneNB {
			t.Errorf("got %q of %d, lanes %v; want %q", got, len(s.steps), s.lanes, want)
		}
	}
}

func TestTextsStayBetweenTheirLanes(t *testing.T) {
	long := "CREATE config/vpp/v2/interfaces/" + strings.Repeat("very-", 20) + "long [WAS-PENDING RETRY]"
	s := sequence{lanes: []string{laneNB, laneScheduler, "a descriptor with a name", laneSB}, steps: []step{
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
				t.Errorf("%q is %d wide, between %s and %s are %d", line, textWidth(line), s.lanes[from], s.lanes[to], room)
			}
		}
		whole := func(text string) string { return strings.ReplaceAll(text, " ", "") }
		if whole(strings.Join(l.lines[i], "")) != whole(st.text) {
			t.Errorf("%q became %q", st.text, l.lines[i])
		}
		if i > 0 && l.y[i]-l.y[i-1] < lineHeight*len(l.lines[i]) {
			t.Errorf("step %d overlaps the one before", i)
		}
	}
	if len(l.lines[1]) != 1 || len(l.lines[0]) == 1 {
		t.Errorf("lines are %q", l.lines)
	}
}
