package policies

import (
	"fmt"
	"net/netip"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"go.fd.io/govpp/binapi/acl_types"
	"go.fd.io/govpp/binapi/ip_types"
)

// maxRules limits a list, because of VPP's memory and the size of the message.
const maxRules = 1 << 16

// cube is a set of connections between a subject's address and a network, by protocol and port.
type cube struct {
	own, peer netip.Prefix
	// protocol 0 is all of them.
	protocol uint8
	// first and last are destination ports; 0 and 65535 if irrelevant.
	first, last uint16
}

const lastPort = 65535

// and returns the intersection of two cubes.
func (c cube) and(o cube) (cube, bool) {
	if !c.peer.Overlaps(o.peer) || c.own != o.own {
		return cube{}, false
	}
	if o.peer.Bits() > c.peer.Bits() {
		c.peer = o.peer
	}
	switch {
	case o.protocol == 0:
	case c.protocol == 0:
		c.protocol, c.first, c.last = o.protocol, o.first, o.last
	case c.protocol != o.protocol:
		return cube{}, false
	default:
		c.first, c.last = max(c.first, o.first), min(c.last, o.last)
	}
	return c, c.first <= c.last
}

// expansion expands a direction of a subject.
type expansion struct {
	values    *values
	direction contiv_filter.AccessList_Direction
	rules     []acl_types.ACLRule
	denials   []denial
	seen      map[cube]bool
	err       error
}

// expand returns a subject's rules for a direction.
func expand(w *values, subject *contiv_filter.Subject, direction contiv_filter.AccessList_Direction) (list, error) {
	x := &expansion{values: w, direction: direction, seen: map[cube]bool{}}
	stages := subject.GetIngress()
	if direction == contiv_filter.AccessList_EGRESS {
		stages = subject.GetEgress()
	}
	for _, addr := range policyrules.ParseAddrs(subject.GetAddresses()) {
		own := single(addr)
		all := cube{own: own, peer: vswitch.AnyNetwork(addr.Is6()), last: lastPort}
		if len(stages) == 0 {
			x.open(all)
			continue
		}
		x.emit(cube{own: own, peer: own, last: lastPort}, acl_types.ACL_ACTION_API_PERMIT_REFLECT)
		x.stages(stages, all)
	}
	return list{x.rules, x.denials}, x.err
}

func single(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }

// stages decides all connections within the limit.
func (x *expansion) stages(stages []*contiv_filter.Subject_Stage, limit cube) {
	if len(stages) == 0 {
		x.emit(limit, acl_types.ACL_ACTION_API_PERMIT_REFLECT)
		return
	}
	x.lists(stages, stages[0].GetLists(), limit)
}

// lists applies some lists of the first stage, then the other stages.
func (x *expansion) lists(stages []*contiv_filter.Subject_Stage, lists []string, limit cube) {
	for i, name := range lists {
		list := x.values.lists[name]
		if list.GetDirection() != x.direction {
			continue
		}
		for _, r := range list.GetRules() {
			for _, c := range x.cubes(r, limit) {
				switch {
				case x.err != nil:
					return
				case r.GetAction() == contiv_filter.AccessList_ALLOW:
					x.emit(c, acl_types.ACL_ACTION_API_PERMIT_REFLECT)
				case r.GetAction() == contiv_filter.AccessList_DENY:
					x.deny(c, true)
				case stages[0].GetDeny():
					x.lists(stages, lists[i+1:], c)
				default:
					x.stages(stages[1:], c)
				}
			}
		}
	}
	if stages[0].GetDeny() {
		x.deny(limit, false)
		return
	}
	x.stages(stages[1:], limit)
}

// cubes returns the connections within the limit that a rule matches.
func (x *expansion) cubes(r *contiv_filter.AccessList_Rule, limit cube) (list []cube) {
	peers := x.peers(r, limit)
	add := func(peer netip.Prefix, protocol uint8, first, last uint16) {
		c := cube{own: limit.own, peer: peer, protocol: protocol, first: first, last: last}
		if c, ok := c.and(limit); ok {
			list = append(list, c)
		}
	}
	for _, peer := range peers {
		if len(r.GetPorts()) == 0 && len(r.GetEndpointSets()) == 0 {
			add(peer, 0, 0, lastPort)
		}
		for _, p := range r.GetPorts() {
			first, last := uint16(p.GetFirst()), uint16(p.GetLast())
			switch {
			case last == 0:
				first, last = 0, lastPort
			case p.GetProtocol() == contiv_filter.Protocol_SCTP && r.GetAction() == contiv_filter.AccessList_ALLOW:
				continue // VPP does not match SCTP ports, so the rule permits nothing
			case p.GetProtocol() == contiv_filter.Protocol_SCTP:
				first, last = 0, lastPort
			}
			add(peer, policyrules.Number(p.GetProtocol()), first, last)
		}
	}
	for _, name := range r.GetEndpointSets() {
		for _, e := range x.values.endpoints[name].GetEndpoints() {
			addr, err := netip.ParseAddr(e.GetAddress())
			if err != nil || e.GetProtocol() == contiv_filter.Protocol_SCTP {
				continue
			}
			for _, peer := range peers {
				switch {
				case x.direction == contiv_filter.AccessList_EGRESS && peer.Contains(addr):
					add(single(addr), policyrules.Number(e.GetProtocol()), uint16(e.GetPort()), uint16(e.GetPort()))
				case x.direction == contiv_filter.AccessList_INGRESS && limit.own.Contains(addr):
					add(peer, policyrules.Number(e.GetProtocol()), uint16(e.GetPort()), uint16(e.GetPort()))
				}
			}
		}
	}
	return list
}

