package linux

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"google.golang.org/protobuf/proto"
)

type report struct {
	reason string
	keys   []string
}

// watch runs Watch until the test ends.
func (n *node) watch() <-chan report {
	n.t.Helper()
	reports := make(chan report, 100)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- n.Watch(ctx, func(reason string, keys ...string) { reports <- report{reason, keys} })
	}()
	n.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Error(err)
		}
	})
	n.awaitWatch(reports)
	return reports
}

// awaitWatch waits until Watch reports a probe change.
func (n *node) awaitWatch(reports <-chan report) {
	n.t.Helper()
	for {
		mark, late := n.mark(), time.After(2*n.driftDelay+50*time.Millisecond)
		for waiting := true; waiting; {
			select {
			case got := <-reports:
				if slices.Contains(got.keys, mark) {
					return
				}
			case <-late:
				waiting = false
			}
		}
	}
}

// mark makes a change whose report follows the reports of all earlier changes, and returns its key,
// which is different each time.
func (n *node) mark() (key string) {
	n.t.Helper()
	n.marks++
	end := func(name, peer string) *linux_interfaces.Interface {
		return &linux_interfaces.Interface{
			Name: name, Type: linux_interfaces.Interface_VETH, Enabled: true,
			Link: &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: peer}},
		}
	}
	a, b := fmt.Sprintf("mark%da", n.marks), fmt.Sprintf("mark%db", n.marks)
	n.create(end(a, b), end(b, a))
	n.ip("link", "del", a)
	return models.Key(end(a, b))
}

func isMark(key string) bool { return strings.HasPrefix(key, models.LinuxInterface.KeyPrefix()+"mark") }

// settle returns the reports of all changes made so far.
func (n *node) settle(reports <-chan report) (all []report) {
	n.t.Helper()
	for mark, marked := n.mark(), false; !marked; {
		got := next(n.t, reports)
		marked = slices.Contains(got.keys, mark)
		if got.keys = slices.DeleteFunc(got.keys, isMark); len(got.keys) > 0 {
			all = append(all, got)
		}
	}
	return all
}

func next(t testing.TB, reports <-chan report) report {
	t.Helper()
	select {
	case got := <-reports:
		return got
	case <-time.After(await.Patience):
		t.Fatal("nothing was reported")
		return report{}
	}
}

// expectSilence expects no report of the changes made so far.
func (n *node) expectSilence(reports <-chan report) {
	n.t.Helper()
	for _, got := range n.settle(reports) {
		n.t.Errorf("reported %q %q", got.reason, got.keys)
	}
}

func (p pod) tapKeys() []string {
	return []string{models.Key(p.tap), models.Key(p.arp), models.Key(p.gwRoute), models.Key(p.defRoute)}
}

func TestDriftInAPodIsReported(t *testing.T) {
	testDriftInAPod(t, func(*node, pod) {})
}

// A reader such as CNI CHECK may read a pod's values between a change and its report. The table of
// changes and expected reports is the same.
func TestDriftThatIsReadBackIsReported(t *testing.T) {
	testDriftInAPod(t, func(n *node, p pod) {
		var interfaces []interfaceItem
		for _, v := range []*linux_interfaces.Interface{p.loop, p.tap} {
			interfaces = append(interfaces, interfaceItem{Key: models.Key(v), Value: v})
		}
		_, ifErr := n.retrieveInterfaceKeys(t.Context(), interfaces)
		_, arpErr := n.retrieveARPKeys(t.Context(), []arpItem{{Key: models.Key(p.arp), Value: p.arp}})
		_, routeErr := n.retrieveRouteKeys(t.Context(), []routeItem{
			{Key: models.Key(p.gwRoute), Value: p.gwRoute}, {Key: models.Key(p.defRoute), Value: p.defRoute},
		})
		if err := errors.Join(ifErr, arpErr, routeErr); err != nil {
			t.Error(err)
		}
	})
}

func testDriftInAPod(t *testing.T, look func(*node, pod)) {
	t.Helper()
	n, netns := newNode(t), netNSName(t)
	reports := n.watch()
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	n.create(p.values()...)
	n.expectSilence(reports) // our own changes are not drift

	for _, test := range []struct {
		name, change, reason string
		keys                 []string
		repair               proto.Message
	}{
		{"route deleted", "route del default", "default route of linux-tap-1 was deleted", []string{models.Key(p.defRoute)}, p.defRoute},
		{"route replaced", "route replace default dev eth0", "default route of linux-tap-1 was replaced", []string{models.Key(p.defRoute)}, nil},
		{"route of others added", "route add 10.9.0.0/16 dev eth0", "", nil, nil},
		{"neighbour deleted", "neigh del 10.1.1.1 dev eth0", "neighbour 10.1.1.1 of linux-tap-1 was deleted", []string{models.Key(p.arp)}, p.arp},
		{"neighbour changed", "neigh replace 10.1.1.1 dev eth0 lladdr 02:00:00:00:00:09 nud permanent", "neighbour 10.1.1.1 of linux-tap-1 was changed", []string{models.Key(p.arp)}, nil},
		{"MTU changed", "link set eth0 mtu 1400", "interface linux-tap-1 got MTU 1400", p.tapKeys(), nil},
		{"MTU changed back", "link set eth0 mtu 1450", "", nil, nil},
		{"address of others added and deleted", "addr add 10.5.5.5/32 dev eth0", "", nil, nil},
		{"address deleted", "addr del 10.1.1.2/32 dev eth0", "address 10.1.1.2/32 of linux-tap-1 was deleted", p.tapKeys(), nil},
		{"set down", "link set eth0 down", "interface linux-tap-1 was set down", p.tapKeys(), nil},
		{"deleted", "link del eth0", "interface linux-tap-1 was deleted", p.tapKeys(), nil},
	} {
		ip(t, append([]string{"-n", netns}, strings.Fields(test.change)...)...)
		look(n, p)
		if test.reason == "" {
			n.expectSilence(reports)
		} else {
			var reasons, keys []string
			for _, got := range n.settle(reports) {
				reasons, keys = append(reasons, got.reason), append(keys, got.keys...)
			}
			if all := strings.Join(reasons, "; "); !strings.Contains(all, test.reason) {
				t.Errorf("%s: got %q, want %q", test.name, all, test.reason)
			}
			for _, key := range test.keys {
				if !slices.Contains(keys, key) {
					t.Errorf("%s: key %s was not reported", test.name, key)
				}
			}
		}
		if test.repair != nil {
			n.create(test.repair)
			n.expectSilence(reports)
		}
	}
}

