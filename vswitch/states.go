package vswitch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// States are the states of the interfaces in use, by logical name: those that were
// created, and existing devices that were taken into use.
type States interface {
	// List returns the states, with counters. Name, type, admin_status and oper_status
	// are always there; of the rest, what the vswitch knows. last_change is not: who
	// keeps states knows when they changed.
	List(ctx context.Context) ([]*vpp_interfaces.InterfaceState, error)

	// Watch makes the vswitch report the state of an interface, without counters, when
	// anything in it may have changed, whoever did it; and an interface that is gone,
	// with its name, DELETED in both fields. What comes from outside is reported while
	// VSwitch.Watch runs. Changes that follow each other fast may be reported as one.
	// report is never called concurrently, must not block and must not call the vswitch.
	Watch(report func(states ...*vpp_interfaces.InterfaceState))
}

// linkStateDescriptor handles vpp/interface/{if}/link-state/{UP|DOWN}, of which one is
// obtained for each interface.
func linkStateDescriptor(port States) kvscheduler.Descriptor[*emptypb.Empty, noMeta] {
	return kvscheduler.Descriptor[*emptypb.Empty, noMeta]{
		Name: LinkStateDescriptor,
		Keys: kvscheduler.KeySpace{
			Prefix: derivedPrefix, Match: isLinkStateKey,
			Example: models.LinkStateKey("if", true),
		},
		Retrieve: func(ctx context.Context, _ []item[*emptypb.Empty]) ([]item[*emptypb.Empty], error) {
			states, err := port.List(ctx)
			items := make([]item[*emptypb.Empty], len(states))
			for i, s := range states {
				items[i] = item[*emptypb.Empty]{Key: models.LinkStateKey(s.GetName(), isUp(s)), Value: empty(), Origin: kvscheduler.FromSB}
			}
			return items, err
		},
		RetrieveAfter: []string{InterfaceDescriptor},
	}
}

func isUp(s *vpp_interfaces.InterfaceState) bool {
	return s.GetOperStatus() == vpp_interfaces.InterfaceState_UP
}

// linkStates makes link states known to a scheduler, when they change. What the scheduler
// has no place for, as when thousands of interfaces are made at once, is told a little
// later, in one notification.
type linkStates struct {
	s *kvscheduler.Scheduler

	mu     sync.Mutex
	known  map[string]vpp_interfaces.InterfaceState_Status
	unsaid map[string]kvscheduler.Notification // by key
	timer  *time.Timer                         // nil: nothing waits
}

// laterLinkStates is how long a scheduler with too much to do is left alone.
const laterLinkStates = 100 * time.Millisecond

func notifyLinkStates(s *kvscheduler.Scheduler) func(...*vpp_interfaces.InterfaceState) {
	l := &linkStates{s: s, known: map[string]vpp_interfaces.InterfaceState_Status{}, unsaid: map[string]kvscheduler.Notification{}}
	return l.observe
}

func (l *linkStates) observe(states ...*vpp_interfaces.InterfaceState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, state := range states {
		name, status := state.GetName(), state.GetOperStatus()
		if l.known[name] == status {
			continue
		}
		if l.known[name] = status; status == vpp_interfaces.InterfaceState_DELETED {
			delete(l.known, name)
		}
		for _, up := range []bool{true, false} {
			n := kvscheduler.Notification{Key: models.LinkStateKey(name, up)}
			if status != vpp_interfaces.InterfaceState_DELETED && up == isUp(state) {
				n.Value = empty()
			}
			l.unsaid[n.Key] = n
		}
	}
	if l.timer == nil {
		l.say()
	}
}

// say tells the scheduler what is unsaid; l.mu is held.
func (l *linkStates) say() {
	if len(l.unsaid) == 0 {
		return
	}
	changes := slices.SortedFunc(maps.Values(l.unsaid), func(a, b kvscheduler.Notification) int { return strings.Compare(a.Key, b.Key) })
	err := l.s.PushSBNotification(changes...)
	if errors.Is(err, kvscheduler.ErrQueueFull) {
		l.timer = time.AfterFunc(laterLinkStates, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.timer = nil
			l.say()
		})
		return
	}
	clear(l.unsaid)
	if err != nil && !errors.Is(err, kvscheduler.ErrClosed) {
		slog.Error("Link states are not known to the scheduler before the next resync", "error", err)
	}
}

// isLinkStateKey: vpp/interface/{if}/link-state/{UP|DOWN}
func isLinkStateKey(key string) bool {
	iface, ok := strings.CutSuffix(key, "/link-state/UP")
	if !ok {
		iface, ok = strings.CutSuffix(key, "/link-state/DOWN")
	}
	return ok && len(iface) > len(derivedPrefix) && !isOtherInterfaceKey(key)
}
