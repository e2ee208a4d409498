package vrf

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/vswitch/kernel/own"

	"golang.org/x/sys/unix"
)

// A VRF is a routing table and policy rules that lead to it. The rules of one IP
// version, with VRF 5 and the device c-tap1 in it:
//
//	80..82      to fe80::/10 lookup local, main; to ff00::/8 lookup local
//	90          iif c-tap1, oif c-tap1, fwmark 0x79000005 goto 1100500000
//	91          iif c-tap1 unreachable            in case there is no such block
//	100         lookup local                      was the first one (0)
//	…           lookup main, and what others have
//	1100000001… to 10.5.0.0/16 lookup 121000005   INTER_VRF of the main table
//	1100099999  unreachable                       the end for what is in no VRF
//	1100500000  lookup 121000005                  ─┐
//	1100500001… to 0.0.0.0/0 lookup local, main    ├ block of VRF 5
//	1100599999  unreachable                       ─┘
//
// Packets are in a VRF by where they come in (iif), by the device that a socket is
// bound to (oif), and, for what the node itself answers, by the mark of the packet
// that is answered (emulation_marks.go). Their rules come before the table local, which
// has the addresses of VRF 0 only: the others are in the tables of their VRFs.
//
// VRF devices have one rule instead of those, for all VRFs (l3mdev, see devices.go).
//
// A route of type INTER_VRF is a throw route, the longest match that is none, and
// rules that look elsewhere. The preference of a rule is made of the length of its
// network, so that the order of rules is that of the longest match, too:
//
//	offset = 1 + (128 - length) * interSlot       into the second table
//	       + (128 - length) * interStep           from there into a third one
//
// There the way ends: an INTER_VRF route of the third table is unreachable.

// Preferences of rules.
const (
	prefLinkLocal = 80
	prefMulticast = 82
	prefInto      = 90
	prefIsolated  = 91
	prefLocal     = 100
	prefBlocks    = 1_100_000_000
	blockSize     = 100_000
	blockEnd      = blockSize - 1

	interStep = 3
	interSlot = 2 + 129*interStep + 1
)

// Actions of rules (FR_ACT_…).
const (
	ruleLookup      = 1
	ruleGoto        = 2
	ruleUnreachable = 7
)

// Marks of packets in a VRF. The bits in between are left to others.
const (
	mark        = 0x79000000
	vrfMarkMask = 0xff000000 | own.MaxVRF
)

func blockOf(vrf uint32) uint32 { return prefBlocks + vrf*blockSize }

// ruleState is what the rules of one IP version say.
type ruleState struct {
	family int
	tables map[uint32]bool
	// members are the devices in VRFs.
	members map[string]uint32
	// isolated are the devices that VRF 0 must not get packets from, with the VRF
	// that they are meant for.
	isolated map[string]uint32
	// inter are the routes into other VRFs.
	inter map[InterRoute]uint32
	// devices: VRF devices have their rule.
	devices bool
	// guests are the devices in VRFs that are in no VRF device, though the kernel has such.
	guests map[string]uint32
}

// InterRoute is a destination in a VRF.
type InterRoute struct {
	Vrf uint32
	Dst netip.Prefix
}

func newVRFState(family int) *ruleState {
	return &ruleState{family: family, tables: map[uint32]bool{}, members: map[string]uint32{},
		isolated: map[string]uint32{}, inter: map[InterRoute]uint32{}, guests: map[string]uint32{}}
}

func (s *ruleState) empty() bool {
	return !s.devices && !s.emulates() && len(s.guests) == 0
}

// emulates reports whether there is anything that a VRF device would do.
func (s *ruleState) emulates() bool {
	return len(s.tables)+len(s.members)+len(s.isolated)+len(s.inter) > 0
}

// vrfOf returns the VRF that rules lead what a device receives to.
func (s *ruleState) vrfOf(device string) uint32 {
	return cmp.Or(s.members[device], s.guests[device])
}

// marked returns the devices whose packets are marked.
func (s *ruleState) marked() marks {
	all := maps.Clone(s.members)
	maps.Copy(all, s.guests)
	return all
}

// forget removes all that is known of a device.
func (s *ruleState) forget(device string) {
	delete(s.guests, device)
	delete(s.members, device)
	delete(s.isolated, device)
}

// dropTable removes the table of a VRF, and its members.
func (s *ruleState) dropTable(vrf uint32) {
	delete(s.tables, vrf)
	for device, in := range s.members {
		if in == vrf {
			delete(s.members, device)
		}
	}
}

