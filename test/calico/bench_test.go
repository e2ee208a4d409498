package calico

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
)

// manyBlocks returns the number of blocks. With -short, the benchmark only shows that it works.
func manyBlocks() int {
	if testing.Short() {
		return 300
	}
	return 10_000
}

// manyChanges returns the number of single changes.
func manyChanges() int {
	if testing.Short() {
		return 100
	}
	return 1000
}

func manyBlock(n, host int) (cidr string, c store.Change) {
	cidr = fmt.Sprintf("10.%d.%d.%d/26", n>>10, n>>2&255, n<<6&255)
	return cidr, store.Change{KV: store.KV{Key: blockKey(cidr), Value: []byte(block(cidr, fmt.Sprint("h", host%100), map[int]string{1: fmt.Sprint("h", host%100)}))}}
}

// forwarder is a data plane with the routes of a node.
type forwarder struct {
	flags []string
	// count returns the number of routes to blocks, route the route to one block.
	count func() int
	route func(cidr string) string
}

func kernelOf(_ testing.TB, w *node) forwarder {
	return forwarder{
		count: func() int { return strings.Count(w.ip("route", "show", "proto", "121"), "\n") },
		route: func(cidr string) string { return w.ip("route", "show", cidr) },
	}
}

func vppOf(t testing.TB, w *node) forwarder {
	vpptest.Need(t)
	w.ip("link", "set", "eth1", "up")
	vpp := vpptest.NewProcess(t, "/var/run/netns/"+w.netns(w.name))
	return forwarder{
		flags: []string{"--vswitch", "vpp", "--vpp-socket", vpp.Socket(), "--uplink-type", "AF_PACKET"},
		count: func() (n int) {
			for line := range strings.Lines(vpp.CLI("show ip fib summary")) { // the first table: prefix length, number
				if f := strings.Fields(line); len(f) == 2 && f[0] == "26" {
					n, _ = strconv.Atoi(f[1])
					break
				}
			}
			return n
		},
		route: func(cidr string) string { return vpp.CLI("show ip fib " + cidr) },
	}
}

// BenchmarkManyBlocks measures 10 000 blocks of 100 hosts in the kernel and in VPP: the time to the
// last route after a start and a restart, and the time of single changes while 100 blocks change
// per second.
func BenchmarkManyBlocks(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("network namespaces need root: run the test as root")
	}
	b.Run("kernel", func(b *testing.B) { measureManyBlocks(b, kernelOf) })
	b.Run("vpp", func(b *testing.B) { measureManyBlocks(b, vppOf) })
}

func measureManyBlocks(b *testing.B, forwarderOf func(testing.TB, *node) forwarder) {
	for b.Loop() {
		s := newSite(b)
		var changes []store.Change
		for host := range 100 {
			changes = append(changes, store.Change{KV: store.KV{Key: fmt.Sprintf("/vpp-calico/hosts/h%d/peerip/ipv4/1", host), Value: fmt.Appendf(nil, "172.30.0.%d", 100+host)}})
		}
		for n := range manyBlocks() {
			_, c := manyBlock(n, n)
			changes = append(changes, c)
		}
		for part := range slices.Chunk(changes, 100) {
			if err := store.Apply(b.Context(), s.db, part); err != nil {
				b.Fatal(err)
			}
		}
		w := s.addNode(1)
		f := forwarderOf(b, w)
		w.flags = f.flags
		start := func() float64 {
			begin := time.Now()
			w.start()
			w.awaitReady()
			for f.count() < manyBlocks() {
				time.Sleep(20 * time.Millisecond)
			}
			return time.Since(begin).Seconds()
		}
		b.ReportMetric(start(), "s-to-last-route")
		w.stop()
		b.ReportMetric(start(), "s-to-last-route-restart")

		var latencies []time.Duration
		for n, tick := 0, time.NewTicker(10*time.Millisecond); n < manyChanges(); n++ {
			cidr, c := manyBlock(n, n+1)
			begin := time.Now()
			if err := s.db.Put(b.Context(), c.Key, c.Value); err != nil {
				b.Fatal(err)
			}
			if n%50 == 0 {
				for want := fmt.Sprintf("172.30.0.%d ", 100+(n+1)%100); !strings.Contains(f.route(cidr), want); {
					time.Sleep(5 * time.Millisecond)
				}
				latencies = append(latencies, time.Since(begin))
			}
			<-tick.C
		}
		slices.Sort(latencies)
		b.ReportMetric(float64(latencies[len(latencies)/2].Milliseconds()), "ms-change-median")
		b.ReportMetric(float64(latencies[len(latencies)-1].Milliseconds()), "ms-change-max")
		w.stop()
	}
}
