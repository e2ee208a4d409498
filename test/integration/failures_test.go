package integration

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"golang.org/x/sync/errgroup"
)

// traffic sends datagrams until the test calls end, which fails the test if any was lost.
func traffic(t *testing.T, from lab.Pod, to ...lab.Endpoint) (flow func(n int), end func()) {
	t.Helper()
	var streams []*lab.Stream
	for _, e := range to {
		s, err := lab.StartStream(from.Endpoint(), e, 10*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		for _, s := range streams {
			if r := s.Stop(); r.Lost > 0 {
				t.Errorf("%s: %s", s.Path, r)
			}
		}
	}
	t.Cleanup(end)
	flow = func(n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		var all errgroup.Group
		for _, s := range streams {
			all.Go(func() error { return s.Await(ctx, n) })
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	flow(10)
	return flow, end
}

func outside(t *testing.T, l *lab.Lab) lab.Endpoint {
	t.Helper()
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	e, err := st.Endpoint(lab.OutsideName)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAgentKilledUnderTraffic(t *testing.T) {
	l := require(t)
	here, near, far := pod(t, l, "here", "node1"), pod(t, l, "near", "node1"), pod(t, l, "far", "node2")
	flow, end := traffic(t, here, near.Endpoint(), far.Endpoint(), outside(t, l))
	for _, node := range []string{"node1", "node2"} {
		if err := l.KillAgent(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		flow(20)
		if err := l.StartAgent(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		flow(50)
		txns, err := l.Agent(node).Transactions(t.Context(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if len(txns) == 0 {
			t.Errorf("%s: the agent that was started again has recorded no transaction", node)
		}
		for _, txn := range txns {
			if len(lab.Operations(txn)) > 0 {
				t.Errorf("%s: the agent changed something after its restart:\n%s", node, txn)
			}
		}
	}
	end()
	late := pod(t, l, "late", "node1")
	requireConnected(t, l, here, near, far, late)
	labtest.RequireQuiet(t, l)
}

func TestADDWithoutAgentFailsAndLeavesNothing(t *testing.T) {
	l := require(t)
	before := deviceCount(t, l, "node2")
	if err := l.KillAgent(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	defer l.StartAgent(context.Background(), "node2")
	_, err := l.AddPod(t.Context(), lab.PodSpec{Name: "early", Node: "node2"})
	if err == nil || !strings.Contains(err.Error(), "cni.sock") {
		t.Errorf("got error %v, want one that names the socket of the agent", err)
	}
	if err := l.StartAgent(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	if after := deviceCount(t, l, "node2"); after != before {
		t.Errorf("node2 has %d devices, %d before", after, before)
	}
	requireConnected(t, l, pod(t, l, "early", "node2"))
	labtest.RequireQuiet(t, l)
}

// The runtime may remove a sandbox before the agent has processed its DEL.
func TestPodVanishesWhileTheAgentIsDown(t *testing.T) {
	l := require(t)
	before := deviceCount(t, l, "node1")
	vanished := pod(t, l, "vanished", "node1")
	if err := l.KillAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	defer l.StartAgent(context.Background(), "node1")
	if out, err := exec.Command("ip", "netns", "del", vanished.Netns).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	if err := l.StartAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	requireConnected(t, l, pod(t, l, "next", "node1"))
	if err := l.DelPod(t.Context(), vanished.ID()); err != nil {
		t.Fatal(err)
	}
	if err := l.DelPod(t.Context(), "next"); err != nil {
		t.Fatal(err)
	}
	if after := deviceCount(t, l, "node1"); after != before {
		t.Errorf("node1 has %d devices, %d before the pods", after, before)
	}
	labtest.RequireQuiet(t, l)
}

func TestEtcdStopsAndStarts(t *testing.T) {
	l := require(t)
	here, far := pod(t, l, "here", "node1"), pod(t, l, "far", "node2")
	flow, end := traffic(t, here, far.Endpoint())
	if err := l.StopEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	started := false
	start := func() {
		if started {
			return
		}
		started = true
		if err := l.StartEtcd(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	defer start()
	flow(20)
	// Pods can be added and removed with the state that the nodes know.
	short := pod(t, l, "short", "node2")
	if err := l.DelPod(t.Context(), short.ID()); err != nil {
		t.Error(err)
	}
	late := pod(t, l, "late", "node1")
	requireConnected(t, l, here, far, late)
	if slices.Contains(heldBy(t, l, late), "kubernetes") {
		t.Error("the agent knows the Kubernetes object of a pod that etcd cannot know")
	}

	start()
	flow(20)
	end()
	await.That(t, "changes made without etcd arrive at the agent", func() error {
		if held := heldBy(t, l, late); !slices.Contains(held, "kubernetes") {
			return fmt.Errorf("the address of pod late is held by %v", held)
		}
		return nil
	})
	labtest.RequireQuiet(t, l)
}

// Without etcd, a starting agent uses its mirror.
func TestAgentStartsWithoutEtcd(t *testing.T) {
	l := require(t)
	here, far := pod(t, l, "here", "node1"), pod(t, l, "far", "node2")
	flow, end := traffic(t, here, far.Endpoint())
	if err := l.StopEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer l.StartEtcd(context.Background())
	if err := l.KillAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	flow(20)
	end()
	late := pod(t, l, "late", "node1")
	requireConnected(t, l, here, far, late)
	if err := l.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.That(t, "changes made without etcd arrive at the agent", func() error {
		if held := heldBy(t, l, late); !slices.Contains(held, "kubernetes") {
			return fmt.Errorf("the address of pod late is held by %v", held)
		}
		return nil
	})
	labtest.RequireQuiet(t, l)
}

// heldBy returns the reasons why the agent keeps the pod's address allocated.
func heldBy(t *testing.T, l *lab.Lab, p lab.Pod) []string {
	t.Helper()
	var report ipam.AllocationsReport
	if err := l.Agent(p.Node).Get(t.Context(), ipam.URL, &report); err != nil {
		t.Fatal(err)
	}
	for _, a := range report.Pods {
		if a.MainIP == p.Address.String() {
			return a.HeldBy
		}
	}
	return nil
}

func TestNodeJoinsAndLeaves(t *testing.T) {
	l := require(t)
	old := pod(t, l, "old", "node1")
	flow, _ := traffic(t, old, pod(t, l, "peer", "node2").Endpoint())
	before := values(t, l, "node1")
	t.Cleanup(func() { l.DelNode(context.Background(), "node3") }) // if the test ended early
	for range 2 {                                                  // the second run reuses the addresses of the first
		node, err := l.AddNode(t.Context(), "node3")
		if err != nil {
			t.Fatal(err)
		}
		newcomer := pod(t, l, "newcomer", node.Name)
		requireNodes(t, l, "node1 node2 node3")
		await.That(t, "the newcomer is reached", func() error { return connected(t, l, old, newcomer) })
		labtest.RequireQuiet(t, l)
		if err := l.DelNode(t.Context(), node.Name); err != nil {
			t.Fatal(err)
		}
		requireNodes(t, l, "node1 node2")
		await.That(t, "node1 forgets the configuration for node3", func() error {
			if after := values(t, l, "node1"); len(after) != len(before) {
				return fmt.Errorf("%d values, %d before", len(after), len(before))
			}
			return nil
		})
	}
	flow(20)
	labtest.RequireQuiet(t, l)
}

// requireNodes waits until all agents know exactly these nodes, each with an ID.
func requireNodes(t *testing.T, l *lab.Lab, want string) {
	t.Helper()
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		await.That(t, n.Name+" knows "+want, func() error {
			var report nodesync.NodesReport
			if err := l.Agent(n.Name).Get(t.Context(), nodesync.NodesURL, &report); err != nil {
				return err
			}
			var known []string
			for _, r := range report.Nodes {
				if r.ID > 0 {
					known = append(known, r.Name)
				}
			}
			slices.Sort(known)
			if got := strings.Join(known, " "); got != want {
				return fmt.Errorf("it knows %s", got)
			}
			return nil
		})
	}
}

func TestDeletedRoutesComeBack(t *testing.T) {
	l := require(t)
	p := pod(t, l, "healed", "node1")
	for _, damage := range []struct {
		where string
		dst   netip.Prefix
		key   string
	}{
		{"node1", netip.PrefixFrom(p.Address, 32), "/dst/" + p.Address.String() + "/32"},
		{p.ID(), netip.MustParsePrefix("0.0.0.0/0"), "config/linux/l3/v2/route/0.0.0.0/0/"},
	} {
		before := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		d, err := l.DeleteRoute(ctx, damage.where, damage.dst)
		cancel()
		if err != nil {
			t.Error(err)
			continue
		}
		t.Logf("%s: healed after %s", d.Command, d.Restored.Sub(d.Deleted))
		requireRepair(t, l, before, damage.key)
	}
	requireConnected(t, l, p)
	labtest.RequireQuiet(t, l)
}

func requireRepair(t *testing.T, l *lab.Lab, since time.Time, key string) {
	t.Helper()
	await.That(t, "the repair of "+key+" is recorded", func() error {
		txns, err := l.Agent("node1").Transactions(t.Context(), since)
		if err != nil {
			return err
		}
		for _, op := range lab.Operations(txns...) {
			if strings.Contains(op.Key, key) {
				return nil
			}
		}
		return fmt.Errorf("%d transactions, none of which touches it", len(txns))
	})
}

func TestDamageIsRepaired(t *testing.T) {
	l := require(t)
	p, far := pod(t, l, "healed", "node1"), pod(t, l, "far", "node2")
	for _, test := range []struct{ name, where, command string }{
		{"address of the pod", p.ID(), "ip addr flush dev eth0"},
		{"neighbour in the pod", p.ID(), "ip neigh flush dev eth0 nud permanent"},
		{"device of the pod down", p.ID(), "ip link set eth0 down"},
		{"device of the pod", p.ID(), "ip link del eth0"},
		{"routes of the node", "node1", "ip route flush proto 121"},
		{"neighbours of the node", "node1", "ip neigh flush nud permanent"},
		{"VXLAN device", "node1", "ip -o link show type vxlan | sed 's/^[0-9]*: //; s/[@:].*//' | xargs -n1 ip link del"},
		{"bridge", "node1", "ip -o link show type bridge | sed 's/^[0-9]*: //; s/[@:].*//' | xargs -n1 ip link del"},
		{"NAT", "node1", "nft flush ruleset"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := l.Exec(t.Context(), test.where, "sh", "-ec", test.command); err != nil {
				t.Fatal(err)
			}
			await.That(t, "repaired", func() error {
				if err := connected(t, l, p, far); err != nil {
					return err
				}
				_, err := l.CNI(t.Context(), "CHECK", p.ID())
				return err
			})
			labtest.RequireQuiet(t, l)
		})
	}
}