func TestNamespaceThatVanishesIsReported(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	reports := n.watch()
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	n.create(p.values()...)
	n.settle(reports)
	n.namespaces.CloseIdle()
	ip(t, "netns", "del", netns)
	got := next(t, reports)
	for isMark(got.keys[0]) { // the other end of the veth of mark
		got = next(t, reports)
	}
	contains(t, got.reason, "network namespace of linux-tap-1 is gone")
	for _, key := range append(p.tapKeys(), models.Key(p.loop)) {
		if !slices.Contains(got.keys, key) {
			t.Errorf("%s was not reported", key)
		}
	}
}

func TestOwnRemovalIsNoDrift(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	reports := n.watch()
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	for range 3 {
		n.create(p.values()...)
		n.remove(backwards(p.values())...)
	}
	n.expectSilence(reports)
}

func TestManyChangesAreOneReport(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	var events sync.Mutex // Watch receives none while it is locked
	n.eventFault = func() error {
		events.Lock()
		defer events.Unlock()
		return nil
	}
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	reports := n.watch()
	n.create(p.values()...)
	n.settle(reports)
	events.Lock()
	ip(t, "-n", netns, "route", "del", "default")
	ip(t, "-n", netns, "neigh", "del", "10.1.1.1", "dev", "eth0")
	events.Unlock()
	all := n.settle(reports)
	if len(all) != 1 || !slices.Equal(all[0].keys, []string{models.Key(p.arp), models.Key(p.defRoute)}) {
		t.Errorf("got %q, want one report of both", all)
	}
}

func TestReportWaitsForFurtherChanges(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	n.create(p.values()...)
	n.driftDelay = time.Hour
	pushed, received := make(notifications, 100), make(chan bool, 100)
	n.Plugin.scheduler = pushed
	n.eventFault = func() error {
		received <- true
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- n.Watch(ctx, func(reason string, _ ...string) { t.Errorf("reported too early: %s", reason) })
	}()
	<-pushed // it listens
	// Watch reads the second change after it has handled the first.
	for range 2 {
		ip(t, "-n", netns, "route", "del", "default")
		<-received
		ip(t, "-n", netns, "route", "add", "default", "via", "10.1.1.1", "dev", "eth0")
		<-received
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

type notifications chan kvscheduler.Notification

func (c notifications) PushSBNotification(changes ...kvscheduler.Notification) error {
	for _, change := range changes {
		c <- change
	}
	return nil
}

func (c notifications) PushSBNotifications(changes func() []kvscheduler.Notification) error {
	return c.PushSBNotification(changes()...)
}

func TestDevicesOfOthersAreObtained(t *testing.T) {
	n := newNode(t)
	pushed := make(notifications, 100)
	n.Plugin.scheduler = pushed
	await := func(key string, exists bool) {
		t.Helper()
		deadline := time.After(await.Patience)
		for {
			select {
			case c := <-pushed:
				lacks(t, c.Key, "node1", "peer1")
				if c.Key == key && (c.Value != nil) == exists {
					return
				}
			case <-deadline:
				t.Fatalf("%s (exists: %v) was not pushed", key, exists)
			}
		}
	}
	n.watch()
	await(models.LinuxHostNameKey("lo"), true)
	n.ip("link", "add", "nic0", "type", "veth", "peer", "name", "nic1")
	n.ip("link", "add", "node1", "type", "veth", "peer", "name", "peer1")
	n.ip("link", "set", "node1", "alias", "contiv:vpp/x")
	n.ip("link", "set", "node1", "up")
	n.ip("link", "set", "nic0", "up")
	n.ip("addr", "add", "192.168.1.1/24", "dev", "nic0")
	await(models.LinuxHostNameKey("nic0"), true)
	await(models.LinuxHostNameAddressKey("nic0", "192.168.1.1/24"), true)
	keys, err := n.hostNameKeys()
	if err != nil || !keys[models.LinuxHostNameKey("nic0")] || keys[models.LinuxHostNameKey("nic1")] || keys[models.LinuxHostNameKey("node1")] {
		t.Errorf("retrieved %v, %v", keys, err)
	}
	n.ip("addr", "del", "192.168.1.1/24", "dev", "nic0")
	await(models.LinuxHostNameAddressKey("nic0", "192.168.1.1/24"), false)
	n.ip("link", "set", "nic0", "down")
	await(models.LinuxHostNameKey("nic0"), false)
}

func TestWatchKeepsNoNamespaceAlive(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.watch()
	n.addTap("vpp-tap-1")
	n.create(newPod("1", netns, "10.1.1.2", "10.1.1.1").values()...)
	if err := exec.Command("ip", "netns", "del", netns).Run(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		return !hasLink(n, models.TapHostIfName("vpp-tap-1")) && !strings.Contains(n.ip("link"), "vpp-tap-1")
	},
		"the namespace ends and takes the TAP with it")
}
