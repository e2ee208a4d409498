package nfttest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Kernel is nftables in memory. It implements nft.Kernel, for nft.New. It is safe for concurrent
// use.
type Kernel struct {
	mu         sync.Mutex
	generation uint32
	tables     map[tableKey]*table
	passed     time.Duration
}

// NewKernel returns a Kernel without tables.
func NewKernel() *Kernel { return &Kernel{generation: 1, tables: map[tableKey]*table{}} }

type tableKey struct {
	family byte
	name   string
}

func (k tableKey) String() string {
	return map[byte]string{unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6", unix.NFPROTO_ARP: "arp", unix.NFPROTO_BRIDGE: "bridge", unix.NFPROTO_NETDEV: "netdev"}[k.family] + " " + k.name
}

type table struct {
	key       tableKey
	chains    map[string]*chain
	sets      map[string]*set
	anonymous int // number of the next anonymous set
}

type chain struct {
	name string
	// hooked chains are base chains.
	hooked   bool
	typ      string
	hook     uint32
	priority int32
	policy   uint32
	rules    []rule
}

type rule struct {
	exprs   []any
	comment []byte // NFTA_RULE_USERDATA
}

type set struct {
	name     string
	id       uint32
	flags    uint32
	keyLen   uint32
	fields   []uint32 // lengths of the fields of concatenated ranges
	dataLen  uint32
	size     int // of sets that packets fill; 0: no limit
	userdata []byte
	elements map[elementKey]*element
}

type elementKey struct {
	key, end string
	closes   bool
}

type element struct {
	data    string
	verdict *expr.Verdict
	comment []byte // NFTA_SET_ELEM_USERDATA
	// left is the remaining time; 0: no timeout
	left    time.Duration
	packets uint64 // of the counter; 0: none
}

// Constants that x/sys/unix does not define.
const (
	setDescConcat   = 2
	setFieldLen     = 1
	elementKeyEnd   = 10
	elementExpr     = 7
	nftMsgNewTable  = unix.NFT_MSG_NEWTABLE
	subsysNFTables  = 10
	sizeofNfgenmsg  = 4
	dynsetDelete    = 2
	attributeNested = unix.NLA_F_NESTED
)

func (k *Kernel) Close() {}

// Pass lets time pass and expires elements.
func (k *Kernel) Pass(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.passed += d
	for _, t := range k.tables {
		for _, s := range t.sets {
			maps.DeleteFunc(s.elements, func(_ elementKey, e *element) bool { return e.left > 0 && e.left <= d })
			for _, e := range s.elements {
				e.left = max(e.left-d, 0)
			}
		}
	}
}

// Fill lets packets add no more elements to sets with a name.
func (k *Kernel) Fill(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.tables {
		if s := t.sets[name]; s != nil {
			s.size = max(len(s.elements), 1)
		}
	}
}

// Commit implements nft.Kernel.
func (k *Kernel) Commit(messages []netlink.Message) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := transaction{tables: maps.Clone(k.tables), own: map[*table]bool{}, ids: map[uint32]*set{}}
	for _, m := range messages {
		if err := t.do(m); err != nil {
			return err
		}
	}
	for table := range t.own {
		if t.tables[table.key] == table && table.leadsInCircles() {
			return unix.EMLINK
		}
	}
	k.tables = t.tables
	k.generation++
	return nil
}

// leadsInCircles reports whether jumps form a loop.
func (t *table) leadsInCircles() bool {
	const entered, left = 1, 2
	state := map[string]int{}
	var circle func(name string) bool
	circle = func(name string) bool {
		if state[name] != 0 {
			return state[name] == entered
		}
		state[name] = entered
		for _, r := range t.chains[name].rules {
			for _, next := range t.targets(r) {
				if t.chains[next] != nil && circle(next) {
					return true
				}
			}
		}
		state[name] = left
		return false
	}
	return slices.ContainsFunc(sortedNames(t.chains), circle)
}

// targets returns the chains that a rule jumps to, also through maps.
func (t *table) targets(r rule) (chains []string) {
	for _, e := range r.exprs {
		switch e := e.(type) {
		case *expr.Verdict:
			chains = append(chains, e.Chain)
		case *expr.Lookup:
			if s := t.sets[e.SetName]; s != nil && e.IsDestRegSet && e.DestRegister == unix.NFT_REG_VERDICT {
				for _, element := range s.elements {
					if element.verdict != nil {
						chains = append(chains, element.verdict.Chain)
					}
				}
			}
		}
	}
	return chains
}

