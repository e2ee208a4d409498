package interfaces

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// linkStateDescriptor handles vpp/interface/{if}/link-state/{UP|DOWN}. Each interface has one of
// the two, as an obtained value.
func linkStateDescriptor(port vswitch.States) kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta]{
		Name: vswitch.LinkStateDescriptor,
		Keys: kvscheduler.KeySpace{
			Prefix: derivedPrefix, Match: isLinkStateKey,
			Example: models.LinkStateKey("if", true),
		},
		Retrieve: func(ctx context.Context, _ []descriptor.Item[*emptypb.Empty]) ([]descriptor.Item[*emptypb.Empty], error) {
			states, err := port.List(ctx)
			items := make([]descriptor.Item[*emptypb.Empty], len(states))
			for i, s := range states {
				items[i] = descriptor.Item[*emptypb.Empty]{Key: models.LinkStateKey(s.GetName(), isUp(s)), Value: descriptor.Empty(), Origin: kvscheduler.FromSB}
			}
			return items, err
		},
		RetrieveAfter: []string{vswitch.InterfaceDescriptor},
	}
}

func isUp(s *vpp_interfaces.InterfaceState) bool {
	return s.GetOperStatus() == vpp_interfaces.InterfaceState_UP
}

// linkStates reports changed link states to a scheduler. Changes that occur together, or while the
// scheduler is busy, are one transaction with the last state of each link, in the order of the
// changes.
//
//	observe ──> pending ──100ms after the first──> place in the scheduler's queue ──its turn──> take
type linkStates struct {
	s *kvscheduler.Scheduler

	mu      sync.Mutex
	known   map[string]vpp_interfaces.InterfaceState_Status // by interface
	pending map[string]linkChange                           // by interface
	count   int                                             // of the changes
}

type linkChange struct {
	status vpp_interfaces.InterfaceState_Status
	number int
}

// collectLinkStates is how long changes are collected. A new interface causes several, and
// interfaces come in bursts.
const collectLinkStates = 100 * time.Millisecond

func notifyLinkStates(s *kvscheduler.Scheduler) func(...*vpp_interfaces.InterfaceState) {
	l := &linkStates{s: s, known: map[string]vpp_interfaces.InterfaceState_Status{}, pending: map[string]linkChange{}}
	return l.observe
}

func (l *linkStates) observe(states ...*vpp_interfaces.InterfaceState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := len(l.pending) > 0
	for _, state := range states {
		name, status := state.GetName(), state.GetOperStatus()
		if l.known[name] == status {
			continue
		}
		if l.known[name] = status; status == vpp_interfaces.InterfaceState_DELETED {
			delete(l.known, name)
		}
		l.count++
		l.pending[name] = linkChange{status, l.count}
	}
	if !waiting && len(l.pending) > 0 {
		time.AfterFunc(collectLinkStates, func() { _ = l.s.PushSBNotifications(l.take) }) // else it is closed
	}
}

// take returns the pending notifications for the scheduler.
func (l *linkStates) take() (list []kvscheduler.Notification) {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(l.pending), func(a, b string) int { return cmp.Compare(l.pending[a].number, l.pending[b].number) })
	for _, name := range names {
		status := l.pending[name].status
		is := kvscheduler.Notification{Key: models.LinkStateKey(name, status == vpp_interfaces.InterfaceState_UP)}
		isNot := kvscheduler.Notification{Key: models.LinkStateKey(name, status != vpp_interfaces.InterfaceState_UP)}
		if status != vpp_interfaces.InterfaceState_DELETED {
			is.Value = descriptor.Empty()
		}
		list = append(list, isNot, is)
	}
	clear(l.pending)
	return list
}

// isLinkStateKey: vpp/interface/{if}/link-state/{UP|DOWN}
func isLinkStateKey(key string) bool {
	iface, ok := strings.CutSuffix(key, "/link-state/UP")
	if !ok {
		iface, ok = strings.CutSuffix(key, "/link-state/DOWN")
	}
	return ok && len(iface) > len(derivedPrefix) && !isOtherInterfaceKey(key)
}
