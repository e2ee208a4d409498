package kernel

import (
	"cmp"
	"net/netip"
	"slices"

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
// that is answered (vrf_marks.go). Their rules come before the table local, which
// has the addresses of VRF 0 only: the others are in the tables of their VRFs.
//
// A VRF device (l3mdev) would do the same with one rule for all VRFs, but many
// kernels lack it. Rules are there wherever policy routing is.
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

// vrfTables is where the numbers of our tables begin; that of the VRF is added.
const vrfTables = 121_000_000

// maxVRF is what the mark has room for.
const maxVRF = 1<<14 - 1

// Marks of packets in a VRF. The bits in between are left to others.
const (
	vrfMark     = 0x79000000
	vrfMarkMask = 0xff000000 | maxVRF
)

// tableOf returns the kernel's number of the routing table of a VRF.
func tableOf(vrf uint32) uint32 {
	if vrf == 0 {
		return unix.RT_TABLE_MAIN
	}
	return vrfTables + vrf
}

// vrfOfTable is the reverse; false if the table is none of ours.
func vrfOfTable(table uint32) (vrf uint32, ok bool) {
	if table == unix.RT_TABLE_MAIN {
		return 0, true
	}
	vrf = table - vrfTables
	return vrf, vrf > 0 && vrf <= maxVRF
}

func blockOf(vrf uint32) uint32 { return prefBlocks + vrf*blockSize }

// vrfState is what the rules of one IP version say.
type vrfState struct {
	family int
	tables map[uint32]bool
	// members are the devices in VRFs.
	members map[string]uint32
	// isolated are the devices that VRF 0 must not get packets from, with the VRF
	// that they are meant for.
	isolated map[string]uint32
	// inter are the routes into other VRFs.
	inter map[interRoute]uint32
}

// interRoute is a destination in a VRF.
type interRoute struct {
	vrf uint32
	dst netip.Prefix
}

func newVRFState(family int) *vrfState {
	return &vrfState{family: family, tables: map[uint32]bool{}, members: map[string]uint32{},
		isolated: map[string]uint32{}, inter: map[interRoute]uint32{}}
}

func (s *vrfState) empty() bool {
	return len(s.tables) == 0 && len(s.members) == 0 && len(s.isolated) == 0 && len(s.inter) == 0
}

// forget removes all that is known of a device.
func (s *vrfState) forget(device string) {
	delete(s.members, device)
	delete(s.isolated, device)
}

// isVRFRule tells if we made the rule for VRFs.
func (r rule) isVRFRule() bool {
	switch {
	case r.proto != protoOurs || r.odd:
		return false
	case r.pref >= prefLinkLocal && r.pref <= prefMulticast, r.pref == prefInto, r.pref == prefIsolated:
		return true
	}
	return r.pref == prefLocal || r.pref >= prefBlocks && r.pref < blockOf(maxVRF+1)
}

// isLocal tells if the rule leads everything to the table local.
func (r rule) isLocal() bool {
	return !r.odd && r.action == ruleLookup && r.table == unix.RT_TABLE_LOCAL &&
		r.iif == "" && r.oif == "" && r.mark == 0 && !r.dst.IsValid()
}

// parseVRFs reads what rules of ours are for. Whatever is left of an object tells
// that it is there: to write it completes it.
func parseVRFs(family int, rules []rule) *vrfState {
	s := newVRFState(family)
	for _, r := range rules {
		switch {
		case r.pref == prefInto && r.action == ruleGoto:
			vrf := (r.target - prefBlocks) / blockSize
			switch {
			case r.iif != "":
				s.members[r.iif] = vrf
			case r.oif != "":
				s.members[r.oif] = vrf
			default:
				s.tables[vrf] = true
			}
		case r.pref == prefIsolated:
			s.isolated[r.iif] = r.table - vrfTables
		case r.pref >= prefBlocks:
			s.parseBlock(r)
		}
	}
	return s
}

func (s *vrfState) parseBlock(r rule) {
	vrf, offset := (r.pref-prefBlocks)/blockSize, (r.pref-prefBlocks)%blockSize
	switch {
	case offset == 0 || offset == blockEnd:
		if vrf != 0 {
			s.tables[vrf] = true
		}
	case (offset-1)%interSlot == 1:
		if to, ok := vrfOfTable(r.table); ok {
			s.inter[interRoute{vrf, s.networkOf(r)}] = to
		}
	}
}

// networkOf returns the destination of a rule; without one, it is everything.
func (s *vrfState) networkOf(r rule) netip.Prefix {
	if r.dst.IsValid() {
		return r.dst
	}
	if s.family == unix.AF_INET6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// render returns the rules that the state is written as.
func (s *vrfState) render() []rule {
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
	for device, vrf := range s.isolated {
		list = append(list, s.rule(rule{pref: prefIsolated, action: ruleUnreachable, iif: device, table: tableOf(vrf)}))
	}
	for route := range s.inter {
		list = append(list, s.interRules(route)...)
	}
	// What others lead to comes first.
	slices.SortStableFunc(list, func(a, b rule) int { return cmp.Compare(b.pref, a.pref) })
	return list
}

func (s *vrfState) rule(r rule) rule {
	r.family, r.proto = s.family, protoOurs
	if r.dst.IsValid() && r.dst.Bits() == 0 {
		r.dst = netip.Prefix{} // as it is read
	}
	return r
}

// base returns the rules that all VRFs need.
func (s *vrfState) base() []rule {
	list := []rule{
		s.rule(rule{pref: blockOf(0) + blockEnd, action: ruleUnreachable}),
		s.rule(rule{pref: prefLocal, action: ruleLookup, table: unix.RT_TABLE_LOCAL}),
	}
	if s.family == unix.AF_INET6 {
		linkLocal, multicast := netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8")
		list = append(list,
			s.rule(rule{pref: prefLinkLocal, action: ruleLookup, table: unix.RT_TABLE_LOCAL, dst: linkLocal}),
			s.rule(rule{pref: prefLinkLocal + 1, action: ruleLookup, table: unix.RT_TABLE_MAIN, dst: linkLocal}),
			s.rule(rule{pref: prefMulticast, action: ruleLookup, table: unix.RT_TABLE_LOCAL, dst: multicast}))
	}
	return list
}

func (s *vrfState) block(vrf uint32) []rule {
	return []rule{
		s.rule(rule{pref: blockOf(vrf), action: ruleLookup, table: tableOf(vrf)}),
		s.rule(rule{pref: blockOf(vrf) + blockEnd, action: ruleUnreachable}),
		s.rule(rule{pref: prefInto, action: ruleGoto, mark: vrfMark | vrf, target: blockOf(vrf)}),
	}
}

func (s *vrfState) into(device string) []rule {
	target := blockOf(s.members[device])
	return []rule{
		s.rule(rule{pref: prefInto, action: ruleGoto, iif: device, target: target}),
		s.rule(rule{pref: prefInto, action: ruleGoto, oif: device, target: target}),
	}
}

// interRules are those of a route into another VRF, and from there into a third one.
func (s *vrfState) interRules(route interRoute) []rule {
	to := s.inter[route]
	from := blockOf(route.vrf) + 1 + shortness(route.dst)*interSlot
	list := append(s.lookups(from, route.dst, to), s.rule(rule{pref: from + interSlot - 1, action: ruleUnreachable, dst: route.dst}))
	for dst, third := range s.onwards(route.dst, to) {
		if third == route.vrf {
			continue
		}
		step := from + 2 + shortness(dst)*interStep
		list = append(list, s.lookups(step, dst, third)...)
		list = append(list, s.rule(rule{pref: step + 2, action: ruleUnreachable, dst: dst}))
	}
	return list
}

func shortness(dst netip.Prefix) uint32 { return uint32(128 - dst.Bits()) }

// lookups in a table; VRF 0 has two of them.
func (s *vrfState) lookups(pref uint32, dst netip.Prefix, vrf uint32) (list []rule) {
	if vrf == 0 {
		list = append(list, s.rule(rule{pref: pref, action: ruleLookup, table: unix.RT_TABLE_LOCAL, dst: dst}))
	}
	return append(list, s.rule(rule{pref: pref + 1, action: ruleLookup, table: tableOf(vrf), dst: dst}))
}

// onwards returns where a VRF leads the packets for a network that it does not
// route itself.
func (s *vrfState) onwards(dst netip.Prefix, vrf uint32) map[netip.Prefix]uint32 {
	list := map[netip.Prefix]uint32{}
	around := -1 // length of the longest network around dst
	for route, to := range s.inter {
		switch {
		case route.vrf != vrf || !route.dst.Overlaps(dst):
		case route.dst.Bits() > dst.Bits():
			list[route.dst] = to
		case route.dst.Bits() > around:
			list[dst], around = to, route.dst.Bits()
		}
	}
	return list
}
