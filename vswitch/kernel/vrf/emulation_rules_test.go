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

func TestRulesBetweenVRFs(t *testing.T) {
	s := newVRFState(unix.AF_INET)
	s.tables = map[uint32]bool{5: true, 6: true, 7: true}
	s.inter = map[InterRoute]uint32{
		{5, netip.MustParsePrefix("0.0.0.0/0")}: 0, {5, netip.MustParsePrefix("10.1.0.0/16")}: 6,
		{0, netip.MustParsePrefix("10.0.0.0/8")}: 6, {0, netip.MustParsePrefix("10.1.2.0/24")}: 7, {6, netip.MustParsePrefix("10.0.0.0/8")}: 7, {6, netip.MustParsePrefix("10.1.0.0/15")}: 5,
	}
	rules := s.render()
	if back := parseVRFs(unix.AF_INET, rules); !maps.Equal(back.inter, s.inter) || !maps.Equal(back.tables, s.tables) {
		t.Errorf("read back as %v and %v", back.inter, back.tables)
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
		"10.1.0.0/16 6", "10.1.0.0/16 unreachable",
		"0.0.0.0/0 local", "0.0.0.0/0 main", "10.1.2.0/24 7", "10.1.2.0/24 unreachable", "10.0.0.0/8 6", "10.0.0.0/8 unreachable",
		"0.0.0.0/0 unreachable",
	}
	if !slices.Equal(block, want) {
		t.Errorf("have %q,\nwant %q", block, want)
	}
}

// With VRF devices, one rule covers all VRFs, the table local follows it, and only guests have
// separate rules.
func TestRulesOfVRFDevices(t *testing.T) {
	for _, family := range ipFamilies {
		s := newVRFState(family)
		s.devices = true
		want := []rtnl.Rule{
			{Family: family, Pref: prefInto, Action: ruleLookup, L3mdev: true, Proto: own.ProtoOurs},
			{Family: family, Pref: prefLocal, Action: ruleLookup, Table: unix.RT_TABLE_LOCAL, Proto: own.ProtoOurs},
		}
		inOrder := func() []rtnl.Rule {
			rules := s.render()
			slices.SortStableFunc(rules, func(a, b rtnl.Rule) int { return cmp.Compare(a.Pref, b.Pref) })
			return rules
		}
		if rules := inOrder(); !slices.Equal(rules, want) {
			t.Errorf("have %v,\nwant %v", rules, want)
		}
		s.guests["eth0"] = 5
		back := parseVRFs(family, inOrder())
		if !back.devices || !maps.Equal(back.guests, s.guests) || back.emulates() {
			t.Errorf("read back as %+v", back)
		}
		for _, r := range inOrder() {
			if !isVRFRule(r) {
				t.Errorf("%v is not recognised as ours", r)
			}
		}
		s.forget("eth0")
		s.devices = false
		if rules := inOrder(); len(rules) > 0 {
			t.Errorf("without VRFs, %v exist", rules)
		}
	}
}
