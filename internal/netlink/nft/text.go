package nft

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// AddText adds a rule in the subset of nft(8) syntax that Contiv uses: comparisons of fields with
// values, ranges, prefixes, sets and verdict maps, masks, meta mark set, ct mark set, update and
// delete of elements, limits of packets per second, counter, snat, dnat, masquerade, notrack, reject
// and verdicts. Other text fails the whole batch.
func (b *Batch) AddText(chain, comment, text string) {
	p := &parser{batch: b, tokens: tokens(text)}
	if err := p.rule(); err != nil {
		if b.err == nil {
			b.err = fmt.Errorf("rule %q of chain %q: %w", text, chain, err)
		}
		return
	}
	b.AddRule(chain, comment, p.words)
}

func tokens(text string) []string {
	return strings.Fields(apart.Replace(text))
}

var apart = strings.NewReplacer("{", " { ", "}", " } ", "(", " ( ", ")", " ) ", ",", " , ", "|", " | ")

type parser struct {
	batch  *Batch
	tokens []string
	words  []Word
	// Protocols that the rule has checked so far; 0: none.
	network, transport byte
	ethernet           bool
}

// register returns the number of a register of four bytes.
func register(n uint32) uint32 { return unix.NFT_REG32_00 + n }

func (p *parser) add(words ...Word) { p.words = append(p.words, words...) }

func (p *parser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *parser) next() string {
	token := p.peek()
	if token != "" {
		p.tokens = p.tokens[1:]
	}
	return token
}

// take consumes the tokens if they are next.
func (p *parser) take(tokens ...string) bool {
	if len(p.tokens) < len(tokens) || !slices.Equal(p.tokens[:len(tokens)], tokens) {
		return false
	}
	p.tokens = p.tokens[len(tokens):]
	return true
}

func (p *parser) expect(token string) error {
	if !p.take(token) {
		return fmt.Errorf("%q in place of %q", p.peek(), token)
	}
	return nil
}

