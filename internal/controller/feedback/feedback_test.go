package feedback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	feedbackpb "github.com/contiv/contiv/api/contiv/feedback"
	mergepb "github.com/contiv/contiv/api/contiv/merge"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/dbwatcher"
	"github.com/contiv/contiv/internal/controller/feedback"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

const (
	loop1 = "config/vpp/v2/interfaces/loop1"
	arp1  = "config/vpp/v2/arp/loop1/10.0.0.9"
)

func TestStatusOfEachState(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		rev := r.put(loop1, `{"name":"loop1","ip_addresses":["10.0.0.1/24"]}`)
		r.settle()
		r.want(loop1, "CONFIGURED@%d in #1 + vpp/interface/loop1/address/static/10.0.0.1/24 CONFIGURED", rev)

		const pending = "config/vpp/v2/arp/absent/10.0.0.9"
		rev = r.put(pending, `{"interface":"absent","ip_address":"10.0.0.9"}`)
		r.settle()
		r.want(pending, "PENDING@%d in #2 [interface-exists] waits for interface-exists: config/vpp/v2/interfaces/absent", rev)
		r.put("config/vpp/v2/interfaces/absent", `{"name":"absent"}`)
		r.settle()
		r.want(pending, "CONFIGURED@%d in #3", rev)

		const fails = "config/vpp/v2/interfaces/fail"
		rev = r.put(fails, `{"name":"fail"}`)
		r.settle()
		r.want(fails, "RETRYING@%d in #4: no such device", rev)
		time.Sleep(time.Minute)
		r.settle()
		r.want(fails, "FAILED@%d in #7: no such device", rev)

		const unimplemented = "config/vpp/l2/v2/bridge-domain/bd1"
		rev = r.put(unimplemented, `{"name":"bd1"}`)
		r.settle()
		r.want(unimplemented, "UNIMPLEMENTED@%d in #8…", rev)

		const directives = "config/contiv/v1/merge/" + loop1
		rev = r.put(directives, `{"key":"`+loop1+`","unset":["mtu"]}`)
		r.settle()
		r.want(directives, "CONFIGURED@%d…", rev)

		for _, key := range []string{loop1, pending, fails, unimplemented, directives} {
			r.delete(key)
		}
		r.settle()
		for _, key := range []string{loop1, pending, fails, unimplemented, directives} {
			r.want(key, "none")
		}
	})
}

func TestStatusOfInvalidValues(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		good := r.put(loop1, `{"name":"loop1"}`)
		r.settle()
		r.want(loop1, "CONFIGURED@%d in #1", good)
		txns := len(r.scheduler.History(time.Time{}, time.Time{}))

		rev := r.put(loop1, `{"name":`)
		r.settle()
		r.want(loop1, "INVALID@%d: value of key %q is no JSON of ligato.vpp.interfaces.Interface…", rev, loop1)
		if got := statusText(t, r.db, loop1); !strings.Contains(got, fmt.Sprintf("[the value of revision %d stays in force]", good)) {
			t.Errorf("status: %s", got)
		}
		const typo = "config/vpp/v2/interface/loop1"
		rev = r.put(typo, `{}`)
		r.settle()
		r.want(typo, `INVALID@%d: key %q matches no model: did you mean "config/vpp/v2/interfaces/"?…`, rev, typo)
		const binary = "config/vpp/v2/interfaces/loop2"
		rev = r.put(binary, "\xff\x00\xff")
		r.settle()
		r.want(binary, "INVALID@%d: value of key %q is no binary protobuf…", rev, binary)
		const bytes = "config/vpp/v2/interfaces/\xff\x00"
		rev = r.put(bytes, "{}")
		r.put("", "{}")
		r.settle()
		var s feedbackpb.ValueStatus
		if !read(t, r.db, bytes, &s) || s.GetRevision() != rev || s.GetValue().GetState() != pb.ValueState_INVALID {
			t.Errorf("status of a key that is no text: %v", &s)
		}
		if !read(t, r.db, "", &s) {
			t.Error("no status of a key without a name")
		}
		if n := len(r.scheduler.History(time.Time{}, time.Time{})); n != txns {
			t.Errorf("invalid values led to %d transactions", n-txns)
		}

		rev = r.put(loop1, `{"name":"loop1","mtu":1400,"rx_mode":{}}`)
		r.settle()
		r.want(loop1, `CONFIGURED@%d in #2, but unknown field "rx_mode" (did you mean "rx_modes"?) is left out`, rev)
		rev = r.put(loop1, `{"name":"loop1","mtu":1400}`)
		r.delete(typo)
		r.delete(binary)
		r.delete(bytes)
		r.delete("")
		r.settle()
		r.want(loop1, "CONFIGURED@%d in #2", rev)
		r.want(typo, "none")
		r.want(binary, "none")
	})
}

