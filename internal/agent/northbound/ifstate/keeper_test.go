package ifstate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/agent/northbound/ifstate"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	up      = vpp_interfaces.InterfaceState_UP
	down    = vpp_interfaces.InterfaceState_DOWN
	deleted = vpp_interfaces.InterfaceState_DELETED
	prefix  = "/vnf-agent/node1/vpp/status/v2/interface/"
)

// vswitch is a fake vswitch with interfaces.
type vswitch struct {
	mu     sync.Mutex
	states map[string]*vpp_interfaces.InterfaceState
	busy   bool // the startup resync is not done
}

func (v *vswitch) read(context.Context) (list []*vpp_interfaces.InterfaceState, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.states {
		list = append(list, proto.CloneOf(s))
	}
	return list, nil
}

func (v *vswitch) ready() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.busy {
		return errors.New("not yet")
	}
	return nil
}

func (v *vswitch) set(name string, oper vpp_interfaces.InterfaceState_Status) *vpp_interfaces.InterfaceState {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := &vpp_interfaces.InterfaceState{Name: name, Type: vpp_interfaces.Interface_TAP, AdminStatus: up, OperStatus: oper, Mtu: 1500}
	if oper == deleted {
		s = &vpp_interfaces.InterfaceState{Name: name, AdminStatus: deleted, OperStatus: deleted}
		delete(v.states, name)
	} else {
		v.states[name] = s
	}
	return s
}

// start runs a keeper of the vswitch and returns the reported changes.
func start(t *testing.T, v *vswitch, db store.Broker, rate int) (*ifstate.Keeper, <-chan *vpp_interfaces.InterfaceState) {
	t.Helper()
	k := ifstate.New(ifstate.Options{Read: v.read, Ready: v.ready, Node: "node1", Store: db, Rate: rate, PollPeriod: 20 * time.Millisecond})
	changes := make(chan *vpp_interfaces.InterfaceState, 1000)
	k.Observe(func(s *vpp_interfaces.InterfaceState) { changes <- s })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return k, changes
}

func next(t *testing.T, changes <-chan *vpp_interfaces.InterfaceState) *vpp_interfaces.InterfaceState {
	t.Helper()
	select {
	case s := <-changes:
		return s
	case <-time.After(time.Minute):
		t.Fatal("no change was reported")
		return nil
	}
}

