package dbwatcher

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/models"
)

// Most values of a large snapshot equal the previous ones.
func TestOnlyDifferencesAreDecoded(t *testing.T) {
	const name = "k8s/pod/web/namespace/default"
	kv := func(value string) store.KV {
		return store.KV{Key: models.KSRPrefix + name, Value: []byte(value), Revision: 7} // as after a wipe
	}
	k := newKnown("node1", slog.New(slog.DiscardHandler))
	resync := func(value string) *pod.Pod {
		t.Helper()
		p, _ := k.replace([]store.KV{kv(value)}).resync.State["pod"][name].(*pod.Pod)
		return p
	}
	first := resync(`{"name": "web", "namespace": "default", "ip_address": "10.1.1.2"}`)
	if again := resync(`{"name": "web", "namespace": "default", "ip_address": "10.1.1.2"}`); again != first {
		t.Error("the same bytes were decoded twice")
	}
	if changed := resync(`{"name": "web", "namespace": "default", "ip_address": "10.1.1.3"}`); changed.GetIpAddress() != "10.1.1.3" {
		t.Errorf("a changed value is %v", changed)
	}
	k.update([]store.Change{{KV: kv(`{"name": "web", "namespace": "default", "ip_address": "10.1.1.4"}`)}})
	if changed := resync(`{"name": "web", "namespace": "default", "ip_address": "10.1.1.4"}`); changed.GetIpAddress() != "10.1.1.4" {
		t.Errorf("after a change, the value is %v", changed)
	}
	if kept := resync(`{"name": 4`); kept.GetIpAddress() != "10.1.1.4" {
		t.Errorf("a value that cannot be decoded replaces the last good one: %v", kept)
	}
	if k.troubles.errors[models.KSRPrefix+name] == nil {
		t.Error("the decoding error is missing")
	}
	if back := resync(`{"name": "web", "namespace": "default", "ip_address": "10.1.1.2"}`); back.GetIpAddress() != "10.1.1.2" {
		t.Errorf("after a value that could not be decoded, the value is %v", back)
	}
	if len(k.troubles.errors) != 0 {
		t.Errorf("errors after the value was corrected: %v", k.troubles.errors)
	}
	k.update([]store.Change{{KV: kv(`{"name": 4`)}})
	k.replace(nil)
	if len(k.troubles.errors) != 0 {
		t.Errorf("errors after the value was deleted: %v", k.troubles.errors)
	}
	k.update([]store.Change{{KV: kv(""), Deleted: true}})
	if len(k.values) != 0 || len(k.encoded) != 0 {
		t.Errorf("a deleted value leaves %v, %v", k.values, k.encoded)
	}
}

func TestWaitingBatchesAreTakenTogether(t *testing.T) {
	batch := func(key string, n int) store.WatchBatch {
		return store.WatchBatch{Changes: slices.Repeat([]store.Change{{KV: store.KV{Key: key}}}, n)}
	}
	waiting := make(chan store.WatchBatch, 10)
	waiting <- batch("b", 2)
	waiting <- batch("c", maxGathered)
	waiting <- batch("d", 1)
	if got := gather(batch("a", 1), waiting); len(got.Changes) != 3+maxGathered || got.Changes[1].Key != "b" {
		t.Errorf("%d changes were taken together", len(got.Changes))
	}
	waiting <- store.WatchBatch{Err: store.ErrUnavailable}
	got := gather(<-waiting, waiting)
	if len(got.Changes) != 1 || got.Err == nil {
		t.Errorf("the last change and the error: %v", got)
	}
	close(waiting)
	if got := gather(batch("e", 1), waiting); len(got.Changes) != 1 || got.Err != nil {
		t.Errorf("the last change before the end: %v", got)
	}
}
