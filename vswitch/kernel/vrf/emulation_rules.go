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

// The emulation leads packets to a VRF's table with policy rules. The rules of one IP version, with
// device c-tap1 in VRF 5:
//
//	80..82      to fe80::/10 lookup local, main; to ff00::/8 lookup local
//	90          iif c-tap1, oif c-tap1, fwmark 0x79000005 goto 1100500000
//	91          iif c-tap1 unreachable            if the block is missing
//	100         lookup local                      moved from preference 0
//	…           lookup main, and foreign rules
//	1100000001… to 10.5.0.0/16 lookup 121000005   INTER_VRF of the main table
//	1100099999  unreachable                       ends the lookup outside VRFs
//	1100500000  lookup 121000005                  ─┐
//	1100500001… to 0.0.0.0/0 lookup local, main    ├ block of VRF 5
//	1100599999  unreachable                       ─┘
//
// The input device (iif), the device that a socket is bound to (oif), or for the node's replies the
// mark of the request (emulation_marks.go) determine the VRF. Their rules precede the table local,
// which has the addresses of VRF 0 only; other addresses are in the tables of their VRFs.
//
// VRF devices need only one rule for all VRFs (l3mdev, see devices.go).
//
// A route of type INTER_VRF is a throw route, which ends the lookup in the table, and rules for the
// lookup in other tables. The preference of a rule depends on its prefix length, so that the rules
// follow the longest match, too:
//
//	offset = 1 + (128 - length) * interSlot       into the second table
//	       + (128 - length) * interStep           from there into a third one
//
// An INTER_VRF route of the third table is unreachable.

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

const (
	ruleLookup      = 1
	ruleGoto        = 2
	ruleUnreachable = 7
)

// Marks of packets in a VRF. Other software may use the bits between.
const (
	mark        = 0x79000000
	vrfMarkMask = 0xff000000 | own.MaxVRF
)

func blockOf(vrf uint32) uint32 { return prefBlocks + vrf*blockSize }

type ruleState struct {
	family  int
	tables  map[uint32]bool
	members map[string]uint32
	// isolated holds devices that VRF 0 must not get packets from, with the VRF that they are meant
	// for.
	isolated map[string]uint32
	inter    map[InterRoute]uint32
	// devices: the rule for VRF devices exists.
	devices bool
	// guests holds devices that rules lead to the table of a VRF device.
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

// emulates reports whether rules replace a VRF device.
func (s *ruleState) emulates() bool {
	return len(s.tables)+len(s.members)+len(s.isolated)+len(s.inter) > 0
}

// vrfOf returns the VRF for packets that the device receives.
func (s *ruleState) vrfOf(device string) uint32 {
	return cmp.Or(s.members[device], s.guests[device])
}

func (s *ruleState) marked() marks {
	all := maps.Clone(s.members)
	maps.Copy(all, s.guests)
	return all
}

func (s *ruleState) forget(device string) {
	delete(s.guests, device)
	delete(s.members, device)
	delete(s.isolated, device)
}

func (s *ruleState) dropTable(vrf uint32) {
	delete(s.tables, vrf)
	for device, in := range s.members {
		if in == vrf {
			delete(s.members, device)
		}
	}
}

func isVRFRule(r rtnl.Rule) bool {
	switch {
	case r.Proto != own.ProtoOurs || r.Odd || r.Src.IsValid() || r.Mark != 0 && r.Mask != vrfMarkMask:
		return false
	case r.Pref >= prefLinkLocal && r.Pref <= prefMulticast, r.Pref == prefInto, r.Pref == prefIsolated:
		return true
	}
	return r.Pref == prefLocal || r.Pref >= prefBlocks && r.Pref < blockOf(own.MaxVRF+1)
}

func isLocal(r rtnl.Rule) bool {
	return !r.Odd && !r.Src.IsValid() && !r.L3mdev && r.Action == ruleLookup && r.Table == unix.RT_TABLE_LOCAL &&
		r.Iif == "" && r.Oif == "" && r.Mark == 0 && !r.Dst.IsValid()
}

// parseVRFs derives the VRFs and their interfaces from our rules. An object exists if any rule of
// it does; writing the state completes it.
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

func (s *ruleState) networkOf(r rtnl.Rule) netip.Prefix {
	if r.Dst.IsValid() {
		return r.Dst
	}
	if s.family == unix.AF_INET6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

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
	slices.SortStableFunc(list, func(a, b rtnl.Rule) int { return cmp.Compare(b.Pref, a.Pref) })
	return list
}

func (s *ruleState) rule(r rtnl.Rule) rtnl.Rule {
	r.Family, r.Proto = s.family, own.ProtoOurs
	if r.Mark != 0 {
		r.Mask = vrfMarkMask
	}
	if r.Dst.IsValid() && r.Dst.Bits() == 0 {
		r.Dst = netip.Prefix{}
	}
	return r
}

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

// lookups returns lookups in the table of a VRF; VRF 0 has two tables.
func (s *ruleState) lookups(pref uint32, dst netip.Prefix, vrf uint32) (list []rtnl.Rule) {
	if vrf == 0 {
		list = append(list, s.rule(rtnl.Rule{Pref: pref, Action: ruleLookup, Table: unix.RT_TABLE_LOCAL, Dst: dst}))
	}
	return append(list, s.rule(rtnl.Rule{Pref: pref + 1, Action: ruleLookup, Table: own.TableOf(vrf), Dst: dst}))
}

// onwards returns the routes of a VRF into other VRFs that match packets for a network.
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
