package vrf

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"golang.org/x/sys/unix"
)

// The order of the rules of routes between VRFs is that of the longest match.
func TestRulesBetweenVRFs(t *testing.T) {
	s := newVRFState(unix.AF_INET)
	s.tables = map[uint32]bool{5: true, 6: true, 7: true}
	s.Inter = map[InterRoute]uint32{
		{5, netip.MustParsePrefix("0.0.0.0/0")}: 0, {5, netip.MustParsePrefix("10.1.0.0/16")}: 6,
		{0, netip.MustParsePrefix("10.0.0.0/8")}: 6, {0, netip.MustParsePrefix("10.1.2.0/24")}: 7, {6, netip.MustParsePrefix("10.0.0.0/8")}: 7, {6, netip.MustParsePrefix("10.1.0.0/15")}: 5,
	}
	rules := s.render()
	if back := parseVRFs(unix.AF_INET, rules); !maps.Equal(back.Inter, s.Inter) || !maps.Equal(back.tables, s.tables) {
		t.Errorf("read back as %v and %v", back.Inter, back.tables)
	}
	slices.SortStableFunc(rules, func(a, b rtnl.Rule) int { return cmp.Compare(a.Pref, b.Pref) })
	var block []string
	for _, r := range rules {
		if r.Pref <= blockOf(5) || r.Pref >= blockOf(6) || r.Pref == blockOf(5)+blockEnd {
			continue
		}
		to := map[uint32]string{unix.RT_TABLE_LOCAL: "local", unix.RT_TABLE_MAIN: "main", own.TableOf(6): "6", own.TableOf(7): "7", 0: "unreachable"}[r.Table]
		block = append(block, s.networkOf(r).String()+" "+to)
	}
	want := []string{
		// From VRF 6 it would go back to VRF 5.
		"10.1.0.0/16 6", "10.1.0.0/16 unreachable",
		"0.0.0.0/0 local", "0.0.0.0/0 main", "10.1.2.0/24 7", "10.1.2.0/24 unreachable", "10.0.0.0/8 6", "10.0.0.0/8 unreachable",
		"0.0.0.0/0 unreachable",
	}
	if !slices.Equal(block, want) {
		t.Errorf("have %q,\nwant %q", block, want)
	}
}
