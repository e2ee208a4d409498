package ctl

import (
	"strings"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/types/known/emptypb"
)

func TestNotificationsAreToldInWords(t *testing.T) {
	is := &emptypb.Empty{}
	for _, c := range []struct {
		values []kvscheduler.KeyValue
		want   string
	}{
		{nil, "notification of the southbound"},
		{[]kvscheduler.KeyValue{{Key: "vpp/interface/eth0/link-state/UP"}, {Key: "vpp/interface/eth0/link-state/DOWN", Value: is}}, "eth0 went down"},
		{[]kvscheduler.KeyValue{{Key: "vpp/interface/eth0/link-state/UP", Value: is}}, "eth0 went up"},
		{[]kvscheduler.KeyValue{{Key: "vpp/interface/tap1/link-state/UP"}}, "tap1 has no link any more"},
		{[]kvscheduler.KeyValue{{Key: "linux/interface/host-name/eth1", Value: is}, {Key: "linux/interface/host-name/eth1/address/10.0.0.1/24", Value: is}}, "device eth1 is up"},
		{[]kvscheduler.KeyValue{{Key: "linux/interface/host-name/eth1"}}, "device eth1 is down or gone"},
		{[]kvscheduler.KeyValue{{Key: "linux/interface/host-name/eth1/address/10.0.0.1/24"}}, "address 10.0.0.1/24 is gone from device eth1"},
		{[]kvscheduler.KeyValue{{Key: "x/1", Value: is}, {Key: "x/2"}, {Key: "x/3"}, {Key: "x/4"}, {Key: "x/5"}}, "x/1 appeared; x/2 is gone; x/3 is gone; and 2 more"},
	} {
		got := txnText(&kvscheduler.RecordedTxn{Type: kvscheduler.SBNotification, Values: c.values})
		if got != c.want {
			t.Errorf("%q, not %q", got, c.want)
		}
	}
}

// A transaction may change hundreds of services: its line in the table names some.
func TestPurposesAreShort(t *testing.T) {
	for description, want := range map[string]string{
		"":                           "",
		"Pod Added":                  "Pod Added",
		"2 events\n* a\n* b":         "2 events; a; b",
		"4\n* a\n* b\n* c\n* d":      "4; a; b; c; d",
		"5\n* a\n* b\n* c\n* d\n* e": "5; a; b; c; and 2 more",
	} {
		if got := purpose(description); got != want {
			t.Errorf("%q: %q, not %q", description, got, want)
		}
	}
}

// If events share a transaction, the first that changed something is named, with other possible
// ones.
func TestReasonAmongSeveralEvents(t *testing.T) {
	event := func(n uint64, change string) *controller.EventRecord {
		return &controller.EventRecord{SeqNum: n, Name: "Update", Handlers: []controller.HandlerRecord{{Handler: "a"}, {Handler: "b", Change: change}}}
	}
	for _, c := range []struct {
		events []*controller.EventRecord
		want   string
	}{
		{nil, "a description"},
		{[]*controller.EventRecord{event(4, "")}, "event 4, Update"},
		{[]*controller.EventRecord{event(4, ""), event(5, "wire a pod"), event(6, "")}, "event 5, Update"},
		{[]*controller.EventRecord{event(4, "x"), event(5, "y")}, "event 4, Update, or event 5"},
		{[]*controller.EventRecord{event(4, "x"), event(5, "y"), event(6, ""), event(7, "z")}, "event 4, Update, or one of the 2 events after it until 7"},
	} {
		txn := caused(&kvscheduler.RecordedTxn{Type: kvscheduler.NBTransaction, Description: "a description"}, c.events, 0)
		if got := reasonText(txn); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Tables show no API name for a missing operation.
func TestLastOperation(t *testing.T) {
	for _, c := range []struct {
		state pb.ValueState
		last  pb.TxnOperation
		want  string
	}{
		{pb.ValueState_CONFIGURED, pb.TxnOperation_CREATE, "CREATE"},
		{pb.ValueState_CONFIGURED, pb.TxnOperation_UNDEFINED, "found"}, // by the resync after the agent's start
		{pb.ValueState_PENDING, pb.TxnOperation_UNDEFINED, ""},
	} {
		if got := lastText(c.state, c.last); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.state, c.last, got, c.want)
		}
	}
}

// A single transaction is described as in the list, by what happened.
func TestNotificationInFull(t *testing.T) {
	var out strings.Builder
	txn := &kvscheduler.RecordedTxn{Type: kvscheduler.SBNotification, Values: []kvscheduler.KeyValue{{Key: "vpp/interface/eth0/link-state/DOWN", Value: &emptypb.Empty{}}}}
	writeTxn(printer{Writer: &out}, "node1", 0, caused(txn, nil, 0), "contivctl")
	if want := "node1: transaction #0, eth0 went down  "; !strings.HasPrefix(out.String(), want) {
		t.Errorf("%s, want %s", out.String(), want)
	}
}

// A value that the agent found at its start has a line for that.
func TestTimelineAcrossAStart(t *testing.T) {
	begin := time.Now()
	value := func(last pb.TxnOperation) *kvscheduler.ValueSnapshot {
		return &kvscheduler.ValueSnapshot{Key: "k", State: pb.ValueState_CONFIGURED, LastOperation: last, Want: &emptypb.Empty{}, Have: &emptypb.Empty{}}
	}
	line := timeline{
		runs: runs{{Run: 1, Start: begin, Version: "v"}, {Run: 2, Start: begin, Version: "v"}},
		revisions: []runRevision{
			{Run: 1, Revision: kvscheduler.Revision{Since: begin, Value: value(pb.TxnOperation_CREATE)}},
			{Run: 2, Revision: kvscheduler.Revision{Since: begin, Value: value(pb.TxnOperation_UNDEFINED)}},
		},
	}
	var out strings.Builder
	writeTimelines(printer{Writer: &out}, []answer[timeline]{{Agent: &Agent{Name: "n"}, Value: line}})
	if strings.Count(out.String(), "found by the agent that started") != 1 {
		t.Error(out.String())
	}
}
