package vpp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/acl"
	"go.fd.io/govpp/binapi/classify"
)

type frontend = guard.SourceRanges_Frontend

func balancer(addr string, protocol guard.SourceRanges_Protocol, sources ...string) *frontend {
	return &frontend{Address: addr, Port: 80, Protocol: protocol, Sources: sources}
}

const (
	overTCP = guard.SourceRanges_TCP
	overUDP = guard.SourceRanges_UDP
)

// Source ranges are tables of the affected guards, including later and changed ones and next to
// silenced flows. A restarted agent finds them, and nothing is left behind.
func TestSourceRanges(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("a"), loopback("b"))
		a, b := guardOf("a", "10.1.0.2", "fd10::2"), guardOf("b", "10.1.0.3")
		must(t, v.SourceGuards().Create(t.Context(), a))
		before := tablesOf(t, v)
		guards := []*guard.SourceGuard{a}
		wantTables := func(when string, more int, want ...*guard.SourceRanges) {
			t.Helper()
			if now := tablesOf(t, v) - before*len(guards); now != more {
				t.Errorf("%s: %d tables more than the guards have by themselves, want %d", when, now, more)
			}
			wantListed(t, v.SourceRanges().List, want, want...)
			wantListed(t, v.SourceGuards().List, guards, guards...)
		}
		set := func(frontends ...*frontend) *guard.SourceRanges {
			t.Helper()
			value := &guard.SourceRanges{Frontends: frontends}
			must(t, v.SourceRanges().Create(t.Context(), value))
			return value
		}
		wantTables("without", 0)
		value := set(balancer("203.0.113.1", overTCP, "10.1.0.0/24", "192.0.2.0/24"))
		wantTables("where all may", 0, value)
		value = set(balancer("203.0.113.1", overTCP, "192.0.2.0/24"))
		wantTables("of IPv4", 1, value)
		flow := subsystem.Flow{From: netip.MustParseAddrPort("10.1.0.2:1000"), To: netip.MustParseAddrPort("10.96.0.10:53")}
		silence := func(flows ...subsystem.Flow) {
			t.Helper()
			if n, err := v.guards.Silence(t.Context(), flows); n != len(flows) || err != nil {
				t.Errorf("%d flows are silenced (%v), want %d", n, err, len(flows))
			}
		}
		silence(flow)
		wantTables("with a silenced flow", 2, value)
		value = set(balancer("203.0.113.1", overTCP, "192.0.2.0/24"), balancer("203.0.113.1", overUDP), balancer("fd99::1", overTCP, "fd98::/64"))
		wantTables("of both IP versions and protocols", 4, value)
		must(t, v.Close())
		v = open(t, s)
		wantTables("of a restarted agent", 4, value)
		silence()
		wantTables("without a silenced flow", 3, value)

		must(t, v.SourceGuards().Create(t.Context(), b))
		guards = append(guards, b)
		wantTables("of another guard", 3+3, value) // plus a link-local address
		guards[1] = guardOf("b", "192.0.2.3", "fd98::3")
		must(t, v.SourceGuards().Create(t.Context(), guards[1]))
		wantTables("with an address in a range", 3+2, value) // UDP has no range, and the link-local address is in none
		must(t, v.Interfaces().Delete(t.Context(), loopback("b")))
		must(t, v.SourceGuards().Delete(t.Context(), guards[1]))
		guards = guards[:1]
		wantTables("without the other guard", 3, value)
		value = set(balancer("fd99::1", overTCP))
		wantTables("of IPv6", 1, value)
		must(t, v.SourceRanges().Delete(t.Context(), value))
		wantTables("after the deletion", 0)
		must(t, v.SourceRanges().Delete(t.Context(), value))
	})
}

