package ctl

import (
	"testing"

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

// One transaction may be for hundreds of services: a line of the table names some.
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
