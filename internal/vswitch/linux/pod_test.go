package linux

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"google.golang.org/protobuf/proto"
)

// backwards returns values in the order of their deletion.
func backwards(values []proto.Message) []proto.Message {
	values = slices.Clone(values)
	slices.Reverse(values)
	return values
}

func TestPodIsWiredAndFoundAgainAfterRestart(t *testing.T) {
	for _, test := range []struct{ name, addr, gw string }{
		{"IPv4", "10.1.1.2", "10.1.1.1"},
		{"IPv6", "fd00:1::2", "fd00:1::1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n, netns := newNode(t), netNSName(t)
			n.addTap("vpp-tap-1")
			p := newPod("1", netns, test.addr, test.gw)
			n.create(p.values()...)

			contains(t, ip(t, "-n", netns, "-d", "link", "show", "eth0"),
				"mtu 1450", "02:fe:01:02:03:04", "UP", "alias contiv:linux/linux-tap-1")
			contains(t, ip(t, "-n", netns, "addr", "show"), "127.0.0.1/8", "::1/128", test.addr)
			family := "-4"
			if test.name == "IPv6" {
				family = "-6"
			}
			contains(t, ip(t, "-n", netns, family, "route", "show"), "default via "+test.gw+" dev eth0 proto 126", test.gw+" dev eth0 proto 126")
			contains(t, ip(t, "-n", netns, family, "neigh", "show"), test.gw+" dev eth0 lladdr fd:01:fe:fd:fc:fb PERMANENT")

			n.retrieve(p.values()...).hasExactly(t, p.values()...)
			n.restart()
			n.retrieve(p.values()...).hasExactly(t, p.values()...)
		})
	}
}

// Retrieve also finds values that are no longer wanted, so that they can be removed.
func TestLeftoversAreFoundInNamespacesThatAreExpected(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	n.create(p.values()...)
	n.restart()
	got := n.retrieve(p.loop)
	got.hasExactly(t, p.values()...)
	if tap := got[models.Key(p.tap)].(*linux_interfaces.Interface); tap.GetTap().GetVppTapIfName() != "vpp-tap-1" {
		t.Errorf("its TAP is not known: %v", tap)
	}
	n.remove(p.defRoute, p.gwRoute, p.arp, got[models.Key(p.tap)])
	contains(t, n.ip("link"), models.TapHostIfName("vpp-tap-1"))
}

func TestPodIsRemoved(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	n.create(p.values()...)
	n.remove(backwards(p.values())...)
	lacks(t, ip(t, "-n", netns, "link"), "eth0", "contiv")
	lacks(t, ip(t, "-n", netns, "route"), "10.1.1.1")
	far := models.TapHostIfName("vpp-tap-1")
	out := n.ip("link", "show", far)
	contains(t, out, far+"@", "state DOWN")
	lacks(t, out, "alias")
	n.retrieve().hasExactly(t)
	// A repeated deletion finds nothing and succeeds.
	n.remove(backwards(p.values())...)
	// Create everything again.
	n.create(p.values()...)
	n.retrieve(p.values()...).hasExactly(t, p.values()...)
}

func TestNamespaceThatIsGoneCountsAsDeleted(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	n.create(p.values()...)
	ip(t, "netns", "del", netns)
	n.retrieve(p.values()...).hasExactly(t)
	n.remove(backwards(p.values())...)
	n.namespaces.CloseIdle()
	waitFor(t, func() bool { return !hasLink(n, models.TapHostIfName("vpp-tap-1")) && !hasLink(n, "v") },
		"the kernel removes both ends of the TAP with the namespace")

	_, err := n.createInterface(context.Background(), "", p.tap)
	if !errors.Is(err, namespaces.ErrGone) || retriable(err) {
		t.Errorf("create in a namespace that is gone: %v", err)
	}
}

// waitFor polls conditions without a kernel event.
func waitFor(t testing.TB, done func() bool, what string) {
	t.Helper()
	for deadline := time.Now().Add(await.Patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("this did not happen: " + what)
		}
	}
}

func hasLink(n *node, name string) bool {
	_, err := n.namespaces.Own.LinkByName(name)
	return err == nil
}

func TestDeviceOfOthersKeepsItsName(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	ip(t, "-n", netns, "link", "add", "eth0", "type", "veth", "peer", "name", "other")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	err := n.tryCreate(p.tap)
	if !errors.Is(err, ErrNameTaken) {
		t.Fatalf("got %v, want ErrNameTaken", err)
	}
	contains(t, err.Error(), "linux-tap-1", netns, `"eth0"`, "host_if_name")
	if !hasLink(n, models.TapHostIfName("vpp-tap-1")) {
		t.Error("the end of the TAP does not wait any more")
	}
	ip(t, "-n", netns, "link", "del", "eth0")
	n.create(p.tap)
}