// Without a guard, the ranges of an interface have separate tables. A guard can be added later.
func TestSourceRangesWithoutAGuard(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		value := &guard.SourceRanges{Interface: "host", Frontends: []*frontend{
			balancer("203.0.113.1", overTCP, "192.0.2.0/24", "192.0.3.0/28"), balancer("fd99::1", overUDP), balancer("fd99::2", overUDP),
		}}
		// Two prefix lengths, TCP and other IPv4, UDP and other IPv6, ARP.
		const tables = 2 + 2 + 2 + 1
		wantTables := func(when string, want int) {
			t.Helper()
			if now := tablesOf(t, v); now != want {
				t.Errorf("%s: %d tables, want %d", when, now, want)
			}
		}
		must(t, v.SourceRanges().Create(t.Context(), value))
		wantListed(t, v.SourceRanges().List, []*guard.SourceRanges{value}, value)
		wantTables("without the interface", 0)
		create(t, v, loopback("host"), loopback("another"))
		wantTables("with it", tables)
		must(t, v.Interfaces().Delete(t.Context(), loopback("host")))
		wantTables("without it again", 0)
		create(t, v, loopback("host"))
		must(t, v.Close())
		v = open(t, s)
		wantListed(t, v.SourceRanges().List, []*guard.SourceRanges{value}, value)
		wantTables("of a restarted agent", tables)
		removeEntry(t, v)
		wantListed(t, v.SourceRanges().List, []*guard.SourceRanges{value}, &guard.SourceRanges{})
		must(t, v.SourceRanges().Create(t.Context(), value))
		wantListed(t, v.SourceRanges().List, []*guard.SourceRanges{value}, value)
		wantTables("after a repair", tables)

		value.Frontends = value.Frontends[1:]
		must(t, v.SourceRanges().Create(t.Context(), value))
		wantTables("of IPv6", 1+2+1)
		value.Interface = "another"
		must(t, v.SourceRanges().Create(t.Context(), value))
		wantListed(t, v.SourceRanges().List, []*guard.SourceRanges{value}, value)
		wantTables("of another interface", 1+2+1)
		g := guardOf("another", "10.1.0.2")
		must(t, v.SourceGuards().Create(t.Context(), g))
		wantListed(t, v.SourceRanges().List, []*guard.SourceRanges{value}, value)
		must(t, v.SourceGuards().Delete(t.Context(), g))
		wantListed(t, v.SourceRanges().List, []*guard.SourceRanges{value}, &guard.SourceRanges{})
		must(t, v.SourceRanges().Create(t.Context(), value))
		removeEntry(t, v)
		must(t, v.Close())
		v = open(t, s)
		wantListed(t, v.SourceRanges().List, nil, &guard.SourceRanges{})
		must(t, v.SourceRanges().Delete(t.Context(), value))
		wantListed(t, v.SourceRanges().List, nil)
		wantTables("after the deletion", 0)
	})
}

// If the record of an unguarded interface's tables is deleted, the tables are found and recreated
// or deleted.
func TestSourceRangesWithoutTheirRecord(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("host"), loopback("another"), loopback("pod"))
		value := &guard.SourceRanges{Interface: "host", Frontends: []*frontend{balancer("203.0.113.1", overTCP, "192.0.2.0/24")}}
		must(t, v.SourceRanges().Create(t.Context(), value))
		tables := tablesOf(t, v)
		wantTables := func(when string, want int) {
			t.Helper()
			if now := tablesOf(t, v); now != want {
				t.Errorf("%s: %d tables, want %d", when, now, want)
			}
		}
		forgotten := func(tag string) {
			t.Helper()
			removeList(t, v, tag)
			must(t, v.Close())
			v = open(t, s)
		}
		removeList(t, v, "contiv-source-ranges/host")
		wantListed(t, v.SourceRanges().List, []*guard.SourceRanges{value}, &guard.SourceRanges{})
		must(t, v.SourceRanges().Create(t.Context(), value))
		wantListed(t, v.SourceRanges().List, []*guard.SourceRanges{value}, value)
		wantTables("made anew", tables)

		forgotten("contiv-source-ranges/host")
		value.Interface = "another"
		must(t, v.SourceRanges().Create(t.Context(), value))
		wantListed(t, v.SourceRanges().List, []*guard.SourceRanges{value}, value)
		wantTables("of another interface", tables)

		forgotten("contiv-source-ranges/another")
		wantListed(t, v.SourceRanges().List, nil, &guard.SourceRanges{})
		must(t, v.SourceRanges().Delete(t.Context(), value))
		wantListed(t, v.SourceRanges().List, nil)
		wantTables("gone", 0)

		must(t, v.SourceGuards().Create(t.Context(), guardOf("pod", "10.1.0.2")))
		guarded := tablesOf(t, v)
		forgotten("contiv-guard/pod")
		wantListed(t, v.SourceRanges().List, nil)
		wantTables("of a guard", guarded)
	})
}

