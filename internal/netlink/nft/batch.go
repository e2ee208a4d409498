package nft

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync/atomic"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Batch is a set of changes of one table, as netlink messages. Its cost depends on the size of the
// changes only. Commit returns the first error made while building it.
type Batch struct {
	Table    string
	Family   byte // NFPROTO_IPV4, …
	messages []netlink.Message
	err      error
}

// Name returns family and name of the table, as in events and Unchanged.
func (b *Batch) Name() string { return nftFamilies[b.Family] + " " + b.Table }

var lastSet atomic.Uint32

func text(s string) []byte { return append([]byte(s), 0) }

func big32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

func (b *Batch) All(attrs ...netlink.Attribute) []byte {
	data, err := netlink.MarshalAttributes(attrs)
	if err != nil && b.err == nil {
		b.err = err
	}
	return data
}

func (b *Batch) nested(typ uint16, attrs ...netlink.Attribute) netlink.Attribute {
	return netlink.Attribute{Type: unix.NLA_F_NESTED | typ, Data: b.All(attrs...)}
}

func (b *Batch) add(typ netlink.HeaderType, flags netlink.HeaderFlags, attrs ...netlink.Attribute) {
	b.messages = append(b.messages, netlink.Message{
		Header: netlink.Header{Type: nfnlSubsysNFTables<<8 | typ, Flags: netlink.Request | flags},
		Data:   append([]byte{b.Family, 0, 0, 0}, b.All(attrs...)...),
	})
}

func (b *Batch) AddTable() {
	b.add(unix.NFT_MSG_NEWTABLE, netlink.Create, netlink.Attribute{Type: unix.NFTA_TABLE_NAME, Data: text(b.Table)})
}

func (b *Batch) DeleteTable() {
	b.add(unix.NFT_MSG_DELTABLE, 0, netlink.Attribute{Type: unix.NFTA_TABLE_NAME, Data: text(b.Table)})
}

// AddChain adds a chain without rules, or removes the rules of an existing one. The default policy
// of base chains is accept.
func (b *Batch) AddChain(c *nftables.Chain) {
	attrs := []netlink.Attribute{
		{Type: unix.NFTA_CHAIN_TABLE, Data: text(b.Table)},
		{Type: unix.NFTA_CHAIN_NAME, Data: text(c.Name)},
	}
	if c.Hooknum != nil {
		attrs = append(attrs, b.nested(unix.NFTA_CHAIN_HOOK,
			netlink.Attribute{Type: unix.NFTA_HOOK_HOOKNUM, Data: big32(uint32(*c.Hooknum))},
			netlink.Attribute{Type: unix.NFTA_HOOK_PRIORITY, Data: big32(uint32(*c.Priority))},
		), netlink.Attribute{Type: unix.NFTA_CHAIN_TYPE, Data: text(string(c.Type))})
		policy := uint32(nftables.ChainPolicyAccept)
		if c.Policy != nil {
			policy = uint32(*c.Policy)
		}
		attrs = append(attrs, netlink.Attribute{Type: unix.NFTA_CHAIN_POLICY, Data: big32(policy)})
	}
	b.add(unix.NFT_MSG_NEWCHAIN, netlink.Create, attrs...)
	b.FlushChain(c.Name)
}

// DeleteChain deletes an empty chain without references.
func (b *Batch) DeleteChain(name string) {
	b.add(unix.NFT_MSG_DELCHAIN, 0,
		netlink.Attribute{Type: unix.NFTA_CHAIN_TABLE, Data: text(b.Table)}, netlink.Attribute{Type: unix.NFTA_CHAIN_NAME, Data: text(name)})
}

func (b *Batch) Empty() bool { return len(b.messages) == 0 && b.err == nil }

func (b *Batch) FlushChain(name string) {
	b.add(unix.NFT_MSG_DELRULE, 0,
		netlink.Attribute{Type: unix.NFTA_RULE_TABLE, Data: text(b.Table)}, netlink.Attribute{Type: unix.NFTA_RULE_CHAIN, Data: text(name)})
}

func (b *Batch) AddRule(chain, comment string, words []Word) {
	var list []netlink.Attribute
	for _, w := range words {
		data, err := w.marshal(b)
		if err != nil && b.err == nil {
			b.err = err
		}
		list = append(list, netlink.Attribute{Type: unix.NLA_F_NESTED | unix.NFTA_LIST_ELEM, Data: data})
	}
	b.add(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append,
		netlink.Attribute{Type: unix.NFTA_RULE_TABLE, Data: text(b.Table)},
		netlink.Attribute{Type: unix.NFTA_RULE_CHAIN, Data: text(chain)},
		b.nested(unix.NFTA_RULE_EXPRESSIONS, list...),
		netlink.Attribute{Type: unix.NFTA_RULE_USERDATA, Data: userdata.AppendString(nil, userdata.TypeComment, comment)})
}

