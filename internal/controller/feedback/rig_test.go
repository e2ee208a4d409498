package feedback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	feedbackpb "github.com/contiv/contiv/api/contiv/feedback"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/dbwatcher"
	"github.com/contiv/contiv/internal/controller/feedback"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const node = "/vnf-agent/node1/"

// southbound fails to create values with "fail" in the name, and waits for gate if not nil.
type southbound struct{ gate chan struct{} }

func (s *southbound) create(ctx context.Context, key string) error {
	if s.gate != nil {
		select {
		case <-s.gate:
		case <-ctx.Done():
		}
	}
	if strings.Contains(key, "fail") {
		return errors.New("no such device")
	}
	return nil
}

// register registers interfaces with derived addresses, and ARP entries, which depend on their
// interface.
func (s *southbound) register(t testing.TB, scheduler *kvscheduler.Scheduler) {
	t.Helper()
	err := errors.Join(
		kvscheduler.Register(scheduler, kvscheduler.Descriptor[*vpp_interfaces.Interface, kvscheduler.NoMetadata]{
			Name: "interface", NB: true, Keys: kvscheduler.KeySpace{Prefix: models.VPPInterface.KeyPrefix()},
			Create: func(ctx context.Context, key string, _ *vpp_interfaces.Interface) (kvscheduler.NoMetadata, error) {
				return kvscheduler.NoMetadata{}, s.create(ctx, key)
			},
			Update: func(_ context.Context, _ string, _, _ *vpp_interfaces.Interface, _ kvscheduler.NoMetadata) (kvscheduler.NoMetadata, error) {
				return kvscheduler.NoMetadata{}, nil
			},
			Delete: func(context.Context, string, *vpp_interfaces.Interface, kvscheduler.NoMetadata) error { return nil },
			DerivedValues: func(_ string, i *vpp_interfaces.Interface) (derived []kvscheduler.KeyValue) {
				for _, address := range i.GetIpAddresses() {
					derived = append(derived, kvscheduler.KeyValue{Key: models.VPPInterfaceAddressKey(i.GetName(), models.AddrStatic, address), Value: &emptypb.Empty{}})
				}
				return derived
			},
		}),
		kvscheduler.Register(scheduler, kvscheduler.Descriptor[*vpp_l3.ARPEntry, kvscheduler.NoMetadata]{
			Name: "arp", NB: true, Keys: kvscheduler.KeySpace{Prefix: models.VPPARP.KeyPrefix()},
			Dependencies: func(_ string, e *vpp_l3.ARPEntry) []kvscheduler.Dependency {
				return []kvscheduler.Dependency{{Label: "interface-exists", Key: models.VPPInterfaceKey(e.GetInterface())}}
			},
			Create: func(ctx context.Context, key string, _ *vpp_l3.ARPEntry) (kvscheduler.NoMetadata, error) {
				return kvscheduler.NoMetadata{}, s.create(ctx, key)
			},
			Delete: func(context.Context, string, *vpp_l3.ARPEntry, kvscheduler.NoMetadata) error { return nil },
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// agent is the path from etcd to the southbound, without plugins.
type agent struct {
	scheduler *kvscheduler.Scheduler
	loop      *controller.Controller
	publisher *feedback.Publisher
	watcher   *dbwatcher.Watcher
	files     *files
}

// files is a source other than etcd.
type files struct{ snapshot controller.ExternalConfig }

func (f *files) String() string { return "files" }
func (f *files) GetConfigSnapshot() (controller.ExternalConfig, error) {
	return f.snapshot, nil
}

func startAgent(t testing.TB, db store.Watchable, sb *southbound, config controller.Config) *agent {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	a := &agent{scheduler: kvscheduler.New(kvscheduler.Options{Logger: log}), files: &files{controller.ExternalConfig{}}}
	sb.register(t, a.scheduler)
	a.publisher = feedback.Start(feedback.Options{Node: "node1", Store: db, Scheduler: a.scheduler, Config: config, Reserved: []string{"policy/"}, Log: log})
	a.loop = controller.New(controller.Options{
		Config: config, Scheduler: controller.NewScheduler(a.scheduler), Sources: []controller.ExternalConfigSource{a.files},
		Observer: a.publisher.GivenOutside, Log: log,
	})
	a.loop.Start()
	a.watcher = dbwatcher.Start(dbwatcher.Options{Node: "node1", Remote: db, Loop: a.loop, Feedback: a.publisher, Config: config, Log: log})
	return a
}

func (a *agent) stop() {
	a.watcher.Close()
	a.loop.Close(context.Background())
	a.publisher.Close()
	a.scheduler.Close()
}

// rig is an agent on a store in memory, in a synctest bubble.
type rig struct {
	*agent
	t      *testing.T
	db     *memory.Store
	sb     *southbound
	config controller.Config
}

func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, db: memory.New(), sb: &southbound{}, config: controller.DefaultConfig()}
		test(t, r)
		if r.agent != nil {
			r.stop()
		}
	})
}

