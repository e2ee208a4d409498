package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/prometheus/client_golang/prometheus"
)

// A problem keeps its start time while only its numbers change, and gets a new one after an
// interruption.
func TestSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var texts []string
		m := NewMonitor(func() error { return nil }, Check{Name: "some", Look: func(context.Context) []string { return texts }})
		if p := m.Look(t.Context()); len(p) != 0 || m.Verdict(p) != Healthy {
			t.Errorf("%v", p)
		}
		texts = []string{"3 of these"}
		begin := time.Now()
		m.Look(t.Context())
		time.Sleep(time.Minute)
		texts = []string{"another", "4 of these"}
		p := m.Look(t.Context())
		if len(p) != 2 || !p[1].Since.Equal(begin) || !p[0].Since.Equal(time.Now()) || m.Verdict(p) != Degraded {
			t.Errorf("%v", p)
		}
		texts = nil
		m.Look(t.Context())
		texts = []string{"3 of these"}
		if p := m.Look(t.Context()); !p[0].Since.Equal(time.Now()) {
			t.Errorf("%v", p)
		}
		broken := NewMonitor(func() error { return errors.New("not ready") })
		if v := broken.Verdict(nil); v != Broken {
			t.Error(v)
		}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(m)
		if families, err := registry.Gather(); err != nil || len(families) != 2 {
			t.Errorf("%v, %v", families, err)
		}
	})
}

// schedulerWith returns a scheduler with a descriptor whose interfaces need their host interface.
func schedulerWith(t *testing.T) *kvscheduler.Scheduler {
	t.Helper()
	s := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { s.Close() })
	err := kvscheduler.Register(s, kvscheduler.Descriptor[*vpp_interfaces.Interface, kvscheduler.NoMetadata]{
		Name: "iface", NB: true, Keys: kvscheduler.KeySpace{Prefix: "if/"},
		Create: func(_ context.Context, _ string, v *vpp_interfaces.Interface) (m kvscheduler.NoMetadata, err error) {
			if v.GetName() == "broken" {
				return m, errors.New("no such device")
			}
			return m, nil
		},
		Delete: func(context.Context, string, *vpp_interfaces.Interface, kvscheduler.NoMetadata) error { return nil },
		Dependencies: func(_ string, v *vpp_interfaces.Interface) []kvscheduler.Dependency {
			if v.GetVrf() == 0 {
				return nil
			}
			return []kvscheduler.Dependency{{Label: "vrf", Key: fmt.Sprintf("vrf/%d", v.GetVrf())}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestValues(t *testing.T) {
	s := schedulerWith(t)
	w := &waiting{since: map[string]time.Time{}}
	if got := w.look(s, time.Now()); len(got) != 0 {
		t.Errorf("without values: %q", got)
	}
	txn := s.NewTransaction()
	txn.Put("if/broken", &vpp_interfaces.Interface{Name: "broken"})
	txn.Put("if/waits", &vpp_interfaces.Interface{Name: "waits", Vrf: 7})
	txn.Put("if/fine", &vpp_interfaces.Interface{Name: "fine"})
	_, _ = txn.Commit(t.Context())
	if got := w.look(s, time.Now()); len(got) != 1 || got[0] != "1 value is FAILED, such as if/broken: no such device" {
		t.Errorf("at first: %q", got)
	}
	if got := w.look(s, time.Now().Add(2*time.Minute)); len(got) != 2 || got[1] != "1 value is PENDING for more than a minute, such as if/waits, which waits for vrf/7" {
		t.Errorf("after two minutes: %q", got)
	}
}

func TestDriftThatComesBack(t *testing.T) {
	repair := func(seq uint64, description string, keys ...string) *kvscheduler.RecordedTxn {
		txn := &kvscheduler.RecordedTxn{SeqNum: seq, Description: description}
		for _, key := range keys {
			txn.Executed = append(txn.Executed, kvscheduler.RecordedOp{Key: key, Operation: pb.TxnOperation_CREATE}, kvscheduler.RecordedOp{Key: key + "/part", IsDerived: true})
		}
		return txn
	}
	txns := []*kvscheduler.RecordedTxn{repair(1, "drift: gone", "a", "b"), repair(2, "drift: gone", "a"), repair(3, "Add Pod", "a", "b", "c"), repair(4, "Add Pod", "a", "b", "c")}
	exists := func(key string) bool { return key != "gone" }
	alone := NoOwners()
	if got := recurring(txns, exists, alone); len(got) != 0 {
		t.Errorf("twice: %q", got)
	}
	got := recurring(append(txns, repair(5, "drift: route a was deleted", "a"), repair(6, "drift: it went", "gone"), repair(7, "drift: it went", "gone"), repair(8, "drift: it went", "gone")), exists, alone)
	if len(got) != 1 || !strings.Contains(got[0], "a was repaired 3 times in 10 minutes, last in transaction #5 (drift: route a was deleted)") {
		t.Errorf("%q", got)
	}
	ofPod := func(string) string { return "the network of pod shop/web" }
	got = recurring([]*kvscheduler.RecordedTxn{repair(1, "drift: it went", "a", "b"), repair(2, "drift: it went", "b"), repair(3, "drift: it went", "c")}, exists, ofPod)
	if len(got) != 1 || !strings.HasPrefix(got[0], "the network of pod shop/web was repaired 3 times in 10 minutes, last in transaction #3") {
		t.Errorf("%q", got)
	}
}

func TestFullDisk(t *testing.T) {
	const giga = 1 << 30
	for _, c := range []struct {
		size, free uint64
		full       bool
	}{{10 * giga, giga, false}, {10 * giga, 10 << 20, true}, {100 << 20, 60 << 20, false}, {100 << 20, 15 << 20, true}, {0, 0, false}} {
		if got := full("/var/bolt", c.size, c.free); (got != "") != c.full {
			t.Errorf("%d of %d: %q", c.free, c.size, got)
		}
	}
	if got := Disk(t.TempDir(), "/does/not/exist").Look(t.Context()); len(got) != 0 {
		t.Errorf("here: %q", got)
	}
}