func (p *parser) rule() error {
	for len(p.tokens) > 0 {
		if err := p.statement(); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) statement() error {
	if v, ok := p.verdict(); ok {
		p.add(Known{verdictOf(v)})
		return nil
	}
	switch {
	case p.take("counter"):
		p.add(Known{&expr.Counter{}})
	case p.take("ct", "mark", "set", "ct", "mark"):
		return p.setMark("ct mark", func(r uint32) expr.Any { return &expr.Ct{Key: expr.CtKeyMARK, Register: r, SourceRegister: true} })
	case p.take("meta", "mark", "set", "meta", "mark"):
		return p.setMark("meta mark", func(r uint32) expr.Any { return &expr.Meta{Key: expr.MetaKeyMARK, Register: r, SourceRegister: true} })
	case p.take("update"):
		return p.change(unix.NFT_DYNSET_OP_UPDATE)
	case p.take("delete"):
		return p.change(dynsetDelete)
	case p.take("limit", "rate"):
		return p.limit()
	case p.take("snat"):
		return p.translate(expr.NATTypeSourceNAT)
	case p.take("dnat"):
		return p.translate(expr.NATTypeDestNAT)
	case p.take("masquerade"):
		p.add(Known{&expr.Masq{}})
	case p.take("notrack"):
		p.add(Known{&expr.Notrack{}})
	case p.take("reject"):
		return p.reject()
	default:
		return p.match()
	}
	return nil
}

func (p *parser) verdict() (text string, ok bool) {
	switch word := p.peek(); word {
	case "accept", "drop", "return":
		return p.next(), true
	case "goto", "jump":
		p.next()
		return word + " " + p.next(), true
	}
	return "", false
}

// setMark parses "[& mask] [| bits]" and stores the result of that in the mark.
func (p *parser) setMark(name string, store func(register uint32) expr.Any) error {
	f := fields[name]
	mask, set := []byte{0xff, 0xff, 0xff, 0xff}, make([]byte, 4)
	if p.take("&") {
		v, err := f.value(p.next())
		if err != nil {
			return err
		}
		mask = v.lo
	}
	if p.take("|") {
		v, err := f.value(p.next())
		if err != nil {
			return err
		}
		set = v.lo
	}
	kept := make([]byte, 4)
	for i := range kept {
		kept[i] = mask[i] &^ set[i]
	}
	r := register(0)
	p.add(f.load(r)...)
	p.add(Words(&expr.Bitwise{SourceRegister: r, DestRegister: r, Len: 4, Mask: kept, Xor: set}, store(r))...)
	return nil
}

const dynsetDelete = 2 // NFT_DYNSET_OP_DELETE

// limit parses "50/second burst 100 packets".
func (p *parser) limit() error {
	rate, unit, _ := strings.Cut(p.next(), "/")
	n, err := strconv.ParseUint(rate, 10, 32)
	if err != nil || unit != "second" || !p.take("burst") {
		return fmt.Errorf("a limit is written like 50/second burst 100 packets")
	}
	burst, err := strconv.ParseUint(p.next(), 10, 32)
	if err != nil {
		return err
	}
	p.add(Known{&expr.Limit{Type: expr.LimitTypePkts, Rate: n, Unit: expr.LimitTimeSecond, Burst: uint32(burst)}})
	return p.expect("packets")
}

// change parses "@set { key [timeout 2m] [counter] }".
func (p *parser) change(operation uint32) error {
	set, ok := strings.CutPrefix(p.next(), "@")
	if !ok {
		return fmt.Errorf("no set to change")
	}
	if err := p.expect("{"); err != nil {
		return err
	}
	if _, err := p.key(); err != nil {
		return err
	}
	d := &expr.Dynset{SrcRegKey: register(0), SetName: set, Operation: operation}
	if p.take("timeout") {
		timeout, err := time.ParseDuration(p.next())
		if err != nil {
			return err
		}
		d.Timeout = timeout
	}
	if p.take("counter") {
		d.Exprs = []expr.Any{&expr.Counter{}}
	}
	p.add(Known{d})
	return p.expect("}")
}

// translate parses "to address[-address] [persistent]" and "[ip addr . port] to key map @map". The
// data of the map is an address, with "addr . port" an address and a port.
func (p *parser) translate(typ expr.NATType) error {
	version, address := "ip", fields["ip saddr"]
	if p.batch.Family == unix.NFPROTO_IPV6 {
		version, address = "ip6", fields["ip6 saddr"]
	}
	n := &expr.NAT{Type: typ, Family: uint32(p.batch.Family), RegAddrMin: register(0)}
	next := register(address.typ.Bytes / 4)
	if p.take(version, "addr", ".", "port") {
		n.RegProtoMin, n.Specified = next, true
	}
	if err := p.expect("to"); err != nil {
		return err
	}
	first, last, isRange := strings.Cut(p.peek(), "-")
	if _, err := netip.ParseAddr(first); err != nil {
		return p.translateByMap(n)
	}
	p.next()
	lo, err := address.addresses(first)
	if err != nil {
		return err
	}
	p.add(Known{&expr.Immediate{Register: register(0), Data: lo.lo}})
	if isRange {
		hi, err := address.addresses(last)
		if err != nil {
			return err
		}
		p.add(Known{&expr.Immediate{Register: next, Data: hi.lo}})
		n.RegAddrMax = next
	}
	n.Persistent = p.take("persistent")
	p.add(Known{n})
	return nil
}

func (p *parser) translateByMap(n *expr.NAT) error {
	if _, err := p.key(); err != nil {
		return err
	}
	if err := p.expect("map"); err != nil {
		return err
	}
	name, ok := strings.CutPrefix(p.next(), "@")
	if !ok {
		return fmt.Errorf("no map after %q", "map")
	}
	p.add(Words(&expr.Lookup{SourceRegister: register(0), DestRegister: register(0), IsDestRegSet: true, SetName: name}, n)...)
	return nil
}

// reject parses "[with tcp reset]".
func (p *parser) reject() error {
	e := &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 3} // ICMP_PORT_UNREACH
	switch {
	case p.take("with", "tcp", "reset"):
		e = &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}
	case p.batch.Family == unix.NFPROTO_IPV6:
		e.Code = 4 // ICMPV6_PORT_UNREACH
	}
	p.add(Known{e})
	return nil
}

func (p *parser) field() (field, error) {
	for n := min(maxWords, len(p.tokens)); n > 0; n-- {
		if f, ok := fields[strings.Join(p.tokens[:n], " ")]; ok {
			p.tokens = p.tokens[n:]
			return f, nil
		}
	}
	return field{}, fmt.Errorf("%q is no field of packets", strings.Join(p.tokens, " "))
}

