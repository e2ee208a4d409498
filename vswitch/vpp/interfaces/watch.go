package interfaces

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/vswitch/vpp/ownership"
	"github.com/contiv/contiv/vswitch/vpp/session"
	"github.com/contiv/contiv/vswitch/vpp/subsystem"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	interfaces_api "go.fd.io/govpp/binapi/interface"
)

var ifEventsModule = session.NewModule("", "events of interfaces",
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
	changed map[ownership.Index]struct{}
	gone    map[string]struct{} // names of interfaces that were deleted
	lost    bool                // the connection was: any may have changed
	wake    chan struct{}       // has room for one

	// wanted are the interfaces that exist, as they should be, by name.
	wanted map[string]*vpp_interfaces.Interface
}

func newIfEvents() *ifEvents {
	return &ifEvents{
		changed: map[ownership.Index]struct{}{}, gone: map[string]struct{}{}, wake: make(chan struct{}, 1), wanted: map[string]*vpp_interfaces.Interface{},
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
func (e *ifEvents) touched(i ownership.Index) { e.note(func() { e.changed[i] = struct{}{} }) }

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

func (e *ifEvents) take() (changed map[ownership.Index]struct{}, gone map[string]struct{}, lost bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed, gone, lost = e.changed, e.gone, e.lost
	e.changed, e.gone, e.lost = map[ownership.Index]struct{}{}, map[string]struct{}{}, false
	return changed, gone, lost
}

// Opened asks a new connection for events of interfaces; the registry knows nothing of it yet.
func (v *Interfaces) Opened(ctx context.Context, l *session.Link) error {
	v.ifs.Forget()
	_, err := vppapi.Subscribe(l.Conn, func(event *interfaces_api.SwInterfaceEvent) {
		if !event.Deleted {
			v.events.touched(event.SwIfIndex)
			return
		}
		if name := v.ifs.Gone(event.SwIfIndex); name != "" {
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

// Follow looks at interfaces that have changed, until ctx ends.
func (v *Interfaces) Follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.events.wake:
		}
		if session.Sleep(ctx, collectFor) != nil {
			return
		}
		changed, gone, lost := v.events.take()
		ctx, cancel := context.WithTimeout(ctx, session.Timeout)
		v.look(ctx, changed, gone, lost)
		cancel()
	}
}

// look reports what has become of interfaces.
func (v *Interfaces) look(ctx context.Context, changed map[ownership.Index]struct{}, gone map[string]struct{}, lost bool) {
	if lost {
		states, err := v.readStates(ctx, nil)
		if err == nil {
			v.reports.Replace(states)
		}
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		if i, ok, err := v.ifs.Known(ctx, name); err == nil && ok {
			changed[i] = struct{}{} // it is there again
			continue
		}
		v.hub.Publish(subsystem.Event{Kind: subsystem.InterfaceDeleted, Interface: name})
		names = append(names, name)
	}
	v.reports.Gone(names...)
	var states []*vpp_interfaces.InterfaceState
	for _, i := range slices.Sorted(maps.Keys(changed)) {
		d, err := v.ifs.Details(ctx, i)
		if err != nil || d == nil || ownership.LogicalName(d) == "" {
			continue
		}
		name := ownership.LogicalName(d)
		wanted := v.events.want(name)
		if wanted != nil && isUp(d) != wanted.GetEnabled() && (wanted.GetEnabled() || !isNative(d)) {
			v.hub.Publish(subsystem.Event{Kind: subsystem.InterfaceState, Interface: name, Up: isUp(d)})
		}
		states = append(states, describeState(d, wanted))
	}
	v.reports.Tell(states...)
}

// Concerns returns the interface that an event is about, if it is not as it should be.
func (v *Interfaces) Concerns(e subsystem.Event) []string {
	wanted := v.events.want(e.Interface)
	if wanted == nil || e.Kind != subsystem.InterfaceDeleted && (e.Kind != subsystem.InterfaceState || e.Up == wanted.GetEnabled()) {
		return nil
	}
	return []string{models.VPPInterfaceKey(e.Interface)}
}
