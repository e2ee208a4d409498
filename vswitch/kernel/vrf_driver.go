package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/contiv/contiv/vswitch"
	"golang.org/x/sys/unix"
)

// vrfDriver changes the rules of VRFs: it reads what there is, edits that, and
// writes what differs. What was left half-done is completed on the way.
type vrfDriver struct {
	mu sync.Mutex
	// marks is held while marks are written.
	marks sync.Mutex
	// used: there are or were rules; if not, nothing needs to be read.
	used bool
	// last is the state by IP version as we left it.
	last map[int]*vrfState
	// lost are rules that others removed, as an edit found out; not reported yet.
	lost []rule
	// settling is held while the routes of addresses are changed.
	settling sync.Mutex
}

var ipFamilies = []int{unix.AF_INET, unix.AF_INET6}

// openVRFs finds out what an earlier process left.
func (v *VSwitch) openVRFs() error {
	v.vrf.last = map[int]*vrfState{}
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

// usesVRFs tells if there may be a VRF other than 0.
func (v *VSwitch) usesVRFs() bool {
	v.vrf.mu.Lock()
	defer v.vrf.mu.Unlock()
	return v.vrf.used
}

// readVRFs returns the state, and all rules of the IP version.
func (v *VSwitch) readVRFs(family int) (*vrfState, ruleSet, error) {
	rules, err := v.raw.rules(family)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return newVRFState(family), nil, nil // no policy routing, or no IPv6
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading policy rules: %w", err)
	}
	ours := slices.DeleteFunc(slices.Clone(rules), func(r rule) bool { return !r.isVRFRule() })
	return parseVRFs(family, ours), newRuleSet(rules), nil
}

// ruleSet is what rules there are.
type ruleSet map[rule]bool

func newRuleSet(rules []rule) ruleSet {
	set := make(ruleSet, len(rules))
	for _, r := range rules {
		set[r] = true
	}
	return set
}

// missing returns the wanted rules that are not there.
func (have ruleSet) missing(want []rule) []rule {
	return slices.DeleteFunc(slices.Clone(want), func(r rule) bool { return have[r] })
}

// localFirst tells if addresses of VRF 0 are looked for before VRFs have their turn.
func (have ruleSet) localFirst() bool {
	for r := range have {
		if r.isLocal() && r.pref <= prefIsolated {
			return true
		}
	}
	return false
}

// editVRFs changes the rules of one IP version. edit may refuse.
func (v *VSwitch) editVRFs(family int, edit func(*vrfState) error) error {
	v.vrf.mu.Lock()
	defer v.vrf.mu.Unlock()
	return v.editVRFsLocked(family, edit)
}

func (v *VSwitch) editVRFsLocked(family int, edit func(*vrfState) error) error {
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

// writeRules adds what is missing, that which leads to others last, and then deletes
// what is too much, that which leads to others first.
func (v *VSwitch) writeRules(family int, want []rule, have ruleSet) error {
	if err := checkLocal(want, have); err != nil {
		return err
	}
	for _, r := range have.missing(want) {
		if err := v.raw.addRule(r); err != nil && !exists(err) {
			return fmt.Errorf("adding policy rule %d: %w", r.pref, err)
		}
	}
	if err := v.moveLocal(family, len(want) > 0, have); err != nil {
		return err
	}
	wanted := newRuleSet(want)
	tooMany := slices.SortedFunc(maps.Keys(have), func(a, b rule) int { return cmp.Compare(a.pref, b.pref) })
	for _, r := range tooMany {
		if !r.isVRFRule() || wanted[r] {
			continue
		}
		if err := ignoreGone(v.raw.delRule(r)); err != nil {
			return fmt.Errorf("deleting policy rule %d: %w", r.pref, err)
		}
	}
	return nil
}

// The rule of the table local is the first one, and nothing can be put before it:
// so there is another one further on before it goes, and it comes back before that
// other one goes. Nobody misses it meanwhile.

// checkLocal refuses to go on if somebody else has already moved it to where it is in
// the way.
func checkLocal(want []rule, have ruleSet) error {
	if len(want) == 0 {
		return nil
	}
	for r := range have {
		if r.isLocal() && r.pref != 0 && r.pref <= prefIsolated {
			return fmt.Errorf("the policy rule %d leads to the table local before VRFs have their turn: move it behind %d", r.pref, prefIsolated)
		}
	}
	return nil
}

// moveLocal removes the first rule, or brings it back.
func (v *VSwitch) moveLocal(family int, away bool, have ruleSet) error {
	first := rule{family: family, action: ruleLookup, table: unix.RT_TABLE_LOCAL, proto: unix.RTPROT_KERNEL}
	there, ours, others := false, false, false
	for r := range have {
		switch {
		case !r.isLocal():
		case r.pref == 0:
			there, first = true, r
		case r.isVRFRule():
			ours = true
		default:
			others = true
		}
	}
	switch {
	case away && there:
		if err := ignoreGone(v.raw.delRule(first)); err != nil {
			return fmt.Errorf("moving the policy rule of the table local to %d: %w", prefLocal, err)
		}
	case !away && ours && !there && !others:
		if err := v.raw.addRule(first); err != nil && !exists(err) {
			return fmt.Errorf("moving the policy rule of the table local back to 0: %w", err)
		}
	}
	return nil
}

// vrfSysctls make what the node itself answers go where the question came from.
var vrfSysctls = map[int][]string{
	unix.AF_INET:  {"ipv4/fwmark_reflect", "ipv4/tcp_fwmark_accept"},
	unix.AF_INET6: {"ipv6/fwmark_reflect"},
}

func (v *VSwitch) answerInVRFs(family int) error {
	return v.ns.run(func() error {
		for _, name := range vrfSysctls[family] {
			if err := ensureSysctl(name, "1"); err != nil {
				return err
			}
		}
		return nil
	})
}
