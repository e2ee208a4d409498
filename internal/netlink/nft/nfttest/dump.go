package nfttest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

func text(s string) []byte { return append([]byte(s), 0) }

func big32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

func nested(typ uint16, list ...netlink.Attribute) netlink.Attribute {
	return netlink.Attribute{Type: typ | attributeNested, Data: marshal(list...)}
}

func marshal(list ...netlink.Attribute) []byte {
	data, err := netlink.MarshalAttributes(list)
	if err != nil {
		panic(err) // an attribute of more than 64 KiB
	}
	return data
}

// Ask implements nft.Kernel.
func (k *Kernel) Ask(message, flags uint16, data []byte, answer func([]byte)) error {
	if len(data) < sizeofNfgenmsg {
		return unix.EINVAL
	}
	k.mu.Lock()
	var answers [][]byte
	err := k.ask(message, flags, data[0], parse(data[sizeofNfgenmsg:]), func(family byte, list ...netlink.Attribute) {
		answers = append(answers, append([]byte{family, 0, 0, 0}, marshal(list...)...))
	})
	k.mu.Unlock()
	for _, a := range answers {
		answer(a)
	}
	return err
}

func (k *Kernel) ask(message, flags uint16, family byte, a attrs, answer func(family byte, list ...netlink.Attribute)) error {
	if message == unix.NFT_MSG_GETGEN {
		answer(unix.AF_UNSPEC, netlink.Attribute{Type: unix.NFTA_GEN_ID, Data: big32(k.generation)})
		return nil
	}
	name := a.text(unix.NFTA_TABLE_NAME)
	if message == unix.NFT_MSG_GETSETELEM {
		t := k.tables[tableKey{family, name}]
		if t == nil || t.sets[a.text(unix.NFTA_SET_ELEM_LIST_SET)] == nil {
			return unix.ENOENT
		}
		s := t.sets[a.text(unix.NFTA_SET_ELEM_LIST_SET)]
		if flags&unix.NLM_F_DUMP == 0 {
			for _, data := range each(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS]) {
				key, _, err := elementOf(parse(data))
				if err != nil || s.elements[key] == nil {
					return unix.ENOENT
				}
			}
			return nil
		}
		for key, e := range s.elements {
			answer(family, nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, nested(unix.NFTA_LIST_ELEM, e.attributes(key)...)))
		}
		return nil
	}
	for _, t := range k.sorted() {
		if t.key.family != family || name != "" && t.key.name != name {
			continue
		}
		table := netlink.Attribute{Type: unix.NFTA_TABLE_NAME, Data: text(t.key.name)}
		switch message {
		case unix.NFT_MSG_GETTABLE:
			answer(family, table)
		case unix.NFT_MSG_GETCHAIN:
			for _, c := range t.chains {
				answer(family, append([]netlink.Attribute{table}, c.attributes()...)...)
			}
		case unix.NFT_MSG_GETRULE:
			for _, c := range t.chains {
				for _, r := range c.rules {
					answer(family, table, netlink.Attribute{Type: unix.NFTA_RULE_CHAIN, Data: text(c.name)}, netlink.Attribute{Type: unix.NFTA_RULE_USERDATA, Data: r.comment})
				}
			}
		case unix.NFT_MSG_GETSET:
			for _, s := range t.sets {
				list := []netlink.Attribute{table, {Type: unix.NFTA_SET_NAME, Data: text(s.name)}, {Type: unix.NFTA_SET_FLAGS, Data: big32(s.flags)}}
				if s.userdata != nil {
					list = append(list, netlink.Attribute{Type: unix.NFTA_SET_USERDATA, Data: s.userdata})
				}
				answer(family, list...)
			}
		default:
			return fmt.Errorf("nfttest knows no request of type %d: %w", message, unix.EOPNOTSUPP)
		}
	}
	return nil
}

func (k *Kernel) sorted() (list []*table) {
	for _, t := range k.tables {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *table) int { return strings.Compare(a.key.String(), b.key.String()) })
	return list
}

func (c *chain) attributes() []netlink.Attribute {
	list := []netlink.Attribute{{Type: unix.NFTA_CHAIN_NAME, Data: text(c.name)}}
	if !c.hooked {
		return list
	}
	return append(list,
		nested(unix.NFTA_CHAIN_HOOK, netlink.Attribute{Type: unix.NFTA_HOOK_HOOKNUM, Data: big32(c.hook)}, netlink.Attribute{Type: unix.NFTA_HOOK_PRIORITY, Data: big32(uint32(c.priority))}),
		netlink.Attribute{Type: unix.NFTA_CHAIN_TYPE, Data: text(c.typ)}, netlink.Attribute{Type: unix.NFTA_CHAIN_POLICY, Data: big32(c.policy)})
}

func (e *element) attributes(key elementKey) []netlink.Attribute {
	value := func(typ uint16, data string) netlink.Attribute {
		return nested(typ, netlink.Attribute{Type: unix.NFTA_DATA_VALUE, Data: []byte(data)})
	}
	list := []netlink.Attribute{value(unix.NFTA_SET_ELEM_KEY, key.key)}
	if key.end != "" {
		list = append(list, value(elementKeyEnd, key.end))
	}
	if key.closes {
		list = append(list, netlink.Attribute{Type: unix.NFTA_SET_ELEM_FLAGS, Data: big32(unix.NFT_SET_ELEM_INTERVAL_END)})
	}
	if e.data != "" {
		list = append(list, value(unix.NFTA_SET_ELEM_DATA, e.data))
	}
	if v := e.verdict; v != nil {
		parts := []netlink.Attribute{{Type: unix.NFTA_VERDICT_CODE, Data: big32(uint32(v.Kind))}}
		if v.Chain != "" {
			parts = append(parts, netlink.Attribute{Type: unix.NFTA_VERDICT_CHAIN, Data: text(v.Chain)})
		}
		list = append(list, nested(unix.NFTA_SET_ELEM_DATA, nested(unix.NFTA_DATA_VERDICT, parts...)))
	}
	if e.comment != nil {
		list = append(list, netlink.Attribute{Type: unix.NFTA_SET_ELEM_USERDATA, Data: e.comment})
	}
	if e.packets > 0 {
		list = append(list, nested(elementExpr, netlink.Attribute{Type: unix.NFTA_EXPR_NAME, Data: text("counter")},
			nested(unix.NFTA_EXPR_DATA, netlink.Attribute{Type: unix.NFTA_COUNTER_PACKETS, Data: binary.BigEndian.AppendUint64(nil, e.packets)})))
	}
	return list
}
