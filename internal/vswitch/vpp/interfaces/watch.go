package interfaces

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"github.com/contiv/contiv/models"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	interfaces_api "go.fd.io/govpp/binapi/interface"
)

var ifEventsModule = session.NewModule("", "events of interfaces",
	&interfaces_api.WantInterfaceEvents{}, &interfaces_api.WantInterfaceEventsReply{}, &interfaces_api.SwInterfaceEvent{})

// collectFor is how long events are collected, because changes come in bursts, and an interface is
// tagged after its creation.
const collectFor = 20 * time.Millisecond

// Bounds of Follow's delay before it repeats a failed read.
const retryMin, retryMax = 100 * time.Millisecond, 10 * time.Second

// news lists the interfaces to check.
type news struct {
	changed map[ownership.Index]struct{}
	gone    map[string]struct{} // names of interfaces that were deleted
	lost    bool                // the connection was lost: any may have changed
}

func newNews() news {
	return news{changed: map[ownership.Index]struct{}{}, gone: map[string]struct{}{}}
}

func (n news) none() bool { return len(n.changed) == 0 && len(n.gone) == 0 && !n.lost }

// ifEvents collects the interfaces that VPP or we have changed.
//
//	sw_interface_event ──┐                    ┌──> drift, if it is not as it should be
//	Create, Update ──────┴──> changed ──20ms──┤
//	List ───> wanted                          └──> states
type ifEvents struct {
	mu   sync.Mutex
	news news
	wake chan struct{} // has room for one

	// wanted holds the desired state of existing interfaces, by name.
	wanted map[string]*vpp_interfaces.Interface
}

func newIfEvents() *ifEvents {
	return &ifEvents{news: newNews(), wake: make(chan struct{}, 1), wanted: map[string]*vpp_interfaces.Interface{}}
}

func (e *ifEvents) note(fn func(*news)) {
	e.mu.Lock()
	fn(&e.news)
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// touched records that an interface has changed.
func (e *ifEvents) touched(i ownership.Index) { e.note(func(n *news) { n.changed[i] = struct{}{} }) }

// expect records the desired state of an interface; nil: it should not exist.
func (e *ifEvents) expect(name string, iface *vpp_interfaces.Interface) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if iface == nil {
		delete(e.wanted, name)
		return
	}
	e.wanted[name] = iface
}

// settle records which of the expected interfaces exist.
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

func (e *ifEvents) take() news {
	e.mu.Lock()
	defer e.mu.Unlock()
	taken := e.news
	e.news = newNews()
	return taken
}

// putBack requeues unread interfaces.
func (e *ifEvents) putBack(unread news) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.Copy(e.news.changed, unread.changed)
	maps.Copy(e.news.gone, unread.gone)
	e.news.lost = e.news.lost || unread.lost
}

// Opened subscribes to interface events. The registry is still empty.
func (v *Interfaces) Opened(ctx context.Context, l *session.Link) error {
	v.ifs.Forget()
	_, err := vppapi.Subscribe(l.Conn, func(event *interfaces_api.SwInterfaceEvent) {
		if !event.Deleted {
			v.events.touched(event.SwIfIndex)
			return
		}
		if name := v.ifs.Gone(event.SwIfIndex); name != "" {
			v.events.note(func(n *news) { n.gone[name] = struct{}{} })
		}
	})
	if err != nil {
		return err
	}
	v.events.note(func(n *news) { n.lost = true })
	req := &interfaces_api.WantInterfaceEvents{EnableDisable: 1, PID: uint32(os.Getpid())}
	if err := l.Call(ctx, req, &interfaces_api.WantInterfaceEventsReply{}); err != nil {
		return fmt.Errorf("asking VPP for events of interfaces: %w", err)
	}
	return nil
}

// Follow checks changed interfaces until ctx ends.
func (v *Interfaces) Follow(ctx context.Context) { v.events.follow(ctx, v.look) }

// follow calls look with the changed interfaces, and again with those that look could not read.
func (e *ifEvents) follow(ctx context.Context, look func(context.Context, news) (unread news)) {
	var pause time.Duration
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		case <-again:
		}
		if session.Sleep(ctx, collectFor) != nil {
			return
		}
		within, cancel := context.WithTimeout(ctx, session.Timeout)
		unread := look(within, e.take())
		cancel()
		if unread.none() {
			pause, again = 0, nil
			continue
		}
		e.putBack(unread)
		pause = min(max(2*pause, retryMin), retryMax)
		again = time.After(pause)
	}
}

// look reports the state of interfaces. It returns those that VPP did not report.
func (v *Interfaces) look(ctx context.Context, n news) news {
	unread := newNews()
	if n.lost {
		states, err := v.readStates(ctx, nil)
		if err == nil {
			v.reports.Replace(states)
		}
		unread.lost = err != nil
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(n.gone)) {
		i, ok, err := v.ifs.Known(ctx, name)
		switch {
		case err != nil:
			unread.gone[name] = struct{}{}
		case ok: // it is there again
			n.changed[i] = struct{}{}
		default:
			v.hub.Publish(subsystem.Event{Kind: subsystem.InterfaceDeleted, Interface: name})
			names = append(names, name)
		}
	}
	v.reports.Gone(names...)
	var states []*vpp_interfaces.InterfaceState
	for _, i := range slices.Sorted(maps.Keys(n.changed)) {
		d, err := v.ifs.Details(ctx, i)
		if err != nil {
			unread.changed[i] = struct{}{}
			continue
		}
		if d == nil || ownership.LogicalName(d) == "" {
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
	return unread
}

// Concerns returns the interface of an event if it differs from the desired state.
func (v *Interfaces) Concerns(e subsystem.Event) []string {
	wanted := v.events.want(e.Interface)
	if wanted == nil || e.Kind != subsystem.InterfaceDeleted && (e.Kind != subsystem.InterfaceState || e.Up == wanted.GetEnabled()) {
		return nil
	}
	return []string{models.VPPInterfaceKey(e.Interface)}
}