// key parses fields joined by dots and loads them into registers.
func (p *parser) key() ([]field, error) {
	var list []field
	for {
		f, err := p.keyPart()
		if err != nil {
			return nil, err
		}
		if list = append(list, f); !p.take(".") {
			break
		}
	}
	for _, f := range list {
		p.require(f)
	}
	p.add(loadAll(list, 0)...)
	return list, nil
}

// loadAll loads fields into consecutive registers.
func loadAll(list []field, first uint32) (words []Word) {
	for _, f := range list {
		words = append(words, f.load(register(first))...)
		first += padded(f.typ.Bytes) / 4
	}
	return words
}

// Load returns the expressions that load fields, joined by dots, into consecutive registers of four
// bytes from the register first: for rules that text cannot express. A batch with an unknown field
// fails.
func Load(key string, first uint32) []Word {
	list, err := fieldsOf(key)
	if err != nil {
		return []Word{invalid{err}}
	}
	return loadAll(list, first)
}

// invalid is a word that cannot be encoded.
type invalid struct{ err error }

func (w invalid) marshal(*Batch) ([]byte, error) { return nil, w.err }

// keyPart parses a field, "numgen random mod 3" or "jhash field mod 3 seed 5".
func (p *parser) keyPart() (field, error) {
	switch {
	case p.take("numgen", "random", "mod"):
		n, err := p.number()
		load := func(register uint32) []Word {
			return Words(&expr.Numgen{Register: register, Modulus: n, Type: unix.NFT_NG_RANDOM})
		}
		return field{typ: nftables.TypeMark, native: true, load: load, typeof: []uint32{typeofNumgen, unix.NFT_NG_RANDOM, n, 0}}, err
	case p.take("jhash"):
		return p.hash()
	}
	return p.field()
}

func (p *parser) hash() (field, error) {
	of, err := p.field()
	if err != nil {
		return field{}, err
	}
	h := expr.Hash{Length: of.typ.Bytes, Type: expr.HashTypeJenkins}
	if err := p.expect("mod"); err != nil {
		return field{}, err
	}
	if h.Modulus, err = p.number(); err != nil {
		return field{}, err
	}
	if err := p.expect("seed"); err != nil {
		return field{}, err
	}
	h.Seed, err = p.number()
	return field{typ: nftables.TypeMark, native: true, load: func(register uint32) []Word {
		hash := h
		hash.SourceRegister, hash.DestRegister = register, register
		return append(of.load(register), Known{&hash})
	}}, err
}

func (p *parser) number() (uint32, error) {
	n, err := strconv.ParseUint(p.next(), 0, 32)
	return uint32(n), err
}

