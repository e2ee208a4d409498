package foreign

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"golang.org/x/sys/unix"
)

type match int

const (
	yes match = iota
	no
	unknown
)

// rule reports whether a packet matches, and the resulting verdict or nil.
func (w *walk) rule(rule *nftables.Rule) (matches match, end *expr.Verdict) {
	registers := &w.registers
	registers.next()
	w.reason = ""
	if w.ruleset.unread[rule] {
		w.reason = "a rule of that chain has a form that is not known"
		return unknown, &expr.Verdict{Kind: verdictUnknown}
	}
	var loaded expr.Any // last expression that loaded a register
	for _, e := range rule.Exprs {
		result := yes
		switch e.(type) {
		case *expr.Meta, *expr.Payload, *expr.Ct, *expr.Fib, *expr.Exthdr, *expr.Rt, *expr.Socket, *expr.Numgen, *expr.Hash:
			loaded = e
		}
		switch e := e.(type) {
		case *expr.Meta:
			if e.SourceRegister {
				continue
			}
			registers.set(e.Register, w.meta(e.Key), e.Key == expr.MetaKeyLEN || e.Key == expr.MetaKeyMARK)
		case *expr.Payload:
			if e.OperationType == expr.PayloadWrite {
				if kind, changes := w.rewrites(e); changes {
					end = &expr.Verdict{Kind: kind}
				}
				continue
			}
			registers.set(e.DestRegister, w.loaded.payload(e), false)
		case *expr.Ct:
			switch {
			case setsCt(e):
			case w.packet.Untracked && e.Key != expr.CtKeySTATE:
				return no, nil // the kernel ends the rule
			default:
				registers.set(e.Register, w.tracked(e.Key), false)
			}
		case *expr.Fib:
			registers.set(e.Register, w.fib(e), true)
		case *expr.Bitwise:
			registers.masked(e.DestRegister, e.SourceRegister, e.Mask, e.Xor)
		case *expr.Cmp:
			if e.Op != expr.CmpOpEq && e.Op != expr.CmpOpNeq {
				registers.order(e.Register)
			}
			result = compare(e, registers.get(e.Register))
		case *expr.Range:
			registers.order(e.Register)
			result = within(e, registers.get(e.Register))
		case *expr.Counter, *expr.Log:
		case *expr.Objref: // counters or limits
			if nftables.ObjType(e.Type) != nftables.ObjTypeCounter {
				result = unknown
			}
		case *expr.Verdict:
			end = e
		case *expr.Reject:
			end = &expr.Verdict{Kind: expr.VerdictDrop}
		case *expr.Match:
			result = w.extension(e)
		case *expr.NAT:
			if e.Type != expr.NATTypeDestNAT {
				end = &expr.Verdict{Kind: verdictHide}
				break
			}
			end = &expr.Verdict{Kind: verdictDivert}
		case *expr.Masq:
			end = &expr.Verdict{Kind: verdictHide}
		case *expr.Redir:
			end = &expr.Verdict{Kind: verdictDivert}
		case *expr.Immediate:
			registers.set(e.Register, e.Data, false)
		case *expr.Target: // iptables target, such as LOG or REJECT
			switch {
			case e.Name == "REJECT":
				end = &expr.Verdict{Kind: expr.VerdictDrop}
			case e.Name == "DNAT", e.Name == "REDIRECT":
				end = &expr.Verdict{Kind: verdictDivert}
			case e.Name == "SNAT", e.Name == "MASQUERADE":
				end = &expr.Verdict{Kind: verdictHide}
			case !continues[e.Name]:
				result, end = unknown, &expr.Verdict{Kind: verdictUnknown}
			}
		case *expr.Lookup:
			var verdict *expr.Verdict
			if result, verdict = w.lookup(e, registers); verdict != nil {
				end = verdict
			}
		case *expr.Queue, *expr.SynProxy:
			result, end = unknown, &expr.Verdict{Kind: verdictUnknown}
		default:
			result = unknown
		}
		switch result {
		case no:
			return no, nil
		case unknown:
			matches = unknown
			if w.reason == "" {
				w.reason = w.unknownOf(e, loaded)
			}
		}
	}
	return matches, end
}

