package redirects

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const (
	tableName = "contiv-host"
	mapTo     = "redirect-to"   // address, protocol and port -> new address and port; comment: label
	mapFrom   = "redirect-from" // the same -> source address seen by the vswitch
	// The chain runs before other source NAT, so that no other chain changes the source.
	beforeSources = -1
)

var protocols = map[contiv_nat.DNat66_Protocol]uint8{
	contiv_nat.DNat66_TCP: unix.IPPROTO_TCP, contiv_nat.DNat66_UDP: unix.IPPROTO_UDP, contiv_nat.DNat66_SCTP: unix.IPPROTO_SCTP,
}

// flow is a redirected destination.
type flow struct {
	at       netip.AddrPort
	protocol uint8
}

// entry is a flow and its new destination and source.
type entry struct {
	flow
	to     netip.AddrPort
	source netip.Addr
}

func (e entry) compare(o entry) int {
	return cmp.Or(e.at.Compare(o.at), cmp.Compare(e.protocol, o.protocol), e.to.Compare(o.to), e.source.Compare(o.source))
}

// entriesOf returns the entries of a value, in order.
func entriesOf(v *contiv_nat.HostRedirect) (list []entry) {
	parse := func(text string) netip.Addr {
		addr, _ := netip.ParseAddr(text)
		return addr.Unmap()
	}
	for _, f := range v.GetFrontends() {
		at := netip.AddrPortFrom(parse(f.GetAddress()), uint16(f.GetPort()))
		to := netip.AddrPortFrom(parse(f.GetToAddress()), uint16(cmp.Or(f.GetToPort(), f.GetPort())))
		list = append(list, entry{flow{at, protocols[f.GetProtocol()]}, to, parse(f.GetSourceAddress())})
	}
	slices.SortFunc(list, entry.compare)
	return list
}

// family describes an IP version: the registers that an address takes and its offset in the header.
type family struct {
	proto       byte
	regs        uint32
	destination uint32
	openedTo    uint32 // the key of conntrack
	addr        nftables.SetDatatype
}

var (
	ipv4 = &family{unix.NFPROTO_IPV4, 1, 16, 20, nftables.TypeIPAddr}
	ipv6 = &family{unix.NFPROTO_IPV6, 4, 24, 22, nftables.TypeIP6Addr}
)

func (f *family) table() *nftables.Table {
	return &nftables.Table{Name: tableName, Family: nftables.TableFamily(f.proto)}
}

func (f *family) sets() (list []*nftables.Set) {
	concat := nftables.MustConcatSetType
	add := func(name string, data nftables.SetDatatype) {
		list = append(list, &nftables.Set{
			Table: f.table(), Name: name, IsMap: true, Concatenation: true, DataType: data,
			KeyType: concat(f.addr, nftables.TypeInetProto, nftables.TypeInetService),
		})
	}
	add(mapTo, concat(f.addr, nftables.TypeInetService))
	add(mapFrom, f.addr)
	return list
}

// chain is a base chain with its rules.
type chain struct {
	*nftables.Chain
	rules []rule
}

type rule struct {
	comment string
	words   []nft.Word
}

func (c chain) comments() (list []string) {
	for _, r := range c.rules {
		list = append(list, r.comment)
	}
	return list
}

func reg(n uint32) uint32 { return unix.NFT_REG32_00 + n }

func (f *family) chains() []chain {
	base := func(name string, hook *nftables.ChainHook, priority nftables.ChainPriority, rules ...rule) chain {
		return chain{&nftables.Chain{Name: name, Table: f.table(), Type: nftables.ChainTypeNAT, Hooknum: hook, Priority: &priority}, rules}
	}
	result := reg(f.regs + 2) // after the key
	found := func(name string) expr.Any {
		return &expr.Lookup{SourceRegister: reg(0), DestRegister: result, IsDestRegSet: true, SetName: name}
	}
	translate := func(typ expr.NATType) *expr.NAT {
		return &expr.NAT{Type: typ, Family: uint32(f.proto), RegAddrMin: result}
	}
	send := translate(expr.NATTypeDestNAT)
	send.RegProtoMin, send.Specified = result+f.regs, true
	protocol := &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg(f.regs)}
	sent := nft.Words(&expr.Payload{DestRegister: reg(0), Base: expr.PayloadBaseNetworkHeader, Offset: f.destination, Len: 4 * f.regs},
		protocol, &expr.Payload{DestRegister: reg(f.regs + 1), Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		found(mapTo), send)
	opened := append([]nft.Word{nft.Tuple{Register: reg(0), Key: f.openedTo}},
		nft.Words(protocol, &expr.Ct{Key: expr.CtKeyPROTODST, Register: reg(f.regs + 1)}, found(mapFrom))...)
	byHost := nft.Words(&expr.Fib{Register: reg(0), FlagSADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)}, &expr.Masq{})
	return []chain{
		base("prerouting", nftables.ChainHookPrerouting, *nftables.ChainPriorityNATDest, rule{"clients outside and pods, to the vswitch", sent}),
		base("output", nftables.ChainHookOutput, *nftables.ChainPriorityNATDest,
			rule{"connections of the agent to etcd", nft.Untranslated(reg(0))}, rule{"processes of the host, to the vswitch", sent}),
		base("postrouting", nftables.ChainHookPostrouting, *nftables.ChainPriorityNATSource+beforeSources,
			rule{"processes of the host, from its address there", slices.Concat(opened, byHost)},
			rule{"answers to others come back this way", slices.Concat(opened, nft.Words(translate(expr.NATTypeSourceNAT)))}),
	}
}