// require adds checks that the packet has the field.
func (p *parser) require(f field) {
	if f.network != 0 && p.network != f.network {
		switch p.batch.Family {
		case unix.NFPROTO_INET:
			p.compare(fields["meta nfproto"], expr.CmpOpEq, []byte{f.network})
		case unix.NFPROTO_BRIDGE:
			ethertype := fields["meta protocol"]
			p.compare(ethertype, expr.CmpOpEq, ethertype.number(ethertype.names[map[byte]string{unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6"}[f.network]]))
		}
		p.network = f.network
	}
	if f.transport != 0 && p.transport != f.transport {
		p.compare(fields["meta l4proto"], expr.CmpOpEq, []byte{f.transport})
		p.transport = f.transport
	}
	if f.ethernet && !p.ethernet && p.batch.Family == unix.NFPROTO_INET {
		p.add(Words(&expr.Meta{Key: expr.MetaKeyIIFTYPE, Register: register(0)},
			&expr.Cmp{Op: expr.CmpOpEq, Register: register(0), Data: binary.NativeEndian.AppendUint16(nil, unix.ARPHRD_ETHER)})...)
		p.ethernet = true
	}
}

func (p *parser) compare(f field, op expr.CmpOp, data []byte) {
	p.add(f.load(register(0))...)
	p.add(Known{&expr.Cmp{Op: op, Register: register(0), Data: data}})
}

func (p *parser) match() error {
	key, err := p.key()
	if err != nil {
		return err
	}
	lookup := &expr.Lookup{SourceRegister: register(0)}
	vmap := p.take("vmap")
	if vmap {
		lookup.IsDestRegSet, lookup.DestRegister = true, unix.NFT_REG_VERDICT
	}
	if len(p.tokens) > 1 && p.peek() == "!=" && strings.HasPrefix(p.tokens[1], "@") {
		p.next()
		lookup.Invert = true
	}
	switch {
	case strings.HasPrefix(p.peek(), "@"):
		lookup.SetName = p.next()[1:]
	case p.take("{"):
		elements, err := p.elements(key, vmap)
		if err != nil {
			return err
		}
		lookup.SetName, lookup.SetID = p.batch.addAnonymous(key, elements, vmap)
	case vmap || len(key) > 1:
		return fmt.Errorf("%q in place of a set", p.peek())
	default:
		return p.single(key[0])
	}
	p.add(Known{lookup})
	return nil
}

// single parses "[& mask] [==|!=] value" for a loaded field.
func (p *parser) single(f field) error {
	r := register(0)
	masked := p.take("&")
	if masked {
		mask, err := p.operand(f)
		if err != nil {
			return err
		}
		p.add(Known{&expr.Bitwise{SourceRegister: r, DestRegister: r, Len: f.typ.Bytes, Mask: mask.lo, Xor: make([]byte, f.typ.Bytes)}})
	}
	op := expr.CmpOpEq
	if !p.take("==") && p.take("!=") {
		op = expr.CmpOpNeq
	}
	v, err := p.operand(f)
	if err != nil {
		return err
	}
	zero := make([]byte, f.typ.Bytes)
	switch {
	case f.isBits() && !masked: // one of several bits
		p.add(Words(&expr.Bitwise{SourceRegister: r, DestRegister: r, Len: 4, Mask: v.lo, Xor: zero},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: r, Data: zero})...)
	case v.single():
		p.add(Known{&expr.Cmp{Op: op, Register: r, Data: v.lo}})
		p.learn(f, v.lo, op)
	case op == expr.CmpOpNeq:
		return fmt.Errorf("!= with a range")
	default:
		if mask, ok := v.mask(); ok && f.isAddress() {
			p.add(Words(&expr.Bitwise{SourceRegister: r, DestRegister: r, Len: f.typ.Bytes, Mask: mask, Xor: zero},
				&expr.Cmp{Op: expr.CmpOpEq, Register: r, Data: v.lo})...)
			return nil
		}
		p.add(Words(&expr.Cmp{Op: expr.CmpOpGte, Register: r, Data: v.lo}, &expr.Cmp{Op: expr.CmpOpLte, Register: r, Data: v.hi})...)
	}
	return nil
}

// learn records the protocol that a comparison checks.
func (p *parser) learn(f field, data []byte, op expr.CmpOp) {
	if op != expr.CmpOpEq {
		return
	}
	switch ethertype := fields["meta protocol"]; {
	case f.typ.Name == nftables.TypeNFProto.Name:
		p.network = data[0]
	case f.typ.Name == ethertype.typ.Name && p.batch.Family == unix.NFPROTO_BRIDGE:
		if bytes.Equal(data, ethertype.number(unix.ETH_P_IP)) {
			p.network = unix.NFPROTO_IPV4
		} else if bytes.Equal(data, ethertype.number(unix.ETH_P_IPV6)) {
			p.network = unix.NFPROTO_IPV6
		}
	case f.typ.Name == nftables.TypeInetProto.Name:
		p.transport = data[0]
	}
}

// operand parses a value or bits: "(fin | rst)", "invalid,untracked".
func (p *parser) operand(f field) (span, error) {
	closing, separator := "", ","
	if p.take("(") {
		closing, separator = ")", "|"
	}
	v, err := f.value(p.next())
	for err == nil && p.take(separator) {
		var other span
		if other, err = f.value(p.next()); err == nil {
			v.lo = slices.Clone(v.lo)
			for i := range v.lo {
				v.lo[i] |= other.lo[i]
			}
			v.hi = v.lo
		}
	}
	if err == nil && closing != "" {
		err = p.expect(closing)
	}
	return v, err
}

type item struct {
	key     []span
	verdict string
}

// elements parses the elements of an anonymous set or verdict map, and the closing brace.
func (p *parser) elements(key []field, vmap bool) (list []item, err error) {
	for {
		var it item
		for i, f := range key {
			if i > 0 {
				if err := p.expect("."); err != nil {
					return nil, err
				}
			}
			v, err := f.value(p.next())
			if err != nil {
				return nil, err
			}
			it.key = append(it.key, v)
		}
		if vmap {
			if err := p.expect(":"); err != nil {
				return nil, err
			}
			v, ok := p.verdict()
			if !ok {
				return nil, fmt.Errorf("%q in place of a verdict", p.peek())
			}
			it.verdict = v
		}
		if list = append(list, it); !p.take(",") {
			return list, p.expect("}")
		}
	}
}

// isBits reports whether a comparison with a value matches one of its bits.
func (f field) isBits() bool {
	return f.typ.Name == nftables.TypeCTState.Name || f.typ.Name == nftables.TypeCTStatus.Name
}

func (f field) isAddress() bool {
	return f.typ.Name == nftables.TypeIPAddr.Name || f.typ.Name == nftables.TypeIP6Addr.Name
}

// mask returns the mask of a span that is a prefix.
func (s span) mask() ([]byte, bool) {
	mask := make([]byte, len(s.lo))
	bits := ""
	for i := range mask {
		mask[i] = ^(s.lo[i] ^ s.hi[i])
		bits += fmt.Sprintf("%08b", mask[i])
	}
	ones := strings.TrimRight(bits, "0")
	return mask, !strings.Contains(ones, "0")
}

// after returns the value after a span; ok is false at the maximum.
func (s span) after() ([]byte, bool) {
	next := slices.Clone(s.hi)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return next, true
		}
	}
	return nil, false
}

// addAnonymous adds an anonymous set for the rule that is added next.
func (b *Batch) addAnonymous(key []field, items []item, vmap bool) (name string, id uint32) {
	s := &nftables.Set{Name: "__set%d", Anonymous: true, Constant: true}
	if vmap {
		s.Name, s.IsMap, s.DataType = "__map%d", true, nftables.TypeVerdict
	}
	types := make([]nftables.SetDatatype, len(key))
	ranges := false
	for i, f := range key {
		types[i] = f.typ
	}
	for _, it := range items {
		ranges = ranges || slices.ContainsFunc(it.key, func(s span) bool { return !s.single() })
	}
	s.KeyType = key[0].typ
	if len(key) > 1 {
		s.KeyType = concatenated(types)
		s.Concatenation = true
	}
	s.Interval = ranges
	id = b.addSet(s, nil)
	var list []Element
	switch {
	case ranges && len(key) == 1:
		list = intervals(items)
	default:
		for _, it := range items {
			e := Element{Verdict: it.verdict}
			for _, part := range it.key {
				e.Key += paddedKey(part.lo)
				e.End += paddedKey(part.hi)
			}
			if !ranges {
				e.End = ""
			}
			list = append(list, e)
		}
		if len(key) == 1 {
			for i := range list {
				list[i].Key = string(items[i].key[0].lo)
			}
		}
	}
	for i := range list {
		list[i].Set = s.Name
	}
	b.elements(unix.NFT_MSG_NEWSETELEM, netlink.Create, list, id)
	return s.Name, id
}

func concatenated(types []nftables.SetDatatype) nftables.SetDatatype {
	t, err := nftables.ConcatSetType(types...)
	if err != nil {
		panic(err) // our rules join at most five fields
	}
	return t
}

func paddedKey(part []byte) string {
	return string(part) + strings.Repeat("\x00", int(padded(uint32(len(part))))-len(part))
}

// intervals returns ranges of one field as the kernel stores them: the first value, and the first
// value after the range.
func intervals(items []item) (list []Element) {
	slices.SortFunc(items, func(a, b item) int { return bytes.Compare(a.key[0].lo, b.key[0].lo) })
	for i := 0; i < len(items); {
		first, last := items[i].key[0], items[i].key[0]
		// Adjacent ranges with the same verdict are merged.
		next, more := last.after()
		for i++; i < len(items) && more && bytes.Compare(items[i].key[0].lo, next) <= 0 && items[i].verdict == items[i-1].verdict; i++ {
			if bytes.Compare(items[i].key[0].hi, last.hi) > 0 {
				last = items[i].key[0]
				next, more = last.after()
			}
		}
		if len(list) == 0 && slices.ContainsFunc(first.lo, func(b byte) bool { return b != 0 }) {
			list = append(list, Element{Key: strings.Repeat("\x00", len(first.lo)), closes: true})
		}
		list = append(list, Element{Key: string(first.lo), Verdict: items[i-1].verdict})
		if more {
			list = append(list, Element{Key: string(next), closes: true})
		}
	}
	return list
}