// rewrites returns the effect of writing to a packet's addresses or ports, which is NAT without
// connection tracking. Another source counts only if the receiver needs it.
func (w *walk) rewrites(e *expr.Payload) (kind expr.VerdictKind, changes bool) {
	source, length := uint32(12), uint32(4)
	if w.packet.Src.Is6() {
		source, length = 8, 16
	}
	if e.Base == expr.PayloadBaseTransportHeader {
		source, length = 0, 2
		switch w.packet.Protocol {
		case unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP:
		default:
			return 0, false
		}
	} else if e.Base != expr.PayloadBaseNetworkHeader {
		return 0, false
	}
	overlaps := func(at uint32) bool { return e.Offset < at+length && at < e.Offset+e.Len }
	switch {
	case overlaps(source + length):
		return verdictDivert, true
	case overlaps(source) && w.packet.KeepsSource && e.Base == expr.PayloadBaseNetworkHeader:
		return verdictHide, true
	}
	return 0, false
}

// unknownOf returns why the result of an expression is unknown. loaded is the last expression that
// loaded a register.
func (w *walk) unknownOf(e, loaded expr.Any) string {
	switch e := e.(type) {
	case *expr.Limit:
		return "it limits a rate"
	case *expr.Quota, *expr.Objref:
		return "it has a limit or quota"
	case *expr.Connlimit:
		return "it counts connections"
	case *expr.Queue:
		return "it hands packets to a program"
	case *expr.SynProxy:
		return "it answers in the place of the server"
	case *expr.Dynset:
		return "it looks into a set that packets change"
	case *expr.Match:
		return fmt.Sprintf("the match %q of iptables is not known", e.Name)
	case *expr.Target:
		return fmt.Sprintf("the target %q of iptables is not known", e.Name)
	case *expr.Cmp, *expr.Range:
	case *expr.Lookup:
		if w.ruleset.lookups[e] == nil {
			return fmt.Sprintf("it looks into the set %q, which is not read, such as sets that packets change", e.SetName)
		}
	default:
		return "it has an expression that is not known"
	}
	switch l := loaded.(type) {
	case *expr.Payload:
		return "it compares a part of the headers that is not known before"
	case *expr.Exthdr:
		return "it compares options of the headers"
	case *expr.Ct:
		return "it compares a property of the connection" + map[expr.CtKey]string{
			expr.CtKeySTATUS: " (ct status)", expr.CtKeyMARK: " (ct mark)", expr.CtKeyBYTES: " (ct bytes)", expr.CtKeyPKTS: " (ct packets)",
			expr.CtKeyHELPER: " (ct helper)", expr.CtKeyZONE: " (ct zone)", expr.CtKeyLABELS: " (ct label)",
		}[l.Key]
	case *expr.Meta:
		return cmp.Or(map[expr.MetaKey]string{
			expr.MetaKeyMARK: "a rule may have marked the packet", expr.MetaKeySKUID: "it compares the sending user",
			expr.MetaKeyCGROUP: "it compares the cgroup that sends", expr.MetaKeyPRANDOM: "it matches at random",
		}[l.Key], "it compares an unknown property of the packet")
	case *expr.Fib:
		return "it looks for a route"
	case *expr.Socket:
		return "it looks for a socket"
	case *expr.Numgen, *expr.Hash:
		return "it matches some of the packets"
	}
	return "it compares an unknown property of the packet"
}

// continues lists the iptables targets that continue with the next rule.
var continues = map[string]bool{
	"AUDIT": true, "CHECKSUM": true, "CLASSIFY": true, "CONNMARK": true, "CT": true, "DSCP": true, "HL": true, "LOG": true, "MARK": true,
	"NFLOG": true, "NOTRACK": true, "SET": true, "TCPMSS": true, "TEE": true, "TOS": true, "TRACE": true, "TTL": true,
}

func marks(rule *nftables.Rule) bool {
	return slices.ContainsFunc(rule.Exprs, func(e expr.Any) bool {
		switch e := e.(type) {
		case *expr.Meta:
			return e.SourceRegister && e.Key == expr.MetaKeyMARK
		case *expr.Target:
			return e.Name == "MARK" || e.Name == "CONNMARK"
		}
		return false
	})
}

// setsTTL reports whether a rule sets the TTL or hop limit, after which a router may drop the
// packet.
func setsTTL(rule *nftables.Rule, p Packet) bool {
	at := uint32(8) // offset in the IPv4 header
	if p.Src.Is6() {
		at = 7
	}
	return slices.ContainsFunc(rule.Exprs, func(e expr.Any) bool {
		switch e := e.(type) {
		case *expr.Payload:
			return e.OperationType == expr.PayloadWrite && e.Base == expr.PayloadBaseNetworkHeader && e.Offset <= at && at < e.Offset+e.Len
		case *expr.Target:
			return e.Name == "TTL" || e.Name == "HL"
		}
		return false
	})
}

