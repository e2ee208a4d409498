// Package foreign finds rules of others that drop a packet, or send it elsewhere: in nftables, and in
// iptables, which is written in nftables or, by iptables-legacy, in tables of its own.
//
//	chains and rules of the kernel ──Read──> Ruleset ──Harms(packet)──> the rules and policies that stop it
//
// Translations by kube-proxy are not read: they are as large as the cluster, and only concern the
// addresses of services.
//
// A rule that matches something which is not known of the packet may match or not: such a rule is
// neither taken for a drop nor for what saves the packet from a later one, but then the answer is
// uncertain, and nothing is reported. Not seen are matches that the library for netlink leaves out
// (socket, osf, rt, xfrm): such a rule counts as if it had none.
package foreign

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/netlink/namespace"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"golang.org/x/sys/unix"
)

// Hook is where a packet comes by. The first ones have the numbers of netfilter.
type Hook uint32

const (
	Prerouting Hook = iota
	Input
	Forward
	Output
	Postrouting
	Ingress // of the device In
	Egress  // of the device Out
	// Bridge and one of the first hooks: that of packets in a bridge.
	Bridge Hook = 16
)

// Packet is the first one of a connection, or of its answers. Zero fields are not known.
type Packet struct {
	Hook             Hook
	In, Out          string // devices
	Src, Dst         netip.Addr
	Protocol         uint8
	SrcPort, DstPort uint16
	Size             int // with the IP header
	// Answer: the connection is established.
	Answer bool
}

// Ruleset is what others have in the filters of a network namespace.
type Ruleset struct {
	bases []base
	rules map[string][]*nftables.Rule // by family, table and chain
}

// base is a chain that packets come to at a hook.
type base struct {
	*nftables.Chain
	hook    Hook
	devices []string // of Ingress and Egress
}

// hookOf returns the hook of a base chain; not ok: packets do not come by there.
func hookOf(c *nftables.Chain) (hook Hook, ok bool) {
	const inetIngress = 5
	hook = Hook(*c.Hooknum)
	switch c.Table.Family {
	case nftables.TableFamilyNetdev:
		return Ingress + hook, hook <= Egress-Ingress
	case nftables.TableFamilyBridge:
		return Bridge + hook, hook <= Postrouting
	case nftables.TableFamilyINet:
		if hook == inetIngress {
			return Ingress, true
		}
	case nftables.TableFamilyIPv4, nftables.TableFamilyIPv6:
	default:
		return 0, false
	}
	return hook, hook <= Postrouting
}

// ofKubeProxy reports whether a chain of translations is kube-proxy's.
func ofKubeProxy(table, chain string) bool {
	return table == "kube-proxy" || strings.HasPrefix(chain, "KUBE-")
}

func key(t *nftables.Table, chain string) string {
	return fmt.Sprintf("%d/%s/%s", t.Family, t.Name, chain)
}

// Read reads the tables of a network namespace but for those that are ours.
func Read(ns *namespace.Namespace, ours func(table string) bool) (*Ruleset, error) {
	conn, err := nftables.New(nftables.WithNetNSFd(int(ns.Handle)))
	if err != nil {
		return nil, fmt.Errorf("opening netlink for nftables: %w", err)
	}
	chains, err := conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("listing the chains of nftables: %w", err)
	}
	r := &Ruleset{rules: map[string][]*nftables.Rule{}}
	var onDevices map[string][]string
	for _, c := range chains {
		if c.Hooknum == nil || ours(c.Table.Name) {
			continue
		}
		hook, ok := hookOf(c)
		if translates := c.Type == nftables.ChainTypeNAT; !ok || translates && (hook != Prerouting && hook != Output || ofKubeProxy(c.Table.Name, c.Name)) {
			continue
		}
		b := base{Chain: c, hook: hook}
		if hook == Ingress || hook == Egress {
			if onDevices == nil {
				if onDevices, err = devices(ns); err != nil {
					return nil, err
				}
			}
			b.devices = onDevices[key(c.Table, c.Name)]
		}
		r.bases = append(r.bases, b)
		if err := r.read(conn, c); err != nil {
			return nil, err
		}
	}
	return r, ns.Run(r.legacy)
}

