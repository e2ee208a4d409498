package linux

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// vethsInto returns a veth pair into a named namespace that does not exist yet and is removed after
// the test.
func vethsInto(t *testing.T) (name string, pair []proto.Message) {
	t.Helper()
	name = fmt.Sprintf("lxnew%d-%d", os.Getpid(), namespaceCount.Add(1))
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	end := func(name, peer, addr string, ns *linux_namespace.NetNamespace) proto.Message {
		return &linux_interfaces.Interface{
			Name: name, Type: linux_interfaces.Interface_VETH, Enabled: true, IpAddresses: []string{addr}, Namespace: ns,
			Link: &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: peer}},
		}
	}
	return name, []proto.Message{
		end("near", "far", "10.71.0.1/24", nil),
		end("far", "near", "10.71.0.2/24", &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_NSID, Reference: name}),
	}
}

func namespaceExists(name string) bool {
	_, err := os.Lstat(pathOf(name))
	return err == nil
}

// A missing named namespace is created, can be used like one of `ip netns add`, and is removed with
// its last value.
func TestNamespaceByNameIsMadeAndRemoved(t *testing.T) {
	a := newAgent(t)
	name, pair := vethsInto(t)
	a.commit(a.put(pair...))
	a.inState(pb.ValueState_CONFIGURED, pair...)
	pings(t, name, "10.71.0.1", true)

	a.commit(a.delete(pair...))
	if namespaceExists(name) {
		t.Errorf("the namespace is still there: %s", ip(t, "-n", name, "link"))
	}
	a.commit(a.put(pair...))
	a.inState(pb.ValueState_CONFIGURED, pair...)
	pings(t, name, "10.71.0.1", true)
}

// A restarted agent recognises the namespaces that it created.
func TestNamespaceByNameIsRemovedAfterARestart(t *testing.T) {
	a := newAgent(t)
	name, pair := vethsInto(t)
	a.commit(a.put(pair...))
	a.restart()
	record := a.commit(a.put(pair...), kvscheduler.WithResync(kvscheduler.FullResync))
	if len(record.Executed) > 0 {
		t.Errorf("the resync executed %v", record.Executed)
	}
	a.restart()
	a.commit(a.scheduler.NewTransaction(), kvscheduler.WithResync(kvscheduler.FullResync))
	if namespaceExists(name) {
		t.Errorf("the namespace is still there: %s", ip(t, "-n", name, "link"))
	}
}

// An agent in another network namespace with the same directory leaves our namespace alone.
func TestNamespaceByNameOfAnotherAgentStays(t *testing.T) {
	a, other := newAgent(t), newAgent(t)
	name, pair := vethsInto(t)
	a.commit(a.put(pair...))
	if record := other.commit(other.scheduler.NewTransaction(), kvscheduler.WithResync(kvscheduler.FullResync)); len(record.Executed) > 0 {
		t.Errorf("the other agent executed %v", record.Executed)
	}
	pings(t, name, "10.71.0.1", true)
}

// A namespace created or used by others stays.
func TestNamespaceByNameOfOthersStays(t *testing.T) {
	a := newAgent(t)
	name, pair := vethsInto(t)
	ip(t, "netns", "add", name)
	a.commit(a.put(pair...))
	a.commit(a.delete(pair...))
	if !namespaceExists(name) {
		t.Error("a namespace of others was removed")
	}
	other, second := vethsInto(t)
	a.commit(a.put(second...))
	ip(t, "-n", other, "link", "add", "mine", "type", "veth", "peer", "name", "mine-too")
	a.commit(a.delete(second...))
	if !namespaceExists(other) || !strings.Contains(ip(t, "-n", other, "link"), "mine-too") {
		t.Error("a namespace with devices of others was removed")
	}
}

// A removed namespace is created again.
func TestNamespaceByNameThatVanishesIsMadeAgain(t *testing.T) {
	a := newAgent(t)
	a.watch()
	name, pair := vethsInto(t)
	t.Cleanup(func() {
		if t.Failed() {
			inside, err := exec.Command("ip", "-n", name, "address").CombinedOutput()
			t.Logf("on the node: %s\ninside (%v): %s", a.ip("address"), err, inside)
			for _, txn := range a.scheduler.History(time.Time{}, time.Time{}) {
				t.Logf("%s %v", txn.Description, txn)
			}
		}
	})
	a.commit(a.put(pair...))
	a.inState(pb.ValueState_CONFIGURED, pair...)
	a.namespaces.CloseIdle()
	ip(t, "netns", "del", name)
	waitFor(t, func() bool {
		return namespaceExists(name) && exec.Command("ip", "netns", "exec", name, "ping", "-c1", "-W1", "10.71.0.1").Run() == nil
	}, "the namespace and its contents are created again")
}

// After a reboot or the end of a container, only an unmounted file is left of a namespace.
func TestNamespaceByNameWhoseMountIsGone(t *testing.T) {
	a := newAgent(t)
	name, pair := vethsInto(t)
	if err := os.WriteFile(pathOf(name), nil, 0o444); err != nil {
		t.Fatal(err)
	}
	a.commit(a.put(pair...))
	a.inState(pb.ValueState_CONFIGURED, pair...)
	a.commit(a.delete(pair...))
	if namespaceExists(name) {
		t.Error("the namespace is still there")
	}
}
