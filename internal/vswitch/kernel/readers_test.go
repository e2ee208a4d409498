package kernel

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
)

type writes struct {
	mu    sync.Mutex
	calls []string
	on    bool
}

// reading names the requests of rtnl and nft that only read, or connect to read.
var reading = []string{
	"Execute", "LinkByName", "LinkByIndex", "LinkList", "NeighList", "RouteGet", "RouteGetWithOptions", "RouteListFiltered", "RuleList",
	"QdiscList", "FilterList", "get", "dump", "generation",
}

func (w *writes) observe(call string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.on && !slices.Contains(reading, call) {
		w.calls = append(w.calls, call)
	}
	return nil
}

func (w *writes) during(do func()) []string {
	w.set(true)
	defer w.set(false)
	do()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

func (w *writes) set(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = on
	if on {
		w.calls = nil
	}
}

// Watch and List change nothing in any state: only transactions repair.
func TestReadersDoNotWrite(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	s := kvscheduler.New(kvscheduler.Options{})
	defer s.Close()
	check(t, descriptors.Register(s, v))
	var w writes
	v.Net.InjectFaults(w.observe)
	v.NFT.InjectFaults(w.observe)
	values := vswitchtest.Topology{Node: 1, NIC: nic, Pods: 2, NAT66: true, DNAT66: true, Guards: true}.Values()
	resync := func() (err error) {
		txn := s.NewTransaction()
		for _, value := range values {
			txn.Put(models.Key(value), value)
		}
		_, err = txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync))
		return err
	}
	if calls := w.during(func() { check(t, resync()) }); len(calls) == 0 {
		t.Fatal("no write is seen")
	}
	for _, accident := range n.Accidents() {
		t.Run(accident.Name, func(t *testing.T) {
			reports := make(chan report, 1000)
			check(t, v.Watch(t.Context(), func(reason string, keys ...string) { reports <- report{reason, keys} }))
			calls := w.during(func() {
				accident.Do(t)
				for reported := false; !reported; {
					select {
					case r := <-reports:
						reported = slices.ContainsFunc(r.keys, func(key string) bool { return slices.Contains(accident.Keys, key) })
					case <-time.After(time.Minute):
						t.Fatal("no report")
					}
				}
				_, err := s.Verify(t.Context())
				check(t, err)
			})
			if len(calls) > 0 {
				t.Errorf("noticing it and reading back wrote: %v", calls)
			}
			await.That(t, "the repair", resync) // a next hop may be unreachable at first
		})
	}
}