func removeList(t *testing.T, v *VSwitch, tag string) {
	t.Helper()
	all, err := session.Dump[acl.ACLDetails](t.Context(), v.vpp, session.Core, &acl.ACLDump{ACLIndex: ^uint32(0)})
	must(t, err)
	for _, l := range all {
		if l.Tag == tag {
			must(t, v.vpp.Call(t.Context(), session.Core, &acl.ACLDel{ACLIndex: l.ACLIndex}, &acl.ACLDelReply{}))
			return
		}
	}
	t.Fatalf("no list has the tag %s", tag)
}

// A change of ranges changes only the affected entries.
func TestChangesOfSourceRanges(t *testing.T) {
	server := vpptest.New(t)
	v := open(t, &site{VPP: server, server: server})
	var guards []*guard.SourceGuard
	for i := range 5 {
		name := fmt.Sprint("pod", i)
		create(t, v, loopback(name))
		guards = append(guards, guardOf(name, fmt.Sprint("10.1.0.", 2+i)))
		must(t, v.SourceGuards().Create(t.Context(), guards[i]))
	}
	value := &guard.SourceRanges{Frontends: []*frontend{balancer("203.0.113.1", overTCP, "192.0.2.0/24"), balancer("203.0.113.2", overTCP, "192.0.2.0/24"), balancer("203.0.113.2", overUDP)}}
	must(t, v.SourceRanges().Create(t.Context(), value))
	value.Frontends[1].Sources = []string{"10.1.0.4/32", "192.0.2.0/24", "192.0.3.0/24"}
	var changed []string
	server.Inject(func(_ int, req api.Message) vpptest.Fault {
		switch m := req.(type) {
		case *classify.ClassifyAddDelSession:
			changed = append(changed, fmt.Sprintf("%v %x", m.IsAdd, m.Match[26:38]))
		case *classify.ClassifyAddDelTable:
			changed = append(changed, "table")
		}
		return vpptest.NoFault
	})
	must(t, v.SourceRanges().Create(t.Context(), value))
	if want := []string{"false 0a010004cb00710200000050"}; !slices.Equal(changed, want) {
		t.Errorf("changed %v, want %v", changed, want)
	}
	changed = nil
	wantListed(t, v.SourceRanges().List, []*guard.SourceRanges{value}, value)
	wantListed(t, v.SourceGuards().List, guards, guards...)
	if len(changed) > 0 {
		t.Errorf("reading changes %v", changed)
	}
}

// Foreign changes and the remains of an interrupted agent are found and repaired.
func TestDamagedSourceRanges(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("a"))
		g := guardOf("a", "10.1.0.2")
		must(t, v.SourceGuards().Create(t.Context(), g))
		value := &guard.SourceRanges{Frontends: []*frontend{balancer("203.0.113.1", overUDP), balancer("203.0.113.2", overUDP)}}
		must(t, v.SourceRanges().Create(t.Context(), value))
		whole := tablesOf(t, v)
		repaired := func(what string) {
			t.Helper()
			wantListed(t, v.SourceRanges().List, []*guard.SourceRanges{value}, &guard.SourceRanges{})
			must(t, v.SourceRanges().Create(t.Context(), value))
			wantListed(t, v.SourceRanges().List, []*guard.SourceRanges{value}, value)
			wantListed(t, v.SourceGuards().List, []*guard.SourceGuard{g}, g)
			if now := tablesOf(t, v); now != whole {
				t.Errorf("%s: %d tables, want %d", what, now, whole)
			}
		}
		removeEntry(t, v)
		repaired("an entry was removed")
		copyNewestTable(t, v)
		repaired("a table was copied")
		copyNewestTable(t, v)
		must(t, v.Close())
		v = open(t, s)
		repaired("an agent was interrupted")
		must(t, v.SourceRanges().Delete(t.Context(), value))
		must(t, v.SourceGuards().Delete(t.Context(), g))
		if now := tablesOf(t, v); now != 0 {
			t.Errorf("%d tables are left", now)
		}
	})
}

