package scale

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
)

const benchPodsPerNode = 30

func benchNodes() int { return unlessShort(1000, 30) }

// unlessShort returns a size, or a small one for -short, which only shows that benchmarks work.
func unlessShort(size, small int) int {
	if testing.Short() {
		return small
	}
	return size
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func BenchmarkStartup(b *testing.B) {
	c := newCluster(b, benchNodes(), benchPodsPerNode)
	var used float64
	for b.Loop() {
		b.StopTimer()
		m := newMachine(b, c)
		before := heap()
		b.StartTimer()
		a := m.start()
		b.StopTimer()
		used = heap() - before
		a.stop()
		b.StartTimer()
	}
	b.ReportMetric(used/(1<<20), "heap-MB")
}

func BenchmarkRestart(b *testing.B) {
	m := newMachine(b, newCluster(b, benchNodes(), benchPodsPerNode))
	a := m.start()
	for i := range benchPodsPerNode {
		a.addPod(i)
	}
	a.stop()
	for b.Loop() {
		a := m.start()
		b.StopTimer()
		a.stop()
		b.StartTimer()
	}
}

// running starts an agent in the cluster and adds its pods.
func running(b *testing.B) (*cluster, *agent) {
	c := newCluster(b, benchNodes(), benchPodsPerNode)
	a := newMachine(b, c).start()
	b.Cleanup(a.stop)
	for i := range benchPodsPerNode {
		a.addPod(i)
	}
	return c, a
}

// BenchmarkPodEvent measures a change of a pod in the cluster: a single change, and the time per
// pod in a burst.
func BenchmarkPodEvent(b *testing.B) {
	c, a := running(b)
	for _, burst := range []int{1, 500} {
		b.Run(fmt.Sprintf("burst=%d", burst), func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				var changes []store.Change
				for i := range burst {
					changes = append(changes, c.putPod(2+i%(benchNodes()-1), i%benchPodsPerNode, fmt.Sprint(burst, n)))
				}
				b.StartTimer()
				a.after(burst, func() { c.write(changes...) })
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*burst), "µs/pod")
		})
	}
}

func BenchmarkNodeJoin(b *testing.B) {
	c, a := running(b)
	joins := c.joins(benchNodes() + 1)
	var leaving time.Duration
	for b.Loop() {
		a.after(len(joins), func() { c.write(joins...) })
		b.StopTimer()
		began := time.Now()
		a.after(len(joins), func() { c.write(remove(joins[0]), remove(joins[1])) })
		leaving += time.Since(began)
		b.StartTimer()
	}
	b.ReportMetric(float64(leaving.Microseconds())/float64(b.N)/1000, "ms/leave")
}

func BenchmarkCNI(b *testing.B) {
	_, a := running(b)
	a.deletePod(0)
	var removing time.Duration
	for b.Loop() {
		a.addPod(0)
		b.StopTimer()
		began := time.Now()
		a.deletePod(0)
		removing += time.Since(began)
		b.StartTimer()
	}
	b.ReportMetric(float64(removing.Microseconds())/float64(b.N)/1000, "ms/DEL")
}

// BenchmarkResync measures resyncs without drift: of the database, and of the southbound alone.
func BenchmarkResync(b *testing.B) {
	_, a := running(b)
	b.Run("database", func(b *testing.B) {
		for b.Loop() {
			a.resyncDatabase()
		}
	})
	b.Run("southbound", func(b *testing.B) {
		for b.Loop() {
			if n := a.resync(); n != 0 {
				b.Fatalf("%d operations", n)
			}
		}
	})
}
