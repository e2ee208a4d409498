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
	"github.com/contiv/contiv/internal/etcd/store"
	"google.golang.org/protobuf/proto"
)

// PollPeriod is the interval at which all states are read.
const PollPeriod = 5 * time.Second

// Options of a Keeper.
type Options struct {
	// Read reads the states of all interfaces in use, with counters.
	Read func(context.Context) ([]*vpp_interfaces.InterfaceState, error)
	// Ready returns nil once the startup resync is done, so that Read returns all interfaces.
	Ready func() error

	// Node is the name of this node. Without a Store, nothing is published. Rate bounds the states
	// written per second; 0 disables publishing.
	Node  string
	Store store.Broker
	Rate  int
	// Log defaults to slog.Default().
	Log *slog.Logger
	// PollPeriod defaults to the constant PollPeriod.
	PollPeriod time.Duration
}

// Keeper stores the states. Run reads and publishes them in two goroutines. The other methods do
// not block.
type Keeper struct {
	Options
	// news signals that states may need publishing.
	news chan struct{}

	mu        sync.Mutex
	states    map[string]*vpp_interfaces.InterfaceState
	observers []func(*vpp_interfaces.InterfaceState)
	// complete is set if all existing interfaces are in states.
	complete bool
	// dirty holds the names of interfaces with unpublished states.
	dirty map[string]bool
	// pending holds the changes to report to observers, in order. notifying is set while a
	// goroutine reports them.
	pending   []*vpp_interfaces.InterfaceState
	notifying bool
}

// New returns a Keeper without interfaces.
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

// Observe registers a function that is called for each change of a state, one at a time. An
// interface that is gone has the state DELETED. report must not change the state.
func (k *Keeper) Observe(report func(*vpp_interfaces.InterfaceState)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.observers = append(k.observers, report)
}

// Changed records states. It does not block.
func (k *Keeper) Changed(states ...*vpp_interfaces.InterfaceState) {
	k.mu.Lock()
	for _, s := range states {
		k.note(s)
	}
	k.mu.Unlock()
	k.notify()
}

// note stores a state if it has changed. The caller holds the lock.
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

// sameState compares everything except the counters.
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

// notify passes pending states to the observers unless another goroutine does so.
func (k *Keeper) notify() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.notifying {
		return
	}
	k.notifying = true
	defer func() { k.notifying = false }()
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

// States returns the states, sorted by name. The caller must not change them.
func (k *Keeper) States() []*vpp_interfaces.InterfaceState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.states), func(a, b *vpp_interfaces.InterfaceState) int { return strings.Compare(a.GetName(), b.GetName()) })
}

// Run reads and publishes states until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var group sync.WaitGroup
	if k.Store != nil && k.Rate > 0 {
		group.Go(func() { k.publish(ctx) })
	}
	failing := false
	for {
		err := k.poll(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			k.Log.Warn("Reading interface states failed", "error", err)
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

// poll reads all states and marks missing interfaces as deleted. A change reported during the read
// is left to the next poll.
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
	k.notify()
	return nil
}
