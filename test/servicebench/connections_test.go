package servicebench

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkConnections measures the cost of connections to a service with 1, 1 000 and the maximum
// number of services. All nodes run at the same time and each round measures all of them, so that
// changes in the machine's speed do not look like differences between nodes. It reports ratios
// within rounds.
func BenchmarkConnections(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("it makes network namespaces: run it as root")
	}
	counts := sizes(mostServices(b))
	var contiv, proxy []*side
	binaries := buildContiv(b)
	for _, count := range counts {
		proxy = append(proxy, newKubeProxy(b, fmt.Sprintf("kube-proxy-%d", count)))
		contiv = append(contiv, newContiv(b, binaries, fmt.Sprintf("contiv-%d", count)))
	}
	for i, count := range counts {
		for _, s := range []*side{contiv[i], proxy[i]} {
			var services []testService
			for n := range count {
				services = append(services, numbered(n))
			}
			s.put(services...)
			s.start()
			for _, n := range []int{0, count / 2, count - 1} {
				s.await(numbered(n), "")
			}
		}
	}
	const rounds, long = 150, 100 * time.Millisecond
	perSecond, micros := map[*side][]float64{}, map[*side][]float64{}
	for b.Loop() {
		clear(perSecond)
		clear(micros)
		for round := range rounds {
			order := slices.Concat(contiv, proxy)
			order = append(order[round%len(order):], order[:round%len(order)]...)
			for _, s := range order {
				s.forgetConnections()
				at := slices.Index(contiv, s) + slices.Index(proxy, s) + 1
				r := s.connections(numbered(counts[at]/2), long)
				perSecond[s], micros[s] = append(perSecond[s], r.perSecond), append(micros[s], r.micros)
			}
		}
	}
	var text strings.Builder
	for i, count := range counts {
		name := fmt.Sprintf("%d-services", count)
		rates, cpu := ratioOf(perSecond[contiv[i]], perSecond[proxy[i]]), ratioOf(micros[contiv[i]], micros[proxy[i]])
		fmt.Fprintf(&text, "%d services, connections per second: contiv %v, kube-proxy %v, ratio %v\n", count, rangeOf(perSecond[contiv[i]]), rangeOf(perSecond[proxy[i]]), rates)
		fmt.Fprintf(&text, "%d services, µs of CPU per connection: contiv %v, kube-proxy %v, ratio %v\n", count, rangeOf(micros[contiv[i]]), rangeOf(micros[proxy[i]]), cpu)
		b.ReportMetric(rates.value, "rate-ratio-"+name)
		b.ReportMetric(cpu.value, "cpu-ratio-"+name)
		if i == 0 {
			continue
		}
		for _, sides := range [][]*side{contiv, proxy} {
			fmt.Fprintf(&text, "%s: rate with that many services as a share of that with %d: %v; CPU: %v\n", sides[i].name, counts[0],
				ratioOf(perSecond[sides[i]], perSecond[sides[0]]), ratioOf(micros[sides[i]], micros[sides[0]]))
		}
	}
	b.Logf("%d rounds of %v\n%s", rounds, long, text.String())
	b.ReportMetric(0, "ns/op")
}

// estimate is a median with a range: the interquartile range of measured values, or the 95 %
// confidence interval of the median of ratios.
type estimate struct{ value, lower, upper float64 }

func (e estimate) String() string {
	return fmt.Sprintf("%.4g (%.4g to %.4g)", e.value, e.lower, e.upper)
}

func rangeOf(values []float64) estimate {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return estimate{sorted[n/2], sorted[n/4], sorted[n*3/4]}
}

func ratioOf(a, b []float64) estimate {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	slices.Sort(ratios)
	n := len(ratios)
	off := int(math.Ceil(0.98 * math.Sqrt(float64(n)))) // ranks around the median for 95 % confidence
	return estimate{ratios[n/2], ratios[max(0, n/2-off)], ratios[min(n-1, n/2+off)]}
}
