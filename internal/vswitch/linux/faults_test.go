package linux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	"github.com/contiv/contiv/internal/netlink/events"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// tryRemove deletes a value like the scheduler does.
func (n *node) tryRemove(v proto.Message) error {
	ctx, none := context.Background(), kvscheduler.NoMetadata{}
	switch v := v.(type) {
	case *linux_interfaces.Interface:
		for _, derived := range deriveFromInterface(v) {
			if isAddressKey(derived.Key) {
				if err := n.deleteAddress(ctx, derived.Key, derived.Value.(*linux_interfaces.Interface), none); err != nil {
					return err
				}
			}
		}
		return n.deleteInterface(ctx, models.Key(v), v, InterfaceMetadata{})
	case *linux_l3.ARPEntry:
		return n.deleteARP(ctx, models.Key(v), v, none)
	case *linux_l3.Route:
		return n.deleteRoute(ctx, models.Key(v), v, none)
	}
	return nil
}

// Fail each request to the kernel in turn: the retry succeeds, the pod is complete, and deleting it
// leaves nothing behind.
func TestAnyRequestMayFail(t *testing.T) {
	for name, fault := range map[string]error{"busy": unix.EBUSY, "dump interrupted": netlink.ErrDumpInterrupted} {
		t.Run(name, func(t *testing.T) {
			n, netns := newNode(t), netNSName(t)
			n.addTap("vpp-tap-1")
			p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
			left := &linux_interfaces.Interface{Name: "left", Type: linux_interfaces.Interface_VETH, Enabled: true, Namespace: byPath(netns),
				Link: &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: "right"}}}
			right := &linux_interfaces.Interface{Name: "right", Type: linux_interfaces.Interface_VETH, Enabled: true, IpAddresses: []string{"10.9.0.1/24"},
				Link: &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: "left"}}}
			values := append(p.values(), left, right)
			listing := func() string {
				var names []string
				for _, line := range strings.Split(n.ip("-o", "link")+ip(t, "-n", netns, "-o", "link"), "\n") {
					if fields := strings.Fields(line); len(fields) > 1 {
						names = append(names, fields[1])
					}
				}
				slices.Sort(names)
				return fmt.Sprint(names) + ip(t, "-n", netns, "route") + n.ip("route") + ip(t, "-n", netns, "neigh", "show", "nud", "permanent")
			}
			before := listing()
			failed, requests := true, 0
			for broken := 1; failed; broken++ {
				failed, requests = false, broken-1
				calls, broke := 0, ""
				breakOne := func(call string) error {
					if calls++; calls == broken {
						failed, broke = true, call
						return fault
					}
					return nil
				}
				n.namespaces.InjectFaults(breakOne)
				run := func(v proto.Message, step func(proto.Message) error) {
					err := step(v)
					if err == nil {
						return
					}
					if again := step(v); again != nil {
						t.Fatalf("request %d (%s) fails, %T: %v, and repeated: %v", broken, broke, v, err, again)
					}
				}
				for _, v := range values {
					run(v, n.tryCreate)
				}
				n.namespaces.InjectFaults(nil)
				n.retrieve(values...).hasExactly(t, values...)
				if t.Failed() {
					t.Fatalf("when request %d fails (%s)", broken, broke)
				}
				n.namespaces.InjectFaults(breakOne)
				for _, v := range slices.Backward(values) {
					run(v, n.tryRemove)
				}
				n.namespaces.InjectFaults(nil)
				if after := listing(); after != before {
					t.Fatalf("request %d (%s) fails: was\n%sand is\n%s", broken, broke, before, after)
				}
			}
			t.Logf("%d requests failed, one after the other", requests)
		})
	}
}

// When the kernel drops events, Watch checks everything it knows.
func TestLostEventsReportEverything(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	n.create(p.values()...)
	n.eventFault = func() error { return events.ErrLost }
	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan []string, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- n.Watch(ctx, func(reason string, keys ...string) {
			if strings.Contains(reason, "lost") {
				reports <- keys
			}
		})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	deadline := time.After(30 * time.Second)
	for i := 0; ; i++ {
		n.ip("route", "replace", "unreachable", fmt.Sprintf("10.66.%d.0/24", i%200)) // an irrelevant event
		select {
		case keys := <-reports:
			for _, v := range p.values() {
				if !slices.Contains(keys, models.Key(v)) {
					t.Errorf("%s is not reported: %v", models.Key(v), keys)
				}
			}
			return
		case <-deadline:
			t.Fatal("no report")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
