package vrf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/kvscheduler"
	"golang.org/x/sys/unix"
)

// The policy rules of one IP version, with the guest eth0 (guests.go) in VRF 5:
//
//	80..82      to fe80::/10 lookup local, main; to ff00::/8 lookup local    IPv6, with guests
//	90          lookup [l3mdev-table]             all VRF devices
//	90          iif eth0, oif eth0, fwmark 0x79000005 lookup 121000005
//	100         lookup local                      moved from preference 0
//
// The input device (iif), the device that a socket is bound to (oif), or for the node's replies the
// mark of the request (marks.go) lead the packets of a guest to its VRF.

const (
	prefLinkLocal = 80
	prefMulticast = 82
	prefInto      = 90
	prefLocal     = 100
)

// Actions of rules.
const ruleLookup = 1

// Marks of packets in a VRF. Other software may use the bits between.
const (
	mark        = 0x79000000
	vrfMarkMask = 0xff000000 | own.MaxVRF
)

var ipFamilies = []int{unix.AF_INET, unix.AF_INET6}

// rules changes the policy rules of VRFs: it reads them, edits the result and writes the
// difference. This also completes interrupted changes.
type rules struct {
	*own.Host

	mu    sync.Mutex
	marks sync.Mutex
	last  map[int]*ruleState
	// lost holds foreign removals of rules that an edit found and Check has not reported yet.
	lost     []rtnl.Rule
	settling sync.Mutex
}

// openRules reads the state left by an earlier process. It changes nothing.
func openRules(host *own.Host) (*rules, error) {
	v := &rules{Host: host, last: map[int]*ruleState{}}
	for _, family := range ipFamilies {
		s, _, err := v.read(family)
		if err != nil {
			return nil, err
		}
		v.last[family] = s
	}
	return v, nil
}

type ruleState struct {
	family int
	// devices: the rule for VRF devices exists.
	devices bool
	// guests holds devices that rules lead to the table of a VRF device.
	guests map[string]uint32
}

func newRuleState(family int) *ruleState {
	return &ruleState{family: family, guests: map[string]uint32{}}
}

func (s *ruleState) empty() bool { return !s.devices && len(s.guests) == 0 }

// parseRules derives the state from our rules. An object exists if any rule of it does; writing the
// state completes it.
func parseRules(family int, rules []rtnl.Rule) *ruleState {
	s := newRuleState(family)
	for _, r := range rules {
		switch {
		case r.Pref != prefInto:
		case r.L3mdev:
			s.devices = true
		case r.Action == ruleLookup && r.Iif+r.Oif != "":
			s.guests[r.Iif+r.Oif], _ = own.VRFOfTable(r.Table)
		}
	}
	return s
}

func (s *ruleState) render() []rtnl.Rule {
	if s.empty() {
		return nil
	}
	list := s.base()
	led := map[uint32]bool{}
	for device, vrf := range s.guests {
		list = append(list, s.into(device)...)
		if !led[vrf] {
			list = append(list, s.rule(rtnl.Rule{Pref: prefInto, Action: ruleLookup, Mark: mark | vrf, Table: own.TableOf(vrf)}))
		}
		led[vrf] = true
	}
	slices.SortStableFunc(list, func(a, b rtnl.Rule) int { return cmp.Compare(b.Pref, a.Pref) })
	return list
}

func (s *ruleState) rule(r rtnl.Rule) rtnl.Rule {
	r.Family, r.Proto = s.family, own.ProtoOurs
	if r.Mark != 0 {
		r.Mask = vrfMarkMask
	}
	return r
}

func (s *ruleState) base() []rtnl.Rule {
	list := []rtnl.Rule{s.rule(rtnl.Rule{Pref: prefLocal, Action: ruleLookup, Table: unix.RT_TABLE_LOCAL})}
	if s.devices {
		list = append(list, s.rule(rtnl.Rule{Pref: prefInto, Action: ruleLookup, L3mdev: true}))
	}
	if s.family == unix.AF_INET6 && len(s.guests) > 0 {
		linkLocal, multicast := netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8")
		list = append(list,
			s.rule(rtnl.Rule{Pref: prefLinkLocal, Action: ruleLookup, Table: unix.RT_TABLE_LOCAL, Dst: linkLocal}),
			s.rule(rtnl.Rule{Pref: prefLinkLocal + 1, Action: ruleLookup, Table: unix.RT_TABLE_MAIN, Dst: linkLocal}),
			s.rule(rtnl.Rule{Pref: prefMulticast, Action: ruleLookup, Table: unix.RT_TABLE_LOCAL, Dst: multicast}))
	}
	return list
}