// give sets the value of a key in the source other than etcd; nil removes it.
func (r *rig) give(key string, value proto.Message) {
	r.t.Helper()
	r.files.snapshot[key] = value
	if value == nil {
		delete(r.files.snapshot, key)
	}
	err := r.loop.PushEvent(r.t.Context(), &controller.ExternalConfigChange{Source: "files", Changes: controller.ExternalConfig{key: value}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.settle()
}

func TestStatusOfValuesOfOtherSources(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.give(loop1, &vpp_interfaces.Interface{Name: "loop1"})
		r.want(loop1, "CONFIGURED@0 from files in #1")
		rev := r.put(loop1, `{"name":"loop1","mtu":1400}`)
		r.settle()
		r.want(loop1, "CONFIGURED@%d from db, files in #2", rev)
		r.delete(loop1)
		r.settle()
		r.want(loop1, "CONFIGURED@0 from files in #3")

		const pending = "config/vpp/v2/arp/absent/10.0.0.9"
		r.give(pending, &vpp_l3.ARPEntry{Interface: "absent", IpAddress: "10.0.0.9"})
		r.want(pending, "PENDING@0 from files in #4 [interface-exists] waits for…")
		const directives = "config/contiv/v1/merge/" + loop1
		r.give(directives, &mergepb.Directives{Key: loop1, Unset: []string{"mtu"}})
		r.want(directives, "CONFIGURED@0 from files…")

		// The directory was emptied; the resync notices it.
		r.files.snapshot = controller.ExternalConfig{loop1: &vpp_interfaces.Interface{Name: "loop1"}}
		if err := r.watcher.RequestResync(); err != nil {
			t.Fatal(err)
		}
		r.settle()
		r.want(pending, "none")
		r.want(directives, "none")
		r.want(loop1, "CONFIGURED@0 from files…")

		// Statuses of an earlier run are updated or removed.
		r.stop()
		r.start()
		r.want(loop1, "none")
		r.give(loop1, &vpp_interfaces.Interface{Name: "loop1"})
		r.want(loop1, "CONFIGURED@0 from files…")
		r.give(loop1, nil)
		r.want(loop1, "none")
	})
}

func TestStatusComesAfterTheTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.sb.gate = make(chan struct{})
		rev := r.put(loop1, `{"name":"loop1"}`)
		r.settle()
		r.want(loop1, "none")
		later := r.put(loop1, `{"name":"loop1","mtu":1400}`)
		close(r.sb.gate)
		r.settle()
		r.want(loop1, "CONFIGURED@%d in #2", later)
		if rev == later {
			t.Error("revisions do not grow")
		}
		// An equal value is processed already.
		same := r.put(loop1, `{ "mtu":1400, "name":"loop1" }`)
		r.settle()
		r.want(loop1, "CONFIGURED@%d in #2", same)
	})
}