func (r *rig) start() {
	r.t.Helper()
	r.agent = startAgent(r.t, r.db, r.sb, r.config)
	r.settle()
}

func (r *rig) settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func (r *rig) put(key, value string) (revision int64) {
	r.t.Helper()
	if err := r.db.Put(r.t.Context(), node+key, []byte(value)); err != nil {
		r.t.Fatal(err)
	}
	kv, _, _ := r.db.Get(r.t.Context(), node+key)
	return kv.Revision
}

func (r *rig) delete(key string) {
	r.t.Helper()
	if err := r.db.Delete(r.t.Context(), node+key); err != nil {
		r.t.Fatal(err)
	}
}

func read(t testing.TB, db store.Broker, key string, into proto.Message) (found bool) {
	t.Helper()
	kv, found, err := db.Get(t.Context(), node+"status/"+key)
	if err != nil || !found {
		return false
	}
	if err := protojson.Unmarshal(kv.Value, into); err != nil || !json.Valid(kv.Value) {
		t.Fatalf("status of %s: %s: %v", key, kv.Value, err)
	}
	return true
}

// statusText formats the status as "STATE@revision, transaction n: error [details] derived".
func statusText(t testing.TB, db store.Broker, key string) string {
	t.Helper()
	var s feedbackpb.ValueStatus
	if !read(t, db, key, &s) {
		return "none"
	}
	if s.GetValue().GetKey() != key {
		t.Errorf("status under %s is of %s", key, s.GetValue().GetKey())
	}
	if s.GetTime().AsTime().IsZero() {
		t.Errorf("status of %s has no time", key)
	}
	text := fmt.Sprintf("%v@%d", s.GetValue().GetState(), s.GetRevision())
	if from := strings.Join(s.GetSources(), ", "); from != controller.DatabaseSource {
		text += " from " + from
	}
	if s.Transaction != nil {
		text += fmt.Sprintf(" in #%d", s.GetTransaction())
	}
	if s.GetValue().GetError() != "" {
		text += ": " + s.GetValue().GetError()
	}
	if details := s.GetValue().GetDetails(); len(details) > 0 {
		text += " [" + strings.Join(details, ", ") + "]"
	}
	for _, need := range s.GetWaitsFor() {
		text += " waits for " + need
	}
	for _, warning := range s.GetWarnings() {
		text += ", but " + warning
	}
	for _, d := range s.GetDerivedValues() {
		text += fmt.Sprintf(" + %s %v", d.GetKey(), d.GetState())
	}
	return text
}

func (r *rig) want(key, format string, args ...any) {
	r.t.Helper()
	want := fmt.Sprintf(format, args...)
	got := statusText(r.t, r.db, key)
	if got != want && (!strings.HasSuffix(want, "…") || !strings.HasPrefix(got, strings.TrimSuffix(want, "…"))) {
		r.t.Errorf("status of %s:\n got %s\nwant %s", key, got, want)
	}
}

// written returns the revision of a status in the database.
func (r *rig) written(key string) int64 {
	kv, _, _ := r.db.Get(r.t.Context(), node+"status/"+key)
	return kv.Revision
}