// claim is the label and the target of a redirected flow.
type claim struct {
	label string
	entry
}

// whole reports whether both elements exist.
func (c claim) whole() bool { return c.to.IsValid() && c.source.IsValid() }

// table caches the redirects of one IP version. A failed change shows that the cache is outdated;
// the table is then read again.
type table struct {
	*family
	claims map[flow]claim
	labels map[string][]flow // index of claims
	known  bool
	exists bool
	// intact: chains and maps are as expected.
	intact bool
}

func (t *table) batch() *nft.Batch { return &nft.Batch{Table: tableName, Family: t.proto} }

// load reads the contents unless they are known.
func (t *table) load(conn *nft.Conn) error {
	if t.known {
		return nil
	}
	have, _, err := conn.ReadTable(t.proto, tableName)
	if err != nil {
		return fmt.Errorf("reading nftables table %q: %w", tableName, err)
	}
	t.read(have)
	t.known = true
	return nil
}

// read takes the result of a dump, nil if the table does not exist.
func (t *table) read(have *nft.Table) {
	t.claims, t.exists, t.intact = map[flow]claim{}, have != nil, have != nil
	defer t.index()
	if have == nil {
		return
	}
	for _, want := range t.chains() {
		c := have.Chains[want.Name]
		t.intact = t.intact && c.Hook != nil && !c.Hook.Drops && slices.Equal(c.Rules, want.comments())
	}
	for _, want := range t.sets() {
		_, exists := have.Sets[want.Name]
		t.intact = t.intact && exists
	}
	for _, e := range have.Sets[mapTo].Elements {
		f, ok := t.flowOf(e.Key)
		to, isAddr := t.addrPort(e.Data)
		if !ok || !isAddr {
			t.intact = false
			continue
		}
		t.claims[f] = claim{e.Comment, entry{flow: f, to: to}}
	}
	sources := 0
	for _, e := range have.Sets[mapFrom].Elements {
		f, _ := t.flowOf(e.Key)
		c, claimed := t.claims[f]
		source, isAddr := netip.AddrFromSlice([]byte(e.Data))
		switch {
		case !claimed: // gives it a label, so that it is found and removed
			t.claims[f], t.intact = claim{e.Comment, entry{flow: f}}, false
			continue
		case !isAddr || c.label != e.Comment:
			t.intact = false
			continue
		}
		c.source = source
		t.claims[f] = c
		sources++
	}
	t.intact = t.intact && sources == len(t.claims)
}

func (t *table) index() {
	t.labels = map[string][]flow{}
	for f, c := range t.claims {
		t.labels[c.label] = append(t.labels[c.label], f)
	}
}

// change holds the new entries of a label.
type change struct {
	label   string
	entries []entry // empty: the label is removed
}

// edit is a planned change of a table.
type edit struct {
	gone, fresh map[flow]claim
	labels      map[string][]flow // entries of the changed labels
}

// plan returns an edit with all changes except flows redirected by others, for which it adds
// errors.
func (t *table) plan(changes []change, errs []error) edit {
	e := edit{map[flow]claim{}, map[flow]claim{}, map[string][]flow{}}
	if !t.intact {
		for f, c := range t.claims {
			if !c.whole() {
				e.gone[f] = c
			}
		}
	}
	for _, c := range changes {
		for _, f := range t.labels[c.label] {
			e.gone[f] = t.claims[f]
		}
	}
	for i, c := range changes {
		e.labels[c.label] = nil
		for _, want := range c.entries {
			if want.at.Addr().Is6() != (t.family == ipv6) {
				continue
			}
			next := claim{c.label, want}
			other, taken := e.fresh[want.flow]
			if !taken {
				_, goes := e.gone[want.flow]
				other, taken = t.claims[want.flow]
				taken = taken && !goes
			}
			if taken {
				errs[i] = errors.Join(errs[i], fmt.Errorf("port %d of %s, which %q redirects: %w", want.at.Port(), want.at.Addr(), other.label, errFlowTaken))
				continue
			}
			e.labels[c.label] = append(e.labels[c.label], want.flow)
			if e.gone[want.flow] == next {
				delete(e.gone, want.flow)
			} else {
				e.fresh[want.flow] = next
			}
		}
	}
	return e
}

