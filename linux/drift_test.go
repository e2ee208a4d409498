package linux

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// reports are what Watch reported.
type report struct {
	reason string
	keys   []string
}

// watch starts Watch, and ends it with the test.
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

// awaitWatch returns when Watch listens: it reports a change made for that.
func (n *node) awaitWatch(reports <-chan report) {
	n.t.Helper()
	probe := &linux_interfaces.Interface{
		Name: "probe", Type: linux_interfaces.Interface_LOOPBACK, Enabled: true,
	}
	n.create(probe)
	for {
		n.ip("link", "set", "lo", "down")
		heard := false
		select {
		case <-reports:
			heard = true
		case <-time.After(2*n.driftDelay + 50*time.Millisecond):
		}
		n.ip("link", "set", "lo", "up")
		if heard {
			n.remove(probe)
			n.settle(reports)
			return
		}
	}
}

// settle drops what is reported about changes made until now.
func (n *node) settle(reports <-chan report) {
	for {
		select {
		case <-reports:
		case <-time.After(3 * n.driftDelay):
			return
		}
	}
}

func expectReport(t testing.TB, reports <-chan report, reason string, keys ...string) {
	t.Helper()
	slices.Sort(keys)
	select {
	case got := <-reports:
		if got.reason != reason || !slices.Equal(got.keys, keys) {
			t.Errorf("got  %q %q\nwant %q %q", got.reason, got.keys, reason, keys)
		}
	case <-time.After(5 * time.Second):
		t.Errorf("nothing was reported, want %q", reason)
	}
}

func expectSilence(t testing.TB, n *node, reports <-chan report) {
	t.Helper()
	select {
	case got := <-reports:
		t.Errorf("reported %q %q", got.reason, got.keys)
	case <-time.After(5 * n.driftDelay):
	}
}

func (p pod) tapKeys() []string {
	return []string{models.Key(p.tap), models.Key(p.arp), models.Key(p.gwRoute), models.Key(p.defRoute)}
}

func TestDriftInAPodIsReported(t *testing.T) {
	testDriftInAPod(t, func(*node, pod) {})
}

// Somebody may look at the values of a pod, as CNI CHECK does, between a change
// and its report. The table of changes and reports is the same.
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
	expectSilence(t, n, reports) // what we do ourselves is no drift

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
			expectSilence(t, n, reports)
		} else {
			select {
			case got := <-reports:
				if !strings.Contains(got.reason, test.reason) {
					t.Errorf("%s: got %q, want %q", test.name, got.reason, test.reason)
				}
				for _, key := range test.keys {
					if !slices.Contains(got.keys, key) {
						t.Errorf("%s: key %s was not reported", test.name, key)
					}
				}
			case <-time.After(5 * time.Second):
				t.Errorf("%s: nothing was reported", test.name)
			}
		}
		if test.repair != nil {
			n.create(test.repair)
			expectSilence(t, n, reports)
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
	select {
	case got := <-reports:
		contains(t, got.reason, "network namespace of linux-tap-1 is gone")
		for _, key := range append(p.tapKeys(), models.Key(p.loop)) {
			if !slices.Contains(got.keys, key) {
				t.Errorf("%s was not reported", key)
			}
		}
	case <-time.After(5 * time.Second):
		t.Fatal("nothing was reported")
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
	expectSilence(t, n, reports)
}

func TestManyChangesAreOneReport(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.driftDelay = 300 * time.Millisecond
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	reports := n.watch()
	n.create(p.values()...)
	n.settle(reports)
	ip(t, "-n", netns, "route", "del", "default")
	ip(t, "-n", netns, "neigh", "del", "10.1.1.1", "dev", "eth0")
	expectReport(t, reports, "default route of linux-tap-1 was deleted; neighbour 10.1.1.1 of linux-tap-1 was deleted",
		models.Key(p.defRoute), models.Key(p.arp))
	expectSilence(t, n, reports)
}

// notifications collects what is pushed to a scheduler.
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
		deadline := time.After(5 * time.Second)
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
