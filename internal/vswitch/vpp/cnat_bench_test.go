package vpp

import (
	"fmt"
	"slices"
	"testing"
	"time"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
)

// BenchmarkServices66 measures 1 000 IPv6 services with three ports and three local addresses each,
// on a VPP with some interfaces.
func BenchmarkServices66(b *testing.B) {
	vpptest.Need(b)
	s := &site{VPP: vpptest.NewProcess(b, newNamespace(b).NetNS)}
	v := open(b, s)
	for i := range 50 {
		create(b, v, loopback(fmt.Sprint("loop", i)))
	}
	var values []*contiv_nat.DNat66
	for n := range 1000 {
		value := dnat66Value(fmt.Sprintf("default/service-%d", n))
		for port := range uint32(3) {
			value.StMappings = append(value.StMappings, edit66(service66(fmt.Sprintf("fd96::%x", n+1), 80+port, 1, 1, 1), toItself66))
		}
		values = append(values, value)
	}
	set := func(values []*contiv_nat.DNat66) {
		for part := range slices.Chunk(values, 256) {
			set66(b, v, part...)
		}
	}
	b.Run("removed and set", func(b *testing.B) {
		for b.Loop() {
			for part := range slices.Chunk(values, 256) {
				must(b, v.DNAT66().Remove(b.Context(), part...))
			}
			set(values)
		}
	})
	b.Run("read back", func(b *testing.B) {
		for b.Loop() {
			if found, err := v.DNAT66().List(b.Context(), values); err != nil || len(found) != len(values) {
				b.Fatal(len(found), err)
			}
		}
	})
	b.Run("one local address more or less", func(b *testing.B) {
		less := dnat66Value(values[500].GetLabel(), service66("fd96::1f5", 80, 1, 1))
		for b.Loop() {
			set66(b, v, less)
			set66(b, v, values[500])
		}
	})
}

func BenchmarkPortsOfAService(b *testing.B) {
	vpptest.Need(b)
	const few, many = 1_000, 10_000
	took := map[string]map[int]time.Duration{}
	for b.Loop() {
		for _, ports := range []int{few, many} {
			v := open(b, &site{VPP: vpptest.NewProcess(b, newNamespace(b).NetNS)})
			service := func(weights ...uint32) *contiv_nat.DNat66 {
				value := dnat66Value("default/many-ports")
				for n := range ports {
					value.StMappings = append(value.StMappings, edit66(service66("fd96::1", uint32(1000+n), weights...), toItself66))
				}
				return value
			}
			less := service(1, 1)
			less.StMappings = less.StMappings[1:]
			measure := func(what string, do func()) {
				if took[what] == nil {
					took[what] = map[int]time.Duration{}
				}
				start := time.Now()
				do()
				took[what][ports] += time.Since(start)
			}
			measure("created", func() { set66(b, v, service(1, 1)) })
			measure("endpoint-more", func() { set66(b, v, service(1, 1, 1)) })
			measure("endpoint-less", func() { set66(b, v, service(1, 1)) })
			measure("port-less", func() { set66(b, v, less) })
			measure("removed", func() { must(b, v.DNAT66().Remove(b.Context(), less)) })
			v.Close()
		}
	}
	for what, d := range took {
		b.ReportMetric(float64(d[many].Milliseconds())/float64(b.N), "ms/"+what)
		b.ReportMetric(float64(d[many])/float64(d[few])*few/many, "times-a-port/"+what)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkOneOfManyServices measures a change of one service among many.
func BenchmarkOneOfManyServices(b *testing.B) {
	vpptest.Need(b)
	for _, count := range []int{1, 1_000, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			v := open(b, &site{VPP: vpptest.NewProcess(b, newNamespace(b).NetNS)})
			var values []*contiv_nat.DNat66
			for n := range count {
				m := edit66(service66(fmt.Sprintf("fd96::%x", n+1), 80, 1, 1, 1), toItself66)
				for l := range 7 {
					m.LocalIps = append(m.LocalIps, &local66{LocalIp: fmt.Sprintf("fd10::%x:%x", n+1, l+1), LocalPort: 8080, Probability: 1})
				}
				values = append(values, dnat66Value(fmt.Sprintf("default/service-%d", n), m))
			}
			for part := range slices.Chunk(values, 256) {
				set66(b, v, part...)
			}
			more := dnat66Value("default/one-more", service66("fd97::1", 80, 1, 1))
			less := dnat66Value("default/one-more", service66("fd97::1", 80, 1))
			for b.Loop() {
				set66(b, v, more)
				set66(b, v, less)
				must(b, v.DNAT66().Remove(b.Context(), less))
			}
		})
	}
}
