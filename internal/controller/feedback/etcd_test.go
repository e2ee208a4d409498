package feedback_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/lib/config"
	"google.golang.org/protobuf/proto"
)

type realRig struct {
	*agent
	t      *testing.T
	ctx    context.Context
	server *etcdtest.Server
	db     *etcd.Store
}

func newRealRig(t *testing.T) *realRig {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r := &realRig{t: t, ctx: ctx, server: etcdtest.Start(t)}
	r.db = r.server.Store()
	cfg := controller.DefaultConfig()
	cfg.RemoteDBProbingInterval = config.Duration(200 * time.Millisecond)
	r.agent = startAgent(t, r.server.Store(), &southbound{}, cfg)
	t.Cleanup(r.stop)
	if err := r.await("the startup resync", func() bool { return r.loop.Ready() == nil }); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *realRig) await(what string, done func() bool) error {
	for !done() {
		select {
		case <-r.ctx.Done():
			return fmt.Errorf("not within a minute: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

func (r *realRig) want(key, status string) {
	r.t.Helper()
	got := ""
	err := r.await(key+" is "+status, func() bool {
		got = statusText(r.t, r.db, key)
		return strings.HasPrefix(got, status)
	})
	if err != nil {
		r.t.Fatalf("%v, but %s", err, got)
	}
}

func put(key string, value []byte) store.Change {
	return store.Change{KV: store.KV{Key: node + key, Value: value}}
}

func TestTransactionsOfEtcdStayTogether(t *testing.T) {
	r := newRealRig(t)
	for _, test := range []struct {
		name       string
		n, padding int
	}{
		{"three", 3, 0}, {"all that etcd allows", 128, 0}, {"large values", 100, 12 << 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := len(r.scheduler.History(time.Time{}, time.Time{}))
			var changes []store.Change
			for i := range test.n {
				name := fmt.Sprintf("%s%d", strings.ReplaceAll(test.name, " ", "-"), i)
				changes = append(changes, put("config/vpp/v2/interfaces/"+name, fmt.Appendf(nil, `{"name":%q%s}`, name, strings.Repeat(" ", test.padding))))
			}
			if err := r.db.Batch(r.ctx, changes); err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				r.want(strings.TrimPrefix(c.Key, node), "CONFIGURED")
			}
			txns := r.scheduler.History(time.Time{}, time.Time{})[before:]
			if len(txns) != 1 || len(txns[0].Values) != test.n {
				t.Errorf("one transaction of etcd with %d values became %d transactions, the first with %d values", test.n, len(txns), len(txns[0].Values))
			}
		})
	}
}

func TestFeedbackWithEtcd(t *testing.T) {
	r := newRealRig(t)
	tap, err := proto.Marshal(&vpp_interfaces.Interface{Name: "loop1", Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK})
	if err != nil {
		t.Fatal(err)
	}
	err = r.db.Batch(r.ctx, []store.Change{
		put(loop1, tap), // binary
		put(arp1, []byte(`{"interface":"loop1","ip_address":"10.0.0.9"}`)),
		put("config/vpp/v2/interfaces/bad", []byte("{")),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.want(loop1, "CONFIGURED")
	r.want(arp1, "CONFIGURED")
	r.want("config/vpp/v2/interfaces/bad", "INVALID")

	// etcd restarts; changes in the meantime are published afterwards.
	r.server.Stop()
	txn := r.scheduler.NewTransaction()
	txn.Delete(loop1)
	seq, err := txn.Commit(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.server.Start()
	if err := r.await("a later transaction in the status", func() bool {
		return strings.Contains(statusText(t, r.db, arp1), fmt.Sprintf("CONFIGURED@%d in #%d", r.revision(arp1), seq+1))
	}); err != nil {
		t.Error(err)
	}

	for _, key := range []string{loop1, arp1, "config/vpp/v2/interfaces/bad"} {
		if err := r.db.Delete(r.ctx, node+key); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.await("no status is left", func() bool {
		kvs, _, err := r.db.List(r.ctx, node+"status/")
		return err == nil && len(kvs) == 0
	}); err != nil {
		t.Error(err)
	}
}

func (r *realRig) revision(key string) int64 {
	kv, _, _ := r.db.Get(r.ctx, node+key)
	return kv.Revision
}