// AddObject adds a named object unless it exists.
func (b *Batch) AddObject(name string, typ nftables.ObjType, object expr.Any) {
	data, err := expr.MarshalExprData(b.Family, object)
	b.err = cmp.Or(b.err, err)
	b.add(unix.NFT_MSG_NEWOBJ, netlink.Create,
		netlink.Attribute{Type: unix.NFTA_OBJ_TABLE, Data: text(b.Table)},
		netlink.Attribute{Type: unix.NFTA_OBJ_NAME, Data: text(name)},
		netlink.Attribute{Type: unix.NFTA_OBJ_TYPE, Data: big32(uint32(typ))},
		netlink.Attribute{Type: unix.NLA_F_NESTED | unix.NFTA_OBJ_DATA, Data: data})
}

// AddSet adds a set or a map unless it exists as described.
func (b *Batch) AddSet(s *nftables.Set) {
	var udata []byte
	if s.KeyType.Name == nftables.TypeIFName.Name { // otherwise nft lists "" for each name
		udata = nestedNumber(nil, keyByteOrder, hostByteOrder)
	}
	b.addSet(s, udata)
}

// AddTypeof adds a set that packets fill, with timeouts and up to size elements. key lists field
// names, joined by dots.
func (b *Batch) AddTypeof(name, key string, size uint32) {
	s, udata, err := typeofSet(name, key)
	if err != nil {
		b.err = cmp.Or(b.err, err)
		return
	}
	s.Dynamic, s.HasTimeout, s.Size = true, true, size
	b.addSet(s, udata)
}

// AddTypeofMap adds a map unless it exists as described. nft lists it with the names of the fields of
// its key and data: types have no name for random numbers.
func (b *Batch) AddTypeofMap(s *nftables.Set, key, data string) {
	of, err := fieldsOf(key)
	to, dataErr := fieldsOf(data)
	b.err = cmp.Or(b.err, err, dataErr)
	udata := nestedNumber(nestedNumber(nil, keyByteOrder, 0), dataByteOrder, 0)
	b.addSet(s, appendNested(appendNested(udata, keyTypeof, typeofKey(of)), dataTypeof, typeofKey(to)))
}

// addSet returns the ID by which rules of the batch may refer to the set.
func (b *Batch) addSet(s *nftables.Set, udata []byte) uint32 {
	id := lastSet.Add(1)
	var flags uint32
	attrs := []netlink.Attribute{
		{Type: unix.NFTA_SET_TABLE, Data: text(b.Table)},
		{Type: unix.NFTA_SET_NAME, Data: text(s.Name)},
		{Type: unix.NFTA_SET_KEY_TYPE, Data: big32(s.KeyType.GetNFTMagic())},
		{Type: unix.NFTA_SET_KEY_LEN, Data: big32(s.KeyType.Bytes)},
		{Type: unix.NFTA_SET_ID, Data: big32(id)},
	}
	if s.Anonymous {
		flags |= unix.NFT_SET_ANONYMOUS | unix.NFT_SET_CONSTANT
	}
	switch {
	case s.IsMap && s.DataType.Name == nftables.TypeVerdict.Name:
		flags |= unix.NFT_SET_MAP
		attrs = append(attrs, netlink.Attribute{Type: unix.NFTA_SET_DATA_TYPE, Data: big32(unix.NFT_DATA_VERDICT)})
	case s.IsMap:
		flags |= unix.NFT_SET_MAP
		attrs = append(attrs,
			netlink.Attribute{Type: unix.NFTA_SET_DATA_TYPE, Data: big32(s.DataType.GetNFTMagic())},
			netlink.Attribute{Type: unix.NFTA_SET_DATA_LEN, Data: big32(s.DataType.Bytes)})
	}
	if s.Dynamic {
		flags |= unix.NFT_SET_EVAL
		attrs = append(attrs, b.nested(unix.NFTA_SET_DESC, netlink.Attribute{Type: unix.NFTA_SET_DESC_SIZE, Data: big32(s.Size)}))
	}
	if s.HasTimeout {
		flags |= unix.NFT_SET_TIMEOUT
	}
	if s.Interval {
		flags |= unix.NFT_SET_INTERVAL
	}
	if fields := nftables.ConcatSetTypeElements(s.KeyType); s.Interval && len(fields) > 1 {
		flags |= setConcat
		attrs = append(attrs, b.nested(unix.NFTA_SET_DESC, b.nested(setDescConcat, b.fields(fields)...)))
	}
	if udata != nil {
		attrs = append(attrs, netlink.Attribute{Type: unix.NFTA_SET_USERDATA, Data: udata})
	}
	b.add(unix.NFT_MSG_NEWSET, netlink.Create, append(attrs, netlink.Attribute{Type: unix.NFTA_SET_FLAGS, Data: big32(flags)})...)
	return id
}

func (b *Batch) DeleteSet(name string) {
	b.add(unix.NFT_MSG_DELSET, 0,
		netlink.Attribute{Type: unix.NFTA_SET_TABLE, Data: text(b.Table)}, netlink.Attribute{Type: unix.NFTA_SET_NAME, Data: text(name)})
}

func (b *Batch) FlushSet(name string) {
	b.add(unix.NFT_MSG_DELSETELEM, 0,
		netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_TABLE, Data: text(b.Table)}, netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: text(name)})
}