type transaction struct {
	tables map[tableKey]*table
	own    map[*table]bool
	ids    map[uint32]*set // of the transaction
}

// edit returns a table that may be changed.
func (t *transaction) edit(k tableKey) (*table, error) {
	have := t.tables[k]
	if have == nil {
		return nil, unix.ENOENT
	}
	if !t.own[have] {
		have = have.clone()
		t.tables[k] = have
		t.own[have] = true
	}
	return have, nil
}

func (t *table) clone() *table {
	c := &table{key: t.key, chains: map[string]*chain{}, sets: map[string]*set{}, anonymous: t.anonymous}
	for name, old := range t.chains {
		copied := *old
		copied.rules = slices.Clone(old.rules)
		c.chains[name] = &copied
	}
	for name, old := range t.sets {
		copied := *old
		copied.elements = map[elementKey]*element{}
		for key, e := range old.elements {
			copiedElement := *e
			copied.elements[key] = &copiedElement
		}
		c.sets[name] = &copied
	}
	return c
}

type attrs map[uint16][]byte

func parse(data []byte) attrs {
	list, err := netlink.UnmarshalAttributes(data)
	if err != nil {
		return nil
	}
	all := attrs{}
	for _, a := range list {
		all[a.Type&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER)] = a.Data
	}
	return all
}

func each(data []byte) (list [][]byte) {
	parts, err := netlink.UnmarshalAttributes(data)
	if err != nil {
		return nil
	}
	for _, a := range parts {
		list = append(list, a.Data)
	}
	return list
}

func (a attrs) text(typ uint16) string { return strings.TrimRight(string(a[typ]), "\x00") }

func (a attrs) number(typ uint16) uint32 {
	if len(a[typ]) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(a[typ])
}

func (t *transaction) do(m netlink.Message) error {
	if m.Header.Type>>8 != subsysNFTables || len(m.Data) < sizeofNfgenmsg {
		return unix.EINVAL
	}
	family, a := m.Data[0], parse(m.Data[sizeofNfgenmsg:])
	// Attribute 1 is always the name of the table.
	key := tableKey{family, a.text(unix.NFTA_TABLE_NAME)}
	switch typ := m.Header.Type & 0xff; typ {
	case nftMsgNewTable:
		if t.tables[key] == nil {
			added := &table{key: key, chains: map[string]*chain{}, sets: map[string]*set{}}
			t.tables[key], t.own[added] = added, true
		}
		return nil
	case unix.NFT_MSG_DELTABLE:
		if t.tables[key] == nil {
			return unix.ENOENT
		}
		delete(t.tables, key)
		return nil
	default:
		table, err := t.edit(key)
		if err != nil {
			return err
		}
		switch typ {
		case unix.NFT_MSG_NEWCHAIN:
			return table.addChain(a)
		case unix.NFT_MSG_DELCHAIN:
			return table.deleteChain(a.text(unix.NFTA_CHAIN_NAME))
		case unix.NFT_MSG_NEWRULE:
			return t.addRule(table, a)
		case unix.NFT_MSG_DELRULE:
			return table.flush(a.text(unix.NFTA_RULE_CHAIN))
		case unix.NFT_MSG_NEWSET:
			return t.addSet(table, a)
		case unix.NFT_MSG_DELSET:
			return table.deleteSet(a.text(unix.NFTA_SET_NAME))
		case unix.NFT_MSG_NEWSETELEM, unix.NFT_MSG_DELSETELEM:
			return t.changeElements(table, a, typ == unix.NFT_MSG_NEWSETELEM)
		}
		return fmt.Errorf("nfttest knows no message of type %d: %w", typ, unix.EOPNOTSUPP)
	}
}

