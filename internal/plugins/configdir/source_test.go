package configdir_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/lib/dirwatch"
	"github.com/contiv/contiv/internal/plugins/configdir"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loop records events. It is full for each token in full.
type loop struct {
	events chan *controller.ExternalConfigChange
	full   chan struct{}
}

func (l loop) PushEvent(_ context.Context, event controller.Event) error {
	select {
	case <-l.full:
		return fmt.Errorf("%s: %w", event.Name(), controller.ErrQueueFull)
	default:
		l.events <- event.(*controller.ExternalConfigChange)
		return nil
	}
}

type rig struct {
	t      *testing.T
	dir    string
	local  store.Broker
	loop   loop
	source *configdir.Source
	stop   func()
}

func newRig(t *testing.T, files map[string]string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), local: memory.New(), loop: loop{make(chan *controller.ExternalConfigChange, 100), make(chan struct{}, 2)}}
	for name, text := range files {
		r.write(name, text)
	}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) start() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	opts := dirwatch.Options{Dir: r.dir, Settle: 5 * time.Millisecond, Rescan: time.Hour}
	source, err := configdir.New(ctx, opts, r.local, slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		source.Run(ctx, r.loop)
	}()
	r.source = source
	r.stop = func() {
		cancel()
		<-done
	}
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path+".tmp", []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) remove(name string) {
	r.t.Helper()
	if err := os.Remove(filepath.Join(r.dir, name)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) wantChange(want ...string) {
	r.t.Helper()
	select {
	case e := <-r.loop.events:
		got := make(map[string]bool)
		for key, value := range e.Changes {
			sign := "+"
			if value == nil {
				sign = "-"
			}
			got[sign+key] = true
		}
		for _, w := range want {
			if !got[w] {
				r.t.Errorf("changes are %v, want %v", got, want)
			}
		}
		if len(got) != len(want) || e.Source != configdir.Name {
			r.t.Errorf("changes of %s are %v, want %v", e.Source, got, want)
		}
	case <-time.After(time.Minute):
		r.t.Fatalf("no change, want %v; status %+v", want, r.source.Status())
	}
}

func (r *rig) wantSnapshot(want ...string) {
	r.t.Helper()
	config, err := r.source.GetConfigSnapshot()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, key := range want {
		if config[key] == nil {
			r.t.Errorf("no value of %s", key)
		}
	}
	if len(config) != len(want) {
		r.t.Errorf("values are %v, want %v's", config, want)
	}
}

func (r *rig) awaitErr(name, want string) {
	r.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, f := range r.source.Status().Files {
			if f.Name == name && strings.Contains(f.Err, want) {
				return
			}
		}
	}
	r.t.Fatalf("status is %+v, want an error with %q", r.source.Status(), want)
}

func loopback(name string, mtu int) string {
	return fmt.Sprintf("model: vpp.interfaces\nvalue: {name: %s, type: SOFTWARE_LOOPBACK, mtu: %d}\n", name, mtu)
}

func key(name string) string { return "config/vpp/v2/interfaces/" + name }

func TestFilesAreValues(t *testing.T) {
	r := newRig(t, map[string]string{"a.yaml": loopback("a1", 1) + "---\n" + loopback("a2", 1), "b.yaml": loopback("b", 1)})
	r.wantSnapshot(key("a1"), key("a2"), key("b"))

	r.write("a.yaml", loopback("a1", 2)+"---\n"+loopback("a3", 1))
	r.wantChange("+"+key("a1"), "-"+key("a2"), "+"+key("a3"))
	r.wantSnapshot(key("a1"), key("a3"), key("b"))
	r.remove("b.yaml")
	r.wantChange("-" + key("b"))
	r.write("c.json", `{"key": "config/vpp/v2/interfaces/c", "value": {"name": "c"}}`)
	r.wantChange("+" + key("c"))
}

func TestFullQueueOfEvents(t *testing.T) {
	r := newRig(t, nil)
	r.loop.full <- struct{}{}
	r.loop.full <- struct{}{}
	r.write("a.yaml", loopback("a", 1))
	r.wantChange("+" + key("a"))
	r.write("b.yaml", loopback("b", 1))
	r.wantChange("+" + key("b"))
}