// read reads a chain, and those that its rules jump to: of the thousands that a kube-proxy has, few
// filter.
func (r *Ruleset) read(conn *nftables.Conn, c *nftables.Chain) error {
	at := key(c.Table, c.Name)
	if _, done := r.rules[at]; done {
		return nil
	}
	rules, err := conn.GetRules(c.Table, c)
	if err != nil {
		return fmt.Errorf("listing chain %s of table %s: %w", c.Name, c.Table.Name, err)
	}
	r.rules[at] = rules
	for _, rule := range rules {
		for _, e := range rule.Exprs {
			if v, ok := e.(*expr.Verdict); ok && v.Chain != "" && !(c.Type == nftables.ChainTypeNAT && ofKubeProxy(c.Table.Name, v.Chain)) {
				if err := r.read(conn, &nftables.Chain{Table: c.Table, Name: v.Chain, Type: c.Type}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Empty reports whether there is nothing that could drop a packet.
func (r *Ruleset) Empty() bool { return len(r.bases) == 0 }

// Harms says what becomes of a packet that does not get where it is sent, such as "are dropped: a rule
// of chain FORWARD in table ip filter drops the packet".
func (r *Ruleset) Harms(p Packet) (found []string) {
	for _, c := range r.bases {
		if !c.sees(p) {
			continue
		}
		w := walk{ruleset: r, packet: p, src: p.Src.AsSlice(), dst: p.Dst.AsSlice()}
		switch verdict, by := w.chain(c.Table, c.Name, 0); {
		case verdict == drops:
			found = append(found, "are dropped: "+by)
		case verdict == diverts:
			found = append(found, "get another destination: "+by)
		case verdict == falls && !w.uncertain && c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop:
			found = append(found, fmt.Sprintf("are dropped: the policy of chain %s in table %s is drop, and none of its rules accepts the packet", c.Name, tableName(c.Table)))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// sees reports whether a packet comes by the chain. Translations are of connections, not of answers.
func (c base) sees(p Packet) bool {
	switch {
	case c.hook != p.Hook, p.Answer && c.Type == nftables.ChainTypeNAT,
		c.Table.Family == nftables.TableFamilyIPv4 && p.Src.Is6(), c.Table.Family == nftables.TableFamilyIPv6 && p.Src.Is4():
		return false
	case c.hook == Ingress:
		return slices.Contains(c.devices, p.In)
	case c.hook == Egress:
		return slices.Contains(c.devices, p.Out)
	}
	return true
}

func tableName(t *nftables.Table) string {
	return map[nftables.TableFamily]string{
		nftables.TableFamilyINet: "inet ", nftables.TableFamilyIPv4: "ip ", nftables.TableFamilyIPv6: "ip6 ",
		nftables.TableFamilyNetdev: "netdev ", nftables.TableFamilyBridge: "bridge ",
	}[t.Family] + t.Name
}

type verdict int

const (
	falls   verdict = iota // through, or returns
	accepts                // in this base chain
	drops
	diverts // to another destination
)

// verdictDivert marks rules that change a packet's destination. The kernel has no such number.
const verdictDivert = expr.VerdictKind(1 << 16)

// maxJumps is the kernel's.
const maxJumps = 16

type walk struct {
	ruleset  *Ruleset
	packet   Packet
	src, dst []byte // addresses
	// uncertain: a rule may have accepted the packet.
	uncertain bool
}

func (w *walk) chain(t *nftables.Table, name string, depth int) (verdict, string) {
	if depth > maxJumps {
		return falls, ""
	}
	for _, rule := range w.ruleset.rules[key(t, name)] {
		matches, end := w.rule(rule)
		if matches == no || end == nil {
			continue
		}
		switch end.Kind {
		case expr.VerdictJump, expr.VerdictGoto:
			v, by := w.chain(t, end.Chain, depth+1)
			if (v == drops || v == diverts) && matches == yes && !w.uncertain {
				return v, by
			}
			if v == accepts && matches == yes {
				return v, ""
			}
			if v != falls {
				w.uncertain = true
			} else if end.Kind == expr.VerdictGoto && matches == yes {
				return falls, ""
			}
			continue
		}
		if matches == unknown {
			w.uncertain = w.uncertain || end.Kind == expr.VerdictAccept || end.Kind == expr.VerdictReturn
			continue
		}
		switch end.Kind {
		case expr.VerdictDrop:
			if w.uncertain {
				return accepts, ""
			}
			return drops, fmt.Sprintf("a rule of chain %s in table %s drops the packet%s", name, tableName(t), comment(rule))
		case verdictDivert:
			if w.uncertain {
				return accepts, ""
			}
			return diverts, fmt.Sprintf("a rule of chain %s in table %s translates it%s", name, tableName(t), comment(rule))
		case expr.VerdictAccept:
			return accepts, ""
		case expr.VerdictReturn:
			return falls, ""
		}
	}
	return falls, ""
}

// comment of a rule, as nft and iptables-nft write it.
func comment(rule *nftables.Rule) string {
	if data := rule.UserData; len(data) > 2 && data[0] == 0 && int(data[1])+2 <= len(data) {
		return fmt.Sprintf(" (comment %q)", strings.TrimRight(string(data[2:2+int(data[1])]), "\x00"))
	}
	for _, e := range rule.Exprs {
		if match, is := e.(*expr.Match); is {
			if text, is := match.Info.(*xt.Comment); is {
				return fmt.Sprintf(" (comment %q)", string(*text))
			}
		}
	}
	return ""
}

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
			switch e.Name {
			case "REJECT":
				end = &expr.Verdict{Kind: expr.VerdictDrop}
			case "DNAT", "REDIRECT":
				end = &expr.Verdict{Kind: verdictDivert}
			default:
				return unknown, nil
			}
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
		return make([]byte, 4)
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