func (t *table) addChain(a attrs) error {
	name := a.text(unix.NFTA_CHAIN_NAME)
	c := t.chains[name]
	if c == nil {
		c = &chain{name: name, policy: 1}
		t.chains[name] = c
	}
	if hook := a[unix.NFTA_CHAIN_HOOK]; hook != nil {
		h := parse(hook)
		c.hooked, c.hook, c.priority = true, h.number(unix.NFTA_HOOK_HOOKNUM), int32(h.number(unix.NFTA_HOOK_PRIORITY))
		c.typ = a.text(unix.NFTA_CHAIN_TYPE)
	}
	if a[unix.NFTA_CHAIN_POLICY] != nil {
		c.policy = a.number(unix.NFTA_CHAIN_POLICY)
	}
	return nil
}

func (t *table) deleteChain(name string) error {
	c := t.chains[name]
	if c == nil {
		return unix.ENOENT
	}
	if len(c.rules) > 0 || t.leadsTo(name) {
		return unix.EBUSY
	}
	delete(t.chains, name)
	return nil
}

// leadsTo reports whether a rule or an element jumps to a chain.
func (t *table) leadsTo(name string) bool {
	for _, c := range t.chains {
		for _, r := range c.rules {
			if slices.Contains(t.targets(r), name) {
				return true
			}
		}
	}
	for _, s := range t.sets {
		for _, e := range s.elements {
			if e.verdict != nil && e.verdict.Chain == name {
				return true
			}
		}
	}
	return false
}

// uses returns the set of an expression, or "".
func uses(e any) string {
	switch e := e.(type) {
	case *expr.Lookup:
		return e.SetName
	case *expr.Dynset:
		return e.SetName
	}
	return ""
}

func (t *transaction) addRule(table *table, a attrs) error {
	c := table.chains[a.text(unix.NFTA_RULE_CHAIN)]
	if c == nil {
		return unix.ENOENT
	}
	r := rule{comment: a[unix.NFTA_RULE_USERDATA]}
	for _, data := range each(a[unix.NFTA_RULE_EXPRESSIONS]) {
		e, err := expression(table.key.family, data)
		if err != nil {
			return err
		}
		if l, ok := e.(*expr.Lookup); ok && strings.Contains(l.SetName, "%d") { // anonymous
			s := t.ids[l.SetID]
			if s == nil {
				return unix.ENOENT
			}
			l.SetName = s.name
		}
		if name := uses(e); name != "" && table.sets[name] == nil {
			return fmt.Errorf("set %q: %w", name, unix.ENOENT)
		}
		if v, ok := e.(*expr.Verdict); ok && v.Chain != "" && table.chains[v.Chain] == nil {
			return fmt.Errorf("chain %q: %w", v.Chain, unix.ENOENT)
		}
		r.exprs = append(r.exprs, e)
	}
	c.rules = append(c.rules, r)
	return nil
}

// flush removes the rules of a chain and their anonymous sets.
func (t *table) flush(name string) error {
	c := t.chains[name]
	if c == nil {
		return unix.ENOENT
	}
	for _, r := range c.rules {
		for _, e := range r.exprs {
			if s := t.sets[uses(e)]; s != nil && s.flags&unix.NFT_SET_ANONYMOUS != 0 {
				delete(t.sets, s.name)
			}
		}
	}
	c.rules = nil
	return nil
}

func (t *transaction) addSet(table *table, a attrs) error {
	name := a.text(unix.NFTA_SET_NAME)
	if have := table.sets[name]; have != nil {
		if have.flags != a.number(unix.NFTA_SET_FLAGS) || have.keyLen != a.number(unix.NFTA_SET_KEY_LEN) {
			return unix.EEXIST
		}
		t.ids[a.number(unix.NFTA_SET_ID)] = have
		return nil
	}
	s := &set{
		name: name, id: a.number(unix.NFTA_SET_ID), flags: a.number(unix.NFTA_SET_FLAGS), keyLen: a.number(unix.NFTA_SET_KEY_LEN),
		dataLen: a.number(unix.NFTA_SET_DATA_LEN), userdata: a[unix.NFTA_SET_USERDATA], elements: map[elementKey]*element{},
	}
	if s.flags&unix.NFT_SET_ANONYMOUS != 0 {
		s.name = strings.ReplaceAll(name, "%d", fmt.Sprint(table.anonymous))
		table.anonymous++
	}
	s.size = int(parse(a[unix.NFTA_SET_DESC]).number(unix.NFTA_SET_DESC_SIZE))
	for _, field := range each(parse(a[unix.NFTA_SET_DESC])[setDescConcat]) {
		s.fields = append(s.fields, parse(field).number(setFieldLen))
	}
	table.sets[s.name] = s
	t.ids[s.id] = s
	return nil
}

