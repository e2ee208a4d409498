package linux

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/command"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var namespaceCount atomic.Int32

func netNSName(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run the test as root")
	}
	name := fmt.Sprintf("lx%d-%d", os.Getpid(), namespaceCount.Add(1))
	ip(t, "netns", "add", name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	return name
}

func pathOf(name string) string { return filepath.Join(models.NetNSDir, name) }

func byPath(name string) *linux_namespace.NetNamespace {
	return &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_FD, Reference: pathOf(name)}
}

func ip(t testing.TB, args ...string) string {
	t.Helper()
	return command.Run(t, "ip", args...)
}

// node is an agent's network namespace with a plugin.
type node struct {
	*Plugin
	t         testing.TB
	name      string
	scheduler *kvscheduler.Scheduler
	marks     int // counts calls of mark
}

func newNode(t testing.TB) *node {
	t.Helper()
	name := netNSName(t)
	ip(t, "-n", name, "link", "set", "lo", "up")
	n := &node{t: t, name: name}
	n.restart()
	t.Cleanup(n.close)
	return n
}

// restart replaces the scheduler and the plugin, with empty caches.
func (n *node) restart() {
	n.t.Helper()
	if n.Plugin != nil {
		n.close()
	}
	n.scheduler = kvscheduler.New(kvscheduler.Options{})
	p, err := New(n.scheduler, Options{NetNS: pathOf(n.name), DriftDelay: 10 * time.Millisecond})
	if err != nil {
		n.t.Fatal(err)
	}
	n.Plugin = p
}

func (n *node) close() {
	n.scheduler.Close()
	n.Plugin.Close()
}

func (n *node) ip(args ...string) string {
	n.t.Helper()
	return ip(n.t, append([]string{"-n", n.name}, args...)...)
}

// addTap creates a TAP like the kernel vswitch does.
func (n *node) addTap(tap string) {
	n.t.Helper()
	far := models.TapHostIfName(tap)
	near := "v" + strings.TrimPrefix(far, "tap-")
	n.ip("link", "add", near, "type", "veth", "peer", "name", far)
	n.ip("link", "set", near, "up", "alias", vppAliasPrefix+tap)
}

// pod holds the values that ipnet requests for a pod.
type pod struct {
	loop, tap         *linux_interfaces.Interface
	arp               *linux_l3.ARPEntry
	gwRoute, defRoute *linux_l3.Route
}

func newPod(id, netns, addr, gw string) pod {
	name := "linux-tap-" + id
	bits, any := "/32", "0.0.0.0/0"
	if strings.Contains(addr, ":") {
		bits, any = "/128", "::/0"
	}
	return pod{
		loop: &linux_interfaces.Interface{
			Name: "linux-loop-" + id, Type: linux_interfaces.Interface_LOOPBACK, Namespace: byPath(netns),
			Enabled: true, IpAddresses: []string{"127.0.0.1/8", "::1/128"},
		},
		tap: &linux_interfaces.Interface{
			Name: name, Type: linux_interfaces.Interface_TAP_TO_VPP, Namespace: byPath(netns), HostIfName: "eth0",
			Enabled: true, IpAddresses: []string{addr + bits}, PhysAddress: "02:fe:01:02:03:04", Mtu: 1450,
			Link: &linux_interfaces.Interface_Tap{Tap: &linux_interfaces.TapLink{VppTapIfName: "vpp-tap-" + id}},
		},
		arp:      &linux_l3.ARPEntry{Interface: name, IpAddress: gw, HwAddress: "fd:01:fe:fd:fc:fb"},
		gwRoute:  &linux_l3.Route{OutgoingInterface: name, Scope: linux_l3.Route_LINK, DstNetwork: gw + bits},
		defRoute: &linux_l3.Route{OutgoingInterface: name, DstNetwork: any, GwAddr: gw, Scope: linux_l3.Route_GLOBAL},
	}
}

func (p pod) values() []proto.Message {
	return []proto.Message{p.loop, p.tap, p.arp, p.gwRoute, p.defRoute}
}

func (n *node) create(values ...proto.Message) {
	n.t.Helper()
	for _, v := range values {
		if err := n.tryCreate(v); err != nil {
			n.t.Fatal(err)
		}
	}
}

func (n *node) tryCreate(v proto.Message) error {
	ctx := context.Background()
	switch v := v.(type) {
	case *linux_interfaces.Interface:
		if err := validateInterface(v); err != nil {
			return err
		}
		if _, err := n.createInterface(ctx, models.Key(v), v); err != nil {
			return err
		}
		for _, derived := range deriveFromInterface(v) {
			if isAddressKey(derived.Key) {
				if _, err := n.createAddress(ctx, derived.Key, derived.Value.(*linux_interfaces.Interface)); err != nil {
					return err
				}
			}
		}
	case *linux_l3.ARPEntry:
		return n.setARP(models.Key(v), v)
	case *linux_l3.Route:
		_, err := n.createRoute(ctx, models.Key(v), v)
		return err
	}
	return nil
}