func untracks(rule *nftables.Rule) bool {
	return slices.ContainsFunc(rule.Exprs, func(e expr.Any) bool {
		switch e := e.(type) {
		case *expr.Notrack:
			return true
		case *expr.Target:
			return e.Name == "NOTRACK" || e.Name == "CT"
		}
		return false
	})
}

// priorityTracking is the priority of connection tracking.
const priorityTracking = -200

// noteZone records a rule of a chain before connection tracking that assigns a conntrack zone.
func (r *Ruleset) noteZone(c *nftables.Chain, rule *nftables.Rule) {
	if c.Hooknum != nil && c.Priority != nil && *c.Priority < priorityTracking && zones(rule) {
		hook := Hook(*c.Hooknum)
		r.zoning[hook] = append(r.zoning[hook], rule)
	}
}

// zones reports whether a rule assigns a conntrack zone, or other properties of a connection that
// is not known yet.
func zones(rule *nftables.Rule) bool {
	return slices.ContainsFunc(rule.Exprs, func(e expr.Any) bool {
		switch e := e.(type) {
		case *expr.Ct:
			return setsCt(e) && e.Key == expr.CtKeyZONE
		case *expr.Target:
			return e.Name == "CT" && !untracksAsTarget(e)
		}
		return false
	})
}

// setsCt reports whether an expression sets a property. The netlink library does not parse the
// source register.
func setsCt(e *expr.Ct) bool { return e.SourceRegister || e.Register == 0 }

// untracksAsTarget reports whether the iptables target CT has the option --notrack.
func untracksAsTarget(target *expr.Target) bool {
	const notrack = 1 // XT_CT_NOTRACK, in the field flags of struct xt_ct_target_info
	info, is := target.Info.(*xt.Unknown)
	return is && len(*info) >= 2 && binary.NativeEndian.Uint16(*info)&notrack != 0
}

// note records a rule with an effect on later rules.
func (r *Ruleset) note(rule *nftables.Rule) {
	if marks(rule) {
		r.marking = append(r.marking, rule)
	}
	if untracks(rule) {
		r.untracking = append(r.untracking, rule)
	}
}

// mayBe reports whether one of the rules, at any hook, may have changed the packet.
func (w *walk) mayBe(changed **bool, rules []*nftables.Rule) bool {
	if *changed == nil {
		may := w.mayMatch(rules)
		*changed = &may
	}
	return **changed
}

// mayMatch reports whether one of the rules may match the packet.
func (w *walk) mayMatch(rules []*nftables.Rule) bool {
	is := true // for rules that match the change themselves
	other := walk{ruleset: w.ruleset, packet: w.packet, loaded: w.loaded, marked: &is, untracked: &is}
	return slices.ContainsFunc(rules, func(rule *nftables.Rule) bool {
		matches, _ := other.rule(rule)
		return matches != no
	})
}

func (w *walk) meta(k expr.MetaKey) []byte {
	switch k {
	case expr.MetaKeyIIFNAME:
		return w.loaded.in
	case expr.MetaKeyOIFNAME:
		return w.loaded.out
	case expr.MetaKeyIIF:
		return w.ruleset.indexes[w.packet.In]
	case expr.MetaKeyOIF:
		return w.ruleset.indexes[w.packet.Out]
	case expr.MetaKeyL4PROTO:
		return w.loaded.protocol
	case expr.MetaKeyNFPROTO:
		return w.loaded.family
	case expr.MetaKeyPROTOCOL:
		return etherTypeOf(w.packet)
	case expr.MetaKeyMARK:
		if !w.mayBe(&w.marked, w.ruleset.marking) {
			return make([]byte, 4)
		}
	case expr.MetaKeyLEN:
		if w.packet.Size > 0 {
			return binary.NativeEndian.AppendUint32(nil, uint32(w.packet.Size))
		}
	}
	return nil
}

func (w *walk) tracked(k expr.CtKey) []byte {
	if !w.packet.Untracked && w.mayBe(&w.untracked, w.ruleset.untracking) {
		return nil
	}
	switch k {
	case expr.CtKeySTATE:
		return w.loaded.state
	case expr.CtKeyDIRECTION:
		return w.loaded.direction
	case expr.CtKeySTATUS:
		if w.packet.Untranslated {
			return binary.NativeEndian.AppendUint32(nil, w.packet.status())
		}
	}
	return nil
}

