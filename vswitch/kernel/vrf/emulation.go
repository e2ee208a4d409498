package vrf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/contiv/contiv/netlink/namespace"
	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/vswitch/kernel/own"

	"github.com/contiv/contiv/vswitch"
	"golang.org/x/sys/unix"
)

type emulation struct {
	*own.Host
	vrf vrfDriver
}

// openEmulation reads the state left by an earlier process. It changes nothing.
func openEmulation(host *own.Host) (*emulation, error) {
	v := &emulation{Host: host}
	return v, v.openVRFs()
}

// vrfDriver changes the rules of VRFs: it reads them, edits the result and writes the difference.
// This also completes interrupted changes.
type vrfDriver struct {
	mu    sync.Mutex
	marks sync.Mutex
	// used: rules exist or existed; if not, nothing needs to be read.
	used bool
	last map[int]*ruleState
	// lost holds foreign removals of rules that an edit found and Check has not reported yet.
	lost     []rtnl.Rule
	settling sync.Mutex
}

var ipFamilies = []int{unix.AF_INET, unix.AF_INET6}

func (v *emulation) openVRFs() error {
	v.vrf.last = map[int]*ruleState{}
	for _, family := range ipFamilies {
		s, _, err := v.readVRFs(family)
		if err != nil {
			return err
		}
		v.vrf.last[family] = s
		v.vrf.used = v.vrf.used || !s.empty()
	}
	return nil
}

func (v *emulation) UsesVRFs() bool {
	v.vrf.mu.Lock()
	defer v.vrf.mu.Unlock()
	return v.vrf.used
}

func (v *emulation) readVRFs(family int) (*ruleState, ruleSet, error) {
	rules, err := v.Net.Rules(family)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return newVRFState(family), nil, nil // no policy routing, or no IPv6
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading policy rules: %w", err)
	}
	ours := slices.DeleteFunc(slices.Clone(rules), func(r rtnl.Rule) bool { return !isVRFRule(r) })
	return parseVRFs(family, ours), newRuleSet(rules), nil
}

type ruleSet map[rtnl.Rule]bool

func newRuleSet(rules []rtnl.Rule) ruleSet {
	set := make(ruleSet, len(rules))
	for _, r := range rules {
		set[r] = true
	}
	return set
}

func (have ruleSet) missing(want []rtnl.Rule) []rtnl.Rule {
	return slices.DeleteFunc(slices.Clone(want), func(r rtnl.Rule) bool { return have[r] })
}

// localFirst reports whether the table local precedes the VRFs.
func (have ruleSet) localFirst() bool {
	for r := range have {
		if isLocal(r) && r.Pref <= prefIsolated {
			return true
		}
	}
	return false
}

func (v *emulation) editVRFs(family int, edit func(*ruleState) error) error {
	v.vrf.mu.Lock()
	defer v.vrf.mu.Unlock()
	return v.editVRFsLocked(family, edit)
}

func (v *emulation) editVRFsLocked(family int, edit func(*ruleState) error) error {
	s, have, err := v.readVRFs(family)
	if err != nil {
		return err
	}
	v.vrf.lost = append(v.vrf.lost, have.missing(v.vrf.last[family].render())...)
	if err := edit(s); err != nil {
		return err
	}
	v.vrf.used = v.vrf.used || !s.empty()
	v.vrf.last[family] = s
	err = v.writeRules(family, s.render(), have)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return vswitch.Unsupported("VRFs: this Linux kernel refuses policy rules (%v): it needs the option CONFIG_IP_MULTIPLE_TABLES, "+
			"for IPv6 CONFIG_IPV6_MULTIPLE_TABLES", err)
	}
	return err
}

// writeRules adds the missing rules, referring rules after the rules they refer to, and then
// deletes surplus rules in the opposite order.
func (v *emulation) writeRules(family int, want []rtnl.Rule, have ruleSet) error {
	if err := checkLocal(want, have); err != nil {
		return err
	}
	for _, r := range have.missing(want) {
		if err := v.Net.AddRule(r); err != nil && !rtnl.Exists(err) {
			return fmt.Errorf("adding policy rule %d: %w", r.Pref, err)
		}
	}
	if err := v.moveLocal(family, len(want) > 0, have); err != nil {
		return err
	}
	wanted := newRuleSet(want)
	tooMany := slices.SortedFunc(maps.Keys(have), func(a, b rtnl.Rule) int { return cmp.Compare(a.Pref, b.Pref) })
	for _, r := range tooMany {
		if !isVRFRule(r) || wanted[r] {
			continue
		}
		if err := rtnl.IgnoreGone(v.Net.DelRule(r)); err != nil {
			return fmt.Errorf("deleting policy rule %d: %w", r.Pref, err)
		}
	}
	return nil
}

// No rule can precede the first rule, which looks up the table local. So a copy further down is
// added before the first rule is removed, and the first rule is restored before the copy is
// removed. The table is looked up at all times.

// checkLocal returns an error if another party moved the rule to a conflicting position.
func checkLocal(want []rtnl.Rule, have ruleSet) error {
	if len(want) == 0 {
		return nil
	}
	for r := range have {
		if isLocal(r) && r.Pref != 0 && r.Pref <= prefIsolated {
			return fmt.Errorf("the policy rule %d leads to the table local before VRFs have their turn: move it behind %d", r.Pref, prefIsolated)
		}
	}
	return nil
}

func (v *emulation) moveLocal(family int, away bool, have ruleSet) error {
	first := rtnl.Rule{Family: family, Action: ruleLookup, Table: unix.RT_TABLE_LOCAL, Proto: unix.RTPROT_KERNEL}
	there, ours, others := false, false, false
	for r := range have {
		switch {
		case !isLocal(r):
		case r.Pref == 0:
			there, first = true, r
		case isVRFRule(r):
			ours = true
		default:
			others = true
		}
	}
	switch {
	case away && there:
		if err := rtnl.IgnoreGone(v.Net.DelRule(first)); err != nil {
			return fmt.Errorf("moving the policy rule of the table local to %d: %w", prefLocal, err)
		}
	case !away && ours && !there && !others:
		if err := v.Net.AddRule(first); err != nil && !rtnl.Exists(err) {
			return fmt.Errorf("moving the policy rule of the table local back to 0: %w", err)
		}
	}
	return nil
}

var vrfSysctls = map[int][]string{
	unix.AF_INET:  {"ipv4/fwmark_reflect", "ipv4/tcp_fwmark_accept"},
	unix.AF_INET6: {"ipv6/fwmark_reflect"},
}

func (v *emulation) answerInVRFs(family int) error {
	return v.NS.Run(func() error {
		for _, name := range vrfSysctls[family] {
			if err := namespace.EnsureSysctl(name, "1"); err != nil {
				return err
			}
		}
		return nil
	})
}
