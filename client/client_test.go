package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/client/clienttest"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/models"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tap(name string, addresses ...string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true, IpAddresses: addresses}
}

func route(via string) *vpp_l3.Route {
	return &vpp_l3.Route{DstNetwork: "10.1.0.0/16", OutgoingInterface: via}
}

var bridge = &vpp_l2.BridgeDomain{Name: "bd"}

type rig struct {
	*testing.T
	*client.Client
	agent *clienttest.Agent
	etcd  *etcdtest.Server // nil over gRPC
}

func overBoth(t *testing.T, test func(r *rig)) {
	t.Run("gRPC", func(t *testing.T) { test(overGRPC(t)) })
	t.Run("etcd", func(t *testing.T) { test(overEtcd(t)) })
}

func overGRPC(t *testing.T) *rig {
	r := &rig{T: t}
	r.start()
	r.Client = r.dial("router")
	return r
}

func overEtcd(t *testing.T) *rig {
	r := &rig{T: t, etcd: etcdtest.Start(t)}
	r.start(r.etcd.Endpoint())
	c, err := client.NewEtcd(clienttest.Node, etcd.Config{Endpoints: []string{r.etcd.Endpoint()}})
	r.ok(err)
	t.Cleanup(func() { r.ok(c.Close()) })
	r.Client = c
	return r
}

func (r *rig) start(endpoints ...string) {
	r.Helper()
	var err error
	r.agent, err = clienttest.Start(clienttest.Options{Etcd: endpoints})
	r.ok(err)
	r.Cleanup(func() { r.ok(r.agent.Close()) })
}

func (r *rig) dial(name string) *client.Client {
	r.Helper()
	c, err := client.DialGRPC(r.agent.Address, client.GRPC{Name: name})
	r.ok(err)
	r.Cleanup(func() { r.ok(c.Close()) })
	return c
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) put(values ...proto.Message) *client.Result {
	r.Helper()
	result, err := r.Txn().Put(values...).Commit(r.Context())
	r.ok(err)
	return result
}

