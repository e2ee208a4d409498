package dbwatcher_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	feedbackpb "github.com/contiv/contiv/api/contiv/feedback"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/dbwatcher"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

type feedback struct {
	// base is the revision before the test.
	base     int64
	mu       sync.Mutex
	received []string
}

func (f *feedback) tell(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received = append(f.received, fmt.Sprintf(format, args...))
}

func (f *feedback) values(what string, values map[string]dbwatcher.Value) func(*controller.EventRecord) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		v := values[key]
		text := fmt.Sprintf("%s %s@%d", what, strings.TrimPrefix(key, "config/vpp/v2/interfaces/"), v.Revision-f.base)
		for flag, set := range map[string]bool{" deleted": v.Deleted, " wrong": v.Err != nil} {
			if set {
				text += flag
			}
		}
		if v.Kept {
			text += " kept"
		}
		if v.Same {
			text += " same"
		}
		for _, warning := range v.Warnings {
			text += ", " + warning
		}
		f.tell("%s", text)
	}
	return func(record *controller.EventRecord) { f.tell("processed in event %d", record.SeqNum) }
}

func (f *feedback) Replaced(values map[string]dbwatcher.Value, requests []string) func(*controller.EventRecord) {
	f.tell("replaced, requests %q", requests)
	return f.values("has", values)
}
func (f *feedback) Changed(values map[string]dbwatcher.Value) func(*controller.EventRecord) {
	return f.values("changed", values)
}
func (f *feedback) Requested(name string, deleted bool) {
	f.tell("request %s, deleted %v", name, deleted)
}
func (f *feedback) Answer(name string, outcome *feedbackpb.ResyncStatus) {
	txn := "no transaction"
	if outcome.Transaction != nil {
		txn = fmt.Sprint("transaction ", outcome.GetTransaction())
	}
	text := fmt.Sprintf("answer to %s@%d, %s: %s %s", name, outcome.GetRevision()-f.base, outcome.GetType(), txn, outcome.GetError())
	f.tell("%s", strings.TrimSpace(text))
}

func (f *feedback) want(t *testing.T, want ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if diff := cmp.Diff(want, f.received, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	f.received = nil
}

// startTelling starts the watcher. The loop processes each event as event and transaction 7.
func (r *rig) startTelling() *feedback {
	f := &feedback{base: r.base}
	r.feedback, r.process = f, true
	r.start()
	return f
}

func processedBy(e controller.Event) {
	record := &controller.EventRecord{SeqNum: 7, Txn: &controller.TxnRecord{SeqNum: 7}}
	switch e := e.(type) {
	case *controller.DBResync:
		e.Processed(record)
	case *controller.ExternalConfigChange:
		e.Processed(record)
	case *controller.RequestedResync:
		e.Processed(record)
	}
}

func TestFeedbackAboutValues(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.remote, ifKey, `{"name":"tap1"}`)
		r.put(r.remote, node+"config/vpp/v2/interfaces/bad", `{`)
		r.put(r.remote, node+"status/config/vpp/v2/interfaces/tap1", `{"revision":"1"}`)
		f := r.startTelling()
		f.want(t, "replaced, requests []", "has bad@2 wrong", "has tap1@1", "processed in event 7")

		r.put(r.remote, ifKey, `{"name":"tap1","mtu":1400}`)
		f.want(t, "changed tap1@4", "processed in event 7")
		r.put(r.remote, ifKey, `{ "name":"tap1", "mtu":1400 }`)
		f.want(t, "changed tap1@5 same")
		r.put(r.remote, ifKey, `garbage`)
		f.want(t, "changed tap1@6 wrong kept")
		r.put(r.remote, node+"config/vpp/v2/interfaces/bad", `{"name":"bad"}`)
		f.want(t, "changed bad@7", "processed in event 7")
		r.delete(ifKey)
		f.want(t, "changed tap1@8 deleted", "processed in event 7")
		r.put(r.remote, node+"status/config/vpp/v2/interfaces/tap1", `{"revision":"6"}`)
		r.put(r.remote, node+"config/contiv/v1/merge/config/vpp/v2/interfaces/tap1", `{"key":"config/vpp/v2/interfaces/tap1","unset":["nonsense"]}`)
		f.want(t, "changed config/contiv/v1/merge/config/vpp/v2/interfaces/tap1@10 wrong")
		r.events = nil

		r.setFull(true)
		r.put(r.remote, node+"config/vpp/v2/interfaces/bad", `{"name":"bad","mtu":1}`)
		f.want(t, "changed bad@11")
		r.setFull(false)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		f.want(t, "replaced, requests []", "has config/contiv/v1/merge/config/vpp/v2/interfaces/tap1@10 wrong", "has bad@11", "processed in event 7")
	})
}

// A value that cannot be decoded changes nothing, even if the agent restarts.
func TestEarlierValueStaysInForceAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.remote, ifKey, `{"name":"tap1"}`)
		r.start()
		r.put(r.remote, ifKey, `garbage`)
		r.watcher.Close()
		r.events = nil
		f := r.startTelling()
		r.want("resync ext=config/vpp/v2/interfaces/tap1")
		f.want(t, "replaced, requests []", "has tap1@2 wrong kept", "processed in event 7")
	})
}

