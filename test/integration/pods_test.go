package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"golang.org/x/sync/errgroup"
)

func TestEverybodyReachesEverybody(t *testing.T) {
	l := require(t)
	added := labtest.AddPods(t, l,
		lab.PodSpec{Name: "a1", Node: "node1"}, lab.PodSpec{Name: "b1", Node: "node1"},
		lab.PodSpec{Name: "a2", Node: "node2"}, lab.PodSpec{Name: "b2", Node: "node2"})
	m, err := l.Matrix(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Err(); err != nil {
		t.Error(err)
	}
	// 4 pods and 2 nodes to each other and to the outside host.
	if got, want := len(m.Cells), 6*6; got != want {
		t.Errorf("measured %d paths, want %d", got, want)
	}
	for _, p := range added {
		if !strings.HasPrefix(p.Address.String(), "10.1.") {
			t.Errorf("pod %s has address %s, which is not of 10.1.0.0/16", p.ID(), p.Address)
		}
	}
	labtest.RequireQuiet(t, l)
}

func TestPodIsWiredByOneTransaction(t *testing.T) {
	l := require(t)
	p := pod(t, l, "one", "node1")
	agent := l.Agent("node1")
	events, err := agent.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Name != "Add Pod" || !strings.Contains(e.Description, p.ContainerID[:12]) {
			continue
		}
		if e.ErrorStr != "" || e.Txn == nil {
			t.Fatalf("event: %s", e)
		}
		txn, err := agent.Transaction(t.Context(), e.Txn.SeqNum)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range txn.Executed {
			if op.NewErr != nil {
				t.Errorf("%s failed: %v", op.Key, op.NewErr)
			}
		}
		if len(lab.Operations(txn)) < 5 {
			t.Errorf("the transaction did too little:\n%s", txn)
		}
		return
	}
	t.Errorf("no event for the pod among %d events", len(events))
}

func TestADDTwiceAndDELTwice(t *testing.T) {
	l := require(t)
	p := pod(t, l, "twice", "node2")
	again, err := l.CNI(t.Context(), "ADD", p.ID())
	if err != nil {
		t.Fatal(err)
	}
	if again != p.Address {
		t.Errorf("the second ADD gave %s, the first %s", again, p.Address)
	}
	requireConnected(t, l, p)
	if _, err := l.CNI(t.Context(), "CHECK", p.ID()); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	for range 2 {
		if _, err := l.CNI(t.Context(), "DEL", p.ID()); err != nil {
			t.Fatal(err)
		}
	}
	labtest.RequireQuiet(t, l)
}

func TestDELAfterTheNamespaceIsGone(t *testing.T) {
	l := require(t)
	before := deviceCount(t, l, "node1")
	p := pod(t, l, "gone", "node1")
	if out, err := exec.Command("ip", "netns", "del", p.Netns).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	if err := l.DelPod(t.Context(), p.ID()); err != nil {
		t.Fatal(err)
	}
	if after := deviceCount(t, l, "node1"); after != before {
		t.Errorf("node1 has %d devices, %d before the pod", after, before)
	}
	labtest.RequireQuiet(t, l)
}

func TestADDThatFailsLeavesNothing(t *testing.T) {
	l := require(t)
	before := deviceCount(t, l, "node1")
	p := pod(t, l, "broken", "node1")
	if _, err := l.CNI(t.Context(), "DEL", p.ID()); err != nil {
		t.Fatal(err)
	}
	// A device with that name blocks the pod's interface.
	if _, err := l.Exec(t.Context(), p.ID(), "ip", "link", "add", "eth0", "type", "bridge"); err != nil {
		t.Fatal(err)
	}
	_, err := l.CNI(t.Context(), "ADD", p.ID())
	if err == nil {
		t.Fatal("ADD succeeded although eth0 existed")
	}
	if !strings.Contains(err.Error(), "eth0") {
		t.Errorf("the error does not name eth0: %v", err)
	}
	if after := deviceCount(t, l, "node1"); after != before {
		t.Errorf("node1 has %d devices, %d before the pod", after, before)
	}
	if _, err := l.Exec(t.Context(), p.ID(), "ip", "link", "del", "eth0"); err != nil {
		t.Fatal(err)
	}
	labtest.RequireQuiet(t, l)
}

func TestHundredPodsOnANode(t *testing.T) {
	l := require(t)
	before := values(t, l, "node1")
	var specs []lab.PodSpec
	for i := range 100 {
		specs = append(specs, lab.PodSpec{Name: fmt.Sprintf("many%d", i), Node: "node1"})
	}
	added := labtest.AddPods(t, l, specs...)
	far := pod(t, l, "far", "node2")
	addresses := map[string]string{}
	for _, p := range added {
		if other, ok := addresses[p.Address.String()]; ok {
			t.Fatalf("%s and %s have the address %s", other, p.ID(), p.Address)
		}
		addresses[p.Address.String()] = p.ID()
	}
	var pings errgroup.Group
	pings.SetLimit(8)
	for _, p := range added {
		pings.Go(func() error {
			if _, err := lab.Ping(t.Context(), far.Endpoint(), p.Endpoint()); err != nil {
				t.Errorf("%s → %s: %v", far.ID(), p.ID(), err)
			}
			return nil
		})
	}
	pings.Wait()
	requireConnected(t, l, added[0], added[99], far)
	labtest.RequireQuiet(t, l)

	var ids []string
	for _, p := range added {
		ids = append(ids, p.ID())
	}
	if err := l.DelPods(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	if after := values(t, l, "node1"); len(after) != len(before) {
		t.Errorf("node1 has %d values, %d before the pods", len(after), len(before))
	}
	labtest.RequireQuiet(t, l)
}

func deviceCount(t *testing.T, l *lab.Lab, node string) int {
	t.Helper()
	out, err := l.Exec(t.Context(), node, "ip", "-o", "link")
	if err != nil {
		t.Fatal(err)
	}
	return len(deviceLine.FindAllString(out, -1)) // ip may print warnings about namespaces that are just being created
}

var deviceLine = regexp.MustCompile(`(?m)^\d+: `)

func values(t *testing.T, l *lab.Lab, node string) []kvscheduler.DumpedValue {
	t.Helper()
	var values []kvscheduler.DumpedValue
	if err := l.Agent(node).Get(t.Context(), "/scheduler/dump?view=NB", &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func TestDownLeavesNothing(t *testing.T) {
	require(t)
	links, mounts := ownLinks(t), netnsMounts(t)
	opts := options("down")
	opts.Nodes = 1
	l, err := lab.Up(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lab.Down(context.Background(), opts); err != nil {
			t.Error(err)
		}
	}()
	if _, err := l.AddPod(t.Context(), lab.PodSpec{Name: "web"}); err != nil {
		t.Error(err)
	}
	if err := labtest.Down(opts); err != nil {
		t.Error(err)
	}
	if after := ownLinks(t); after != links {
		t.Errorf("links of this namespace before:\n%s\nafter:\n%s", links, after)
	}
	for mount := range netnsMounts(t) {
		if !mounts[mount] && strings.Contains(mount, opts.Name) {
			t.Errorf("mount left behind: %s", mount)
		}
	}
	if _, err := lab.Open(opts); !errors.Is(err, lab.ErrNoLab) {
		t.Errorf("got %v, want ErrNoLab", err)
	}
}

func ownLinks(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ip", "-br", "link").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func netnsMounts(t *testing.T) map[string]bool {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	mounts := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.Contains(fields[1], "/netns/") {
			mounts[fields[1]] = true
		}
	}
	return mounts
}