// isVRFRule reports whether we made the rule for VRFs.
func isVRFRule(r rtnl.Rule) bool {
	switch {
	case r.Proto != own.ProtoOurs || r.Odd || r.Src.IsValid() || r.Mark != 0 && r.Mask != vrfMarkMask:
		return false
	case r.Pref >= prefLinkLocal && r.Pref <= prefMulticast, r.Pref == prefInto, r.Pref == prefIsolated:
		return true
	}
	return r.Pref == prefLocal || r.Pref >= prefBlocks && r.Pref < blockOf(own.MaxVRF+1)
}

// isLocal reports whether the rule leads everything to the table local.
func isLocal(r rtnl.Rule) bool {
	return !r.Odd && !r.Src.IsValid() && !r.L3mdev && r.Action == ruleLookup && r.Table == unix.RT_TABLE_LOCAL &&
		r.Iif == "" && r.Oif == "" && r.Mark == 0 && !r.Dst.IsValid()
}

// parseVRFs derives the VRFs and their interfaces from our rules. An object counts as present if
// any rule of it is left; writing it then completes it.
func parseVRFs(family int, rules []rtnl.Rule) *ruleState {
	s := newVRFState(family)
	for _, r := range rules {
		switch {
		case r.Pref == prefInto && r.L3mdev:
			s.devices = true
		case r.Pref == prefInto && r.Action == ruleLookup && r.Iif+r.Oif != "":
			s.guests[r.Iif+r.Oif], _ = own.VRFOfTable(r.Table)
		case r.Pref == prefInto && r.Action == ruleGoto:
			vrf := (r.Target - prefBlocks) / blockSize
			switch {
			case r.Iif != "":
				s.members[r.Iif] = vrf
			case r.Oif != "":
				s.members[r.Oif] = vrf
			default:
				s.tables[vrf] = true
			}
		case r.Pref == prefIsolated:
			s.isolated[r.Iif] = r.Table - own.VRFTables
		case r.Pref >= prefBlocks:
			s.parseBlock(r)
		}
	}
	return s
}

func (s *ruleState) parseBlock(r rtnl.Rule) {
	vrf, offset := (r.Pref-prefBlocks)/blockSize, (r.Pref-prefBlocks)%blockSize
	switch {
	case offset == 0 || offset == blockEnd:
		if vrf != 0 {
			s.tables[vrf] = true
		}
	case (offset-1)%interSlot == 1:
		if to, ok := own.VRFOfTable(r.Table); ok {
			s.inter[InterRoute{vrf, s.networkOf(r)}] = to
		}
	}
}