func (t *table) deleteSet(name string) error {
	if t.sets[name] == nil {
		return unix.ENOENT
	}
	for _, c := range t.chains {
		for _, r := range c.rules {
			if slices.ContainsFunc(r.exprs, func(e any) bool { return uses(e) == name }) {
				return unix.EBUSY
			}
		}
	}
	delete(t.sets, name)
	return nil
}

func (t *transaction) changeElements(table *table, a attrs, add bool) error {
	s := table.sets[a.text(unix.NFTA_SET_ELEM_LIST_SET)]
	if id := a.number(unix.NFTA_SET_ELEM_LIST_SET_ID); id != 0 {
		s = t.ids[id]
	}
	if s == nil {
		return unix.ENOENT
	}
	if !add && a[unix.NFTA_SET_ELEM_LIST_ELEMENTS] == nil {
		clear(s.elements)
		return nil
	}
	for _, data := range each(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS]) {
		key, e, err := elementOf(parse(data))
		if err != nil {
			return err
		}
		if uint32(len(key.key)) != s.keyLen {
			return fmt.Errorf("key of %d bytes in set %q with keys of %d bytes: %w", len(key.key), s.name, s.keyLen, unix.EINVAL)
		}
		have := s.elements[key]
		switch {
		case !add && have == nil:
			return unix.ENOENT
		case !add:
			delete(s.elements, key)
		case e.verdict != nil && e.verdict.Chain != "" && table.chains[e.verdict.Chain] == nil:
			return unix.ENOENT
		case have == nil:
			s.elements[key] = e
		case have.data != e.data || !sameVerdict(have.verdict, e.verdict):
			return unix.EEXIST
		}
	}
	return nil
}

func sameVerdict(a, b *expr.Verdict) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

func elementOf(a attrs) (key elementKey, e *element, err error) {
	value := func(typ uint16) string { return string(parse(a[typ])[unix.NFTA_DATA_VALUE]) }
	key = elementKey{
		key: value(unix.NFTA_SET_ELEM_KEY), end: value(elementKeyEnd),
		closes: a.number(unix.NFTA_SET_ELEM_FLAGS)&unix.NFT_SET_ELEM_INTERVAL_END != 0,
	}
	e = &element{data: value(unix.NFTA_SET_ELEM_DATA), comment: a[unix.NFTA_SET_ELEM_USERDATA]}
	if data := parse(a[unix.NFTA_SET_ELEM_DATA])[unix.NFTA_DATA_VERDICT]; data != nil {
		v := parse(data)
		e.verdict = &expr.Verdict{Kind: expr.VerdictKind(int32(v.number(unix.NFTA_VERDICT_CODE))), Chain: v.text(unix.NFTA_VERDICT_CHAIN)}
	}
	return key, e, nil
}

// find returns the element that contains a key.
func (s *set) find(key string) *element {
	switch {
	case len(s.fields) > 1:
		for k, e := range s.elements {
			if s.within(key, k) {
				return e
			}
		}
		return nil
	case s.flags&unix.NFT_SET_INTERVAL != 0:
		var best *elementKey
		for k := range s.elements {
			if k.key > key || best != nil && (k.key < best.key || k.key == best.key && k.closes) {
				continue
			}
			best = &k
		}
		if best == nil || best.closes {
			return nil
		}
		return s.elements[*best]
	}
	return s.elements[elementKey{key: key}]
}

// within compares each field; fields fill whole registers.
func (s *set) within(key string, k elementKey) bool {
	end := k.end
	if end == "" {
		end = k.key
	}
	at := 0
	for _, length := range s.fields {
		n := int(length+3) / 4 * 4
		if at+n > len(key) {
			return false
		}
		part := []byte(key[at : at+int(length)])
		if bytes.Compare(part, []byte(k.key[at:at+int(length)])) < 0 || bytes.Compare(part, []byte(end[at:at+int(length)])) > 0 {
			return false
		}
		at += n
	}
	return true
}