func TestStatusesAreWrittenOnlyWhenTheyChange(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.put(loop1, `{"name":"loop1"}`)
		r.settle()
		before := r.written(loop1)
		for range 3 {
			r.watcher.RequestResync()
			r.settle()
		}
		if after := r.written(loop1); after != before {
			t.Errorf("the status was written again: revision %d, %d before", after, before)
		}

		// Many changes of a value are merged into few changes of its status, including the last
		// one.
		changes, err := r.db.Watch(t.Context(), 0, node+"status/"+loop1)
		if err != nil {
			t.Fatal(err)
		}
		var rev int64
		for i := range 500 {
			rev = r.put(loop1, fmt.Sprintf(`{"name":"loop1","mtu":%d}`, 1000+i))
			time.Sleep(2 * time.Millisecond)
		}
		r.settle()
		r.want(loop1, "CONFIGURED@%d…", rev)
		n := 0
		for more := true; more; {
			select {
			case batch := <-changes:
				n += len(batch.Changes)
			default:
				more = false
			}
			synctest.Wait()
		}
		if n < 5 || n > 20 { // one per 100 ms
			t.Errorf("500 changes within a second led to %d statuses", n)
		}
	})
}

func TestRateIsLimited(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.config.FeedbackRate = 100
		for i := range 1000 {
			r.put(fmt.Sprintf("config/vpp/v2/interfaces/i%d", i), fmt.Sprintf(`{"name":"i%d"}`, i))
		}
		r.agent = startAgent(t, r.db, r.sb, r.config)
		count := func() int {
			kvs, _, _ := r.db.List(t.Context(), node+"status/")
			return len(kvs)
		}
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if n := count(); n < 200 || n > 400 {
			t.Errorf("%d statuses after 2.5 s", n)
		}
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if n := count(); n != 1000 {
			t.Errorf("%d statuses in the end", n)
		}
	})
}

func TestNoFeedback(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.config.FeedbackRate = 0
		r.start()
		rev := r.put(loop1, `{"name":"loop1"}`)
		r.settle()
		r.want(loop1, "none")
		if s := r.publisher.Statuses(loop1); len(s) != 1 || s[0].GetRevision() != rev {
			t.Errorf("REST returns %v", s)
		}
	})
}

func TestStatusesByREST(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.put(loop1, `{"name":"loop1"}`)
		bad := r.put("config/vpp/v2/interfaces/bad", `{`)
		r.put("resync/me", ``)
		r.settle()
		get := func(query string) (statuses []feedback.Status) {
			w := httptest.NewRecorder()
			r.publisher.Handler().ServeHTTP(w, httptest.NewRequest("GET", feedback.URL+query, nil))
			if err := json.Unmarshal(w.Body.Bytes(), &statuses); err != nil {
				t.Fatalf("%s: %v", w.Body, err)
			}
			return statuses
		}
		if all := get(""); len(all) != 2 || all[0].GetValue().GetState() != pb.ValueState_INVALID || all[1].GetValue().GetKey() != loop1 {
			t.Errorf("all: %v", all)
		}
		if one := get("?key=config/vpp/v2/interfaces/bad"); len(one) != 1 || one[0].GetRevision() != bad {
			t.Errorf("one: %v", one)
		}
		if none := get("?key=absent"); none == nil || len(none) != 0 {
			t.Errorf("none: %v", none)
		}
	})
}

// Values that cannot be decoded do not reach the scheduler, which the health checks read.
func TestProblems(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.put(loop1, `{"name":"loop1"}`)
		r.put("resync/me", ``)
		r.settle()
		want := func(want string) {
			t.Helper()
			if got := strings.Join(r.publisher.Problems(t.Context()), "|"); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		want("")
		r.put("config/vpp/v2/nothing/b", `{}`)
		r.settle()
		want("1 value in etcd is INVALID, such as: key \"config/vpp/v2/nothing/b\" matches no model: `contivctl models` lists the models")
		r.put("config/vpp/v2/nothing/a", `{}`)
		r.settle()
		want("2 values in etcd are INVALID, such as: key \"config/vpp/v2/nothing/a\" matches no model: `contivctl models` lists the models")
		r.delete("config/vpp/v2/nothing/a")
		r.delete("config/vpp/v2/nothing/b")
		r.settle()
		want("")
	})
}

