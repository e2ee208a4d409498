package kvscheduler

import (
	"context"
	"flag"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
)

// The southbound of the benchmarks is a map without latency. N interfaces and N routes, each depending on
// its interface, are 2N values. The flag -million adds N = 10⁶, which needs 4 GB of memory.

var benchMillion = flag.Bool("million", false, "add N = 1,000,000 to the benchmarks")

// relative reports the time per value relative to reference work on the same values at the same time:
// encoding each value and adding it to a map. The ratio varies less between machines and loads than
// microseconds do.
func relative(b *testing.B, perValue time.Duration, values []KeyValue) {
	best := time.Duration(math.MaxInt64)
	for began, passes := time.Now(), 0; passes < 3 || time.Since(began) < 20*time.Millisecond; passes++ {
		encoded := map[string][]byte{}
		start := time.Now()
		for _, kv := range values {
			data, err := proto.Marshal(kv.Value)
			if err != nil {
				b.Fatal(err)
			}
			encoded[kv.Key] = data
		}
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(perValue)*float64(len(values))/float64(best), "×reference")
}

func benchSizes(sizes ...int) []int {
	if testing.Short() { // only shows that the benchmarks work
		return slices.DeleteFunc(sizes, func(n int) bool { return n > 1_000 })
	}
	if *benchMillion {
		sizes = append(sizes, 1_000_000)
	}
	return sizes
}

func benchDescriptors(b testing.TB, s *Scheduler, sb map[string]text, routeDeps func(key string) []Dependency) {
	for _, prefix := range []string{"config/interface/", "config/route/"} {
		d := Descriptor[text, NoMetadata]{
			Name: strings.TrimPrefix(prefix, "config/"), Keys: KeySpace{Prefix: prefix}, NB: true,
			Create: func(_ context.Context, key string, v text) (NoMetadata, error) {
				sb[key] = v
				return NoMetadata{}, nil
			},
			Delete: func(_ context.Context, key string, _ text, _ NoMetadata) error {
				delete(sb, key)
				return nil
			},
			Update: func(_ context.Context, key string, _, v text, m NoMetadata) (NoMetadata, error) {
				sb[key] = v
				return m, nil
			},
			Retrieve: func(_ context.Context, expected []Item[text, NoMetadata]) ([]Item[text, NoMetadata], error) {
				var items []Item[text, NoMetadata]
				for key, v := range sb {
					if strings.HasPrefix(key, prefix) {
						items = append(items, Item[text, NoMetadata]{Key: key, Value: v, Origin: FromNB})
					}
				}
				return items, nil
			},
		}
		if strings.Contains(prefix, "route") {
			d.Dependencies = func(key string, _ text) []Dependency { return routeDeps(key) }
		}
		if err := Register(s, d); err != nil {
			b.Fatal(err)
		}
	}
}

func ownInterface(key string) []Dependency {
	return []Dependency{{Label: "interface", Key: "config/interface/" + key[len("config/route/"):]}}
}

func benchScheduler(b testing.TB, history bool, routeDeps func(string) []Dependency) (*Scheduler, map[string]text) {
	s := newScheduler(b, func(o *Options) { o.History.Disabled = !history })
	sb := map[string]text{}
	benchDescriptors(b, s, sb, routeDeps)
	return s, sb
}

func benchValues(n int) []KeyValue {
	values := make([]KeyValue, 0, 2*n)
	for i := range n {
		values = append(values,
			KeyValue{Key: fmt.Sprintf("config/interface/tap%06d", i), Value: val("192.168.0.1/24")},
			KeyValue{Key: fmt.Sprintf("config/route/tap%06d", i), Value: val("10.0.0.0/8")})
	}
	return values
}

func put(s *Scheduler, values []KeyValue) *Transaction {
	t := s.NewTransaction()
	for _, kv := range values {
		t.Put(kv.Key, kv.Value)
	}
	return t
}

func must(b testing.TB, t *Transaction, opts ...TxnOption) {
	if _, err := t.Commit(context.Background(), opts...); err != nil {
		b.Fatal(err)
	}
}