func TestObserversReceiveChanges(t *testing.T) {
	v := &vswitch{states: map[string]*vpp_interfaces.InterfaceState{}}
	v.set("old", up)
	k, changes := start(t, v, nil, 0)
	if s := next(t, changes); s.GetName() != "old" || s.GetOperStatus() != up || s.GetLastChange() == 0 {
		t.Errorf("initial states: %v", s)
	}
	k.Changed(v.set("new", down))
	if s := next(t, changes); s.GetName() != "new" || s.GetOperStatus() != down {
		t.Errorf("a new one: %v", s)
	}
	k.Changed(v.set("new", up), v.set("new", up))
	if s := next(t, changes); s.GetOperStatus() != up {
		t.Errorf("its link is up: %v", s)
	}
	counted := v.set("new", up)
	counted.Statistics = &vpp_interfaces.InterfaceState_Statistics{InPackets: 9}
	k.Changed(v.set("old", deleted))
	if s := next(t, changes); s.GetName() != "old" || s.GetOperStatus() != deleted || s.GetType() != vpp_interfaces.Interface_TAP {
		t.Errorf("after a change of counters, one is gone: %v", s)
	}
	v.set("new", deleted) // without a report
	if s := next(t, changes); s.GetName() != "new" || s.GetOperStatus() != deleted {
		t.Errorf("gone without a report: %v", s)
	}
	if left := k.States(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// flaky is a store that fails on demand.
type flaky struct {
	store.Broker
	mu   sync.Mutex
	fail bool
}

func (f *flaky) failing() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail {
		return errors.New("no connection")
	}
	return nil
}

func (f *flaky) set(fail bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *flaky) List(ctx context.Context, p string) ([]store.KV, int64, error) {
	if err := f.failing(); err != nil {
		return nil, 0, err
	}
	return f.Broker.List(ctx, p)
}

func (f *flaky) Put(ctx context.Context, key string, value []byte) error {
	if err := f.failing(); err != nil {
		return err
	}
	return f.Broker.Put(ctx, key, value)
}

func (f *flaky) Delete(ctx context.Context, key string) error {
	if err := f.failing(); err != nil {
		return err
	}
	return f.Broker.Delete(ctx, key)
}

// want waits until etcd holds exactly these states.
func want(t *testing.T, db store.Broker, states map[string]vpp_interfaces.InterfaceState_Status) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		kvs, _, err := db.List(context.Background(), prefix)
		found := map[string]vpp_interfaces.InterfaceState_Status{}
		for _, kv := range kvs {
			var s vpp_interfaces.InterfaceState
			if err := protojson.Unmarshal(kv.Value, &s); err == nil {
				found[kv.Key[len(prefix):]] = s.GetOperStatus()
			}
		}
		same := err == nil && len(found) == len(states) && len(kvs) == len(states)
		for name, status := range states {
			same = same && found[name] == status
		}
		if same {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("etcd holds %v (%v), want %v", found, err, states)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestStatesArePublished(t *testing.T) {
	v := &vswitch{states: map[string]*vpp_interfaces.InterfaceState{}, busy: true}
	db := &flaky{Broker: memory.New()}
	if err := db.Put(t.Context(), prefix+"former", []byte(`{"name":"former","oper_status":"UP"}`)); err != nil {
		t.Fatal(err)
	}
	v.set("a", up)
	k, _ := start(t, v, db, 1000)
	want(t, db, map[string]vpp_interfaces.InterfaceState_Status{"a": up, "former": up})
	v.mu.Lock()
	v.busy = false
	v.mu.Unlock()
	want(t, db, map[string]vpp_interfaces.InterfaceState_Status{"a": up})
	k.Changed(v.set("b/with/slashes", up), v.set("a", down))
	want(t, db, map[string]vpp_interfaces.InterfaceState_Status{"a": down, "b/with/slashes": up})
	db.set(true)
	k.Changed(v.set("b/with/slashes", deleted), v.set("a", up), v.set("c", down))
	db.set(false)
	want(t, db, map[string]vpp_interfaces.InterfaceState_Status{"a": up, "c": down})
}

// counting counts transactions.
type counting struct {
	*memory.Store
	transactions atomic.Int64
}

func (c *counting) Batch(ctx context.Context, changes []store.Change) error {
	c.transactions.Add(1)
	return c.Store.Batch(ctx, changes)
}

// States that change during a burst, such as CNI ADDs, are written once after it, or after a second
// if it continues.
func TestPublishWaitsForEndOfBurst(t *testing.T) {
	for _, c := range []struct{ lasts, published time.Duration }{
		{lasts: 500 * time.Millisecond, published: 550 * time.Millisecond},
		{lasts: 1500 * time.Millisecond, published: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			db := &counting{Store: memory.New()}
			k := ifstate.New(ifstate.Options{
				Read:  func(context.Context) ([]*vpp_interfaces.InterfaceState, error) { return nil, nil },
				Ready: func() error { return errors.New("not yet") },
				Node:  "node1", Store: db, Rate: 1000, PollPeriod: time.Hour,
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); k.Run(ctx) }()
			defer func() { cancel(); <-ended }()
			v := &vswitch{states: map[string]*vpp_interfaces.InterfaceState{}}
			begun := time.Now()
			for n := 0; time.Since(begun) < c.published; n++ {
				synctest.Wait()
				if written := db.transactions.Load(); written != 0 {
					t.Fatalf("burst of %v: %d transactions after %v", c.lasts, written, time.Since(begun))
				}
				if time.Since(begun) < c.lasts {
					name := fmt.Sprintf("tap%d", n/2)
					k.Changed(v.set(name, []vpp_interfaces.InterfaceState_Status{down, up}[n%2]))
				}
				time.Sleep(50 * time.Millisecond)
			}
			synctest.Wait()
			if written := db.transactions.Load(); written != 1 {
				t.Errorf("burst of %v: %d transactions after %v, not 1", c.lasts, written, c.published)
			}
		})
	}
}

func TestStatesAreServed(t *testing.T) {
	v := &vswitch{states: map[string]*vpp_interfaces.InterfaceState{}}
	v.set("b", up)
	v.set("a", down)
	k := ifstate.New(ifstate.Options{Read: v.read, Ready: v.ready})
	answer := httptest.NewRecorder()
	k.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, ifstate.URL, nil))
	var report ifstate.Report
	if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil || answer.Code != http.StatusOK {
		t.Fatal(answer.Code, err)
	}
	var names []string
	for _, data := range report.Interfaces {
		var s vpp_interfaces.InterfaceState
		if err := protojson.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		names = append(names, s.GetName()+" "+s.GetOperStatus().String())
	}
	if !slices.Equal(names, []string{"a DOWN", "b UP"}) {
		t.Errorf("served: %v", names)
	}
	refused := httptest.NewRecorder()
	k.Handler().ServeHTTP(refused, httptest.NewRequest(http.MethodPost, ifstate.URL, nil))
	if refused.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", refused.Code)
	}
}