func TestMistakeTakesNothingAway(t *testing.T) {
	r := newRig(t, map[string]string{"a.yaml": loopback("a", 1)})
	r.write("a.yaml", loopback("a", 2)+"---\n"+"model: vpp.interfaces\nvalue: {mtu: 2}\n")
	r.awaitErr("a.yaml", "line 4: a ligato.vpp.interfaces.Interface has no key")
	r.wantSnapshot(key("a"))

	r.stop()
	r.start()
	r.awaitErr("a.yaml", "line 4")
	r.wantSnapshot(key("a"))
	if got := r.source.Status().Files[0]; got.Of != configdir.Earlier || got.Values != 1 {
		t.Errorf("status is %+v", got)
	}

	r.write("a.yaml", loopback("a", 3))
	r.wantChange("+" + key("a"))
	if got := r.source.Status().Files[0]; got.Of != configdir.Present || got.Err != "" {
		t.Errorf("status is %+v", got)
	}
}

type refusing struct {
	store.Broker
	times atomic.Int32
}

func (r *refusing) Put(ctx context.Context, key string, value []byte) error {
	if r.times.Add(-1) >= 0 {
		return errors.New("no space left on device")
	}
	return r.Broker.Put(ctx, key, value)
}

func TestFileIsSavedOnceThereIsRoom(t *testing.T) {
	r := newRig(t, nil)
	r.stop()
	local := &refusing{Broker: r.local}
	r.local = local
	r.start()
	local.times.Store(1)
	r.write("a.yaml", loopback("a", 1400))
	r.wantChange("+" + key("a"))
	r.write("b.yaml", loopback("b", 1400))
	r.wantChange("+" + key("b"))

	r.stop()
	r.write("a.yaml", "mistake")
	r.start()
	r.wantSnapshot(key("a"), key("b"))
}

func TestRemovedFileIsNotRemembered(t *testing.T) {
	r := newRig(t, map[string]string{"a.yaml": loopback("a", 1)})
	r.remove("a.yaml")
	r.wantChange("-" + key("a"))
	r.stop()
	r.write("a.yaml", "key: [")
	r.start()
	r.wantSnapshot()
	if got := r.source.Status().Files[0]; got.Of != configdir.Nothing {
		t.Errorf("status is %+v", got)
	}
}

func TestFileRemovedWhileNobodyWatched(t *testing.T) {
	r := newRig(t, map[string]string{"a.yaml": loopback("a", 1), "b.yaml": loopback("b", 1)})
	r.stop()
	r.remove("a.yaml")
	r.start()
	r.wantSnapshot(key("b"))
}

func TestLastFileCounts(t *testing.T) {
	r := newRig(t, map[string]string{"a.yaml": loopback("x", 1), "b.yaml": loopback("x", 2)})
	r.wantSnapshot(key("x"))
	want := configdir.Override{Key: key("x"), File: "a.yaml"}
	if got := r.source.Status().Files[1].Overrides; len(got) != 1 || got[0] != want {
		t.Errorf("overrides are %v, want %v", got, want)
	}
	r.remove("b.yaml")
	r.wantChange("+" + key("x"))
}

func TestStatusIsServed(t *testing.T) {
	r := newRig(t, map[string]string{"a.yaml": loopback("a", 1), "b.yaml": "1"})
	answer := httptest.NewRecorder()
	r.source.Handler().ServeHTTP(answer, httptest.NewRequest("GET", configdir.URL, nil))
	var status configdir.Status
	if err := json.Unmarshal(answer.Body.Bytes(), &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Files) != 2 || status.Files[0].Values != 1 || !strings.Contains(status.Files[1].Err, "line 1") {
		t.Errorf("status is %s", answer.Body)
	}
}

func TestDirectoryMustExist(t *testing.T) {
	opts := dirwatch.Options{Dir: filepath.Join(t.TempDir(), "none")}
	_, err := configdir.New(context.Background(), opts, memory.New(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "does not exist: create it") {
		t.Errorf("got %v", err)
	}
}

// A file with invalid merge directives is not used, because they would fail the whole change; other
// files are.
func TestWrongDirectivesFailAlone(t *testing.T) {
	r := newRig(t, map[string]string{"a.yaml": "key: config/contiv/v1/merge/lo\nvalue: {key: lo}\n", "b.yaml": loopback("b", 1)})
	r.wantSnapshot(key("b"))
	r.awaitErr("a.yaml", "not a key of a mergeable value")
	r.write("c.yaml", loopback("c", 1))
	r.write("d.yaml", "key: config/contiv/v1/merge/x\nvalue: {key: x}\n")
	r.awaitErr("d.yaml", "not a key of a mergeable value")
	r.wantSnapshot(key("b"), key("c"))
}