// A device in the pod may have the name of the waiting TAP end.
func TestTemporaryNameMayBeTakenInThePod(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	ip(t, "-n", netns, "link", "add", models.TapHostIfName("vpp-tap-1"), "type", "veth", "peer", "name", "other")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	n.create(p.tap)
	n.retrieve(p.tap).hasExactly(t, p.tap)
}

func TestTapWithItsOwnHostName(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	n.ip("link", "set", models.TapHostIfName("vpp-tap-1"), "name", "mine")
	n.create(newPod("1", netns, "10.1.1.2", "10.1.1.1").tap)
	contains(t, ip(t, "-n", netns, "link"), "eth0")
}

func TestTapWithoutVswitchEnd(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	err := n.tryCreate(newPod("1", netns, "10.1.1.2", "10.1.1.1").tap)
	if err == nil || !retriable(err) {
		t.Fatalf("got %v, want an error that may pass", err)
	}
	contains(t, err.Error(), "vpp-tap-1", models.TapHostIfName("vpp-tap-1"))
}

func TestTapInTheAgentsNamespace(t *testing.T) {
	n := newNode(t)
	n.addTap("vpp-tap-1")
	p := newPod("1", "", "10.1.1.2", "10.1.1.1")
	p.tap.Namespace = nil
	n.create(p.tap, p.gwRoute, p.defRoute)
	n.restart()
	n.retrieve(p.tap, p.gwRoute, p.defRoute).hasExactly(t, p.tap, p.gwRoute, p.defRoute)
	n.remove(p.defRoute, p.gwRoute, p.tap)
	n.retrieve().hasExactly(t)
	contains(t, n.ip("link"), models.TapHostIfName("vpp-tap-1"))
}

// Create can be repeated after it, or a later step, failed.
func TestCreateIsRepeatable(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	n.create(p.values()...)
	ip(t, "-n", netns, "link", "set", "eth0", "mtu", "1400")
	n.create(p.values()...)
	n.retrieve(p.values()...).hasExactly(t, p.values()...)
}

func TestNamespacesByNameAndProcess(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	p.tap.Namespace.Type, p.tap.Namespace.Reference = 1, netns // NSID
	n.create(p.tap)
	n.restart()
	n.retrieve(p.tap).hasExactly(t, p.tap)
	if got := n.retrieve(p.tap)[models.Key(p.tap)].(*linux_interfaces.Interface); !proto.Equal(got.Namespace, p.tap.Namespace) {
		t.Errorf("namespace: got %v", got.Namespace)
	}

	pid := processIn(t, netns)
	p.loop.Namespace.Type, p.loop.Namespace.Reference = 2, pid
	n.create(p.loop)
	n.retrieve(p.tap, p.loop).hasExactly(t, p.tap, p.loop)
}

func TestSomethingElseThanANamespace(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	for path, want := range map[string]string{
		"/proc/self/ns/mnt": "namespace of another kind",
		"/etc/hostname":     namespaces.ErrGone.Error(),
		"/no/such":          namespaces.ErrGone.Error(),
	} {
		p.loop.Namespace.Reference = path
		err := n.tryCreate(p.loop)
		if err == nil {
			t.Errorf("%s: no error", path)
			continue
		}
		contains(t, err.Error(), path, want)
	}
}

func TestRouteOfOthersIsNotReplaced(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	n.create(p.tap, p.gwRoute)
	ip(t, "-n", netns, "route", "add", "default", "via", "10.1.1.1", "dev", "eth0")
	err := n.tryCreate(p.defRoute)
	if !errors.Is(err, ErrForeignRoute) {
		t.Fatalf("got %v, want ErrForeignRoute", err)
	}
	contains(t, err.Error(), "place: default via 10.1.1.1 dev eth0: delete that route")
	p.defRoute.Metric = 10
	n.create(p.defRoute)
	n.retrieve(p.tap, p.gwRoute, p.defRoute).hasExactly(t, p.tap, p.gwRoute, p.defRoute)
	n.remove(p.defRoute)
	contains(t, ip(t, "-n", netns, "route"), "default via 10.1.1.1 dev eth0")
}

func TestRouteAndNeighbourAreUpdated(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	n.create(p.values()...)
	ctx := context.Background()
	gw2 := &linux_l3.Route{OutgoingInterface: "linux-tap-1", Scope: linux_l3.Route_LINK, DstNetwork: "10.1.1.9/32"}
	n.create(gw2)
	def := proto.Clone(p.defRoute).(*linux_l3.Route)
	def.GwAddr = "10.1.1.9"
	if _, err := n.updateRoute(ctx, models.Key(def), p.defRoute, def, kvscheduler.NoMetadata{}); err != nil {
		t.Fatal(err)
	}
	arp := proto.Clone(p.arp).(*linux_l3.ARPEntry)
	arp.HwAddress = "02:00:00:00:00:09"
	if err := n.setARP(models.Key(arp), arp); err != nil {
		t.Fatal(err)
	}
	want := []proto.Message{p.loop, p.tap, arp, p.gwRoute, gw2, def}
	n.retrieve(want...).hasExactly(t, want...)
}