// AddElements adds elements of any sets; existing ones stay.
func (b *Batch) AddElements(list []Element) {
	b.elements(unix.NFT_MSG_NEWSETELEM, netlink.Create, list, 0)
}

// DeleteElements deletes elements, all of which must exist.
func (b *Batch) DeleteElements(list []Element) { b.elements(unix.NFT_MSG_DELSETELEM, 0, list, 0) }

// inMessage is the number of elements per message, whose length field has 16 bits.
const inMessage = 200

// elements sends elements. id is the ID of a set added in the batch, or 0.
func (b *Batch) elements(typ netlink.HeaderType, flags netlink.HeaderFlags, list []Element, id uint32) {
	for i := 0; i < len(list); {
		set := list[i].Set
		var elements []netlink.Attribute
		for ; i < len(list) && list[i].Set == set && len(elements) < inMessage; i++ {
			e := list[i]
			attrs := []netlink.Attribute{b.nested(unix.NFTA_SET_ELEM_KEY, netlink.Attribute{Type: unix.NFTA_DATA_VALUE, Data: []byte(e.Key)})}
			if e.closes {
				attrs = append(attrs, netlink.Attribute{Type: unix.NFTA_SET_ELEM_FLAGS, Data: big32(unix.NFT_SET_ELEM_INTERVAL_END)})
			}
			if e.End != "" {
				attrs = append(attrs, b.nested(elementKeyEnd, netlink.Attribute{Type: unix.NFTA_DATA_VALUE, Data: []byte(e.End)}))
			}
			if e.Data != "" {
				attrs = append(attrs, b.nested(unix.NFTA_SET_ELEM_DATA, netlink.Attribute{Type: unix.NFTA_DATA_VALUE, Data: []byte(e.Data)}))
			}
			if e.Verdict != "" {
				attrs = append(attrs, b.nested(unix.NFTA_SET_ELEM_DATA, b.verdict(verdictOf(e.Verdict))))
			}
			if e.Comment != "" {
				attrs = append(attrs, netlink.Attribute{
					Type: unix.NFTA_SET_ELEM_USERDATA, Data: userdata.AppendString(nil, userdata.NFTNL_UDATA_SET_ELEM_COMMENT, e.Comment),
				})
			}
			elements = append(elements, b.nested(unix.NFTA_LIST_ELEM, attrs...))
		}
		attrs := []netlink.Attribute{
			{Type: unix.NFTA_SET_ELEM_LIST_TABLE, Data: text(b.Table)},
			{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: text(set)},
			b.nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, elements...),
		}
		if id != 0 {
			attrs = append(attrs, netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_SET_ID, Data: big32(id)})
		}
		b.add(typ, flags, attrs...)
	}
}

func (b *Batch) verdict(v *expr.Verdict) netlink.Attribute {
	attrs := []netlink.Attribute{{Type: unix.NFTA_VERDICT_CODE, Data: big32(uint32(v.Kind))}}
	if v.Chain != "" {
		attrs = append(attrs, netlink.Attribute{Type: unix.NFTA_VERDICT_CHAIN, Data: text(v.Chain)})
	}
	return b.nested(unix.NFTA_DATA_VERDICT, attrs...)
}

// Word is an expression of a rule.
type Word interface {
	marshal(b *Batch) ([]byte, error)
}

// Known is an expression that the library can encode.
type Known struct{ expr.Any }

func (w Known) marshal(b *Batch) ([]byte, error) { return expr.Marshal(b.Family, w.Any) }

// Fingerprint returns a hash of a rule, of eight hexadecimal digits. In its comment, it shows that the
// rule is as expected, because the kernel's form of a rule is not compared.
func Fingerprint(rule []Word) string {
	h := sha256.New()
	for _, w := range rule {
		known, ok := w.(Known)
		if !ok {
			fmt.Fprintf(h, "%T%v ", w, w)
			continue
		}
		data, err := expr.Marshal(unix.NFPROTO_INET, known.Any)
		fmt.Fprintf(h, "%x%v ", data, err)
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// Words wraps expressions of the library.
func Words(list ...expr.Any) []Word {
	out := make([]Word, len(list))
	for i, e := range list {
		out[i] = Known{e}
	}
	return out
}

// Tuple loads an address or port of one direction of the connection (0: original). The library
// cannot encode it so that nft can print it.
type Tuple struct {
	Register, Key uint32
	Direction     byte
}

func (w Tuple) marshal(b *Batch) ([]byte, error) {
	return b.All(
		netlink.Attribute{Type: unix.NFTA_EXPR_NAME, Data: text("ct")},
		b.nested(unix.NFTA_EXPR_DATA,
			netlink.Attribute{Type: unix.NFTA_CT_DREG, Data: big32(w.Register)},
			netlink.Attribute{Type: unix.NFTA_CT_KEY, Data: big32(w.Key)},
			netlink.Attribute{Type: unix.NFTA_CT_DIRECTION, Data: []byte{w.Direction}},
		)), nil
}