func perValue(b *testing.B, values int) time.Duration {
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(values)/1000, "µs/value")
	return b.Elapsed() / time.Duration(b.N*values)
}

func BenchmarkCreate(b *testing.B) {
	for _, n := range benchSizes(100, 1_000, 10_000, 100_000) {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			values := benchValues(n)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				s, _ := benchScheduler(b, false, ownInterface)
				runtime.GC()
				b.StartTimer()
				must(b, put(s, values))
				b.StopTimer()
				_ = s.Close()
				b.StartTimer()
			}
			relative(b, perValue(b, 2*n), values)
		})
	}
}

func BenchmarkResyncWithoutDifferences(b *testing.B) {
	for _, n := range benchSizes(100, 1_000, 10_000, 100_000) {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			values := benchValues(n)
			s, _ := benchScheduler(b, false, ownInterface)
			must(b, put(s, values))
			runtime.GC() // otherwise the garbage of the creation is collected later
			b.ReportAllocs()
			for b.Loop() {
				must(b, put(s, values), WithResync(FullResync))
			}
			relative(b, perValue(b, 2*n), values)
		})
	}
}

func BenchmarkUpdateOne(b *testing.B) {
	for _, n := range benchSizes(100, 1_000, 10_000, 100_000) {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			values := benchValues(n)
			s, _ := benchScheduler(b, false, ownInterface)
			must(b, put(s, values))
			versions := []proto.Message{val("1"), val("2")}
			var times []time.Duration
			runtime.GC()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := strings.Clone(values[(i*7919)%len(values)].Key) // callers usually build the key
				start := time.Now()
				must(b, s.NewTransaction().Put(key, versions[i/len(values)%2]))
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "p50-µs")
			relative(b, times[len(times)/2], values)
		})
	}
}

// BenchmarkPlanOne plans the change of one of N values; it must not copy the others (W5).
func BenchmarkPlanOne(b *testing.B) {
	for _, n := range benchSizes(100, 1_000, 10_000, 100_000) {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			values := benchValues(n)
			s, _ := benchScheduler(b, false, ownInterface)
			must(b, put(s, values))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if _, err := s.NewTransaction().Put(values[(i*7919)%len(values)].Key, val("other")).Plan(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRevert commits N values, the last of which fails (W6).
func BenchmarkRevert(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := newScheduler(b, func(o *Options) { o.History.Disabled = true })
			sb := newSouthbound(b)
			sb.register(s, "a", parts{prefix: "a/"})
			txn := func() *Transaction {
				t := s.NewTransaction()
				for i := range n {
					t.Put(fmt.Sprintf("a/%06d", i), val("x"))
				}
				sb.take()
				sb.failNext(fmt.Sprintf("CREATE a/%06d", n-1), errBoom)
				return t
			}
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				t := txn()
				b.StartTimer()
				if _, err := t.Commit(context.Background(), WithRevert()); err == nil {
					b.Fatal("no error")
				}
			}
			perValue(b, 2*n)
		})
	}
}

// BenchmarkFlap deletes and creates an interface with K routes.
func BenchmarkFlap(b *testing.B) {
	for _, k := range []int{10, 100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("K=%d", k), func(b *testing.B) {
			s, _ := benchScheduler(b, false, func(string) []Dependency {
				return []Dependency{{Label: "interface", Key: "config/interface/tap"}}
			})
			txn := s.NewTransaction().Put("config/interface/tap", val("x"))
			for i := range k {
				txn.Put(fmt.Sprintf("config/route/%06d", i), val("x"))
			}
			must(b, txn)
			b.ResetTimer()
			for range b.N {
				must(b, s.NewTransaction().Delete("config/interface/tap"))
				must(b, s.NewTransaction().Put("config/interface/tap", val("x")))
			}
			perValue(b, 2*k)
		})
	}
}

