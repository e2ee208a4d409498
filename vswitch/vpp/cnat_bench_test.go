package vpp

import (
	"fmt"
	"slices"
	"testing"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/vswitch/vpp/vpptest"
)

// BenchmarkServices66: 1 000 services of IPv6 with three ports and three local addresses
// each, on a VPP with some interfaces.
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
