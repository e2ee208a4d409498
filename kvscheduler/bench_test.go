package kvscheduler

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// The southbound of the benchmarks is a map with no latency. N interfaces and
// N routes, each of which depends on its interface: 2N values.

var benchSizes = []int{100, 1_000, 10_000, 100_000}

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
			KeyValue{fmt.Sprintf("config/interface/tap%06d", i), val("192.168.0.1/24")},
			KeyValue{fmt.Sprintf("config/route/tap%06d", i), val("10.0.0.0/8")})
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

func perValue(b *testing.B, values int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(values)/1000, "µs/value")
}

func BenchmarkCreate(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			values := benchValues(n)
			b.ReportAllocs()
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
			perValue(b, 2*n)
		})
	}
}

func BenchmarkResyncWithoutDifferences(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			values := benchValues(n)
			s, _ := benchScheduler(b, false, ownInterface)
			must(b, put(s, values))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				must(b, put(s, values), WithResync(FullResync))
			}
			perValue(b, 2*n)
		})
	}
}

func BenchmarkUpdateOne(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			values := benchValues(n)
			s, _ := benchScheduler(b, false, ownInterface)
			must(b, put(s, values))
			versions := []proto.Message{val("1"), val("2")}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				must(b, s.NewTransaction().Put(values[(i*7919)%len(values)].Key, versions[i/len(values)%2]))
			}
		})
	}
}