// status returns the conntrack status bits (IPS_…), except for NAT.
func (p Packet) status() uint32 {
	const seenReply, assured, confirmed = 1 << 1, 1 << 2, 1 << 3
	switch {
	case p.Later:
		return seenReply | assured | confirmed
	case p.Answer:
		return seenReply | confirmed
	}
	return 0
}

// fib returns the type of an address of the packet; other fib results are unknown.
func (w *walk) fib(e *expr.Fib) []byte {
	if !e.ResultADDRTYPE || e.FlagMARK || e.FlagIIF || e.FlagOIF || e.FlagSADDR == e.FlagDADDR {
		return nil
	}
	addr := w.packet.Dst
	if e.FlagSADDR {
		addr = w.packet.Src
	}
	return binary.NativeEndian.AppendUint32(nil, uint32(w.ruleset.typeOf(addr)))
}

func compare(e *expr.Cmp, value []byte) match {
	if value == nil {
		return unknown
	}
	// A shorter operand, for a wildcard or a network, compares the beginning.
	order := bytes.Compare(value[:min(len(value), len(e.Data))], e.Data)
	is := false
	switch e.Op {
	case expr.CmpOpEq:
		is = order == 0
	case expr.CmpOpNeq:
		is = order != 0
	case expr.CmpOpLt:
		is = order < 0
	case expr.CmpOpLte:
		is = order <= 0
	case expr.CmpOpGt:
		is = order > 0
	case expr.CmpOpGte:
		is = order >= 0
	}
	if is {
		return yes
	}
	return no
}

func within(e *expr.Range, value []byte) match {
	if value == nil || len(value) < len(e.FromData) {
		return unknown
	}
	value = value[:len(e.FromData)]
	inside := bytes.Compare(value, e.FromData) >= 0 && bytes.Compare(value, e.ToData) <= 0
	if inside == (e.Op == expr.CmpOpEq) {
		return yes
	}
	return no
}

// extension evaluates iptables matches, which iptables-nft stores unchanged.
func (w *walk) extension(m *expr.Match) match {
	switch info := m.Info.(type) {
	case *xt.Comment:
		return yes
	case *xt.ConntrackMtinfo3:
		return w.ofConnection(&info.ConntrackMtinfoBase, info.StateMask, info.StatusMask)
	case *xt.ConntrackMtinfo2:
		return w.ofConnection(&info.ConntrackMtinfoBase, info.StateMask, info.StatusMask)
	case *xt.Tcp:
		if info.Option != 0 || w.packet.Protocol != unix.IPPROTO_TCP {
			return unknown
		}
		if same := w.packet.tcpFlags()&info.FlagsMask == info.FlagsCmp; same == (info.InvFlags&xt.TcpInvFlags != 0) {
			return no
		}
		return w.ports(info.SrcPorts, info.DstPorts, info.InvFlags&xt.TcpInvSrcPorts != 0, info.InvFlags&xt.TcpInvDestPorts != 0)
	case *xt.Udp:
		return w.ports(info.SrcPorts, info.DstPorts, info.InvFlags&xt.UdpInvSrcPorts != 0, info.InvFlags&xt.UdpInvDestPorts != 0)
	case *xt.AddrTypeV1:
		const notSource, notDest, limited = 1, 2, 4 | 8 // XT_ADDRTYPE_INVERT_…, XT_ADDRTYPE_LIMIT_…
		if info.Flags&limited != 0 {
			return unknown
		}
		return w.types(info.Source, info.Dest, info.Flags&notSource != 0, info.Flags&notDest != 0)
	case *xt.AddrType:
		return w.types(info.Source, info.Dest, info.InvertSource, info.InvertDest)
	case *xt.Unknown:
		switch {
		case m.Name == "multiport" && m.Rev == 1:
			return w.multiport(*info)
		case m.Name == "state" && len(*info) >= 4: // struct xt_state_info
			const untracked = 1 << 6 // XT_STATE_UNTRACKED
			states := uint16(binary.NativeEndian.Uint32(*info))
			if w.packet.Untracked {
				return matchIf(states&untracked != 0)
			}
			return w.ofStates(states, false)
		}
	}
	return unknown
}

