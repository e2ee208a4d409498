package vpp

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/contiv/contiv/api/contiv/guard"
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/test/await"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/classify"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/vlib"
)

// Flows of guarded interfaces can be silenced, up to the limit per interface, without changing the
// guards, also for a restarted agent, and nothing is left behind.
func TestSilencedFlows(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("a"), loopback("b"))
		guards := []*guard.SourceGuard{guardOf("a", "10.1.0.2", "fd10::2"), guardOf("b", "10.1.0.3")}
		for _, g := range guards {
			must(t, v.SourceGuards().Create(t.Context(), g))
		}
		tables := func() int { return tablesOf(t, v) }
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
		silence(66, 2, b4, a6, flows("10.9.0.9", "10.96.0.10:53", 7)) // no interface for these
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

func tablesOf(t testing.TB, v *VSwitch) int {
	t.Helper()
	var all classify.ClassifyTableIdsReply
	must(t, v.vpp.Call(t.Context(), session.Core, &classify.ClassifyTableIds{}, &all))
	return len(all.Ids)
}

// Exactly the UDP flows with sessions to a removed backend are silenced: pods' flows where they
// enter, external clients' on outside interfaces.
func TestFlowsAreSilencedWhileTheirBackendIsGone(t *testing.T) {
	server := vpptest.New(t)
	v := open(t, &site{VPP: server, server: server})
	create(t, v, loopback("a"), loopback("uplink"))
	must(t, v.SourceGuards().Create(t.Context(), guardOf("a", "fd10::9")))
	must(t, v.ServiceNetworks().Create(t.Context(), aNetwork))
	backends := func(weights ...uint32) *contiv_nat.DNat66 {
		return dnat66Value("default/log", edit66(service66("fd96::1", 80, weights...), func(m *mapping66) { m.Protocol = contiv_nat.DNat66_UDP }), service66("fd96::1", 80, weights...))
	}
	before := tablesOf(t, v)
	const inside, outside = 0, 0xff
	sessionOf := func(from, to string, location uint8, proto ip_types.IPProto) cnat.CnatSession {
		end := func(text string) cnat.CnatEndpoint { return cnatEndpoint(netip.MustParseAddrPort(text)) }
		return cnat.CnatSession{Src: end(from), Dst: end("[fd96::1]:80"), New: end(to), IPProto: proto, Location: location}
	}
	const udp, tcp = ip_types.IP_API_PROTO_UDP, ip_types.IP_API_PROTO_TCP
	sessions := func(ofUDP string) {
		server.SetCNATSessions(
			sessionOf("[fd10::9]:514", ofUDP, inside, udp), sessionOf("[fd99::9]:514", ofUDP, outside, udp), sessionOf("[fd99::8]:514", ofUDP, outside, udp),
			sessionOf("[fd10::9]:515", "[fd10::1]:8080", inside, udp), sessionOf("[fd10::9]:516", "[fd10::2]:8080", inside, tcp), sessionOf("[fd99::9]:516", "[fd10::2]:8080", outside, tcp),
		)
	}
	silenced := func(want map[uint32]int, when string) {
		t.Helper()
		await.That(t, when, func() error {
			now := map[uint32]int{}
			var all classify.ClassifyTableIdsReply
			must(t, v.vpp.Call(t.Context(), session.Core, &classify.ClassifyTableIds{}, &all))
			for _, id := range all.Ids[min(before, len(all.Ids)):] {
				entries, err := session.Dump[classify.ClassifySessionDetails](t.Context(), v.vpp, session.Core, &classify.ClassifySessionDump{TableID: id})
				must(t, err)
				for _, e := range entries {
					now[e.OpaqueIndex>>28]++
				}
			}
			if !maps.Equal(now, want) {
				return fmt.Errorf("entries by owner: %v, want %v", now, want)
			}
			return nil
		})
	}
	const ofGuards, ofServices = 4, 5
	set66(t, v, backends(1, 1))
	sessions("[fd10::2]:8080")
	set66(t, v, backends(1))
	silenced(map[uint32]int{ofGuards: 1, ofServices: 2}, "flows to the backend that is gone are silent")
	must(t, v.Interfaces().Delete(t.Context(), loopback("uplink")))
	silenced(map[uint32]int{ofGuards: 1}, "nothing is left of an interface that is gone")
	sessions("[fd10::1]:8080")
	silenced(map[uint32]int{}, "flows that have moved are not silent")
}

