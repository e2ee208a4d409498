package subsystem

import (
	"net/netip"
	"slices"
	"testing"
)

// Silenced flows stay silenced when flows before them in order appear; when one moves, the next
// follows.
func TestFirstFlows(t *testing.T) {
	flow := func(port uint16) Flow {
		return Flow{From: netip.AddrPortFrom(netip.MustParseAddr("10.1.1.2"), port), To: netip.MustParseAddrPort("10.96.0.10:53")}
	}
	tcp := flow(1)
	tcp.TCP = true
	silent := map[Flow]bool{}
	for _, step := range []struct{ flows, want []Flow }{
		{[]Flow{flow(7), flow(5), flow(7), flow(9)}, []Flow{flow(5), flow(7)}},
		{[]Flow{flow(9), flow(7), flow(5), flow(1), tcp}, []Flow{flow(5), flow(7)}},
		{[]Flow{flow(9), flow(7), flow(1), tcp}, []Flow{flow(1), flow(7)}},
		{[]Flow{flow(9), tcp}, []Flow{flow(9), tcp}},
		{[]Flow{tcp}, []Flow{tcp}},
		{nil, nil},
	} {
		got := FirstFlows(step.flows, 2, func(f Flow) bool { return silent[f] })
		if !slices.Equal(got, step.want) {
			t.Errorf("of %v, with %v silent: %v, want %v", step.flows, silent, got, step.want)
		}
		clear(silent)
		for _, f := range got {
			silent[f] = true
		}
	}
}
