package vrf

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"golang.org/x/sys/unix"
)

// One rule covers all VRFs, the table local follows it, and only guests have
// separate rules.
func TestRulesOfVRFDevices(t *testing.T) {
	for _, family := range ipFamilies {
		s := newRuleState(family)
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
		back := parseRules(family, inOrder())
		if !back.devices || !maps.Equal(back.guests, s.guests) {
			t.Errorf("read back as %+v", back)
		}
		for _, r := range inOrder() {
			if !isOurRule(r) {
				t.Errorf("%v is not recognised as ours", r)
			}
		}
		delete(s.guests, "eth0")
		s.devices = false
		if rules := inOrder(); len(rules) > 0 {
			t.Errorf("without VRFs, %v exist", rules)
		}
	}
}