// etcd refuses large requests: a status that is too long must not block the others.
func TestLongStatusesAreShortened(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		var addresses, unknown []string
		for i := range 5000 {
			addresses = append(addresses, fmt.Sprintf(`"10.0.%d.%d/32"`, i>>8, i&255))
			unknown = append(unknown, fmt.Sprintf(`"a_name_that_nobody_knows_%d":0`, i))
		}
		const many, strange = "config/vpp/v2/interfaces/many", "config/vpp/v2/interfaces/strange"
		rev := r.put(many, `{"name":"many","ip_addresses":[`+strings.Join(addresses, ",")+`]}`)
		r.put(strange, `{"name":"strange",`+strings.Join(unknown, ",")+`}`)
		r.settle()
		r.want(many, "CONFIGURED@%d in #1, but 5000 derived values are not listed here: see contivctl values", rev)
		var s feedbackpb.ValueStatus
		if !read(t, r.db, strange, &s) || len(s.GetWarnings()) != 11 || s.GetWarnings()[10] != "and 4990 more warnings" {
			t.Errorf("%d warnings, the last one %q", len(s.GetWarnings()), s.GetWarnings())
		}
	})
}

// An etcd that refuses writes is not flooded with attempts.
func TestFailedWritesAreRepeatedLessAndLess(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		full := &fullStore{Store: r.db}
		r.publisher.Close()
		r.publisher = feedback.Start(feedback.Options{Node: "node1", Store: full, Scheduler: r.scheduler, Config: r.config, Log: slog.New(slog.DiscardHandler)})
		r.publisher.Replaced(map[string]dbwatcher.Value{loop1: {Revision: 1}}, nil)(&controller.EventRecord{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := full.attempts.Load(); n < 20 || n > 30 { // 0.1 + 0.2 + … + 1.6 s, then each 3 s
			t.Errorf("%d attempts within a minute", n)
		}
		full.room.Store(true)
		r.settle()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		r.want(loop1, "NONEXISTENT@1")
	})
}

// fullStore refuses writes while full.
type fullStore struct {
	*memory.Store
	room     atomic.Bool
	attempts atomic.Int32
}

func (s *fullStore) Batch(ctx context.Context, changes []store.Change) error {
	s.attempts.Add(1)
	if !s.room.Load() {
		return errors.New("no space")
	}
	return s.Store.Batch(ctx, changes)
}

func TestOutageAndRestart(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put("status/config/vpp/v2/interfaces/former", `{"revision":"1"}`)
		r.put("status/resync/former", `{"revision":"1"}`)
		r.put("status/"+loop1, `garbage`)
		arp := r.put(arp1, `{"interface":"loop1","ip_address":"10.0.0.9"}`)
		loop := r.put(loop1, `{"name":"loop1"}`)
		r.start()
		r.want(loop1, "CONFIGURED@%d in #0", loop)
		r.want(arp1, "CONFIGURED@%d in #0", arp)
		for _, key := range []string{"status/config/vpp/v2/interfaces/former", "status/resync/former"} {
			if _, found, _ := r.db.Get(t.Context(), node+key); found {
				t.Errorf("%s of a former run is still there", key)
			}
		}

		// While etcd is down, states change and a status is damaged.
		r.db.SetAvailable(false)
		r.settle()
		txn := r.scheduler.NewTransaction()
		txn.Delete(loop1)
		if _, err := txn.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		r.db.SetAvailable(true)
		time.Sleep(10 * time.Second)
		r.settle()
		// The resync after the outage has restored it.
		r.want(loop1, "CONFIGURED@%d in #2", loop)
		r.want(arp1, "CONFIGURED@%d in #2", arp)

		r.stop()
		r.start()
		r.want(arp1, "CONFIGURED@%d in #0", arp)
	})
}