func (n *node) remove(values ...proto.Message) {
	n.t.Helper()
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			n.t.Fatal(err)
		}
	}
	for _, v := range values {
		switch v := v.(type) {
		case *linux_interfaces.Interface:
			for _, derived := range deriveFromInterface(v) {
				if isAddressKey(derived.Key) {
					check(n.deleteAddress(ctx, derived.Key, derived.Value.(*linux_interfaces.Interface), kvscheduler.NoMetadata{}))
				}
			}
			check(n.deleteInterface(ctx, models.Key(v), v, InterfaceMetadata{}))
		case *linux_l3.ARPEntry:
			check(n.deleteARP(ctx, models.Key(v), v, kvscheduler.NoMetadata{}))
		case *linux_l3.Route:
			check(n.deleteRoute(ctx, models.Key(v), v, kvscheduler.NoMetadata{}))
		}
	}
}

type retrieved map[string]proto.Message

// retrieve reads all values in the scheduler's order.
func (n *node) retrieve(expected ...proto.Message) retrieved {
	n.t.Helper()
	var interfaces []interfaceItem
	var arps []arpItem
	var routes []routeItem
	for _, v := range expected {
		switch v := v.(type) {
		case *linux_interfaces.Interface:
			interfaces = append(interfaces, interfaceItem{Key: models.Key(v), Value: v})
		case *linux_l3.ARPEntry:
			arps = append(arps, arpItem{Key: models.Key(v), Value: v})
		case *linux_l3.Route:
			routes = append(routes, routeItem{Key: models.Key(v), Value: v})
		}
	}
	found := retrieved{}
	ctx := context.Background()
	gotInterfaces, err := n.retrieveInterfaces(ctx, interfaces)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, item := range gotInterfaces {
		found[item.Key] = item.Value
	}
	gotARPs, err := n.retrieveARPs(ctx, arps)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, item := range gotARPs {
		found[item.Key] = item.Value
	}
	gotRoutes, err := n.retrieveRoutes(ctx, routes)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, item := range gotRoutes {
		found[item.Key] = item.Value
	}
	return found
}

// hasExactly checks that the retrieved values are equivalent to want, with none missing or extra.
func (r retrieved) hasExactly(t testing.TB, want ...proto.Message) {
	t.Helper()
	keys := map[string]bool{}
	for _, v := range want {
		key := models.Key(v)
		keys[key] = true
		got := r[key]
		if got == nil {
			t.Errorf("%s was not retrieved", key)
		} else if !equivalent(got, v) {
			t.Errorf("%s:\nretrieved %v\nwant      %v", key, got, v)
		}
	}
	for key, v := range r {
		if !keys[key] {
			t.Errorf("%s was retrieved but not expected: %v", key, v)
		}
	}
}

// equivalent compares like the scheduler, derived values included.
func equivalent(got, want proto.Message) bool {
	switch want := want.(type) {
	case *linux_interfaces.Interface:
		got := got.(*linux_interfaces.Interface)
		return equivalentInterfaces(got, want) && sameKeys(deriveFromInterface(got), deriveFromInterface(want))
	case *linux_l3.ARPEntry:
		return equivalentARPs(got.(*linux_l3.ARPEntry), want)
	case *linux_l3.Route:
		got := got.(*linux_l3.Route)
		return equivalentRoutes(got, want) && sameKeys(deriveFromRoute("", got), deriveFromRoute("", want))
	}
	return false
}

func sameKeys(a, b []kvscheduler.KeyValue) bool {
	keys := map[string]int{}
	for _, kv := range a {
		keys[kv.Key]++
	}
	for _, kv := range b {
		keys[kv.Key]--
	}
	for _, count := range keys {
		if count != 0 {
			return false
		}
	}
	return true
}

func contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

func lacks(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%q is in:\n%s", part, text)
		}
	}
}

// newPods connects count pods to one node.
func newPods(t testing.TB, count int) (*node, []proto.Message) {
	t.Helper()
	n := newNode(t)
	var values []proto.Message
	for i := range count {
		id := fmt.Sprint(i)
		n.addTap("vpp-tap-" + id)
		p := newPod(id, netNSName(t), fmt.Sprintf("10.1.%d.%d", i/200, i%200+2), "10.1.255.1")
		n.create(p.values()...)
		values = append(values, p.values()...)
	}
	return n, values
}
