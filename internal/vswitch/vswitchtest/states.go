package vswitchtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/models"
)

// CableSite can unplug and replug the cable of a TAP.
type CableSite interface {
	Site
	SetCable(t testing.TB, tap *vpp_interfaces.Interface, plugged bool)
}

func runStates(t *testing.T, c Config) {
	whole := t
	site, ok := c.NewSite(t).(CableSite)
	if !ok {
		t.Skip("this driver has no cables to pull")
	}
	a := startAgent(t, site)
	reports := make(chan *vpp_interfaces.InterfaceState, 100)
	a.vs.States().Watch(func(states ...*vpp_interfaces.InterfaceState) {
		for _, s := range states {
			reports <- s
		}
	})
	a.watch(t.Context())
	iface, other := tap("a", "10.50.0.9/24"), tap("b")
	iface.Mtu = 1400
	other.Enabled = false
	existing := &vpp_interfaces.Interface{Name: site.NIC(), Type: vpp_interfaces.Interface_DPDK, Enabled: true}
	a.resync(iface, other, existing)

	t.Run("a cable that is plugged in or pulled is reported", func(t *testing.T) {
		for range 2 {
			site.SetCable(t, iface, true)
			s := awaitState(t, reports, "a", vpp_interfaces.InterfaceState_UP)
			if s.GetType() != vpp_interfaces.Interface_TAP || s.GetAdminStatus() != vpp_interfaces.InterfaceState_UP || s.GetMtu() != 1400 || s.GetInternalName() == "" {
				t.Errorf("state %v", s)
			}
			a.wantLinkState(t, "a", true)
			site.SetCable(t, iface, false)
			if s := awaitState(t, reports, "a", vpp_interfaces.InterfaceState_DOWN); s.GetAdminStatus() != vpp_interfaces.InterfaceState_UP {
				t.Errorf("without a cable: %v", s)
			}
			a.wantLinkState(t, "a", false)
		}
	})
	t.Run("a change of configuration changes the state", func(t *testing.T) {
		site.SetCable(t, other, true)
		enabled := tap("b")
		a.put(enabled)
		awaitState(t, reports, "b", vpp_interfaces.InterfaceState_UP)
		a.wantLinkState(t, "b", true)
		a.put(other)
		if s := awaitState(t, reports, "b", vpp_interfaces.InterfaceState_DOWN); s.GetAdminStatus() != vpp_interfaces.InterfaceState_DOWN {
			t.Errorf("disabled: %v", s)
		}
		a.wantLinkState(t, "b", false)
	})
	t.Run("all states can be listed", func(t *testing.T) {
		site.SetCable(t, iface, true)
		awaitState(t, reports, "a", vpp_interfaces.InterfaceState_UP)
		states, err := a.vs.States().List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]*vpp_interfaces.InterfaceState{}
		for _, s := range states {
			found[s.GetName()] = s
		}
		if len(found) != 3 || found["a"].GetOperStatus() != vpp_interfaces.InterfaceState_UP || found["a"].GetStatistics() == nil ||
			found["b"].GetOperStatus() != vpp_interfaces.InterfaceState_DOWN || found[site.NIC()].GetType() != vpp_interfaces.Interface_DPDK {
			t.Errorf("states %v", states)
		}
	})
	t.Run("a restarted agent finds the link states", func(t *testing.T) {
		a.stop()
		a = startAgent(whole, site)
		a.resync(iface, other, existing)
		a.wantLinkState(t, "a", true)
		a.wantLinkState(t, "b", false)
	})
	t.Run("a deleted interface has no state", func(t *testing.T) {
		gone := make(chan *vpp_interfaces.InterfaceState, 100)
		a.vs.States().Watch(func(states ...*vpp_interfaces.InterfaceState) {
			for _, s := range states {
				gone <- s
			}
		})
		txn := a.NewTransaction()
		txn.Delete(models.Key(iface))
		if _, err := txn.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitState(t, gone, "a", vpp_interfaces.InterfaceState_DELETED)
		a.await(t, func() error {
			for _, up := range []bool{true, false} {
				if s := a.ValueStatus(models.LinkStateKey("a", up)).GetValue().GetState(); s != pb.ValueState_NONEXISTENT {
					return fmt.Errorf("%s is %v", models.LinkStateKey("a", up), s)
				}
			}
			return nil
		})
	})
}

func awaitState(t testing.TB, reports <-chan *vpp_interfaces.InterfaceState, name string, want vpp_interfaces.InterfaceState_Status) *vpp_interfaces.InterfaceState {
	t.Helper()
	deadline := time.After(time.Minute)
	var last *vpp_interfaces.InterfaceState
	for {
		select {
		case s := <-reports:
			if s.GetName() != name {
				continue
			}
			if last = s; s.GetOperStatus() == want {
				return s
			}
		case <-deadline:
			t.Fatalf("interface %q was not reported as %v; last: %v", name, want, last)
		}
	}
}

func (a *agent) wantLinkState(t testing.TB, name string, up bool) {
	t.Helper()
	a.await(t, func() error {
		is := a.ValueStatus(models.LinkStateKey(name, up)).GetValue().GetState()
		not := a.ValueStatus(models.LinkStateKey(name, !up)).GetValue().GetState()
		if is != pb.ValueState_OBTAINED || not != pb.ValueState_NONEXISTENT {
			return fmt.Errorf("interface %q, link up %v: %v; the opposite: %v", name, up, is, not)
		}
		return nil
	})
}

// await repeats check after each changed value until it succeeds.
func (a *agent) await(t testing.TB, check func() error) {
	t.Helper()
	watcher, _ := a.Watch("")
	for err := check(); err != nil; err = check() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, watchErr := watcher.Next(ctx)
		cancel()
		if watchErr != nil {
			t.Fatal(err)
		}
	}
}