// BenchmarkPendingUnblocked creates an interface that N routes wait for.
func BenchmarkPendingUnblocked(b *testing.B) {
	for _, n := range benchSizes(100, 1_000, 10_000, 100_000) {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				s, _ := benchScheduler(b, false, func(string) []Dependency {
					return []Dependency{{Label: "interface", Key: "config/interface/tap"}}
				})
				txn := s.NewTransaction()
				for i := range n {
					txn.Put(fmt.Sprintf("config/route/%06d", i), val("x"))
				}
				must(b, txn)
				b.StartTimer()
				must(b, s.NewTransaction().Put("config/interface/tap", val("x")))
				b.StopTimer()
				_ = s.Close()
				b.StartTimer()
			}
			perValue(b, n)
		})
	}
}

// BenchmarkFailures creates N values, 1 % of which fail once, and reports the keys read per failure.
func BenchmarkFailures(b *testing.B) {
	const n = 10_000
	read, failed := 0, 0
	for range b.N {
		b.StopTimer()
		s := newScheduler(b, func(o *Options) { o.History.Disabled = true })
		sb := newSouthbound(b)
		d := sb.descriptor("a", parts{prefix: "a/"})
		d.RetrieveKeys = func(_ context.Context, expected []Item[text, int]) ([]Item[text, int], error) {
			read += len(expected)
			return nil, nil
		}
		if err := Register(s, d); err != nil {
			b.Fatal(err)
		}
		txn := s.NewTransaction()
		for i := range n {
			key := fmt.Sprintf("a/%06d", i)
			txn.Put(key, val("x"))
			if i%100 == 0 {
				sb.failNext("CREATE "+key, errBoom)
				failed++
			}
		}
		b.StartTimer()
		_, _ = txn.Commit(context.Background(), WithRetry(Retry{Period: time.Microsecond}))
		keys := make([]string, 0, n/100)
		for i := 0; i < n; i += 100 {
			keys = append(keys, fmt.Sprintf("a/%06d", i))
		}
		if _, err := s.WaitSettled(context.Background(), keys...); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		_ = s.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(read)/float64(failed), "reads/failure")
}

// BenchmarkMemory reports the heap per value without history, and the size of the history after long
// churn.
func BenchmarkMemory(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for _, n := range benchSizes(1_000, 10_000, 100_000) {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			for range b.N {
				before := heap()
				s, sb := benchScheduler(b, false, ownInterface)
				must(b, put(s, benchValues(n)))
				clear(sb)
				b.ReportMetric((heap()-before)/float64(2*n), "heap-B/value")
				runtime.KeepAlive(s)
				_ = s.Close()
			}
		})
	}
	b.Run("churn", func(b *testing.B) {
		const limit = 8 << 20
		before := heap()
		s := New(Options{Logger: quietLog(), History: HistoryLimits{Bytes: limit}})
		sb := map[string]text{}
		benchDescriptors(b, s, sb, ownInterface)
		values := benchValues(100)
		must(b, put(s, values))
		for i := range 100_000 {
			must(b, s.NewTransaction().Put(values[i%200].Key, val(fmt.Sprint(i))))
		}
		b.ReportMetric((heap()-before)/limit, "heap/limit")
		b.ReportMetric(float64(s.Stats().Recorded), "records")
		_ = s.Close()
		for range b.N {
		}
	})
}

// BenchmarkReadsDuringTransaction reports the latency of readers during a transaction with southbound
// calls of 1 ms.
func BenchmarkReadsDuringTransaction(b *testing.B) {
	s := newScheduler(b)
	sb := newSouthbound(b)
	sb.hook = func(string) { time.Sleep(time.Millisecond) }
	sb.register(s, "a", parts{prefix: "a/"})
	txn := s.NewTransaction()
	for i := range 200 {
		txn.Put(fmt.Sprintf("a/%03d", i), val("x"))
	}
	must(b, txn)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for v := 0; ; v++ {
			txn := s.NewTransaction()
			for i := range 200 {
				txn.Put(fmt.Sprintf("a/%03d", i), val(fmt.Sprint(v)))
			}
			_, _ = txn.Commit(context.Background())
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	times := make([]time.Duration, b.N)
	b.ResetTimer()
	for i := range b.N {
		start := time.Now()
		_ = s.ValueStatus("a/100")
		times[i] = time.Since(start)
	}
	b.StopTimer()
	close(stop)
	<-done
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1000, "p99-µs")
}
