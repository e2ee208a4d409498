package service_test

import (
	"testing"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"google.golang.org/protobuf/proto"
)

func TestMetricsTellHowLongChangesTake(t *testing.T) {
	s := newCluster().plugin(t, "services: vswitch")
	resync(t, s, state(webService()))
	slice := webSlice("a", "10.1.1.2@node1")
	done := func(event controller.Event, took time.Duration, err string) {
		now := time.Now()
		s.EventDone(event, &controller.EventRecord{ProcessingStart: now, ProcessingEnd: now.Add(took), ErrorStr: err, Txn: &controller.TxnRecord{}})
	}
	done(&controller.DBResync{}, time.Second, "")
	done(kubeChange(nil, slice), time.Second, "") // without a trigger time
	before := proto.CloneOf(slice)
	slice.TriggerTime = time.Now().Format(time.RFC3339Nano)
	done(kubeChange(before, slice), 3*time.Second, "")
	done(kubeChange(slice, slice), time.Second, "") // the same trigger
	done(kubeChange(before, slice), time.Second, "failed")
	done(&nodesync.NodeUpdate{NodeName: "node2"}, time.Second, "") // no service event
	got := plugintest.Metrics(t, s)
	for name, want := range map[string]float64{
		"contiv_service_network_programming_duration_seconds node1": 1, "contiv_service_sync_duration_seconds node1": 4,
		"contiv_service_syncs_total node1 ok": 4, "contiv_service_syncs_total node1 error": 1, "contiv_service_translated node1": 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if last := got["contiv_service_sync_last_timestamp_seconds node1"]; last < float64(time.Now().Add(-time.Minute).Unix()) {
		t.Errorf("last sync: %v", last)
	}
}