// A UDP flow of a deleted service leaves its backend when another service gets the address.
func TestFlowsToAnAddressOfAnotherServiceAreSilenced(t *testing.T) {
	server := vpptest.New(t)
	var looked atomic.Int32 // after flows that have to move
	server.Inject(func(_ int, req api.Message) vpptest.Fault {
		if c, ok := req.(*vlib.CliInband); ok && c.Cmd == "show cnat timestamp" {
			looked.Add(1)
		}
		return vpptest.NoFault
	})
	v := open(t, &site{VPP: server, server: server})
	wantLooked := func(n int32, when string) {
		t.Helper()
		await.That(t, when, func() error {
			if now := looked.Load(); now != n {
				return fmt.Errorf("%d times, want %d", now, n)
			}
			return nil
		})
	}
	create(t, v, loopback("a"), loopback("uplink"))
	wantLooked(1, "an agent that starts looks for flows")
	must(t, v.ServiceNetworks().Create(t.Context(), aNetwork))
	wantLooked(2, "so does one that learns which interfaces are outside")
	must(t, v.SourceGuards().Create(t.Context(), guardOf("a", "fd10::9")))
	before := tablesOf(t, v)
	end := func(text string) cnat.CnatEndpoint { return cnatEndpoint(netip.MustParseAddrPort(text)) }
	server.SetCNATSessions(cnat.CnatSession{Src: end("[fd10::9]:514"), Dst: end("[fd96::1]:80"), New: end("[fd10::7]:8080"), IPProto: ip_types.IP_API_PROTO_UDP})
	set66(t, v, dnat66Value("default/log", edit66(service66("fd96::1", 80, 1), func(m *mapping66) { m.Protocol = contiv_nat.DNat66_UDP })))
	await.That(t, "the flow is silent", func() error {
		if tablesOf(t, v) == before {
			return errors.New("no table")
		}
		return nil
	})
}

// An interrupted agent may leave silencing tables next to the used ones: the guard is unchanged,
// and the next silencing replaces them all.
func TestSilenceThatWasInterrupted(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("a"))
		g := guardOf("a", "10.1.0.2")
		must(t, v.SourceGuards().Create(t.Context(), g))
		before := tablesOf(t, v)
		flow := subsystem.Flow{From: netip.MustParseAddrPort("10.1.0.2:1000"), To: netip.MustParseAddrPort("10.96.0.10:53")}
		_, err := v.guards.Silence(t.Context(), []subsystem.Flow{flow})
		must(t, err)
		copyNewestTable(t, v)
		must(t, v.Close())
		v = open(t, s)
		wantListed(t, v.SourceGuards().List, []*guard.SourceGuard{g}, g)
		n, err := v.guards.Silence(t.Context(), []subsystem.Flow{flow})
		must(t, err)
		if now := tablesOf(t, v) - before; n != 1 || now != 1 {
			t.Errorf("%d flows are silenced by %d tables, want 1 by 1", n, now)
		}
		_, err = v.guards.Silence(t.Context(), nil)
		must(t, err)
		if now := tablesOf(t, v) - before; now != 0 {
			t.Errorf("%d tables are left", now)
		}
	})
}

