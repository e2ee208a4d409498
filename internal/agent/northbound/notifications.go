package northbound

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/contiv/contiv/api/ligato/configurator"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/api/ligato/linux"
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	"github.com/contiv/contiv/api/ligato/vpp"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// rememberedNotifications is the number of notifications kept for clients.
const rememberedNotifications = 10000

// notifications holds the last notifications. Each carries the number of its successor.
type notifications struct {
	mu      sync.Mutex
	last    []*configurator.NotifyResponse
	next    uint32
	changed chan struct{} // closed by the next one
}

func newNotifications() *notifications { return &notifications{changed: make(chan struct{})} }

func (n *notifications) add(notification *configurator.Notification) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next++
	n.last = append(n.last, &configurator.NotifyResponse{NextIdx: n.next, Notification: notification})
	if len(n.last) >= 2*rememberedNotifications {
		n.last = append([]*configurator.NotifyResponse(nil), n.last[len(n.last)-rememberedNotifications:]...)
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// from returns the kept notifications starting with a number, none beyond the last. more is closed
// when new ones arrive. at is the number of the first one.
func (n *notifications) from(number uint32) (batch []*configurator.NotifyResponse, more <-chan struct{}, at uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	oldest := n.next - uint32(min(len(n.last), rememberedNotifications))
	number = min(max(number, oldest), n.next)
	if number < n.next {
		batch = n.last[len(n.last)-int(n.next-number):]
	}
	return batch, n.changed, number
}

// Run collects notifications of Linux interfaces until ctx ends. It then ends the streams of Notify
// and Subscribe. Run must be called once.
func (l *Ligato) Run(ctx context.Context) error {
	defer close(l.ended)
	watcher, _ := l.Scheduler.Watch(valuePrefix)
	for {
		events, err := watcher.Next(ctx)
		switch {
		case errors.Is(err, kvscheduler.ErrLostPlace):
			watcher, _ = l.Scheduler.Watch(valuePrefix)
			continue
		case errors.Is(err, kvscheduler.ErrClosed), ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		for _, e := range events {
			if n := l.notification(ctx, e.Status.GetValue()); n != nil {
				l.notifications.add(n)
			}
		}
	}
}

// notification returns the notification for a change of a Linux interface, nil for other values.
func (l *Ligato) notification(ctx context.Context, st *pb.ValueStatus) *configurator.Notification {
	key := st.GetKey()
	if !models.LinuxInterface.Matches(key) {
		return nil
	}
	var value proto.Message
	if values, err := l.Scheduler.Dump(ctx, kvscheduler.NBView, kvscheduler.DumpFilter{KeyPrefix: key}); err == nil && len(values) > 0 && values[0].Key == key {
		value = values[0].Value
	}
	return linuxNotification(key, value, st)
}

// InterfaceChanged notifies clients about the state of a vswitch interface.
func (l *Ligato) InterfaceChanged(state *vpp_interfaces.InterfaceState) {
	l.notifications.add(&configurator.Notification{Notification: &configurator.Notification_VppNotification{VppNotification: &vpp.Notification{
		Interface: &vpp_interfaces.InterfaceNotification{Type: vpp_interfaces.InterfaceNotification_UPDOWN, State: state},
	}}})
}

func linuxNotification(key string, value proto.Message, st *pb.ValueStatus) *configurator.Notification {
	id, _ := idOf(key)
	iface, _ := value.(*linux_interfaces.Interface)
	state := &linux_interfaces.InterfaceState{
		Name: id.GetName(), InternalName: iface.GetHostIfName(), Type: iface.GetType(), Mtu: iface.GetMtu(),
		PhysAddress: iface.GetPhysAddress(), LastChange: time.Now().Unix(),
		AdminStatus: statusOf(iface.GetEnabled(), true, st), OperStatus: statusOf(iface.GetEnabled(), false, st),
	}
	return &configurator.Notification{Notification: &configurator.Notification_LinuxNotification{LinuxNotification: &linux.Notification{
		Interface: &linux_interfaces.InterfaceNotification{Type: linux_interfaces.InterfaceNotification_UPDOWN, State: state},
	}}}
}

// statusOf derives the administrative status from the request and the operational status from the
// result.
func statusOf(enabled, administrative bool, st *pb.ValueStatus) linux_interfaces.InterfaceState_Status {
	switch {
	case st.GetState() == pb.ValueState_REMOVED:
		return linux_interfaces.InterfaceState_DELETED
	case enabled && (administrative || st.GetState() == pb.ValueState_CONFIGURED):
		return linux_interfaces.InterfaceState_UP
	}
	return linux_interfaces.InterfaceState_DOWN
}

// passes reports whether a notification matches one of the filters in all fields that the filter
// sets.
func passes(n *configurator.Notification, filters []*configurator.Notification) bool {
	for _, f := range filters {
		if agrees(n.ProtoReflect(), f.ProtoReflect()) {
			return true
		}
	}
	return len(filters) == 0
}

func agrees(have, filter protoreflect.Message) bool {
	same := true
	filter.Range(func(field protoreflect.FieldDescriptor, want protoreflect.Value) bool {
		if field.Message() != nil && !field.IsList() && !field.IsMap() {
			same = have.Has(field) && agrees(have.Get(field).Message(), want.Message())
		} else {
			same = have.Get(field).Equal(want)
		}
		return same
	})
	return same
}
