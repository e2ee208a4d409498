package vpp

import (
	"net/netip"
	"testing"

	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/vswitch/vpp/session"
	"github.com/contiv/contiv/vswitch/vpp/subsystem"
	"go.fd.io/govpp/binapi/classify"
)

// Flows of guarded interfaces can be silenced, so many of each, while the guards stay what they are, also for an agent that
// starts, and nothing is left behind.
func TestSilencedFlows(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("a"), loopback("b"))
		guards := []*guard.SourceGuard{guardOf("a", "10.1.0.2", "fd10::2"), guardOf("b", "10.1.0.3")}
		for _, g := range guards {
			must(t, v.SourceGuards().Create(t.Context(), g))
		}
		tables := func() int {
			t.Helper()
			var all classify.ClassifyTableIdsReply
			must(t, v.vpp.Call(t.Context(), session.Core, &classify.ClassifyTableIds{}, &all))
			return len(all.Ids)
		}
		before := tables()
		flows := func(from, to string, n int) (list []subsystem.Flow) {
			for i := range n {
				list = append(list, subsystem.Flow{From: netip.AddrPortFrom(netip.MustParseAddr(from), uint16(1000+i)), To: netip.MustParseAddrPort(to)})
			}
			return list
		}
		silence := func(wantFlows, wantTables int, list ...[]subsystem.Flow) {
			t.Helper()
			var all []subsystem.Flow
			for _, l := range list {
				all = append(all, l...)
			}
			n, err := v.guards.Silence(t.Context(), all)
			must(t, err)
			if now := tables() - before; n != wantFlows || now != wantTables {
				t.Errorf("%d flows are silenced by %d tables, want %d by %d", n, now, wantFlows, wantTables)
			}
			wantListed(t, v.SourceGuards().List, guards, guards...)
		}
		a4, a6, b4 := flows("10.1.0.2", "10.96.0.10:53", 3), flows("fd10::2", "[fd96::10]:53", 2), flows("10.1.0.3", "10.96.0.10:53", 100)
		silence(3, 1, a4)
		silence(5, 2, a4, a6)
		silence(5, 2, a6, a4, a4)
		silence(66, 2, b4, a6, flows("10.9.0.9", "10.96.0.10:53", 7)) // these have no interface
		must(t, v.Close())
		v = open(t, s)
		silence(66, 2, b4[30:], a6)
		must(t, v.SourceGuards().Create(t.Context(), guards[1])) // silences nothing
		silence(2, 1, a6)
		must(t, v.Interfaces().Delete(t.Context(), loopback("a")))
		if n := tables() - before; n >= 0 {
			t.Errorf("%d tables are left of an interface that is gone", n)
		}
		if n, err := v.guards.Silence(t.Context(), a6); n != 0 || err != nil {
			t.Errorf("flows of an interface that is gone: %d, %v", n, err)
		}
	})
}
