package foreign

import (
	"bytes"
	"encoding/binary"
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

// rule reports whether a packet matches, and what becomes of it then; nil: nothing.
func (w *walk) rule(rule *nftables.Rule) (matches match, end *expr.Verdict) {
	var registers registers
	for _, e := range rule.Exprs {
		result := yes
		switch e := e.(type) {
		case *expr.Meta:
			if e.SourceRegister {
				continue
			}
			registers.set(e.Register, w.meta(e.Key), e.Key == expr.MetaKeyLEN || e.Key == expr.MetaKeyMARK)
		case *expr.Payload:
			registers.set(e.DestRegister, w.payload(e), false)
		case *expr.Ct:
			registers.set(e.Register, nil, false)
			if e.Key == expr.CtKeySTATE {
				state := uint32(expr.CtStateBitNEW)
				if w.packet.Answer {
					state = expr.CtStateBitESTABLISHED
				}
				registers.set(e.Register, binary.NativeEndian.AppendUint32(nil, state), false)
			}
		case *expr.Bitwise:
			from, number := registers.get(e.SourceRegister), registers.isNumber(e.DestRegister)
			registers.set(e.DestRegister, nil, number)
			if from != nil && len(e.Mask) == len(from) && len(e.Xor) == len(from) {
				out := make([]byte, len(from))
				for i := range out {
					out[i] = from[i]&e.Mask[i] ^ e.Xor[i]
				}
				registers.set(e.DestRegister, out, number)
			}
		case *expr.Cmp:
			if e.Op != expr.CmpOpEq && e.Op != expr.CmpOpNeq {
				registers.order(e.Register)
			}
			result = compare(e, registers.get(e.Register))
		case *expr.Range:
			registers.order(e.Register)
			result = within(e, registers.get(e.Register))
		case *expr.Counter, *expr.Log:
		case *expr.Verdict:
			end = e
		case *expr.Reject:
			end = &expr.Verdict{Kind: expr.VerdictDrop}
		case *expr.Match:
			result = w.extension(e)
		case *expr.NAT:
			if e.Type != expr.NATTypeDestNAT {
				end = &expr.Verdict{Kind: expr.VerdictAccept}
				break
			}
			end = &expr.Verdict{Kind: verdictDivert}
		case *expr.Redir:
			end = &expr.Verdict{Kind: verdictDivert}
		case *expr.Immediate:
			registers.set(e.Register, e.Data, false)
		case *expr.Target: // of iptables, such as LOG or REJECT
			switch {
			case e.Name == "REJECT":
				end = &expr.Verdict{Kind: expr.VerdictDrop}
			case e.Name == "DNAT", e.Name == "REDIRECT":
				end = &expr.Verdict{Kind: verdictDivert}
			case !continues[e.Name]:
				result, end = unknown, &expr.Verdict{Kind: verdictUnknown}
			}
		case *expr.Lookup:
			result = unknown
			if e.IsDestRegSet && e.DestRegister == unix.NFT_REG_VERDICT {
				end = &expr.Verdict{Kind: verdictUnknown}
			} else if e.IsDestRegSet {
				registers.set(e.DestRegister, nil, false)
			}
		case *expr.Queue:
			result, end = unknown, &expr.Verdict{Kind: verdictUnknown}
		default:
			result = unknown
		}
		switch result {
		case no:
			return no, nil
		case unknown:
			matches = unknown
		}
	}
	return matches, end
}

// continues has the targets of iptables after which the next rule is asked.
var continues = map[string]bool{
	"AUDIT": true, "CHECKSUM": true, "CLASSIFY": true, "CONNMARK": true, "CT": true, "DSCP": true, "LOG": true, "MARK": true,
	"NFLOG": true, "NOTRACK": true, "SET": true, "TCPMSS": true, "TEE": true, "TOS": true, "TRACE": true, "TTL": true,
}

// marks reports whether a rule sets the mark of packets.
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

// mayBeMarked reports whether a rule at any hook may have marked the packet.
func (w *walk) mayBeMarked() bool {
	if w.marked == nil {
		marked := true // for rules that match marks themselves
		w.marked = &marked
		marked = slices.ContainsFunc(w.ruleset.marking, func(rule *nftables.Rule) bool {
			matches, _ := w.rule(rule)
			return matches != no
		})
	}
	return *w.marked
}

// registers have what a rule has loaded: nil if it is not known.
type registers struct {
	values [24][]byte // as many as nftables has
	// numbers are in the order of the machine.
	numbers [24]bool
}

func (r *registers) get(register uint32) []byte {
	if int(register) < len(r.values) {
		return r.values[register]
	}
	return nil
}

func (r *registers) isNumber(register uint32) bool {
	return int(register) < len(r.numbers) && r.numbers[register]
}

func (r *registers) set(register uint32, value []byte, number bool) {
	if int(register) < len(r.values) {
		r.values[register], r.numbers[register] = value, number
	}
}

// order makes a number comparable: rules turn it into network order before, which the library
// does not show.
func (r *registers) order(register uint32) {
	if value := r.get(register); value != nil && r.isNumber(register) {
		r.set(register, binary.BigEndian.AppendUint32(nil, binary.NativeEndian.Uint32(value)), false)
	}
}

func (w *walk) meta(k expr.MetaKey) []byte {
	name := func(device string) []byte {
		if device == "" {
			return nil
		}
		padded := make([]byte, unix.IFNAMSIZ)
		copy(padded, device)
		return padded
	}
	switch k {
	case expr.MetaKeyIIFNAME:
		return name(w.packet.In)
	case expr.MetaKeyOIFNAME:
		return name(w.packet.Out)
	case expr.MetaKeyIIF:
		return w.ruleset.indexes[w.packet.In]
	case expr.MetaKeyOIF:
		return w.ruleset.indexes[w.packet.Out]
	case expr.MetaKeyL4PROTO:
		if w.packet.Protocol != 0 {
			return []byte{w.packet.Protocol}
		}
	case expr.MetaKeyNFPROTO:
		if w.packet.Src.Is6() {
			return []byte{unix.NFPROTO_IPV6}
		}
		return []byte{unix.NFPROTO_IPV4}
	case expr.MetaKeyPROTOCOL:
		return w.etherType()
	case expr.MetaKeyMARK:
		if !w.mayBeMarked() {
			return make([]byte, 4)
		}
	case expr.MetaKeyLEN:
		if w.packet.Size > 0 {
			return binary.NativeEndian.AppendUint32(nil, uint32(w.packet.Size))
		}
	}
	return nil
}

// etherType of the packet, as in frames.
func (w *walk) etherType() []byte {
	if w.packet.Src.Is6() {
		return binary.BigEndian.AppendUint16(nil, unix.ETH_P_IPV6)
	}
	return binary.BigEndian.AppendUint16(nil, unix.ETH_P_IP)
}

func (w *walk) payload(e *expr.Payload) []byte {
	if e.OperationType != expr.PayloadLoad {
		return nil
	}
	p := w.packet
	src, dst, protocol := uint32(12), uint32(16), uint32(9)
	if p.Src.Is6() {
		src, dst, protocol = 8, 24, 6
	}
	part := func(addr []byte) []byte {
		if int(e.Len) <= len(addr) {
			return addr[:e.Len]
		}
		return nil
	}
	const etherTypeOffset = 12
	switch {
	case e.Base == expr.PayloadBaseLLHeader && e.Offset == etherTypeOffset && e.Len == 2:
		return w.etherType()
	case e.Base == expr.PayloadBaseNetworkHeader && e.Offset == src && p.Src.IsValid():
		return part(w.src)
	case e.Base == expr.PayloadBaseNetworkHeader && e.Offset == dst && p.Dst.IsValid():
		return part(w.dst)
	case e.Base == expr.PayloadBaseNetworkHeader && e.Offset == protocol && e.Len == 1 && p.Protocol != 0:
		return []byte{p.Protocol}
	case e.Base == expr.PayloadBaseTransportHeader && e.Offset == 0 && e.Len == 2 && p.SrcPort != 0:
		return binary.BigEndian.AppendUint16(nil, p.SrcPort)
	case e.Base == expr.PayloadBaseTransportHeader && e.Offset == 2 && e.Len == 2 && p.DstPort != 0:
		return binary.BigEndian.AppendUint16(nil, p.DstPort)
	case e.Base == expr.PayloadBaseTransportHeader && e.Offset == 0 && e.Len == 4 && p.SrcPort != 0 && p.DstPort != 0:
		return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, p.SrcPort), p.DstPort)
	}
	return nil
}

