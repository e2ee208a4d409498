package scale

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/test/await"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tables holds the numbers of objects in the vswitch of node 1.
type tables struct{ tunnels, fib, neighbours, routes, taps, linux int }

func (m *machine) tables(t *testing.T) (n tables) {
	t.Helper()
	vs := m.vswitch.Open()
	defer vs.Close()
	ctx := context.Background()
	ifaces, err := vs.Interfaces().List(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range ifaces {
		switch i.GetType() {
		case vpp_interfaces.Interface_VXLAN_TUNNEL:
			n.tunnels++
		case vpp_interfaces.Interface_TAP:
			n.taps++
		}
	}
	n.fib = count(t, func() ([]*vpp_l2.FIBEntry, error) { return vs.FIB().List(ctx, nil) })
	n.neighbours = count(t, func() ([]*vpp_l3.ARPEntry, error) { return vs.Neighbours().List(ctx, nil) })
	n.routes = count(t, func() ([]*vpp_l3.Route, error) { return vs.Routes().List(ctx, nil) })
	n.linux = len(m.linux.values)
	return n
}

func count[V any](t *testing.T, list func() ([]V, error)) int {
	t.Helper()
	values, err := list()
	if err != nil {
		t.Fatal(err)
	}
	return len(values)
}

// want returns the tables of node 1 in a cluster with nodes, and with pods on node 1.
func want(nodes, pods int) tables {
	others := nodes - 1
	return tables{
		tunnels: others, fib: others, neighbours: others + pods, taps: pods,
		routes: others + pods + 1, // plus a drop route for unknown pods
		linux:  5 * pods,          // loopback, interface, neighbour, two routes
	}
}

func TestSmallCluster(t *testing.T) {
	const nodes, podsPerNode = 40, 10
	c := newCluster(t, nodes, podsPerNode)
	m := newMachine(t, c)
	a := m.start()
	defer func() { a.stop() }()
	check := func(when string, nodes, pods int) {
		t.Helper()
		if got := m.tables(t); got != want(nodes, pods) {
			t.Errorf("%s, the vswitch has %+v, want %+v", when, got, want(nodes, pods))
		}
		if n := a.resync(); n != 0 {
			t.Errorf("%s, a resync executes %d operations", when, n)
		}
	}
	check("at first", nodes, 0)

	for i := range podsPerNode {
		reply := a.addPod(i)
		// Kubernetes knew the pods, so they keep their addresses.
		if got, want := reply.GetInterfaces()[0].GetIpAddresses()[0].GetAddress(), podIP(1, i).String(); !strings.HasPrefix(got, want+"/") {
			t.Errorf("pod %d has the address %s, want %s", i, got, want)
		}
	}
	check("with pods", nodes, podsPerNode)

	before := len(a.scheduler.History(time.Time{}, time.Time{}))
	a.after(nodes*podsPerNode, func() {
		var changes []store.Change
		for id := 1; id <= nodes; id++ {
			for i := range podsPerNode {
				changes = append(changes, c.putPod(id, i, "changed"))
			}
		}
		c.write(changes...)
	})
	if n := len(a.scheduler.History(time.Time{}, time.Time{})) - before; n != 0 {
		t.Errorf("changes of pods that are wired already lead to %d transactions", n)
	}

	a.after(4, func() { c.write(append(c.joins(nodes+1), c.joins(nodes+2)...)...) })
	check("with two nodes more", nodes+2, podsPerNode)
	a.after(2, func() {
		for _, change := range c.joins(nodes + 1) {
			c.write(remove(change))
		}
	})
	check("with one of them gone", nodes+1, podsPerNode)

	a.stop()
	a = m.start()
	check("after a restart", nodes+1, podsPerNode)
	for _, txn := range a.scheduler.History(time.Time{}, time.Time{}) {
		if n := executed(txn); n > 0 {
			t.Errorf("the agent executed %d operations after its restart:\n%s", n, txn)
		}
	}
	for i := range podsPerNode {
		a.deletePod(i)
	}
	check("without pods", nodes+1, 0)
}

// A burst that exceeds the queue leads to the same state.
func TestBurst(t *testing.T) {
	c := newCluster(t, 10, 0)
	m := newMachine(t, c)
	a := m.start()
	defer a.stop()
	const joining = 1500
	var changes []store.Change
	for id := 11; id <= 10+joining; id++ {
		changes = append(changes, c.joins(id)...)
	}
	c.write(changes...)
	await.That(t, "all nodes are connected", func() error {
		if n := len(a.nodes.GetAllNodes()); n != 10+joining {
			return fmt.Errorf("%d nodes", n)
		}
		return nil
	})
	a.barrier()
	if got, want := m.tables(t), want(10+joining, 0); got != want {
		t.Errorf("the vswitch has %+v, want %+v", got, want)
	}
}
