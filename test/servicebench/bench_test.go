package servicebench

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// servicesVariable is the maximum number of services with 10 endpoints each. kube-proxy takes
// minutes for 10 000.
const servicesVariable = "CONTIV_BENCH_SERVICES"

// BenchmarkServices measures both sides with 1, 1 000 and the maximum number of services.
// BenchmarkConnections measures connections.
func BenchmarkServices(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("it makes network namespaces: run it as root")
	}
	proxy := newKubeProxy(b, "kube-proxy")
	sides := []*side{newContiv(b, buildContiv(b), "contiv"), proxy}
	most := mostServices(b)
	single := testService{"single", "10.96.0.10", endpoints()[:1], serverPort}
	var t table
	for b.Loop() {
		t = table{}
		for _, s := range sides {
			s.put(single, numbered(0))
			s.start()
			s.await(numbered(0), "")
		}
		have := 1
		for _, count := range sizes(most) {
			var more []testService
			for n := have; n < count; n++ {
				more = append(more, numbered(n))
			}
			have = max(have, count)
			var syncs []float64
			for _, s := range sides {
				s.stop()
				s.clean()
				s.put(more...)
				start := time.Now()
				s.start()
				for _, n := range []int{0, count / 2, count - 1} {
					s.await(numbered(n), "")
				}
				syncs = append(syncs, time.Since(start).Seconds())
			}
			t.add(fmt.Sprintf("s until the first sync, %d services", count), syncs)
		}
		stream := testService{"stream", "10.96.0.11", endpoints(), streamPort}
		for _, s := range sides {
			s.put(stream)
			s.await(stream, "")
		}
		// Alternate here, too, because the ratio matters.
		through, without := make([][]float64, len(sides)), make([][]float64, len(sides))
		for range 40 {
			for i, s := range sides {
				through[i] = append(through[i], s.stream(stream.ip+":80", 250*time.Millisecond))
				without[i] = append(without[i], s.stream(fmt.Sprintf("%s:%d", endpoints()[0], streamPort), 250*time.Millisecond))
			}
		}
		share := row{what: "% of the stream without, through a service"}
		for i := range sides {
			e := ratioOf(through[i], without[i])
			share.values, share.lower, share.upper = append(share.values, 100*e.value), append(share.lower, 100*e.lower), append(share.upper, 100*e.upper)
		}
		t = append(t, share)
		t.spread("MB/s through a service", through)
		t.spread("MB/s without", without)

		added, moved := 0, 0
		t.spread("ms until one more service", alternate(sides, 3, func(s *side) float64 {
			added++
			service := numbered(most + added)
			start := time.Now()
			s.put(service)
			s.await(service, "")
			return ms(time.Since(start))
		}))
		t.spread("ms until one endpoint has changed", alternate(sides, 3, func(s *side) float64 {
			moved++
			to := testService{single.name, single.ip, endpoints()[moved%10 : moved%10+1], serverPort}
			start := time.Now()
			s.put(to)
			s.await(to, to.endpoints[0])
			return ms(time.Since(start))
		}))
		memory, peak := []float64{}, []float64{}
		for _, s := range sides {
			now, highest := s.memory()
			memory, peak = append(memory, now), append(peak, highest)
		}
		t.add("MiB of memory", memory)
		t.add("MiB of memory, at most", peak)

		var restarts, lost, operations []float64
		for _, s := range sides {
			r := s.restart(numbered(most + 100))
			restarts, lost, operations = append(restarts, r.seconds), append(lost, r.lost), append(operations, r.operations)
			s.stop()
		}
		t.add("s from a restart until a new service", restarts)
		t.add("connections lost by the restart, of 200", lost)
		t.add("operations of the restart", operations)
		var tables []float64
		for _, s := range sides {
			tables = append(tables, s.tableMemory())
		}
		t.add("MiB of the tables in the kernel", tables)
	}
	b.Log("\n" + t.String())
	for _, r := range t {
		for i, s := range sides {
			if math.IsNaN(r.values[i]) {
				continue
			}
			b.ReportMetric(r.values[i], strings.NewReplacer(" ", "-", ",", "", "/", "-per-").Replace(r.what)+"-"+s.name)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRestart measures restarts of the agent alone with the maximum number of services.
func BenchmarkRestart(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("it makes network namespaces: run it as root")
	}
	s, most := newContiv(b, buildContiv(b), "contiv"), mostServices(b)
	var services []testService
	for n := range most {
		services = append(services, numbered(n))
	}
	s.put(services...)
	s.start()
	s.await(numbered(most-1), "")
	var seconds, lost, operations []float64
	for n := 0; b.Loop(); n++ {
		r := s.restart(numbered(most + n))
		seconds, lost, operations = append(seconds, r.seconds), append(lost, r.lost), append(operations, r.operations)
	}
	b.Logf("s from a restart until a new service, %d services: %.2f; connections lost: %v; operations: %v", most, seconds, lost, operations)
	slices.Sort(seconds)
	b.ReportMetric(seconds[len(seconds)/2], "s-from-a-restart")
	b.ReportMetric(slices.Max(lost), "connections-lost")
	b.ReportMetric(slices.Max(operations), "operations")
	b.ReportMetric(0, "ns/op")
}

func sizes(most int) []int {
	return append(slices.DeleteFunc([]int{1, 1_000}, func(n int) bool { return n >= most }), most)
}

func mostServices(b *testing.B) int {
	b.Helper()
	text := os.Getenv(servicesVariable)
	switch {
	case text != "":
	case testing.Short():
		return 50
	default:
		return 1_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 50_000 {
		b.Fatalf("%s is %q: give a number from 1 to 50000", servicesVariable, text)
	}
	return n
}

// alternate runs rounds that measure each side in turn.
func alternate(sides []*side, rounds int, measure func(*side) float64) [][]float64 {
	values := make([][]float64, len(sides))
	for range rounds {
		for i, s := range sides {
			values[i] = append(values[i], measure(s))
		}
	}
	return values
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

type table []row

// row holds the medians and the interquartile ranges of both sides.
type row struct {
	what         string
	values       []float64
	lower, upper []float64
}

func (t *table) add(what string, values []float64) { *t = append(*t, row{what: what, values: values}) }

func (t *table) spread(what string, rounds [][]float64) {
	r := row{what: what}
	for _, list := range rounds {
		slices.Sort(list)
		r.values = append(r.values, list[len(list)/2])
		r.lower, r.upper = append(r.lower, list[len(list)/4]), append(r.upper, list[len(list)*3/4])
	}
	*t = append(*t, r)
}

func (t table) String() string {
	var b strings.Builder
	for _, r := range t {
		fmt.Fprintf(&b, "%-42s", r.what)
		for i, side := range []string{"contiv", "kube-proxy"} {
			fmt.Fprintf(&b, " %s %10.1f", side, r.values[i])
			if r.lower != nil {
				fmt.Fprintf(&b, " (%.1f to %.1f)", r.lower[i], r.upper[i])
			}
		}
		fmt.Fprintf(&b, "  ratio %.2f\n", r.values[0]/r.values[1])
	}
	return b.String()
}
