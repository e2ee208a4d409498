package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	mergepb "github.com/contiv/contiv/api/contiv/merge"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestContributionsToAKey(t *testing.T) {
	key := models.VPPInterfaceKey("1")
	directives := &mergepb.Directives{Key: key, Unset: []string{"mtu"}}
	internal, fromDB, fromOther := iface("1", "10.0.0.1/24"), iface("1", "10.0.0.2/24"), iface("1", "10.0.0.3/24")
	internal.Mtu = 1400
	other := &source{name: "other", snapshot: controller.ExternalConfig{key: fromOther}}
	withSources(t, []controller.ExternalConfigSource{other}, func(t *testing.T, r *rig) {
		r.started()
		r.a.update = putting(key, internal)
		r.do(newEvent("add"))
		r.push(&controller.ExternalConfigChange{Source: "db", Changes: controller.ExternalConfig{key: fromDB, models.Key(directives): directives}})

		want := controller.Contributions{
			Key: key,
			Sources: []controller.Contribution{
				{Source: "internal", Wants: kvscheduler.KeyValue{Key: key, Value: internal}},
				{Source: "db", Wants: kvscheduler.KeyValue{Key: models.Key(directives), Value: directives}},
				{Source: "db", Wants: kvscheduler.KeyValue{Key: key, Value: fromDB}},
				{Source: "other", Wants: kvscheduler.KeyValue{Key: key, Value: fromOther}},
			},
			Result: kvscheduler.KeyValue{Key: key, Value: iface("1", "10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24")},
		}
		status, body := r.get("/controller/contributions?key=" + url.QueryEscape(key))
		var got controller.Contributions
		if err := json.Unmarshal(body, &got); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s: %v", status, body, err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("contributions (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, r.Contributions(models.Key(directives)), protocmp.Transform()); diff != "" {
			t.Errorf("contributions to the key of the directives (-want +got):\n%s", diff)
		}
		if none := r.Contributions("if/none"); len(none.Sources) > 0 || none.Result.Value != nil {
			t.Errorf("an unknown key has contributions: %v", none)
		}
		if status, _ := r.get("/controller/contributions?key="); status != http.StatusBadRequest {
			t.Errorf("with an empty key: %d", status)
		}
		var all []controller.Contributions
		if status, body := r.get("/controller/contributions"); json.Unmarshal(body, &all) != nil || status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
		if !slices.ContainsFunc(all, func(c controller.Contributions) bool { return cmp.Equal(want, c, protocmp.Transform()) }) {
			t.Errorf("all contributions: %+v", all)
		}
	})
}

// The healing resync carries out an aborted event.
func TestProcessedOfAbortedEventIsCalledLater(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.started()
		var received []*controller.EventRecord
		tell := func(record *controller.EventRecord) { received = append(received, record) }
		fails := true
		r.a.resync = func(context.Context, controller.Event, controller.KubeState, int, controller.ResyncOperations) error {
			if fails {
				return controller.NewAbortEventError(errors.New("not now"))
			}
			return nil
		}
		r.push(&controller.DBResync{External: controller.ExternalConfig{"if/1": iface("1")}, Processed: tell})
		if len(received) > 0 {
			t.Fatalf("an aborted event was processed: %v", received[0])
		}
		r.push(&controller.RequestedResync{Type: controller.UpstreamResync, Processed: tell})
		if len(received) != 1 || received[0].ErrorStr == "" {
			t.Fatalf("the requester of an aborted resync got %v", received)
		}
		fails = false
		r.after(time.Minute)
		if len(received) != 2 || received[1].Name != "Healing Resync" || received[1].Txn == nil {
			t.Errorf("after the healing, got %v", received)
		}
		r.wantConfig(values{"if/1": iface("1")})
	})
}

func TestRecordsAreSentToObservers(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var received []*controller.EventRecord
		tell := func(record *controller.EventRecord) { received = append(received, record) }
		r.push(&controller.DBResync{Processed: tell})
		change := func() proto.Message { return iface("1", "10.0.0.1/24") }
		r.push(&controller.ExternalConfigChange{Source: "db", Changes: controller.ExternalConfig{"if/1": change()}, Processed: tell})
		r.push(&controller.RequestedResync{Type: controller.DownstreamResync, By: "test", Processed: tell})
		r.push(&controller.RequestedResync{Type: controller.UpstreamResync, By: "test", Processed: tell})
		if len(received) != 4 {
			t.Fatalf("got %d records", len(received))
		}
		for i, record := range received {
			if record.SeqNum != uint64(i) || record.Txn == nil || record.Txn.SeqNum != uint64(100+i) {
				t.Errorf("record %d: %v", i, record)
			}
		}
		for i, want := range []kvscheduler.ResyncType{kvscheduler.FullResync, kvscheduler.NotResync, kvscheduler.DownstreamResync, kvscheduler.UpstreamResync} {
			if r.sched.txns[i].Resync != want {
				t.Errorf("transaction %d is a %v", i, r.sched.txns[i].Resync)
			}
		}
	})
}