func compare(e *expr.Cmp, value []byte) match {
	if value == nil {
		return unknown
	}
	// A shorter operand, of a name with a wildcard or a network, compares the beginning.
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

// extension evaluates the matches of iptables, which iptables-nft leaves as they were as well.
func (w *walk) extension(m *expr.Match) match {
	const newConnection, established = 1 << (2 + 1), 1 << (0 + 1) // XT_CONNTRACK_STATE_BIT(IP_CT_…)
	state := uint16(newConnection)
	if w.packet.Answer {
		state = established
	}
	switch info := m.Info.(type) {
	case *xt.Comment:
		return yes
	case *xt.ConntrackMtinfo3:
		return ofState(uint16(info.StateMask), info.MatchFlags, info.InvertFlags, state)
	case *xt.ConntrackMtinfo2:
		return ofState(info.StateMask, info.MatchFlags, info.InvertFlags, state)
	case *xt.Tcp:
		if info.Option != 0 || info.FlagsMask != 0 {
			return unknown
		}
		return w.ports(info.SrcPorts, info.DstPorts, info.InvFlags&xt.TcpInvSrcPorts != 0, info.InvFlags&xt.TcpInvDestPorts != 0)
	case *xt.Udp:
		return w.ports(info.SrcPorts, info.DstPorts, info.InvFlags&xt.UdpInvSrcPorts != 0, info.InvFlags&xt.UdpInvDestPorts != 0)
	}
	return unknown
}

// ports are ranges.
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

// inRange reports whether a port, 0 if it is not known, is in a range, or not in it if that is wanted.
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

func ofState(mask, flags, inverted, state uint16) match {
	const onlyState = 1 // XT_CONNTRACK_STATE
	if flags != onlyState {
		return unknown
	}
	if (mask&state != 0) != (inverted&onlyState != 0) {
		return yes
	}
	return no
}
