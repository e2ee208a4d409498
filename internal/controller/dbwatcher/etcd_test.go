package dbwatcher_test

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/dbwatcher"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/bolt"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/lib/config"
)

type realRig struct {
	t      *testing.T
	ctx    context.Context
	server *etcdtest.Server
	bolt   string
	loop   *loop
}

func newRealRig(t *testing.T) *realRig {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return &realRig{
		t: t, ctx: ctx, server: etcdtest.Start(t), bolt: filepath.Join(t.TempDir(), "bolt.db"),
		loop: &loop{pushed: make(chan controller.Event, 100)},
	}
}

func (r *realRig) start() (stop func()) {
	r.t.Helper()
	local, err := bolt.Open(r.bolt, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := controller.DefaultConfig()
	cfg.DelayLocalResync = config.Duration(500 * time.Millisecond)
	cfg.RemoteDBProbingInterval = config.Duration(200 * time.Millisecond)
	remote := r.server.Store()
	w := dbwatcher.Start(dbwatcher.Options{
		Node: "node1", Remote: remote, Local: local, Loop: r.loop,
		Config: cfg, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	return func() {
		w.Close()
		remote.Close()
		local.Close()
	}
}

func (r *realRig) put(s store.Broker, key, value string) {
	r.t.Helper()
	if err := s.Put(r.ctx, key, []byte(value)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *realRig) want(events ...string) {
	r.t.Helper()
	for _, want := range events {
		select {
		case e := <-r.loop.pushed:
			if got := describe(e); got != want {
				r.t.Fatalf("got event %q, want %q", got, want)
			}
		case <-r.ctx.Done():
			r.t.Fatalf("no event, want %q", want)
		}
	}
}

func TestWithEtcd(t *testing.T) {
	r := newRealRig(t)
	etcd := r.server.Store()
	r.put(etcd, podKey, podValue(""))
	r.put(etcd, ifKey, `{"name":"tap1"}`)
	stop := r.start()
	const all = "resync pod=k8s/pod/web/namespace/default ext=config/vpp/v2/interfaces/tap1"
	r.want(all)
	r.put(etcd, podKey, podValue("10.1.1.2"))
	r.want("change pod=k8s/pod/web/namespace/default")

	// etcd stops and starts during operation.
	r.server.Stop()
	r.server.Start()
	r.want(all)
	r.put(etcd, podKey, podValue("10.1.1.3"))
	r.want("change pod=k8s/pod/web/namespace/default")

	// Compaction has no effect.
	r.server.Compact(etcd)
	r.put(etcd, podKey, podValue("10.1.1.4"))
	r.want("change pod=k8s/pod/web/namespace/default")

	// The agent restarts without etcd, from the mirror.
	r.server.Stop()
	stop()
	stop = r.start()
	r.want("local " + all)
	r.server.Start()
	r.want(all)

	// etcd returns empty.
	r.server.Stop()
	r.server.Wipe()
	r.server.Start()
	r.put(etcd, ifKey, `{"name":"tap1"}`)
	r.put(etcd, podKey, podValue(""))
	r.want(all)

	// etcd returns empty while the agent is down.
	stop()
	r.server.Stop()
	r.server.Wipe()
	r.server.Start()
	stop = r.start()
	r.want("local " + all)
	r.put(etcd, ifKey, `{"name":"tap1"}`)
	r.put(etcd, podKey, podValue(""))
	r.want(all)
	stop()
}