// request returns the transaction of an edit. It replaces a table that is not intact.
func (t *table) request(e edit) *nft.Batch {
	b := t.batch()
	switch left := len(t.claims) - len(e.gone) + len(e.fresh); {
	case left == 0 && t.exists:
		b.DeleteTable()
	case left == 0:
	case !t.intact:
		claims := maps.Clone(t.claims)
		e.apply(claims)
		t.write(b, claims)
	default:
		b.DeleteElements(elements(e.gone))
		b.AddElements(elements(e.fresh))
	}
	return b
}

func (e edit) apply(claims map[flow]claim) {
	for f := range e.gone {
		delete(claims, f)
	}
	maps.Copy(claims, e.fresh)
}

// done records that an edit was applied.
func (t *table) done(e edit) {
	e.apply(t.claims)
	for label, flows := range e.labels {
		if len(flows) == 0 {
			delete(t.labels, label)
		} else {
			t.labels[label] = flows
		}
	}
	if !t.intact { // some labels had parts that are gone
		t.index()
	}
	t.exists = len(t.claims) > 0
	t.intact = t.exists
}

// write replaces the whole table.
func (t *table) write(b *nft.Batch, claims map[flow]claim) {
	b.AddTable() // so that the deletion succeeds
	b.DeleteTable()
	b.AddTable()
	for _, s := range t.sets() {
		b.AddSet(s)
	}
	for _, c := range t.chains() {
		b.AddChain(c.Chain)
		for _, r := range c.rules {
			b.AddRule(c.Name, r.comment, r.words)
		}
	}
	b.AddElements(elements(claims))
}

// elements returns the elements of claims, sorted.
func elements(claims map[flow]claim) []nft.Element {
	var list []nft.Element
	for _, c := range claims {
		key, to := withPort(append(c.at.Addr().AsSlice(), c.protocol, 0, 0, 0), c.at), withPort(c.to.Addr().AsSlice(), c.to)
		list = append(list,
			nft.Element{Set: mapTo, Key: key, Data: to, Comment: c.label},
			nft.Element{Set: mapFrom, Key: key, Data: string(c.source.AsSlice()), Comment: c.label})
	}
	return nft.Sorted(list)
}

// has reports whether a label has exactly the entries.
func (t *table) has(label string, entries []entry) bool {
	n := 0
	for _, e := range entries {
		if e.at.Addr().Is6() != (t.family == ipv6) {
			continue
		}
		if n++; t.claims[e.flow] != (claim{label, e}) {
			return false
		}
	}
	return n == len(t.labels[label]) && (n == 0 || t.intact)
}

// withPort appends a port. Each part fills whole registers.
func withPort(parts []byte, of netip.AddrPort) string {
	return string(append(binary.BigEndian.AppendUint16(parts, of.Port()), 0, 0))
}

func (t *table) addrPort(data string) (ap netip.AddrPort, ok bool) {
	n := int(4 * t.regs)
	if len(data) < n+2 {
		return ap, false
	}
	addr, _ := netip.AddrFromSlice([]byte(data[:n]))
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16([]byte(data[n:]))), true
}

func (t *table) flowOf(key string) (f flow, ok bool) {
	n := int(4 * t.regs)
	if len(key) < n+6 {
		return f, false
	}
	addr, _ := netip.AddrFromSlice([]byte(key[:n]))
	return flow{netip.AddrPortFrom(addr, binary.BigEndian.Uint16([]byte(key[n+4:]))), key[n]}, true
}

// addTo adds the redirects to the values, by label.
func (t *table) addTo(values map[string]*contiv_nat.HostRedirect) {
	var list []claim
	for _, c := range t.claims {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b claim) int { return a.compare(b.entry) })
	for _, c := range list {
		v := values[c.label]
		if v == nil {
			v = &contiv_nat.HostRedirect{Label: c.label}
			values[c.label] = v
		}
		if !t.intact { // so that it differs from every wanted value
			continue
		}
		f := &contiv_nat.HostRedirect_Frontend{
			Address: c.at.Addr().String(), Port: uint32(c.at.Port()), ToAddress: c.to.Addr().String(), SourceAddress: c.source.String(),
		}
		if c.to.Port() != c.at.Port() {
			f.ToPort = uint32(c.to.Port())
		}
		for p, number := range protocols {
			if number == c.protocol {
				f.Protocol = p
			}
		}
		v.Frontends = append(v.Frontends, f)
	}
}