// networkOf returns the destination of a rule; without one, it is everything.
func (s *ruleState) networkOf(r rtnl.Rule) netip.Prefix {
	if r.Dst.IsValid() {
		return r.Dst
	}
	if s.family == unix.AF_INET6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// render returns the rules that the state is written as.
func (s *ruleState) render() []rtnl.Rule {
	if s.empty() {
		return nil
	}
	list := s.base()
	for vrf := range s.tables {
		list = append(list, s.block(vrf)...)
	}
	for device := range s.members {
		list = append(list, s.into(device)...)
	}
	list = append(list, s.hosts()...)
	for device := range s.guests {
		list = append(list, s.into(device)...)
	}
	for device, vrf := range s.isolated {
		list = append(list, s.rule(rtnl.Rule{Pref: prefIsolated, Action: ruleUnreachable, Iif: device, Table: own.TableOf(vrf)}))
	}
	for route := range s.inter {
		list = append(list, s.interRules(route)...)
	}
	// What others lead to comes first.
	slices.SortStableFunc(list, func(a, b rtnl.Rule) int { return cmp.Compare(b.Pref, a.Pref) })
	return list
}

func (s *ruleState) rule(r rtnl.Rule) rtnl.Rule {
	r.Family, r.Proto = s.family, own.ProtoOurs
	if r.Mark != 0 {
		r.Mask = vrfMarkMask
	}
	if r.Dst.IsValid() && r.Dst.Bits() == 0 {
		r.Dst = netip.Prefix{} // as it is read
	}
	return r
}

// base returns the rules that all VRFs need.
func (s *ruleState) base() []rtnl.Rule {
	list := []rtnl.Rule{s.rule(rtnl.Rule{Pref: prefLocal, Action: ruleLookup, Table: unix.RT_TABLE_LOCAL})}
	if s.devices {
		list = append(list, s.rule(rtnl.Rule{Pref: prefInto, Action: ruleLookup, L3mdev: true}))
	}
	if s.emulates() {
		list = append(list, s.rule(rtnl.Rule{Pref: blockOf(0) + blockEnd, Action: ruleUnreachable}))
	}
	if s.family == unix.AF_INET6 && (s.emulates() || len(s.guests) > 0) {
		linkLocal, multicast := netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8")
		list = append(list,
			s.rule(rtnl.Rule{Pref: prefLinkLocal, Action: ruleLookup, Table: unix.RT_TABLE_LOCAL, Dst: linkLocal}),
			s.rule(rtnl.Rule{Pref: prefLinkLocal + 1, Action: ruleLookup, Table: unix.RT_TABLE_MAIN, Dst: linkLocal}),
			s.rule(rtnl.Rule{Pref: prefMulticast, Action: ruleLookup, Table: unix.RT_TABLE_LOCAL, Dst: multicast}))
	}
	return list
}

func (s *ruleState) block(vrf uint32) []rtnl.Rule {
	return []rtnl.Rule{
		s.rule(rtnl.Rule{Pref: blockOf(vrf), Action: ruleLookup, Table: own.TableOf(vrf)}),
		s.rule(rtnl.Rule{Pref: blockOf(vrf) + blockEnd, Action: ruleUnreachable}),
		s.rule(rtnl.Rule{Pref: prefInto, Action: ruleGoto, Mark: mark | vrf, Target: blockOf(vrf)}),
	}
}

// hosts returns the rules of the marks of VRFs that have guests.
func (s *ruleState) hosts() (list []rtnl.Rule) {
	led := map[uint32]bool{}
	for _, vrf := range s.guests {
		if !led[vrf] {
			list = append(list, s.rule(rtnl.Rule{Pref: prefInto, Action: ruleLookup, Mark: mark | vrf, Table: own.TableOf(vrf)}))
		}
		led[vrf] = true
	}
	return list
}

func (s *ruleState) into(device string) []rtnl.Rule {
	if vrf := s.guests[device]; vrf != 0 {
		return []rtnl.Rule{
			s.rule(rtnl.Rule{Pref: prefInto, Action: ruleLookup, Iif: device, Table: own.TableOf(vrf)}),
			s.rule(rtnl.Rule{Pref: prefInto, Action: ruleLookup, Oif: device, Table: own.TableOf(vrf)}),
		}
	}
	target := blockOf(s.members[device])
	return []rtnl.Rule{
		s.rule(rtnl.Rule{Pref: prefInto, Action: ruleGoto, Iif: device, Target: target}),
		s.rule(rtnl.Rule{Pref: prefInto, Action: ruleGoto, Oif: device, Target: target}),
	}
}

// interRules are those of a route into another VRF, and from there into a third one.
func (s *ruleState) interRules(route InterRoute) []rtnl.Rule {
	to := s.inter[route]
	from := blockOf(route.Vrf) + 1 + shortness(route.Dst)*interSlot
	list := append(s.lookups(from, route.Dst, to), s.rule(rtnl.Rule{Pref: from + interSlot - 1, Action: ruleUnreachable, Dst: route.Dst}))
	for dst, third := range s.onwards(route.Dst, to) {
		if third == route.Vrf {
			continue
		}
		step := from + 2 + shortness(dst)*interStep
		list = append(list, s.lookups(step, dst, third)...)
		list = append(list, s.rule(rtnl.Rule{Pref: step + 2, Action: ruleUnreachable, Dst: dst}))
	}
	return list
}

func shortness(dst netip.Prefix) uint32 { return uint32(128 - dst.Bits()) }

// lookups in a table; VRF 0 has two of them.
func (s *ruleState) lookups(pref uint32, dst netip.Prefix, vrf uint32) (list []rtnl.Rule) {
	if vrf == 0 {
		list = append(list, s.rule(rtnl.Rule{Pref: pref, Action: ruleLookup, Table: unix.RT_TABLE_LOCAL, Dst: dst}))
	}
	return append(list, s.rule(rtnl.Rule{Pref: pref + 1, Action: ruleLookup, Table: own.TableOf(vrf), Dst: dst}))
}

// onwards returns where a VRF leads the packets for a network that it does not
// route itself.
func (s *ruleState) onwards(dst netip.Prefix, vrf uint32) map[netip.Prefix]uint32 {
	list := map[netip.Prefix]uint32{}
	around := -1 // length of the longest network around dst
	for route, to := range s.inter {
		switch {
		case route.Vrf != vrf || !route.Dst.Overlaps(dst):
		case route.Dst.Bits() > dst.Bits():
			list[route.Dst] = to
		case route.Dst.Bits() > around:
			list[dst], around = to, route.Dst.Bits()
		}
	}
	return list
}