func (s *ruleState) into(device string) []rtnl.Rule {
	table := own.TableOf(s.guests[device])
	return []rtnl.Rule{
		s.rule(rtnl.Rule{Pref: prefInto, Action: ruleLookup, Iif: device, Table: table}),
		s.rule(rtnl.Rule{Pref: prefInto, Action: ruleLookup, Oif: device, Table: table}),
	}
}

func isOurRule(r rtnl.Rule) bool {
	switch {
	case r.Proto != own.ProtoOurs || r.Odd || r.Src.IsValid() || r.Mark != 0 && r.Mask != vrfMarkMask:
		return false
	case r.Pref >= prefLinkLocal && r.Pref <= prefMulticast, r.Pref == prefInto, r.Pref == prefLocal:
		return true
	}
	return isEmulation(r)
}

func isLocal(r rtnl.Rule) bool {
	return !r.Odd && !r.Src.IsValid() && !r.L3mdev && r.Action == ruleLookup && r.Table == unix.RT_TABLE_LOCAL &&
		r.Iif == "" && r.Oif == "" && r.Mark == 0 && !r.Dst.IsValid()
}

// lastState returns the known state of the rules.
func (v *rules) lastState(family int) *ruleState {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last[family]
}

// stand reports whether rules exist.
func (v *rules) stand() bool {
	return slices.ContainsFunc(ipFamilies, func(family int) bool { return !v.lastState(family).empty() })
}

func (v *rules) read(family int) (*ruleState, ruleSet, error) {
	rules, err := v.Net.Rules(family)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return newRuleState(family), nil, nil // no policy routing, or no IPv6
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading policy rules: %w", err)
	}
	ours := slices.DeleteFunc(slices.Clone(rules), func(r rtnl.Rule) bool { return !isOurRule(r) })
	return parseRules(family, ours), newRuleSet(rules), nil
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
		if isLocal(r) && r.Pref <= prefInto {
			return true
		}
	}
	return false
}

func (v *rules) edit(family int, edit func(*ruleState)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, have, err := v.read(family)
	if err != nil {
		return err
	}
	v.lost = append(v.lost, have.missing(v.last[family].render())...)
	edit(s)
	v.last[family] = s
	err = v.write(family, s.render(), have)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return vswitch.Unsupported("VRFs: this Linux kernel refuses policy rules (%v): it needs the option CONFIG_IP_MULTIPLE_TABLES, "+
			"for IPv6 CONFIG_IPV6_MULTIPLE_TABLES", err)
	}
	return err
}

// write adds the missing rules and then deletes surplus rules.
func (v *rules) write(family int, want []rtnl.Rule, have ruleSet) error {
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
		if !isOurRule(r) || wanted[r] {
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
		if isLocal(r) && r.Pref != 0 && r.Pref <= prefInto {
			return fmt.Errorf("the policy rule %d leads to the table local before VRFs have their turn: move it behind %d", r.Pref, prefInto)
		}
	}
	return nil
}

func (v *rules) moveLocal(family int, away bool, have ruleSet) error {
	first := rtnl.Rule{Family: family, Action: ruleLookup, Table: unix.RT_TABLE_LOCAL, Proto: unix.RTPROT_KERNEL}
	there, ours, others := false, false, false
	for r := range have {
		switch {
		case !isLocal(r):
		case r.Pref == 0:
			there, first = true, r
		case isOurRule(r):
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

func (v *rules) answerInVRFs(family int) error {
	return v.NS.Run(func() error {
		for _, name := range vrfSysctls[family] {
			if err := namespace.EnsureSysctl(name, "1"); err != nil {
				return err
			}
		}
		return nil
	})
}

func ignoreUnsupported(err error) error {
	if errors.Is(err, kvscheduler.ErrUnsupported) {
		return nil
	}
	return err
}

// drop removes all rules and marks, and the routes of addresses.
func (v *rules) drop() error {
	var errs []error
	for _, family := range ipFamilies {
		errs = append(errs, v.edit(family, func(s *ruleState) { *s = *newRuleState(family) }))
		placed, err := placed(v.Net, family, 0, 0, own.ProtoVRF)
		errs = append(errs, err)
		for _, r := range placed {
			errs = append(errs, rtnl.IgnoreGone(delPlaced(v.Net, r)))
		}
	}
	return errors.Join(append(errs, v.dropMarks())...)
}