func (r *rig) want(want map[string]string) {
	r.Helper()
	values, err := r.Get(r.Context())
	r.ok(err)
	got := make(map[string]string)
	for _, v := range values {
		if models.Key(v.Message) != v.Key {
			r.Errorf("the value of %s is %v", v.Key, v.Message)
		}
		statuses, err := r.Status(r.Context(), v.Key)
		r.ok(err)
		got[v.Key] = client.Explain(statuses[0])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestTransactions(t *testing.T) {
	overBoth(t, func(r *rig) {
		result := r.put(tap("a", "10.0.0.1/24"), tap("b"), route("a"))
		if want := []string{models.Key(tap("a")), models.Key(tap("b")), models.Key(route("a"))}; !cmp.Equal(result.Keys, want) {
			r.Errorf("keys %q", result.Keys)
		}
		if result.Transaction == nil {
			r.Error("the transaction has no number")
		}
		r.want(map[string]string{models.Key(tap("a")): "CONFIGURED", models.Key(tap("b")): "CONFIGURED", models.Key(route("a")): "CONFIGURED"})

		_, err := r.Txn().Put(tap("c")).Delete(tap("b")).DeleteKeys(models.Key(tap("a"))).Commit(r.Context())
		r.ok(err)
		r.want(map[string]string{models.Key(tap("c")): "CONFIGURED", models.Key(route("a")): "PENDING, waits for interface-exists: " + models.Key(tap("a"))})

		_, err = r.Resync(r.Context(), tap("d"), bridge)
		r.ok(err)
		r.want(map[string]string{
			models.Key(tap("d")): "CONFIGURED",
			models.Key(bridge):   "UNIMPLEMENTED: " + r.agent.Scheduler.ValueStatus(models.Key(bridge)).GetValue().GetError(),
		})
		_, err = r.Resync(r.Context())
		r.ok(err)
		r.want(map[string]string{})
		if n := len(r.agent.Scheduler.ValueStatuses("config/")); n != 0 {
			r.Errorf("%d values are left", n)
		}
	})
}

func TestFailures(t *testing.T) {
	overBoth(t, func(r *rig) {
		result, err := r.Txn().Put(tap("good"), tap("bad")).Commit(r.Context())
		e, ok := errors.AsType[*client.TransactionError](err)
		if !ok || len(e.Items) != 1 || e.Items[0].GetKey() != models.Key(tap("bad")) || e.Items[0].GetCause() != "no such device" || e.Reverted || e.Transaction == nil {
			r.Fatalf("error %v, %+v", err, e)
		}
		if want := models.Key(tap("bad")) + ": create: no such device (RETRYING)"; !strings.HasSuffix(err.Error(), "failed in part: "+want) {
			r.Errorf("error %q", err)
		}
		if result == nil || len(result.Keys) != 2 {
			r.Errorf("result %+v", result)
		}
		r.want(map[string]string{models.Key(tap("good")): "CONFIGURED", models.Key(tap("bad")): "RETRYING: no such device"})
	})
}

func TestRevert(t *testing.T) {
	r := overGRPC(t)
	r.put(tap("old"))
	result, err := r.Txn().Put(tap("good"), tap("bad")).Delete(tap("old")).Revert().Commit(t.Context())
	e, ok := errors.AsType[*client.TransactionError](err)
	if !ok || !e.Reverted || result != nil || !strings.Contains(err.Error(), "nothing was changed: "+models.Key(tap("bad"))+": create: no such device") {
		t.Errorf("error %v", err)
	}
	r.want(map[string]string{models.Key(tap("old")): "CONFIGURED"})
	_, err = r.Txn().Put(tap("bad")).Replace().Revert().Commit(t.Context())
	if e, ok := errors.AsType[*client.TransactionError](err); !ok || !e.Reverted {
		t.Errorf("error %v", err)
	}
	r.want(map[string]string{models.Key(tap("old")): "CONFIGURED"})
}

func TestNoRevertOverEtcd(t *testing.T) {
	r := overEtcd(t)
	if _, err := r.Txn().Put(tap("a")).Revert().Commit(t.Context()); !errors.Is(err, client.ErrNoRevert) {
		t.Errorf("error %v", err)
	}
	r.want(map[string]string{})
	if _, err := r.GetMerged(t.Context()); !errors.Is(err, client.ErrNotMerged) {
		t.Errorf("error %v", err)
	}
}

func TestMistakesChangeNothing(t *testing.T) {
	overBoth(t, func(r *rig) {
		_, err := r.Txn().Put(tap("a"), tap(""), tap("a")).DeleteKeys("config/vpp/v2/interface/x").Commit(r.Context())
		if _, ok := errors.AsType[*client.RequestError](err); !ok {
			r.Fatalf("error %v", err)
		}
		for _, want := range []string{"set the fields in config/vpp/v2/interfaces/{name}", "duplicate key " + models.Key(tap("a")), `did you mean "config/vpp/v2/interfaces/"?`} {
			if !strings.Contains(err.Error(), want) {
				r.Errorf("no %q in %v", want, err)
			}
		}
		r.want(map[string]string{})
		if result, err := r.Txn().Commit(r.Context()); err != nil || len(result.Keys) > 0 {
			r.Errorf("nothing to do: %v, %v", result, err)
		}
		for _, selector := range []string{"vpp/interface/a", "config/vpp/v2/interface/x"} {
			if _, err := r.Get(r.Context(), selector); err == nil {
				r.Errorf("values with %s", selector)
			}
		}
		if _, err := r.Wait(r.Context(), models.VPPInterface.KeyPrefix()); err == nil {
			r.Error("waited for many values")
		}
	})
}

func TestWaitReturnsWhenSettled(t *testing.T) {
	overBoth(t, func(r *rig) {
		result := r.put(route("late"), tap("a", "10.0.0.1/24"))
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		for s, err := range r.WatchStatus(ctx, models.Key(route("late"))) {
			r.ok(err)
			if client.Explain(s) == "PENDING, waits for interface-exists: "+models.Key(tap("late")) {
				break // known here, too
			}
		}
		late, done := context.WithTimeout(ctx, 2*time.Second) // enough to receive its dependencies
		defer done()
		_, err := r.Wait(late, result.Keys...)
		e, ok := errors.AsType[*client.UnsettledError](err)
		if !ok || len(e.Statuses) != 1 || !errors.Is(err, context.DeadlineExceeded) {
			r.Fatalf("error %v", err)
		}
		if want := "not settled: " + models.Key(route("late")) + " is PENDING, waits for interface-exists: " + models.Key(tap("late")); !strings.Contains(err.Error(), want) {
			r.Errorf("error %q, want %q", err, want)
		}

		waited := make(chan error, 1)
		go func() {
			statuses, err := r.Wait(ctx, result.Keys...)
			for _, s := range statuses {
				if client.Explain(s) != "CONFIGURED" {
					err = errors.New(client.Explain(s))
				}
			}
			waited <- err
		}()
		r.put(tap("late"))
		r.ok(<-waited)
		if statuses, err := r.Wait(ctx, models.Key(tap("never"))); err != nil || !strings.HasPrefix(client.Explain(statuses[0]), "NONEXISTENT") {
			r.Errorf("never put: %v, %v", statuses, err)
		}
	})
}

func TestWatchYieldsChanges(t *testing.T) {
	overBoth(t, func(r *rig) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		r.put(tap("a"))
		var received []string
		for s, err := range r.WatchStatus(ctx, models.Key(tap("a")), models.VPPRoute.KeyPrefix()) {
			r.ok(err)
			received = append(received, s.GetValue().GetKey()+" "+s.GetValue().GetState().String())
			switch len(received) {
			case 1:
				r.put(route("a"))
			case 2:
				_, err := r.Txn().Delete(route("a")).Commit(ctx)
				r.ok(err)
			}
			if len(received) == 3 {
				break
			}
		}
		want := []string{models.Key(tap("a")) + " CONFIGURED", models.Key(route("a")) + " CONFIGURED", models.Key(route("a")) + " REMOVED"}
		if diff := cmp.Diff(want, received); diff != "" {
			r.Errorf("statuses (-want +got):\n%s", diff)
		}
		cancel()
		var last error
		for _, err := range r.WatchStatus(ctx) {
			last = err
		}
		if !errors.Is(last, context.Canceled) {
			r.Errorf("the end: %v", last)
		}
	})
}

func TestClientsAreKeptApart(t *testing.T) {
	r := overGRPC(t)
	other := r.dial("other")
	r.put(tap("a"))
	if _, err := other.Resync(t.Context(), tap("b")); err != nil {
		t.Fatal(err)
	}
	r.want(map[string]string{models.Key(tap("a")): "CONFIGURED"})
	merged, err := other.GetMerged(t.Context(), models.VPPInterface.KeyPrefix())
	if err != nil || len(merged) != 2 {
		t.Errorf("merged: %v, %v", merged, err)
	}
}

// A value removed from etcd stays if another source has it.
func TestDeletionOfValueOfSeveralSources(t *testing.T) {
	r := overEtcd(t)
	r.put(tap("tap1"))
	_, err := r.dial("other").Txn().Put(tap("tap1", "10.0.0.1/24")).Commit(t.Context())
	r.ok(err)
	_, err = r.Txn().Delete(tap("tap1")).Commit(t.Context())
	r.ok(err)
	statuses, err := r.Status(t.Context(), models.Key(tap("tap1")))
	r.ok(err)
	if s := statuses[0]; client.Explain(s) != "CONFIGURED" || s.GetRevision() != 0 || !slices.Equal(s.GetSources(), []string{"contiv-grpc/other"}) {
		t.Errorf("status %v", s)
	}
}

// A value may be as large as an etcd request.
func TestLargeValue(t *testing.T) {
	overBoth(t, func(r *rig) {
		large := tap("large")
		large.Link = &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{HostIfName: strings.Repeat("x", 1<<20)}}
		r.put(large)
		r.want(map[string]string{models.Key(large): "CONFIGURED"})
	})
}