// Unknown guards, such as another version's, stay until each is recreated: VPP would crash at the
// next packet for a deleted table.
func TestUnknownGuardsKeepTheirTables(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("a"), loopback("b"))
		a, b := guardOf("a", "10.1.0.2"), guardOf("b", "10.1.0.3")
		must(t, v.SourceGuards().Create(t.Context(), a))
		copyNewestTable(t, v)
		must(t, v.SourceGuards().Create(t.Context(), b))
		copyNewestTable(t, v)
		before := tablesOf(t, v)
		must(t, v.Close())
		v = open(t, s)
		unknown := []*guard.SourceGuard{{Interface: "a", IpAddresses: a.IpAddresses}, {Interface: "b", IpAddresses: b.IpAddresses}}
		wantListed(t, v.SourceGuards().List, []*guard.SourceGuard{a, b}, unknown...)
		must(t, v.SourceGuards().Create(t.Context(), a))
		if now := tablesOf(t, v); now != before-1 {
			t.Errorf("%d of %d tables are left, want all but the one that \"a\" does not need", now, before)
		}
		must(t, v.Interfaces().Delete(t.Context(), loopback("b")))
		must(t, v.SourceGuards().Delete(t.Context(), b))
		must(t, v.SourceGuards().Delete(t.Context(), a))
		if now := tablesOf(t, v); now != 0 {
			t.Errorf("%d tables are left", now)
		}
	})
}

func copyNewestTable(t *testing.T, v *VSwitch) {
	t.Helper()
	var all classify.ClassifyTableIdsReply
	must(t, v.vpp.Call(t.Context(), session.Core, &classify.ClassifyTableIds{}, &all))
	id := slices.Max(all.Ids)
	var info classify.ClassifyTableInfoReply
	must(t, v.vpp.Call(t.Context(), session.Core, &classify.ClassifyTableInfo{TableID: id}, &info))
	entries, err := session.Dump[classify.ClassifySessionDetails](t.Context(), v.vpp, session.Core, &classify.ClassifySessionDump{TableID: id})
	must(t, err)
	var made classify.ClassifyAddDelTableReply
	must(t, v.vpp.Call(t.Context(), session.Core, &classify.ClassifyAddDelTable{
		IsAdd: true, TableIndex: ^uint32(0), Nbuckets: 8, MemorySize: 1 << 20, SkipNVectors: info.SkipNVectors, MatchNVectors: info.MatchNVectors,
		NextTableIndex: info.NextTableIndex, MissNextIndex: info.MissNextIndex, Mask: info.Mask,
	}, &made))
	for _, e := range entries {
		match := append(make([]byte, info.SkipNVectors*16), e.Match...)
		must(t, v.vpp.Call(t.Context(), session.Core, &classify.ClassifyAddDelSession{
			IsAdd: true, TableIndex: made.NewTableIndex, HitNextIndex: e.HitNextIndex, OpaqueIndex: e.OpaqueIndex, Match: match,
		}, &classify.ClassifyAddDelSessionReply{}))
	}
}

// A restarted agent does not know which interfaces are outside when one is deleted.
func TestNothingSilencesTheNextInterface(t *testing.T) {
	server := vpptest.New(t)
	s := &site{VPP: server, server: server}
	v := open(t, s)
	create(t, v, loopback("uplink"))
	must(t, v.ServiceNetworks().Create(t.Context(), aNetwork))
	value := func(weights ...uint32) *contiv_nat.DNat66 {
		return dnat66Value("default/log", edit66(service66("fd96::1", 80, weights...), func(m *mapping66) { m.Protocol = contiv_nat.DNat66_UDP }))
	}
	set66(t, v, value(1, 1))
	end := func(text string) cnat.CnatEndpoint { return cnatEndpoint(netip.MustParseAddrPort(text)) }
	server.SetCNATSessions(cnat.CnatSession{
		Src: end("[fd99::9]:514"), Dst: end("[fd96::1]:80"), New: end("[fd10::2]:8080"), IPProto: ip_types.IP_API_PROTO_UDP, Location: 0xff,
	})
	before := tablesOf(t, v)
	set66(t, v, value(1))
	await.That(t, "the flow is silent", func() error {
		if tablesOf(t, v) == before {
			return errors.New("no table")
		}
		return nil
	})
	must(t, v.Close())
	v = open(t, s)
	must(t, v.Interfaces().Delete(t.Context(), loopback("uplink")))
	if n := tablesOf(t, v) - before; n != 0 {
		t.Errorf("%d tables are left of an interface that is gone", n)
	}
}
