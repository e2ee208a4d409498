package nfttest

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// ctWord is a conntrack expression, which the library decodes only in part.
type ctWord struct {
	key       uint32
	register  uint32
	stores    bool
	direction byte
}

func expression(family byte, data []byte) (any, error) {
	a := parse(data)
	name, body := a.text(unix.NFTA_EXPR_NAME), a[unix.NFTA_EXPR_DATA]
	var e expr.Any
	switch name {
	case "ct":
		return ctOf(parse(body)), nil
	case "notrack":
		return &expr.Notrack{}, nil
	case "immediate":
		e = &expr.Immediate{}
		if parse(body).number(unix.NFTA_IMMEDIATE_DREG) == unix.NFT_REG_VERDICT {
			e = &expr.Verdict{}
		}
	case "meta":
		e = &expr.Meta{}
	case "cmp":
		e = &expr.Cmp{}
	case "counter":
		e = &expr.Counter{}
	case "payload":
		e = &expr.Payload{}
	case "lookup":
		e = &expr.Lookup{}
	case "bitwise":
		e = &expr.Bitwise{}
	case "range":
		e = &expr.Range{}
	case "nat":
		e = &expr.NAT{}
	case "masq":
		e = &expr.Masq{}
	case "dynset":
		e = &expr.Dynset{}
	case "limit":
		e = &expr.Limit{}
	case "exthdr":
		e = &expr.Exthdr{}
	case "reject":
		e = &expr.Reject{}
	case "hash":
		e = &expr.Hash{}
	case "fib":
		e = &expr.Fib{}
	case "numgen":
		e = &expr.Numgen{}
	default:
		return nil, fmt.Errorf("nfttest knows no expression %q: %w", name, unix.EOPNOTSUPP)
	}
	return e, expr.Unmarshal(family, body, e)
}

func ctOf(a attrs) ctWord {
	w := ctWord{key: a.number(unix.NFTA_CT_KEY), register: a.number(unix.NFTA_CT_DREG)}
	if a[unix.NFTA_CT_SREG] != nil {
		w.register, w.stores = a.number(unix.NFTA_CT_SREG), true
	}
	if direction := a[unix.NFTA_CT_DIRECTION]; len(direction) > 0 {
		w.direction = direction[0]
	}
	return w
}

// registers of a packet in a chain: 16 of four bytes each.
type registers [64]byte

// at returns the bytes of a register: one of 16, or one of four that overlap four of these.
func (r *registers) at(n uint32) []byte {
	if n >= unix.NFT_REG32_00 {
		return r[4*(n-unix.NFT_REG32_00):]
	}
	return r[16*(n-unix.NFT_REG_1):]
}

func (r *registers) set(n uint32, data []byte) {
	to := r.at(n)
	copy(to, data)
	for i := len(data); i%4 != 0; i++ {
		to[i] = 0
	}
}

func (r *registers) get(n uint32, length int) []byte { return r.at(n)[:length] }

type walk struct {
	host   *Host
	table  *table
	packet *packet
	regs   registers
	trace  []string
	chains int
}

// outcome of a rule or a chain. The zero value drops the packet, as NF_DROP is 0.
type outcome struct {
	verdict expr.VerdictKind
	refused bool
	by      string // the deciding rule
	chain   string // of jump and goto
}

const (
	verdictContinue = expr.VerdictContinue
	verdictBreak    = expr.VerdictBreak // the rule does not match
	maxDepth        = 16                // NFT_JUMP_STACK_SIZE
	maxChains       = 1000              // Linux refuses loops
)

var goesOn = outcome{verdict: verdictContinue}

func (w *walk) run(c *chain, depth int) (outcome, error) {
	if w.chains++; depth > maxDepth || w.chains > maxChains {
		return outcome{}, fmt.Errorf("more than %d jumps into each other, or %d chains, after %q", maxDepth, maxChains, w.trace[max(0, len(w.trace)-maxDepth):])
	}
	for i, r := range c.rules {
		o, err := w.rule(r)
		if err != nil {
			return o, fmt.Errorf("table %v, chain %s, rule %d (%s): %w", w.table.key, c.name, i+1, r.text(), err)
		}
		switch o.verdict {
		case verdictBreak, verdictContinue:
			continue
		case expr.VerdictReturn:
			return goesOn, nil
		}
		w.trace = append(w.trace, fmt.Sprintf("%v %s: %s", w.table.key, c.name, r.text()))
		if o.verdict == expr.VerdictJump || o.verdict == expr.VerdictGoto {
			next := w.table.chains[o.chain]
			if next == nil {
				return o, fmt.Errorf("table %v has no chain %q", w.table.key, o.chain)
			}
			if o.verdict == expr.VerdictJump {
				depth++ // a jump returns
			}
			inner, err := w.run(next, depth)
			if o.verdict == expr.VerdictJump {
				depth--
			}
			if err != nil || inner.verdict != verdictContinue || o.verdict == expr.VerdictGoto {
				return inner, err
			}
			continue
		}
		o.by = fmt.Sprintf("%v %s: %s", w.table.key, c.name, r.text())
		return o, nil
	}
	return goesOn, nil
}

func (r rule) text() string {
	if len(r.comment) < 2 {
		return "no comment"
	}
	return string(bytes.Trim(r.comment[2:], "\x00"))
}

func (w *walk) rule(r rule) (outcome, error) {
	for _, e := range r.exprs {
		o, err := w.eval(e)
		if err != nil || o.verdict != verdictContinue {
			return o, err
		}
	}
	return goesOn, nil
}

func matches(yes bool) (outcome, error) {
	if yes {
		return goesOn, nil
	}
	return outcome{verdict: verdictBreak}, nil
}