// Statuses passed to Replace replace the statuses of an earlier run after the first call.
func TestStatusesPassedToTell(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		status := func(key string) string {
			var s feedbackpb.PolicyStatus
			if !read(t, r.db, key, &s) {
				return "none"
			}
			return fmt.Sprint(s.GetRealised(), s.GetReasons())
		}
		want := func(what string, statuses ...string) {
			t.Helper()
			if got := []string{status("policy/x/a"), status("policy/x/b")}; !slices.Equal(got, statuses) {
				t.Errorf("%s: %q, want %q", what, got, statuses)
			}
		}
		r.put("status/policy/x/a", `{"realised":true}`)
		r.put("status/policy/x/b", `{"realised":true}`)
		r.start()
		want("before the first Replace", "true []", "true []")
		r.publisher.Replace("policy/", map[string]proto.Message{"policy/x/a": &feedbackpb.PolicyStatus{Reasons: []string{"no room"}}})
		r.settle()
		want("after Replace of a", "false [no room]", "none")
		if len(r.publisher.Statuses("")) != 0 {
			t.Error("it is no status of a value")
		}
		revision := r.written("policy/x/a")
		r.publisher.Replace("policy/", map[string]proto.Message{"policy/x/a": &feedbackpb.PolicyStatus{Reasons: []string{"no room"}}})
		r.put(loop1, `{"name":"loop1"}`)
		r.settle()
		if r.written("policy/x/a") != revision {
			t.Error("the same was written again")
		}
		r.db.SetAvailable(false)
		r.publisher.Replace("policy/", map[string]proto.Message{"policy/x/b": &feedbackpb.PolicyStatus{Realised: true}})
		time.Sleep(time.Minute)
		r.db.SetAvailable(true)
		time.Sleep(time.Minute)
		want("after an outage", "none", "true []")
	})
}

func TestWipedDatabaseGetsItsStatusesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.put(loop1, `{"name":"loop1"}`)
		r.settle()
		r.db.Wipe()
		rev := r.put(loop1, `{"name":"loop1"}`)
		time.Sleep(2 * time.Minute)
		r.settle()
		r.want(loop1, "CONFIGURED@%d…", rev)
	})
}

// KSR deletes the statuses of a deleted node, which may return at once, and an unanswered write may
// be carried out after a newer one.
func TestForeignChangesOfStatusesAreUndone(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		loop := r.put(loop1, `{"name":"loop1"}`)
		arp := r.put(arp1, `{"interface":"loop1","ip_address":"10.0.0.9"}`)
		r.settle()
		r.delete("status/" + loop1)
		r.put("status/"+arp1, `{"revision":"1"}`)
		time.Sleep(2 * time.Minute)
		r.settle()
		r.want(loop1, "CONFIGURED@%d…", loop)
		r.want(arp1, "CONFIGURED@%d…", arp)
	})
}

func TestResyncIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		for i, kind := range []string{"full", "upstream", "downstream"} {
			rev := r.put("resync/mine", `{"type":"`+kind+`"}`)
			r.settle()
			var answer feedbackpb.ResyncStatus
			if !read(t, r.db, "resync/mine", &answer) || answer.GetRevision() != rev || answer.GetType() != kind || answer.GetError() != "" {
				t.Fatalf("answer to %s: %v", kind, &answer)
			}
			if answer.GetTransaction() != uint64(i+1) {
				t.Errorf("transaction %d", answer.GetTransaction())
			}
			record := r.scheduler.RecordedTxn(answer.GetTransaction())
			if want := []kvscheduler.ResyncType{kvscheduler.FullResync, kvscheduler.UpstreamResync, kvscheduler.DownstreamResync}[i]; record.Resync != want {
				t.Errorf("%s led to a %v", kind, record.Resync)
			}
		}
		// The next agent does not repeat answers.
		r.stop()
		r.start()
		var answer feedbackpb.ResyncStatus
		if !read(t, r.db, "resync/mine", &answer) || answer.GetTransaction() != 3 {
			t.Errorf("after a restart, the answer is %v", &answer)
		}
		r.delete("resync/mine")
		r.settle()
		if read(t, r.db, "resync/mine", &answer) {
			t.Error("the answer outlives its request")
		}
		r.put("resync/mine", `{"type":"sideways"}`)
		r.settle()
		if read(t, r.db, "resync/mine", &answer); !strings.Contains(answer.GetError(), `use "full"`) || answer.Transaction != nil {
			t.Errorf("answer to nonsense: %v", &answer)
		}
	})
}
