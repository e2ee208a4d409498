package vpp

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	interfaces_api "go.fd.io/govpp/binapi/interface"
)

var _ = newModule("", "events of interfaces",
	&interfaces_api.WantInterfaceEvents{}, &interfaces_api.WantInterfaceEventsReply{}, &interfaces_api.SwInterfaceEvent{})

// collectFor is how long events are collected before they are looked at: changes come in
// bursts, and an interface is tagged only after it was made.
const collectFor = 20 * time.Millisecond

// ifEvents are the interfaces that VPP says have changed, or that we have changed.
//
//	sw_interface_event ──┐                    ┌──> drift, if it is not as it should be
//	Create, Update ──────┴──> changed ──20ms──┤
//	List ───> wanted                          └──> states
type ifEvents struct {
	mu      sync.Mutex
	changed map[index]struct{}
	gone    map[string]struct{} // names of interfaces that were deleted
	lost    bool                // the connection was: any may have changed
	wake    chan struct{}       // has room for one

	// wanted are the interfaces that exist, as they should be, by name.
	wanted map[string]*vpp_interfaces.Interface
}

func newIfEvents() *ifEvents {
	return &ifEvents{
		changed: map[index]struct{}{}, gone: map[string]struct{}{}, wake: make(chan struct{}, 1), wanted: map[string]*vpp_interfaces.Interface{},
	}
}

func (e *ifEvents) note(fn func()) {
	e.mu.Lock()
	fn()
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// touched notes that an interface has changed.
func (e *ifEvents) touched(i index) { e.note(func() { e.changed[i] = struct{}{} }) }

// expect notes how an interface should be; nil: it should not be.
func (e *ifEvents) expect(name string, iface *vpp_interfaces.Interface) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if iface == nil {
		delete(e.wanted, name)
		return
	}
	e.wanted[name] = iface
}

// settle notes which of the expected interfaces exist.
func (e *ifEvents) settle(expected, found []*vpp_interfaces.Interface) {
	exist := map[string]bool{}
	for _, iface := range found {
		exist[iface.GetName()] = true
	}
	for _, iface := range expected {
		if exist[iface.GetName()] {
			e.expect(iface.GetName(), iface)
		} else {
			e.expect(iface.GetName(), nil)
		}
	}
}

func (e *ifEvents) want(name string) *vpp_interfaces.Interface {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wanted[name]
}

func (e *ifEvents) take() (changed map[index]struct{}, gone map[string]struct{}, lost bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed, gone, lost = e.changed, e.gone, e.lost
	e.changed, e.gone, e.lost = map[index]struct{}{}, map[string]struct{}{}, false
	return changed, gone, lost
}

// subscribe asks a new connection for events of interfaces.
func (v *VSwitch) subscribe(ctx context.Context, l *link) error {
	_, err := vppapi.Subscribe(l.Conn, func(event *interfaces_api.SwInterfaceEvent) {
		if !event.Deleted {
			v.events.touched(event.SwIfIndex)
			return
		}
		if name := v.ifs.gone(event.SwIfIndex); name != "" {
			v.events.note(func() { v.events.gone[name] = struct{}{} })
		}
	})
	if err != nil {
		return err
	}
	v.events.note(func() { v.events.lost = true })
	req := &interfaces_api.WantInterfaceEvents{EnableDisable: 1, PID: uint32(os.Getpid())}
	if err := l.Call(ctx, req, &interfaces_api.WantInterfaceEventsReply{}); err != nil {
		return fmt.Errorf("asking VPP for events of interfaces: %w", err)
	}
	return nil
}

// watchInterfaces looks at interfaces that have changed, until ctx ends.
func (v *VSwitch) watchInterfaces(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.events.wake:
		}
		if wait(ctx, collectFor) != nil {
			return
		}
		changed, gone, lost := v.events.take()
		ctx, cancel := context.WithTimeout(ctx, pingTimeout)
		v.look(ctx, changed, gone, lost)
		cancel()
	}
}

// look reports what has become of interfaces.
func (v *VSwitch) look(ctx context.Context, changed map[index]struct{}, gone map[string]struct{}, lost bool) {
	port := interfaces{v}
	if lost {
		states, err := v.readStates(ctx, nil)
		if err == nil {
			v.states.Replace(states)
		}
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		if i, ok, err := v.ifs.known(ctx, name); err == nil && ok {
			changed[i] = struct{}{} // it is there again
			continue
		}
		if v.events.want(name) != nil {
			v.drifted(fmt.Sprintf("interface %s was deleted", name), models.VPPInterfaceKey(name))
		}
		names = append(names, name)
	}
	v.states.Gone(names...)
	var states []*vpp_interfaces.InterfaceState
	for _, i := range slices.Sorted(maps.Keys(changed)) {
		d, err := port.details(ctx, i)
		if err != nil || d == nil || logicalName(d) == "" {
			continue
		}
		name := logicalName(d)
		wanted := v.events.want(name)
		if wanted != nil && isUp(d) != wanted.GetEnabled() && (wanted.GetEnabled() || !isNative(d)) {
			v.drifted(fmt.Sprintf("interface %s was put up or down", name), models.VPPInterfaceKey(name))
		}
		states = append(states, describeState(d, wanted))
	}
	v.states.Tell(states...)
}