func TestUnreachableAgent(t *testing.T) {
	c, err := client.DialGRPC("unix:///nowhere/grpc.sock", client.GRPC{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Txn().Put(tap("a")).Commit(t.Context())
	if err == nil || errors.Is(err, client.ErrUnanswered) || !strings.Contains(err.Error(), "/nowhere/grpc.sock") {
		t.Errorf("error %v", err)
	}
	if _, err := client.NewEtcd("", etcd.Config{}); err == nil {
		t.Error("a node without name")
	}
}

func TestEtcdWithoutAgent(t *testing.T) {
	server := etcdtest.Start(t)
	c, err := client.NewEtcd("nobody", etcd.Config{Endpoints: []string{server.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // enough to connect and write
	defer cancel()
	result, err := c.Txn().Put(tap("a")).Commit(ctx)
	if !errors.Is(err, client.ErrUnanswered) || !errors.Is(err, context.DeadlineExceeded) || result.Revision == 0 {
		t.Errorf("result %+v, error %v", result, err)
	}
	if result, err = c.Txn().Put(tap("b")).Async().Commit(t.Context()); err != nil || result.Revision == 0 {
		t.Errorf("result %+v, error %v", result, err)
	}
	if values, err := c.Get(t.Context(), models.Key(tap("b"))); err != nil || len(values) != 1 {
		t.Errorf("%v, %v", values, err)
	}
	var many []proto.Message
	for i := range 129 {
		many = append(many, tap(strings.Repeat("x", i+1)))
	}
	if _, err := c.Txn().Put(many...).Async().Commit(t.Context()); err == nil || !strings.Contains(err.Error(), "--max-txn-ops") {
		t.Errorf("too many: %v", err)
	}
}

func TestUndecodableValuesInEtcd(t *testing.T) {
	r := overEtcd(t)
	db := r.etcd.Store()
	bad := models.Key(tap("wrong"))
	r.ok(db.Put(t.Context(), models.NodePrefix(clienttest.Node)+bad, []byte("{")))
	r.put(tap("a"))
	values, err := r.Get(t.Context())
	if err == nil || !strings.Contains(err.Error(), bad) || len(values) != 1 {
		t.Errorf("%v, %v", values, err)
	}
	statuses, err := r.Wait(t.Context(), bad)
	if err != nil || !client.Failed(statuses[0]) || !strings.HasPrefix(client.Explain(statuses[0]), "INVALID: ") {
		t.Errorf("%v, %v", statuses, err)
	}
}
