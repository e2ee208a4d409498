package nft

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// nftBatch is a transaction of nftables on a table, as netlink messages: a
// change of few elements costs what few elements cost.
type Batch struct {
	Table    string
	Family   byte // NFPROTO_IPV4, …
	messages []netlink.Message
	sets     uint32
	err      error
}

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

// AddChain adds a chain without rules, or removes the rules of one that exists.
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
	}
	b.add(unix.NFT_MSG_NEWCHAIN, netlink.Create, attrs...)
	b.FlushChain(c.Name)
}

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

// AddSet adds a set or a map; one that exists as described stays.
func (b *Batch) AddSet(s *nftables.Set) {
	b.sets++
	var flags uint32
	attrs := []netlink.Attribute{
		{Type: unix.NFTA_SET_TABLE, Data: text(b.Table)},
		{Type: unix.NFTA_SET_NAME, Data: text(s.Name)},
		{Type: unix.NFTA_SET_KEY_TYPE, Data: big32(s.KeyType.GetNFTMagic())},
		{Type: unix.NFTA_SET_KEY_LEN, Data: big32(s.KeyType.Bytes)},
		{Type: unix.NFTA_SET_ID, Data: big32(b.sets)},
	}
	if s.IsMap {
		flags |= unix.NFT_SET_MAP
		attrs = append(attrs,
			netlink.Attribute{Type: unix.NFTA_SET_DATA_TYPE, Data: big32(s.DataType.GetNFTMagic())},
			netlink.Attribute{Type: unix.NFTA_SET_DATA_LEN, Data: big32(s.DataType.Bytes)})
	}
	if s.Dynamic {
		flags |= unix.NFT_SET_EVAL | unix.NFT_SET_TIMEOUT
		attrs = append(attrs, b.nested(unix.NFTA_SET_DESC, netlink.Attribute{Type: unix.NFTA_SET_DESC_SIZE, Data: big32(s.Size)}))
	}
	if s.Interval {
		flags |= unix.NFT_SET_INTERVAL | setConcat
		attrs = append(attrs, b.nested(unix.NFTA_SET_DESC, b.nested(setDescConcat, b.fields(s.KeyType)...)))
	}
	b.add(unix.NFT_MSG_NEWSET, netlink.Create, append(attrs, netlink.Attribute{Type: unix.NFTA_SET_FLAGS, Data: big32(flags)})...)
}

func (b *Batch) DeleteSet(name string) {
	b.add(unix.NFT_MSG_DELSET, 0,
		netlink.Attribute{Type: unix.NFTA_SET_TABLE, Data: text(b.Table)}, netlink.Attribute{Type: unix.NFTA_SET_NAME, Data: text(name)})
}

// FlushSet deletes all elements.
func (b *Batch) FlushSet(name string) {
	b.add(unix.NFT_MSG_DELSETELEM, 0,
		netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_TABLE, Data: text(b.Table)}, netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: text(name)})
}

// AddElements adds elements of any sets; those that are there already stay.
func (b *Batch) AddElements(list []Element) {
	b.elements(unix.NFT_MSG_NEWSETELEM, netlink.Create, list)
}

// DeleteElements deletes elements, all of which must exist.
func (b *Batch) DeleteElements(list []Element) { b.elements(unix.NFT_MSG_DELSETELEM, 0, list) }

// inMessage is how many elements go into one message: its length has 16 bits.
const inMessage = 200

func (b *Batch) elements(typ netlink.HeaderType, flags netlink.HeaderFlags, list []Element) {
	for i := 0; i < len(list); {
		set := list[i].Set
		var elements []netlink.Attribute
		for ; i < len(list) && list[i].Set == set && len(elements) < inMessage; i++ {
			e := list[i]
			attrs := []netlink.Attribute{b.nested(unix.NFTA_SET_ELEM_KEY, netlink.Attribute{Type: unix.NFTA_DATA_VALUE, Data: []byte(e.Key)})}
			if e.End != "" {
				attrs = append(attrs, b.nested(elementKeyEnd, netlink.Attribute{Type: unix.NFTA_DATA_VALUE, Data: []byte(e.End)}))
			}
			if e.Data != "" {
				attrs = append(attrs, b.nested(unix.NFTA_SET_ELEM_DATA, netlink.Attribute{Type: unix.NFTA_DATA_VALUE, Data: []byte(e.Data)}))
			}
			if e.Comment != "" {
				attrs = append(attrs, netlink.Attribute{
					Type: unix.NFTA_SET_ELEM_USERDATA, Data: userdata.AppendString(nil, userdata.NFTNL_UDATA_SET_ELEM_COMMENT, e.Comment),
				})
			}
			elements = append(elements, b.nested(unix.NFTA_LIST_ELEM, attrs...))
		}
		b.add(typ, flags,
			netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_TABLE, Data: text(b.Table)},
			netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: text(set)},
			b.nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, elements...))
	}
}

// send makes it happen, all or nothing. After an error the connection is of no use.
func (b *Batch) send(c *netlink.Conn) error {
	if len(b.messages) == 0 || b.err != nil {
		return b.err
	}
	// Errors are answered in any case, in order; the last message is confirmed as
	// well. So the first answer tells.
	b.messages[len(b.messages)-1].Header.Flags |= netlink.Acknowledge
	frame := func(typ netlink.HeaderType) netlink.Message {
		return netlink.Message{
			Header: netlink.Header{Type: typ, Flags: netlink.Request}, Data: []byte{unix.AF_UNSPEC, 0, 0, nfnlSubsysNFTables},
		}
	}
	all := append([]netlink.Message{frame(unix.NFNL_MSG_BATCH_BEGIN)}, b.messages...)
	if _, err := c.SendMessages(append(all, frame(unix.NFNL_MSG_BATCH_END))); err != nil {
		return fmt.Errorf("sending a transaction to nftables: %w", err)
	}
	_, err := c.Receive()
	return err
}

// Word is a part of a rule.
type Word interface {
	marshal(b *Batch) ([]byte, error)
}

// Known is a word that the library can write.
type Known struct{ expr.Any }

func (w Known) marshal(b *Batch) ([]byte, error) { return expr.Marshal(b.Family, w.Any) }

// OpenedTo loads where the connection was first sent to: an address, which the
// library cannot say in a way that nft can print.
type OpenedTo struct{ Register, Key uint32 }

func (w OpenedTo) marshal(b *Batch) ([]byte, error) {
	const directionOriginal = 0 // IP_CT_DIR_ORIGINAL
	return b.All(
		netlink.Attribute{Type: unix.NFTA_EXPR_NAME, Data: text("ct")},
		b.nested(unix.NFTA_EXPR_DATA,
			netlink.Attribute{Type: unix.NFTA_CT_DREG, Data: big32(w.Register)},
			netlink.Attribute{Type: unix.NFTA_CT_KEY, Data: big32(w.Key)},
			netlink.Attribute{Type: unix.NFTA_CT_DIRECTION, Data: []byte{directionOriginal}},
		)), nil
}