// multiport evaluates struct xt_multiport_v1: a list of ports, some of which start a range that the
// next one ends.
func (w *walk) multiport(info []byte) match {
	const source, destination, either = 0, 1, 2
	const most, portsAt = 15, 2
	const rangesAt = portsAt + 2*most
	const invertAt = rangesAt + most
	if len(info) <= invertAt || info[1] > most {
		return unknown
	}
	listed := func(port uint16) match {
		if port == 0 {
			return unknown
		}
		for i := 0; i < int(info[1]); i++ {
			at := func(i int) uint16 { return binary.NativeEndian.Uint16(info[portsAt+2*i:]) }
			first, last := at(i), at(i)
			if info[rangesAt+i] != 0 && i+1 < most {
				i++
				last = at(i)
			}
			if first <= port && port <= last {
				return yes
			}
		}
		return no
	}
	src, dst := listed(w.packet.SrcPort), listed(w.packet.DstPort)
	result := unknown
	switch info[0] {
	case source:
		result = src
	case destination:
		result = dst
	case either:
		switch {
		case src == yes || dst == yes:
			result = yes
		case src == no && dst == no:
			result = no
		}
	}
	if info[invertAt] != 0 && result != unknown {
		return yes + no - result
	}
	return result
}

// types matches bit sets of address types; 0 is any.
func (w *walk) types(src, dst uint16, notSrc, notDst bool) match {
	const known = 1<<unix.RTN_UNICAST | 1<<unix.RTN_LOCAL | 1<<unix.RTN_BROADCAST | 1<<unix.RTN_MULTICAST
	matches := yes
	for _, a := range []struct {
		types uint16
		not   bool
		addr  netip.Addr
	}{{src, notSrc, w.packet.Src}, {dst, notDst, w.packet.Dst}} {
		switch {
		case a.types == 0:
		case a.types&^known != 0:
			matches = unknown
		case (a.types&(1<<w.ruleset.typeOf(a.addr)) != 0) == a.not:
			return no
		}
	}
	return matches
}

func (w *walk) ports(src, dst [2]uint16, notSrc, notDst bool) match {
	source, destination := inRange(w.packet.SrcPort, src, notSrc), inRange(w.packet.DstPort, dst, notDst)
	switch {
	case source == no || destination == no:
		return no
	case source == unknown || destination == unknown:
		return unknown
	}
	return yes
}

// inRange reports whether a port (0: unknown) is in a range, or with not, outside.
func inRange(port uint16, ports [2]uint16, not bool) match {
	all := ports == [2]uint16{0, 1<<16 - 1}
	if !all && port == 0 {
		return unknown
	}
	if (all || ports[0] <= port && port <= ports[1]) != not {
		return yes
	}
	return no
}

// ofConnection evaluates state and status of the match "conntrack".
func (w *walk) ofConnection(info *xt.ConntrackMtinfoBase, states, statuses uint16) match {
	asked := xt.ConntrackFlags(info.MatchFlags)
	inverted := func(flag xt.ConntrackFlags) bool { return xt.ConntrackFlags(info.InvertFlags)&flag != 0 }
	if w.packet.Untracked { // the kernel evaluates nothing but the state, and does not match without
		return matchIf(asked&xt.ConntrackState != 0 && w.ofStates(states, inverted(xt.ConntrackState)) == yes)
	}
	if w.mayBe(&w.untracked, w.ruleset.untracking) {
		return unknown
	}
	matches := yes
	if asked&^(xt.ConntrackState|xt.ConntrackStatus|xt.ConntrackStateAlias) != 0 {
		matches = unknown
	}
	results := []match{yes, yes}
	if asked&xt.ConntrackState != 0 {
		results[0] = w.ofStates(states, inverted(xt.ConntrackState))
	}
	if asked&xt.ConntrackStatus != 0 {
		results[1] = unknown
		if w.packet.Untranslated {
			results[1] = matchIf((uint32(statuses)&w.packet.status() != 0) != inverted(xt.ConntrackStatus))
		}
	}
	for _, result := range results {
		switch result {
		case no:
			return no
		case unknown:
			matches = unknown
		}
	}
	return matches
}

// ofStates reports whether the connection state is in the mask, or with inverted, is not.
func (w *walk) ofStates(mask uint16, inverted bool) match {
	const newConnection, established = 1 << (2 + 1), 1 << (0 + 1) // XT_CONNTRACK_STATE_BIT(IP_CT_…)
	const translated, untracked = 1<<6 | 1<<7, 1 << 8             // XT_CONNTRACK_STATE_SNAT and …_DNAT, …_UNTRACKED
	state := uint16(newConnection)
	if w.packet.established() {
		state = established
	}
	if w.packet.Untracked {
		return matchIf((mask&untracked != 0) != inverted)
	}
	if mask&state == 0 && mask&translated != 0 && !w.packet.Untranslated {
		return unknown
	}
	return matchIf((mask&state != 0) != inverted)
}

func matchIf(matches bool) match {
	if matches {
		return yes
	}
	return no
}
