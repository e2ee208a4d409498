package ifstate

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/store"
	"google.golang.org/protobuf/proto"
)

// PollPeriod is how often all states are read.
const PollPeriod = 5 * time.Second

// Options of a Keeper.
type Options struct {
	// Read reads the states of all interfaces in use, with counters.
	Read func(context.Context) ([]*vpp_interfaces.InterfaceState, error)
	// Ready returns nil when the agent has configured what it found at its start, so
	// that Read knows all interfaces.
	Ready func() error

	// Node is the name of this node, Store is etcd; nil: nothing is published. Rate is how many states are
	// written per second at most; 0: none.
	Node  string
	Store store.Broker
	Rate  int
	// Log; nil: slog.Default().
	Log *slog.Logger
	// PollPeriod; 0: PollPeriod.
	PollPeriod time.Duration
}

// Keeper keeps the states. Two goroutines of Run read and publish; everything else only
// notes.
type Keeper struct {
	Options
	// news has an element when there may be something to publish.
	news chan struct{}

	mu        sync.Mutex
	states    map[string]*vpp_interfaces.InterfaceState
	observers []func(*vpp_interfaces.InterfaceState)
	// complete: what is not in states does not exist.
	complete bool
	// dirty are the names of interfaces whose state may be published otherwise.
	dirty map[string]bool
	// pending are changes that observers have not been told, in order; telling: somebody
	// is telling them.
	pending []*vpp_interfaces.InterfaceState
	telling bool
}

// New returns a Keeper that knows of no interface.
func New(o Options) *Keeper {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.PollPeriod == 0 {
		o.PollPeriod = PollPeriod
	}
	return &Keeper{
		Options: o, news: make(chan struct{}, 1),
		states: map[string]*vpp_interfaces.InterfaceState{}, dirty: map[string]bool{},
	}
}

// Observe makes the Keeper call report for each change of a state, one after the other.
// A state of an interface that is gone is DELETED. It must not be changed.
func (k *Keeper) Observe(report func(*vpp_interfaces.InterfaceState)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.observers = append(k.observers, report)
}

// Changed takes note of states. It does not block.
func (k *Keeper) Changed(states ...*vpp_interfaces.InterfaceState) {
	k.mu.Lock()
	for _, s := range states {
		k.note(s)
	}
	k.mu.Unlock()
	k.tell()
}

// note takes over a state, if it is new. The lock is held.
func (k *Keeper) note(s *vpp_interfaces.InterfaceState) {
	was := k.states[s.GetName()]
	s = proto.CloneOf(s)
	if s.GetOperStatus() == vpp_interfaces.InterfaceState_DELETED {
		if was == nil {
			return
		}
		delete(k.states, s.GetName())
		gone := proto.CloneOf(was)
		gone.AdminStatus, gone.OperStatus, gone.LastChange = s.GetAdminStatus(), s.GetOperStatus(), time.Now().Unix()
		s = gone
	} else {
		s.LastChange = time.Now().Unix()
		if was.GetAdminStatus() == s.GetAdminStatus() && was.GetOperStatus() == s.GetOperStatus() {
			s.LastChange = was.GetLastChange()
		}
		if s.Statistics == nil {
			s.Statistics = was.GetStatistics()
		}
		k.states[s.GetName()] = s
		if sameState(was, s) {
			return
		}
	}
	k.dirty[s.GetName()] = true
	k.pending = append(k.pending, s)
	k.wake()
}

// sameState compares all but the counters.
func sameState(a, b *vpp_interfaces.InterfaceState) bool {
	bare := func(s *vpp_interfaces.InterfaceState) *vpp_interfaces.InterfaceState {
		s = proto.CloneOf(s)
		if s != nil {
			s.Statistics = nil
		}
		return s
	}
	return proto.Equal(bare(a), bare(b))
}

// tell passes pending states to the observers, unless another goroutine is doing so.
func (k *Keeper) tell() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.telling {
		return
	}
	k.telling = true
	defer func() { k.telling = false }()
	for len(k.pending) > 0 {
		s, observers := k.pending[0], slices.Clone(k.observers)
		k.pending = k.pending[1:]
		k.mu.Unlock()
		for _, report := range observers {
			report(s)
		}
		k.mu.Lock()
	}
}

func (k *Keeper) wake() {
	select {
	case k.news <- struct{}{}:
	default:
	}
}

// States returns the states, sorted by name. They must not be changed.
func (k *Keeper) States() []*vpp_interfaces.InterfaceState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.states), func(a, b *vpp_interfaces.InterfaceState) int { return strings.Compare(a.GetName(), b.GetName()) })
}

// Run reads and publishes until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var group sync.WaitGroup
	if k.Store != nil && k.Rate > 0 {
		group.Go(func() { k.publish(ctx) })
	}
	failing := false
	for {
		err := k.poll(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			k.Log.Warn("States of interfaces cannot be read now", "error", err)
		}
		failing = err != nil
		select {
		case <-time.After(k.PollPeriod):
		case <-ctx.Done():
			group.Wait()
			return
		}
	}
}

// poll reads all states. Those that are missing are gone: a change that is reported
// while they are read is read the next time.
func (k *Keeper) poll(ctx context.Context) error {
	ready := k.Ready() == nil
	k.mu.Lock()
	known := maps.Clone(k.states)
	k.mu.Unlock()
	states, err := k.Read(ctx)
	if err != nil {
		return err
	}
	k.mu.Lock()
	for _, s := range states {
		if known[s.GetName()] != k.states[s.GetName()] {
			delete(known, s.GetName())
			continue // reported meanwhile
		}
		delete(known, s.GetName())
		k.note(s)
	}
	if ready {
		for name, was := range known {
			if k.states[name] == was {
				k.note(&vpp_interfaces.InterfaceState{
					Name: name, AdminStatus: vpp_interfaces.InterfaceState_DELETED, OperStatus: vpp_interfaces.InterfaceState_DELETED,
				})
			}
		}
		if !k.complete {
			k.complete = true
			k.wake()
		}
	}
	k.mu.Unlock()
	k.tell()
	return nil
}
