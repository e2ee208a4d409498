package interfaces

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	kvs "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	linkUp      = vpp_interfaces.InterfaceState_UP
	linkDown    = vpp_interfaces.InterfaceState_DOWN
	linkDeleted = vpp_interfaces.InterfaceState_DELETED
)

// schedulerOfLinks has the link state descriptor, and values under slow/ whose creation blocks.
func schedulerOfLinks(t *testing.T) (s *kvscheduler.Scheduler, release chan struct{}) {
	t.Helper()
	s, release = kvscheduler.New(kvscheduler.Options{}), make(chan struct{})
	t.Cleanup(func() { s.Close() })
	err := kvscheduler.Register(s, kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta]{
		Name: "slow", Keys: kvscheduler.KeySpace{Prefix: "slow/"}, NB: true,
		Create: func(context.Context, string, *emptypb.Empty) (descriptor.NoMeta, error) {
			<-release
			return descriptor.NoMeta{}, nil
		},
		Delete: descriptor.NoopDelete[*emptypb.Empty],
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := kvscheduler.Register(s, linkStateDescriptor(nil)); err != nil {
		t.Fatal(err)
	}
	return s, release
}

// notified returns the present link state keys of each notification.
func notified(s *kvscheduler.Scheduler) (txns [][]string) {
	for _, txn := range s.History(time.Time{}, time.Time{}) {
		if txn.Type != kvscheduler.SBNotification {
			continue
		}
		var keys []string
		for _, v := range txn.Values {
			if v.Value != nil {
				keys = append(keys, v.Key)
			}
		}
		txns = append(txns, keys)
	}
	return txns
}

func link(name string, status vpp_interfaces.InterfaceState_Status) *vpp_interfaces.InterfaceState {
	return &vpp_interfaces.InterfaceState{Name: name, OperStatus: status}
}

func wantLinks(t *testing.T, s *kvscheduler.Scheduler, links map[string]vpp_interfaces.InterfaceState_Status) {
	t.Helper()
	for name, status := range links {
		for _, up := range []bool{true, false} {
			want := kvs.ValueState_NONEXISTENT
			if status != linkDeleted && up == (status == linkUp) {
				want = kvs.ValueState_OBTAINED
			}
			key := models.LinkStateKey(name, up)
			if state := s.ValueStatus(key).GetValue().GetState(); state != want {
				t.Errorf("%s is %v, want %v", key, state, want)
			}
		}
	}
}

// Interfaces created together, which are down before they are up, cause one transaction; later
// changes another.
func TestLinkStatesThatChangeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := schedulerOfLinks(t)
		observe, want := notifyLinkStates(s), map[string]vpp_interfaces.InterfaceState_Status{}
		for i := range 1000 {
			name := fmt.Sprint("if", i)
			observe(link(name, linkDown))
			observe(link(name, linkUp))
			want[name] = linkUp
		}
		time.Sleep(collectLinkStates) // of the bubble's clock
		synctest.Wait()
		wantLinks(t, s, want)
		observe(link("if1", linkUp)) // as it was
		observe(link("if2", linkDeleted), link("if3", linkDown))
		time.Sleep(collectLinkStates)
		synctest.Wait()
		wantLinks(t, s, map[string]vpp_interfaces.InterfaceState_Status{"if1": linkUp, "if2": linkDeleted, "if3": linkDown})
		if txns := notified(s); len(txns) != 2 || len(txns[0]) != 1000 || len(txns[1]) != 1 {
			t.Errorf("%d notifications: %v", len(txns), txns)
		}
	})
}

// All changes while the scheduler is busy are one transaction, in order.
func TestLinkStatesWhileTheSchedulerIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, release := schedulerOfLinks(t)
		if _, err := s.NewTransaction().Put("slow/x", descriptor.Empty()).Commit(t.Context(), kvscheduler.WithoutBlocking()); err != nil {
			t.Fatal(err)
		}
		observe := notifyLinkStates(s)
		for _, change := range []*vpp_interfaces.InterfaceState{
			link("c", linkUp), link("gone", linkUp), link("b", linkUp), link("a", linkDown), link("c", linkDown), link("gone", linkDeleted), link("c", linkUp),
		} {
			observe(change)
			time.Sleep(10 * collectLinkStates)
		}
		close(release)
		synctest.Wait()
		wantLinks(t, s, map[string]vpp_interfaces.InterfaceState_Status{"a": linkDown, "b": linkUp, "c": linkUp, "gone": linkDeleted})
		want := []string{models.LinkStateKey("b", true), models.LinkStateKey("a", false), models.LinkStateKey("c", true)}
		if txns := notified(s); len(txns) != 1 || !slices.Equal(txns[0], want) {
			t.Errorf("notifications: %v, want one: %v", txns, want)
		}
	})
}

// A scheduler with a full queue receives link states later.
func TestLinkStatesWhileTheQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, release := schedulerOfLinks(t)
		var err error
		for err == nil {
			_, err = s.NewTransaction().Put("slow/x", descriptor.Empty()).Commit(t.Context(), kvscheduler.WithoutBlocking())
		}
		notifyLinkStates(s)(link("a", linkUp))
		time.Sleep(collectLinkStates)
		close(release)
		synctest.Wait()
		wantLinks(t, s, map[string]vpp_interfaces.InterfaceState_Status{"a": linkUp})
	})
}

// After the agent has ended, nothing is reported.
func TestLinkStatesOfAClosedScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := schedulerOfLinks(t)
		observe := notifyLinkStates(s)
		observe(link("a", linkUp))
		s.Close()
		time.Sleep(collectLinkStates)
		observe(link("a", linkDown))
	})
}