func removeEntry(t *testing.T, v *VSwitch) {
	t.Helper()
	var all classify.ClassifyTableIdsReply
	must(t, v.vpp.Call(t.Context(), session.Core, &classify.ClassifyTableIds{}, &all))
	slices.Sort(all.Ids)
	for _, id := range slices.Backward(all.Ids) {
		var info classify.ClassifyTableInfoReply
		must(t, v.vpp.Call(t.Context(), session.Core, &classify.ClassifyTableInfo{TableID: id}, &info))
		entries, err := session.Dump[classify.ClassifySessionDetails](t.Context(), v.vpp, session.Core, &classify.ClassifySessionDump{TableID: id})
		must(t, err)
		if len(entries) > 1 {
			match := append(make([]byte, info.SkipNVectors*16), entries[0].Match...)
			must(t, v.vpp.Call(t.Context(), session.Core, &classify.ClassifyAddDelSession{TableIndex: id, Match: match}, &classify.ClassifyAddDelSessionReply{}))
			return
		}
	}
	t.Fatal("no table has two entries")
}

func TestTooManySourceRangesAreUnsupported(t *testing.T) {
	server := vpptest.New(t)
	v := open(t, &site{VPP: server, server: server})
	var frontends []*frontend
	for i := range models.MaxRestrictedFrontends + 1 {
		frontends = append(frontends, balancer(fmt.Sprintf("203.0.%d.%d", i/256, i%256), overTCP))
	}
	var sources []string
	for i := range models.MaxRestrictingRules {
		sources = append(sources, fmt.Sprintf("10.%d.%d.0/24", i/256, i%256))
	}
	for what, list := range map[string][]*frontend{"frontends": frontends, "sources": {balancer("203.0.113.1", overTCP, sources...)}} {
		err := v.SourceRanges().Create(t.Context(), &guard.SourceRanges{Frontends: list})
		if !errors.Is(err, kvscheduler.ErrUnsupported) || !strings.Contains(err.Error(), what+": ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The maximum of ranges fits.
func TestMostSourceRanges(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, loopback("a"), loopback("host"))
		must(t, v.SourceGuards().Create(t.Context(), guardOf("a", "192.0.2.2", "fd10::2")))
		set := func(what, network string, frontends, sources int) {
			t.Helper()
			value := &guard.SourceRanges{Interface: "host"}
			for i := range frontends {
				value.Frontends = append(value.Frontends, balancer(fmt.Sprintf("%s%x", network, i), overTCP))
			}
			for i := range sources {
				f := value.Frontends[i%frontends]
				f.Sources = append(f.Sources, fmt.Sprintf("fd98:%x::/%d", i, 32+i%16))
			}
			must(t, v.SourceRanges().Create(t.Context(), value))
			if found, err := v.SourceRanges().List(t.Context(), []*guard.SourceRanges{value}); err != nil || len(found) != 1 ||
				!slices.EqualFunc(vswitch.RestrictedFrontends(found[0]), vswitch.RestrictedFrontends(value), vswitch.RestrictedFrontend.Equal) {
				t.Errorf("%s: %v, or others are in force", what, err)
			}
		}
		set("the most frontends", "fd99::", models.MaxRestrictedFrontends, 0)
		set("others", "fd97::", models.MaxRestrictedFrontends, 0)
		set("the most ranges", "fd97::", models.MaxRestrictedFrontends, models.MaxRestrictingRules-models.MaxRestrictedFrontends)
		must(t, v.SourceRanges().Delete(t.Context(), nil))
	})
}
