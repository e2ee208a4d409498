package linux

import (
	"testing"

	"github.com/contiv/contiv/internal/netlink/events"
	"golang.org/x/sys/unix"
)

// Events of Contiv's devices do not count as foreign; a device whose alias is set or removed
// changes sides.
func TestChangesOfForeignDevices(t *testing.T) {
	n := newNode(t)
	n.ip("link", "add", "eth0", "type", "veth", "peer", "name", "wire")
	n.ip("link", "set", "eth0", "up") // the kernel announces new aliases only on this event
	own := n.namespaces.Own
	socket, err := events.Subscribe(own.Handle(), unix.NETLINK_ROUTE, events.Options{Groups: linkGroups})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	foreign, err := newForeignDevices(own, isOurs)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what    string
		changes [][]string
		want    bool
	}{
		{"a pod comes", [][]string{
			{"link", "add", "pod", "type", "veth", "peer", "name", "far"},
			{"link", "set", "pod", "alias", "contiv:vpp/pod"},
			{"link", "set", "far", "alias", "contiv:linux/far"},
			{"link", "set", "pod", "up"}, {"link", "set", "far", "up"},
			{"address", "add", "192.0.2.1/32", "dev", "pod"},
		}, false},
		{"a pod's MTU", [][]string{{"link", "set", "pod", "mtu", "1400"}}, false},
		{"a pod's address", [][]string{{"address", "del", "192.0.2.1/32", "dev", "pod"}}, false},
		{"a card's MTU", [][]string{{"link", "set", "eth0", "mtu", "1400"}}, true},
		{"a card's address", [][]string{{"address", "add", "192.0.2.2/24", "dev", "eth0"}}, true},
		{"a pod goes, and a card's address", [][]string{{"link", "del", "pod"}, {"address", "del", "192.0.2.2/24", "dev", "eth0"}}, true},
		{"a card becomes ours", [][]string{{"link", "set", "eth0", "alias", "contiv:vpp/nic"}}, true},
		{"and is", [][]string{{"link", "set", "eth0", "mtu", "1300"}}, false},
		{"and is not any more", [][]string{{"link", "set", "eth0", "alias", "x"}}, true},
		{"a new card", [][]string{{"link", "add", "eth1", "type", "veth", "peer", "name", "wire1"}}, true},
		{"a card goes", [][]string{{"link", "del", "eth1"}}, true},
		{"the loopback with an alias", [][]string{{"link", "set", "lo", "alias", "contiv:linux/lo"}}, true},
		{"the loopback's address", [][]string{{"address", "add", "192.0.2.3/32", "dev", "lo"}}, true},
		{"nothing", nil, false},
	} {
		for _, change := range step.changes {
			n.ip(change...)
		}
		// The kernel has queued the events when a change returns. A deadline could pass before they
		// are read.
		for {
			d, some, err := socket.Queued()
			if err != nil {
				t.Fatal(err)
			}
			if !some {
				break
			}
			for _, m := range d.Messages {
				foreign.handle(m)
			}
		}
		if got := foreign.changed(); got != step.want {
			t.Errorf("%s: %v", step.what, got)
		}
	}
}