func TestUnknownFieldsAreReported(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.startTelling()
		f.want(t, "replaced, requests []", "processed in event 7")
		r.put(r.remote, ifKey, `{"name":"tap1","mtuu":1}`)
		const warning = `, unknown field "mtuu" (did you mean "mtu"?) is left out`
		f.want(t, "changed tap1@1"+warning, "processed in event 7")
		r.put(r.remote, ifKey, `{"mtuu":1,"name":"tap1"}`)
		f.want(t, "changed tap1@2 same"+warning)
		r.watcher.RequestResync()
		synctest.Wait()
		f.want(t, "replaced, requests []", "has tap1@2"+warning, "processed in event 7")
		r.put(r.remote, ifKey, `{"name":"tap1"}`)
		f.want(t, "changed tap1@3 same")
	})
}

func TestChangesOfOneRevisionAreOneEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.startTelling()
		f.want(t, "replaced, requests []", "processed in event 7")
		r.want("resync")
		r.remote.Batch(r.ctx, []store.Change{
			{KV: store.KV{Key: node + "config/vpp/v2/interfaces/a", Value: []byte(`{"name":"a"}`)}},
			{KV: store.KV{Key: podKey, Value: []byte(podValue(""))}},
			{KV: store.KV{Key: node + "config/vpp/v2/interfaces/b", Value: []byte(`{"name":"x"}`)}},
			{KV: store.KV{Key: node + "config/vpp/v2/interfaces/c", Value: []byte(`{"name":"c"}`)}},
		})
		synctest.Wait()
		r.want("add pod=k8s/pod/web/namespace/default", "external from db +config/vpp/v2/interfaces/a +config/vpp/v2/interfaces/c")
		f.want(t, "changed a@1", "changed b@1 wrong", "changed c@1", "processed in event 7")
	})
}

func TestResyncOnRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		// The startup resync answers requests made while no agent ran.
		r.put(r.remote, node+"resync/before", `{"type":"downstream"}`)
		r.put(r.remote, node+"resync/answered", `{}`)
		r.put(r.remote, node+"status/resync/answered", fmt.Sprintf(`{"revision":"%d"}`, r.base+2))
		f := r.startTelling()
		r.want("resync")
		f.want(t, `replaced, requests ["answered" "before"]`, "processed in event 7", "answer to before@1, downstream: transaction 7")

		for _, test := range []struct{ value, event, kind string }{
			{`{"type":"full"}`, "resync", "full"},
			{``, "resync", "full"},
			{`{"type":"Upstream"}`, "Requested Resync (UpstreamResync) by " + node + "resync/me", "upstream"},
			{`{"type":"downstream"}`, "Requested Resync (DownstreamResync) by " + node + "resync/me", "downstream"},
		} {
			r.put(r.remote, node+"resync/me", test.value)
			kv, _, _ := r.remote.Get(r.ctx, node+"resync/me")
			r.want(test.event)
			received := []string{"request me, deleted false"}
			if test.kind == "full" {
				received = append(received, `replaced, requests ["answered" "before" "me"]`, "processed in event 7")
			}
			f.want(t, append(received, fmt.Sprintf("answer to me@%d, %s: transaction 7", kv.Revision-r.base, test.kind))...)
		}

		// A new session does not repeat them.
		r.remote.SetAvailable(false)
		synctest.Wait()
		r.remote.SetAvailable(true)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		r.want("resync")
		f.want(t, `replaced, requests ["answered" "before" "me"]`, "processed in event 7")

		r.put(r.remote, node+"resync/me", `{"type":"all"}`)
		r.put(r.remote, node+"resync/me", `full`)
		r.delete(node + "resync/me")
		r.want()
		f.want(t, "request me, deleted false", `answer to me@8, all: no transaction unknown resync type "all": use "full", "upstream" or "downstream"`,
			"request me, deleted false", `answer to me@9, : no transaction request is not valid JSON: put {"type": "full"}, or "upstream", or "downstream"`, "request me, deleted true")
	})
}

// If the queue is full, the later resync answers the request once.
func TestRequestWhileTheQueueIsFull(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.startTelling()
		f.want(t, "replaced, requests []", "processed in event 7")
		r.want("resync")
		r.setFull(true)
		r.remote.Batch(r.ctx, []store.Change{
			{KV: store.KV{Key: podKey, Value: []byte(podValue(""))}},
			{KV: store.KV{Key: node + "resync/me", Value: []byte(`{"type":"upstream"}`)}},
		})
		synctest.Wait()
		f.want(t, "request me, deleted false")
		r.setFull(false)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		f.want(t, `replaced, requests ["me"]`, "processed in event 7", "answer to me@1, upstream: transaction 7")
		r.put(r.remote, podKey, podValue("10.1.1.2"))
		r.want("resync pod=k8s/pod/web/namespace/default", "change pod=k8s/pod/web/namespace/default")
		f.want(t)
	})
}
