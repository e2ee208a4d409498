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

// vethsInto returns a pair between the agent's namespace and one by name, which does not
// exist, and which ends with the test.
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

// A namespace by name that does not exist is made, is used by others like one of
// `ip netns add`, and goes with what is in it.
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

// Another process of the agent knows which namespaces are its own.
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

// An agent of another network namespace, which sees the same directory, takes nothing out of a namespace by name.
func TestNamespaceByNameOfAnotherAgentStays(t *testing.T) {
	a, other := newAgent(t), newAgent(t)
	name, pair := vethsInto(t)
	a.commit(a.put(pair...))
	if record := other.commit(other.scheduler.NewTransaction(), kvscheduler.WithResync(kvscheduler.FullResync)); len(record.Executed) > 0 {
		t.Errorf("the other agent executed %v", record.Executed)
	}
	pings(t, name, "10.71.0.1", true)
}

// A namespace that others made, or have put something into, stays.
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

// A namespace that somebody removes is an event: it is made again.
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
	}, "the namespace and what is in it are made again")
}

// What a reboot, or the end of a container, leaves of a namespace is a file without mount.
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