func native32(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// load puts a value into a register; without a value, the rule does not match.
func (w *walk) load(register uint32, data []byte) (outcome, error) {
	if data != nil {
		w.regs.set(register, data)
	}
	return matches(data != nil)
}

func (w *walk) eval(e any) (outcome, error) {
	next := goesOn
	switch e := e.(type) {
	case *expr.Counter:
		return next, nil
	case *expr.Verdict:
		return outcome{verdict: e.Kind, chain: e.Chain}, nil
	case *expr.Immediate:
		w.regs.set(e.Register, e.Data)
		return next, nil
	case *expr.Meta:
		if e.SourceRegister {
			if e.Key != expr.MetaKeyMARK {
				return next, fmt.Errorf("nfttest cannot set meta %d", e.Key)
			}
			w.packet.mark = binary.NativeEndian.Uint32(w.regs.get(e.Register, 4))
			return next, nil
		}
		data, err := w.meta(e.Key)
		if err != nil {
			return next, err
		}
		return w.load(e.Register, data)
	case ctWord:
		return w.ct(e)
	case *expr.Payload:
		return w.load(e.DestRegister, w.packet.payload(e.Base, int(e.Offset), int(e.Len)))
	case *expr.Exthdr:
		return matches(false) // no packet has extension headers
	case *expr.Fib:
		return w.fib(e)
	case *expr.Cmp:
		return matches(compare(e.Op, bytes.Compare(w.regs.get(e.Register, len(e.Data)), e.Data)))
	case *expr.Range:
		data := w.regs.get(e.Register, len(e.FromData))
		inside := bytes.Compare(data, e.FromData) >= 0 && bytes.Compare(data, e.ToData) <= 0
		return matches(inside == (e.Op == expr.CmpOpEq))
	case *expr.Bitwise:
		data := bytes.Clone(w.regs.get(e.SourceRegister, int(e.Len)))
		for i := range data {
			data[i] = data[i]&e.Mask[i] ^ e.Xor[i]
		}
		w.regs.set(e.DestRegister, data)
		return next, nil
	case *expr.Numgen:
		w.regs.set(e.Register, native32(w.host.Random(e.Modulus)+e.Offset))
		return next, nil
	case *expr.Hash:
		n := uint32(2166136261)
		for _, b := range w.regs.get(e.SourceRegister, int(e.Length)) {
			n = (n ^ uint32(b)) * 16777619 // any hash will do
		}
		w.regs.set(e.DestRegister, native32(n%e.Modulus+e.Offset))
		return next, nil
	case *expr.Limit:
		return matches(!e.Over) // packets are rare
	case *expr.Lookup:
		return w.lookup(e)
	case *expr.Dynset:
		return w.dynset(e)
	case *expr.NAT:
		return w.nat(e)
	case *expr.Masq:
		if w.packet.out == "" || w.host.Source == nil {
			return next, fmt.Errorf("nfttest knows no address to masquerade with")
		}
		return outcome{verdict: expr.VerdictAccept}, w.packet.translate(false, w.host.Source(w.packet.out, w.packet.src.Addr()), nil)
	case *expr.Notrack:
		w.packet.untracked = true
		return next, nil
	case *expr.Reject:
		return outcome{verdict: expr.VerdictDrop, refused: true}, nil
	}
	return next, fmt.Errorf("nfttest cannot evaluate %T", e)
}

func compare(op expr.CmpOp, order int) bool {
	return map[expr.CmpOp]bool{
		expr.CmpOpEq: order == 0, expr.CmpOpNeq: order != 0, expr.CmpOpLt: order < 0,
		expr.CmpOpLte: order <= 0, expr.CmpOpGt: order > 0, expr.CmpOpGte: order >= 0,
	}[op]
}

func (w *walk) lookup(e *expr.Lookup) (outcome, error) {
	s := w.table.sets[e.SetName]
	if s == nil {
		return outcome{}, fmt.Errorf("no set %q", e.SetName)
	}
	found := s.find(string(w.regs.get(e.SourceRegister, int(s.keyLen))))
	if found == nil || !e.IsDestRegSet {
		return matches((found != nil) != e.Invert)
	}
	if e.DestRegister == unix.NFT_REG_VERDICT {
		return outcome{verdict: found.verdict.Kind, chain: found.verdict.Chain}, nil
	}
	w.regs.set(e.DestRegister, []byte(found.data))
	return goesOn, nil
}

// dynset changes a set. The caller holds the lock of the kernel.
func (w *walk) dynset(e *expr.Dynset) (outcome, error) {
	s := w.table.sets[e.SetName]
	if s == nil {
		return outcome{}, fmt.Errorf("no set %q", e.SetName)
	}
	for _, x := range e.Exprs {
		if _, counter := x.(*expr.Counter); !counter {
			return outcome{}, fmt.Errorf("nfttest knows no expression %T of elements", x)
		}
	}
	key := elementKey{key: string(w.regs.get(e.SrcRegKey, int(s.keyLen)))}
	if e.Operation == dynsetDelete {
		delete(s.elements, key)
		return goesOn, nil
	}
	if have := s.elements[key]; have != nil && e.Operation == unix.NFT_DYNSET_OP_UPDATE {
		have.left = e.Timeout
	} else if have == nil && s.size > 0 && len(s.elements) >= s.size {
		return matches(false)
	} else if have == nil {
		added := &element{left: e.Timeout}
		if e.SrcRegData != 0 {
			added.data = string(w.regs.get(e.SrcRegData, int(s.dataLen)))
		}
		s.elements[key] = added
	}
	if len(e.Exprs) > 0 {
		s.elements[key].packets++
	}
	return goesOn, nil
}
