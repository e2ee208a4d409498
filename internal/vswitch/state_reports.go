package vswitch

import (
	"slices"
	"sync"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"google.golang.org/protobuf/proto"
)

// StateReports notifies observers of changed interface states, for drivers that implement
// States.Watch with it. The zero value is usable. It is safe for concurrent use.
type StateReports struct {
	mu        sync.Mutex
	observers []func(...*vpp_interfaces.InterfaceState)
	last      map[string]*vpp_interfaces.InterfaceState // last reported states
}

// Watch adds an observer.
func (r *StateReports) Watch(report func(...*vpp_interfaces.InterfaceState)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observers = append(r.observers, report)
}

// Wanted reports whether observers exist.
func (r *StateReports) Wanted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.observers) > 0
}

// Tell reports the states that have changed, without counters.
func (r *StateReports) Tell(states ...*vpp_interfaces.InterfaceState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]*vpp_interfaces.InterfaceState{}
	}
	states = slices.DeleteFunc(slices.Clone(states), func(s *vpp_interfaces.InterfaceState) bool {
		was := r.last[s.GetName()]
		if s.GetOperStatus() == vpp_interfaces.InterfaceState_DELETED {
			delete(r.last, s.GetName())
			return false // it may predate the observers
		}
		r.last[s.GetName()] = s
		return proto.Equal(was, s)
	})
	if len(states) == 0 {
		return
	}
	for _, report := range r.observers {
		report(states...)
	}
}

// Gone reports interfaces that no longer exist.
func (r *StateReports) Gone(names ...string) {
	var gone []*vpp_interfaces.InterfaceState
	for _, name := range names {
		gone = append(gone, &vpp_interfaces.InterfaceState{
			Name: name, AdminStatus: vpp_interfaces.InterfaceState_DELETED, OperStatus: vpp_interfaces.InterfaceState_DELETED,
		})
	}
	r.Tell(gone...)
}

// Replace reports all states: interfaces without one are gone.
func (r *StateReports) Replace(all []*vpp_interfaces.InterfaceState) {
	there := map[string]bool{}
	for _, s := range all {
		there[s.GetName()] = true
	}
	var gone []string
	r.mu.Lock()
	for name := range r.last {
		if !there[name] {
			gone = append(gone, name)
		}
	}
	r.mu.Unlock()
	r.Gone(gone...)
	r.Tell(all...)
}