// peers returns the networks of a rule, of the limit's IP version.
func (x *expansion) peers(r *contiv_filter.AccessList_Rule, limit cube) (list []netip.Prefix) {
	if len(r.GetAddressSets()) == 0 && len(r.GetNetworks()) == 0 {
		return []netip.Prefix{limit.peer}
	}
	for _, text := range r.GetNetworks() {
		if p, err := netip.ParsePrefix(text); err == nil && p.Masked().Overlaps(limit.peer) {
			list = append(list, p.Masked())
		}
	}
	for _, name := range r.GetAddressSets() {
		for _, addr := range x.values.addresses[name] {
			if limit.peer.Contains(addr) {
				list = append(list, single(addr))
			}
		}
	}
	return list
}

// emit adds a rule unless an earlier one covers it: the first match decides.
func (x *expansion) emit(c cube, action acl_types.ACLAction) {
	if x.seen[c] {
		return
	}
	x.seen[c] = true
	x.add(c, action, portRange{0, lastPort}, 0, 0)
}

// deny adds a denying rule, for a rule of a list or as the default.
func (x *expansion) deny(c cube, byRule bool) {
	before := len(x.rules)
	x.emit(c, acl_types.ACL_ACTION_API_DENY)
	if len(x.rules) > before {
		x.denials = append(x.denials, denial{before, policyrules.DeniedSubject{Address: c.own.Addr(), Direction: x.direction, ByRule: byRule}})
	}
}

type portRange struct{ first, last uint16 }

func (x *expansion) add(c cube, action acl_types.ACLAction, source portRange, flagsMask, flags uint8) {
	if len(x.rules) >= maxRules {
		x.err = fmt.Errorf("written out, its policies are more than %d rules: select fewer peers or ports", maxRules)
		return
	}
	r := acl_types.ACLRule{IsPermit: action, SrcPrefix: convert.Prefix(c.peer), DstPrefix: convert.Prefix(c.own),
		Proto: ip_types.IPProto(c.protocol), TCPFlagsMask: flagsMask, TCPFlagsValue: flags}
	if x.direction == contiv_filter.AccessList_EGRESS {
		r.SrcPrefix, r.DstPrefix = r.DstPrefix, r.SrcPrefix
	}
	if c.protocol != 0 {
		r.SrcportOrIcmptypeFirst, r.SrcportOrIcmptypeLast = source.first, source.last
		r.DstportOrIcmpcodeFirst, r.DstportOrIcmpcodeLast = c.first, c.last
	}
	x.rules = append(x.rules, r)
}

// firstClientPort is the start of Linux's ephemeral ports.
const firstClientPort = 32768

// TCP flags.
const flagSYN, flagACK = 0x02, 0x10

// open permits everything. The package documentation explains TCP.
func (x *expansion) open(all cube) {
	const permit, reflect = acl_types.ACL_ACTION_API_PERMIT, acl_types.ACL_ACTION_API_PERMIT_REFLECT
	tcp := all
	tcp.protocol = policyrules.TCP
	x.add(tcp, reflect, portRange{0, lastPort}, flagSYN|flagACK, flagSYN)
	if x.direction == contiv_filter.AccessList_EGRESS {
		x.add(tcp, reflect, portRange{firstClientPort, lastPort}, 0, 0)
	} else {
		ours := tcp
		ours.last = firstClientPort - 1
		x.add(ours, reflect, portRange{0, lastPort}, 0, 0)
	}
	x.add(tcp, permit, portRange{0, lastPort}, 0, 0)
	x.add(all, reflect, portRange{0, lastPort}, 0, 0)
}

// head permits neighbour discovery and ICMP errors, which VPP does not relate to their connections:
// unreachable, too big, time exceeded, parameter problem.
func head() (rules []acl_types.ACLRule) {
	for _, types := range []struct {
		v6          bool
		first, last uint16
	}{{false, 3, 3}, {false, 11, 12}, {true, 1, 4}, {true, 133, 136}} {
		any := convert.Prefix(vswitch.AnyNetwork(types.v6))
		proto := ip_types.IPProto(vswitch.ProtocolICMP)
		if types.v6 {
			proto = ip_types.IPProto(vswitch.ProtocolICMPv6)
		}
		rules = append(rules, acl_types.ACLRule{IsPermit: acl_types.ACL_ACTION_API_PERMIT, SrcPrefix: any, DstPrefix: any, Proto: proto,
			SrcportOrIcmptypeFirst: types.first, SrcportOrIcmptypeLast: types.last, DstportOrIcmpcodeLast: 255})
	}
	return rules
}

// rest permits packets that concern no subject.
func rest() (rules []acl_types.ACLRule) {
	for _, v6 := range []bool{false, true} {
		any := convert.Prefix(vswitch.AnyNetwork(v6))
		rules = append(rules, acl_types.ACLRule{IsPermit: acl_types.ACL_ACTION_API_PERMIT_REFLECT, SrcPrefix: any, DstPrefix: any})
	}
	return rules
}
