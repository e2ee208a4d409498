package linux

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/models"
)

// addTapIn creates a TAP with host_namespace like the kernel vswitch does.
func (n *node) addTapIn(tap, netns string) {
	n.t.Helper()
	far := models.TapHostIfName(tap)
	near := "v" + strings.TrimPrefix(far, "tap-")
	n.ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", netns)
	n.ip("link", "set", near, "up", "alias", vppAliasPrefix+tap)
}

// indexOf returns the index of a device. The kernel changes an index that is taken in the new
// namespace.
func indexOf(t testing.TB, netns, device string) string {
	t.Helper()
	index, _, _ := strings.Cut(ip(t, "-n", netns, "-o", "link", "show", device), ":")
	return index
}

func TestTapThatWaitsInThePodIsNotMoved(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTapIn("vpp-tap-1", netns)
	far := models.TapHostIfName("vpp-tap-1")
	index := indexOf(t, netns, far)
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	for range 2 {
		n.create(p.values()...)
		contains(t, ip(t, "-n", netns, "-d", "link", "show", "eth0"), "mtu 1450", "02:fe:01:02:03:04", "UP", "alias contiv:linux/linux-tap-1")
		n.retrieve(p.values()...).hasExactly(t, p.values()...)
		n.restart()
		n.retrieve(p.values()...).hasExactly(t, p.values()...)

		n.remove(backwards(p.values())...)
		out := ip(t, "-n", netns, "link", "show", far)
		contains(t, out, "state DOWN", "group default")
		lacks(t, out, "alias")
		lacks(t, ip(t, "-n", netns, "link"), "eth0")
		lacks(t, ip(t, "-n", netns, "route"), "10.1.1.1")
		if hasLink(n, far) {
			t.Error("the end of the TAP was moved to the agent's namespace")
		}
		if now := indexOf(t, netns, far); now != index {
			t.Errorf("the end of the TAP has index %s, it was made with %s", now, index)
		}
		n.retrieve().hasExactly(t)
	}
}

// The origin of a TAP end is read from the kernel, so a restarted agent knows it.
func TestTapGoesBackToWhereItWaited(t *testing.T) {
	for _, inPod := range []bool{true, false} {
		t.Run(fmt.Sprintf("in the pod %v", inPod), func(t *testing.T) {
			n, netns := newNode(t), netNSName(t)
			if inPod {
				n.addTapIn("vpp-tap-1", netns)
			} else {
				n.addTap("vpp-tap-1")
			}
			p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
			n.create(p.tap)
			n.restart()
			n.retrieve(p.tap)
			n.remove(p.tap)
			if far := models.TapHostIfName("vpp-tap-1"); hasLink(n, far) == inPod {
				t.Errorf("%s waits in the agent's namespace: %v", far, !inPod)
			}
			n.create(p.tap)
			n.retrieve(p.tap).hasExactly(t, p.tap)
		})
	}
}

// A veth is a TAP end only if its peer is the vswitch's end.
func TestOtherDevicesInThePodAreNotTakenForATap(t *testing.T) {
	n, netns, elsewhere := newNode(t), netNSName(t), netNSName(t)
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	far := models.TapHostIfName("vpp-tap-1")
	n.addTapIn("vpp-tap-1", elsewhere)
	n.addTapIn("vpp-tap-2", netns)
	ip(t, "-n", netns, "link", "add", far, "type", "veth", "peer", "name", "other")
	err := n.tryCreate(p.tap)
	if !errors.Is(err, rtnl.ErrNoDevice) || !retriable(err) {
		t.Fatalf("got %v, want rtnl.ErrNoDevice", err)
	}
	contains(t, err.Error(), "vpp-tap-1", "host_namespace", netns)
	contains(t, ip(t, "-n", netns, "link"), far, models.TapHostIfName("vpp-tap-2"))

	ip(t, "-n", elsewhere, "link", "set", far, "name", "mine", "netns", netns)
	n.create(p.tap)
	n.retrieve(p.tap).hasExactly(t, p.tap)

	// If its waiting name is taken, the end waits under its present name.
	n.remove(p.tap)
	contains(t, ip(t, "-n", netns, "link", "show", "eth0"), "state DOWN")
	n.create(p.tap)
	n.retrieve(p.tap).hasExactly(t, p.tap)
}

func TestDeviceOfOthersKeepsItsNameWhereATapWaits(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTapIn("vpp-tap-1", netns)
	ip(t, "-n", netns, "link", "add", "eth0", "type", "veth", "peer", "name", "other")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	if err := n.tryCreate(p.tap); !errors.Is(err, ErrNameTaken) {
		t.Fatalf("got %v, want ErrNameTaken", err)
	}
	ip(t, "-n", netns, "link", "del", "eth0")
	n.create(p.tap)
	if got := n.retrieve(p.tap)[models.Key(p.tap)].(*linux_interfaces.Interface); got.GetTap().GetVppTapIfName() != "vpp-tap-1" {
		t.Errorf("retrieved %v", got)
	}
}

// Addresses and routes follow the interface's mark, not the device that had it before.
func TestDeviceThatWasReplacedIsFoundByItsMark(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTapIn("vpp-tap-1", netns)
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	n.create(p.tap)
	ip(t, "-n", netns, "link", "del", "eth0")
	ip(t, "-n", netns, "link", "add", "eth0", "address", "02:fe:01:02:03:04", "mtu", "1450", "type", "veth", "peer", "name", "other")
	ip(t, "-n", netns, "link", "set", "eth0", "up", "alias", aliasPrefix+"linux-tap-1")
	for _, derived := range deriveFromInterface(p.tap) {
		if isAddressKey(derived.Key) {
			if _, err := n.createAddress(t.Context(), derived.Key, derived.Value.(*linux_interfaces.Interface)); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.create(p.gwRoute, p.defRoute, p.arp)
	contains(t, ip(t, "-n", netns, "addr", "show", "eth0"), "10.1.1.2/32")
	contains(t, ip(t, "-n", netns, "route"), "default via 10.1.1.1 dev eth0")
	contains(t, ip(t, "-n", netns, "neigh"), "10.1.1.1 dev eth0")
}
