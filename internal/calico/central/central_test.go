package central

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/calico/agent"
	"github.com/contiv/contiv/internal/calico/datastore"
	"github.com/contiv/contiv/internal/calico/follow"
	"github.com/contiv/contiv/internal/calico/routes"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/kubernetes/election"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var discarded = slog.New(slog.DiscardHandler)

func tree(t testing.TB) datastore.Tree {
	t.Helper()
	tree, err := datastore.ParseTree(datastore.DefaultTree)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func direct(t testing.TB, db store.Watchable, c *follow.Counters) *follow.Follower {
	tree := tree(t)
	return follow.New(follow.Options{
		Store: db, Prefixes: tree.Prefixes(), Interval: time.Millisecond, Retry: time.Millisecond, Log: discarded, Counters: c,
		Apply: func(s *datastore.State, key string, value []byte) bool { return s.Apply(tree, key, value) },
	})
}

func given(t testing.TB, db store.Watchable, host string, c *follow.Counters) *follow.Follower {
	tree := tree(t)
	return follow.New(follow.Options{
		Store: db, Prefixes: Prefixes(host), Interval: time.Millisecond, Retry: time.Millisecond, Log: discarded, Counters: c,
		Apply: func(s *datastore.State, key string, value []byte) bool { return s.ApplyGiven(tree, host, key, value) },
	})
}

func put(t testing.TB, db store.Broker, key, value string) {
	t.Helper()
	if err := db.Put(t.Context(), key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func blockKey(n int) string {
	return fmt.Sprintf("/calico/ipam/v2/assignment/ipv4/block/10.%d.%d.0-26", n>>8, n&255)
}

func putBlock(t testing.TB, db store.Broker, n int, host string) {
	t.Helper()
	put(t, db, blockKey(n), fmt.Sprintf(`{"cidr":"10.%d.%d.0/26","affinity":"host:%s"}`, n>>8, n&255, host))
}

func runCentre(t *testing.T, db *etcd.Store, name string) (end func()) {
	t.Helper()
	elector, err := election.New(election.Options{Store: db, Name: name, Prefix: datastore.CentrePrefix, TTL: 2 * time.Second, Logger: discarded})
	if err != nil {
		t.Fatal(err)
	}
	c := &Centre{Elector: elector, NewSource: func() agent.Source { return direct(t, db, nil) }, Retry: time.Millisecond, Log: discarded}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(end)
	return end
}

type host struct {
	t      *testing.T
	reader *Reader
	tables chan string
}

func runHost(t *testing.T, db *etcd.Store, name string) *host {
	t.Helper()
	h := routes.Host{Name: name}
	n := &host{t: t, tables: make(chan string, 1000), reader: &Reader{
		Host: h, Given: given(t, db, name, nil), Patience: 300 * time.Millisecond, Log: discarded,
		NewDirect: func() agent.Tables { return agent.Direct{Source: direct(t, db, nil), Host: h} },
	}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { n.reader.Run(ctx, func(c routes.Calculation) { n.tables <- describe(c.Table) }) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return n
}

func describe(table routes.Table) string {
	var lines []string
	for _, dst := range slices.SortedFunc(maps.Keys(table), netip.Prefix.Compare) {
		lines = append(lines, fmt.Sprint(dst, " ", table[dst]))
	}
	return strings.Join(lines, "; ")
}

// want waits for a table; byItself: calculated by the host.
func (n *host) want(table string, byItself bool) {
	n.t.Helper()
	var got []string
	for {
		select {
		case g := <-n.tables:
			if g == table && n.reader.Direct() == byItself {
				return
			}
			got = append(got, fmt.Sprint(g, " by itself: ", n.reader.Direct()))
		case <-time.After(time.Minute):
			n.t.Fatalf("no table %q, but %q", table, got)
		}
	}
}

func TestCentre(t *testing.T) {
	db := etcdtest.Start(t).Store()
	put(t, db, datastore.PeerKey("a", 4), "192.0.2.1")
	put(t, db, datastore.PeerKey("b", 4), "192.0.2.2")
	putBlock(t, db, 0, "a")
	putBlock(t, db, 1, "b")
	first := runCentre(t, db, "first")
	a := runHost(t, db, "a")
	a.want("10.0.0.0/26 drop (own block); 10.0.1.0/26 via 192.0.2.2 (b)", false)
	putBlock(t, db, 2, "b")
	a.want("10.0.0.0/26 drop (own block); 10.0.1.0/26 via 192.0.2.2 (b); 10.0.2.0/26 via 192.0.2.2 (b)", false)

	// Without a centre, hosts calculate their own routes.
	first()
	a.want("10.0.0.0/26 drop (own block); 10.0.1.0/26 via 192.0.2.2 (b); 10.0.2.0/26 via 192.0.2.2 (b)", true)
	if err := db.Delete(t.Context(), blockKey(2)); err != nil {
		t.Fatal(err)
	}
	a.want("10.0.0.0/26 drop (own block); 10.0.1.0/26 via 192.0.2.2 (b)", true)

	// The next centre catches up, including deletions.
	second := runCentre(t, db, "second")
	a.want("10.0.0.0/26 drop (own block); 10.0.1.0/26 via 192.0.2.2 (b)", false)
	// A standby takes over.
	runCentre(t, db, "third")
	second()
	putBlock(t, db, 3, "b")
	a.want("10.0.0.0/26 drop (own block); 10.0.1.0/26 via 192.0.2.2 (b); 10.0.3.0/26 via 192.0.2.2 (b)", false)

	// The data of a removed host is deleted.
	if err := db.Delete(t.Context(), datastore.PeerKey("b", 4)); err != nil {
		t.Fatal(err)
	}
	a.want("10.0.0.0/26 drop (own block)", false)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		left, _, err := db.List(t.Context(), datastore.GivenPrefix("b"))
		if err == nil && len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left of b: %v, %v", left, err)
		}
	}
}

// always is an elector that always elects.
type always struct{ store.Broker }

func (a always) Lead(ctx context.Context, _ func(), work func(context.Context, store.Broker) error) error {
	return work(ctx, a.Broker)
}
func (always) Others(context.Context) (bool, error) { return false, nil }

// pods started on a node; they change its block but no route
const pods = 50

// observed nodes are a sample: all are alike.
const observed = 5

// asked counts a node's requests and received data, and the centre's writes.
type asked struct {
	lists, watches, keys, bytes int64 // at the start
	events, eventBytes          int64 // when pods start on one node and one block changes hands
	writes, writesPerChange     int64 // of the centre
}

// At its start a node reads two prefixes with the centre, three without. Started pods cause events
// on all nodes, except with the centre.
func TestNodeRequests(t *testing.T) {
	for _, nodes := range []int64{10, 100} {
		direct, central := measure(t, int(nodes), false), measure(t, int(nodes), true)
		for _, a := range []*asked{&direct, &central} {
			a.bytes, a.eventBytes = 0, 0
		}
		if want := (asked{lists: 3, watches: 3, keys: 2 * nodes, events: pods + 1}); direct != want {
			t.Errorf("%d nodes, each by itself: %+v, want %+v", nodes, direct, want)
		}
		if want := (asked{lists: 2, watches: 2, keys: nodes + 2, events: 1, writes: nodes*nodes + nodes, writesPerChange: nodes}); central != want {
			t.Errorf("%d nodes with a centre: %+v, want %+v", nodes, central, want)
		}
	}
}

// BenchmarkLoad measures the same for more nodes.
func BenchmarkLoad(b *testing.B) {
	sizes := []int{10, 100, 1000}
	if testing.Short() { // only shows that the benchmark works
		sizes = sizes[:1]
	}
	for _, nodes := range sizes {
		for mode, central := range map[string]bool{"direct": false, "central": true} {
			b.Run(fmt.Sprint(mode, "/", nodes), func(b *testing.B) {
				var a asked
				for b.Loop() {
					a = measure(b, nodes, central)
				}
				for unit, n := range map[string]int64{
					"lists/node": a.lists, "watches/node": a.watches, "keys-read/node": a.keys, "bytes-read/node": a.bytes,
					"events/node": a.events, "event-bytes/node": a.eventBytes,
					"centre-writes": a.writes, "centre-writes-per-change": a.writesPerChange,
				} {
					b.ReportMetric(float64(n), unit)
				}
			})
		}
	}
}

// putUsedBlock writes a block with one used address, as large as Calico's.
func putUsedBlock(t testing.TB, db store.Broker, n int, host, pod string) {
	cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 26)
	unallocated := "1"
	for ordinal := 2; ordinal < 64; ordinal++ {
		unallocated += fmt.Sprint(",", ordinal)
	}
	put(t, db, blockKey(n), fmt.Sprintf(`{"cidr":%q,"affinity":"host:%s","allocations":[0%s],"unallocated":[%s],"attributes":[{"handle_id":"k8s-pod-network.%s","secondary":{"namespace":"default","node":%q,"pod":%q}}],"deleted":false}`,
		cidr, host, strings.Repeat(",null", 63), unallocated, pod, host, pod))
}

// measure runs some of many nodes with one block each.
func measure(t testing.TB, nodes int, central bool) (a asked) {
	db := memory.New()
	for n := range nodes {
		put(t, db, datastore.PeerKey(fmt.Sprint("w", n), 4), fmt.Sprintf("172.16.%d.%d", n>>8, n&255))
		putUsedBlock(t, db, n, fmt.Sprint("w", n), "p")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	centre := &Centre{Elector: always{db}, Log: discarded, NewSource: func() agent.Source { return direct(t, db, nil) }}
	if central {
		put(t, db, datastore.CentrePrefix+"/1", "centre")
		running.Go(func() { centre.Run(ctx) })
		awaitKey(t, db, datastore.CompleteKey(lastOf(nodes))) // it comes last
	}
	c := &follow.Counters{}
	tables := make(chan routes.Table, 1_000_000)
	for n := range observed {
		h := routes.Host{Name: fmt.Sprint("w", n)}
		var source agent.Tables = agent.Direct{Source: direct(t, db, c), Host: h}
		if central {
			source = &Reader{Host: h, Given: given(t, db, h.Name, c), Log: discarded, Patience: time.Hour}
		}
		running.Go(func() { source.Run(ctx, func(c routes.Calculation) { tables <- c.Table }) })
	}
	await(tables, func(t routes.Table) bool { return len(t) == nodes })
	each := func(counter *atomic.Int64) int64 { return counter.Load() / observed }
	a = asked{lists: each(&c.Lists), watches: each(&c.Watches), keys: each(&c.Keys), bytes: each(&c.Bytes), writes: centre.Writes.Load()}
	for pod := range pods {
		putUsedBlock(t, db, 0, "w0", fmt.Sprint("p", pod+1))
	}
	putUsedBlock(t, db, nodes-1, fmt.Sprint("w", nodes-2), "p")
	moved := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte((nodes - 1) >> 8), byte(nodes - 1), 0}), 26)
	await(tables, func(t routes.Table) bool { return t[moved].Host == fmt.Sprint("w", nodes-2) })
	a.events, a.eventBytes, a.writesPerChange = each(&c.Events), each(&c.Bytes)-a.bytes, centre.Writes.Load()-a.writes
	return a
}

// lastOf returns the host that the centre writes last.
func lastOf(nodes int) string {
	var names []string
	for n := range nodes {
		names = append(names, fmt.Sprint("w", n))
	}
	return slices.Max(names)
}

func awaitKey(t testing.TB, db store.Broker, key string) {
	for {
		if _, there, err := db.Get(t.Context(), key); there || err != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// await waits until all observed nodes have a matching table.
func await(tables chan routes.Table, done func(routes.Table) bool) {
	for n := 0; n < observed; {
		if done(<-tables) {
			n++
		}
	}
}
