package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/netlink/nlattr"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Constants of dumps of rules and elements (linux/netfilter/nf_tables.h).
const (
	nftMsgGetChain      = 4
	nftMsgGetRule       = 7
	nftMsgGetSet        = 10
	nftMsgGetSetElem    = 13
	nftaRuleTable       = 1
	nftaRuleChain       = 2
	nftaRuleUserData    = 7
	nftaListTable       = 1
	nftaListSet         = 2
	nftaListElements    = 3
	nftaElementKey      = 1
	nftaElementData     = 2
	nftaElementFlags    = 3
	nftaElementUserData = 6
	nftaElementExpr     = 7
	nftaDataValue       = 1
	nftaDataVerdict     = 2
)

// dump requests a dump and calls each with every answer.
//
// The kernel fills buffers as large as the reader has used so far, up to 32 KiB, and walks a set
// from its start for each buffer. Peeking with small buffers would make large sets extremely slow.
func (g *generations) dump(family byte, message uint16, each func([]byte), attrs ...*nl.RtAttr) error {
	if err := g.fault.ask("dump"); err != nil {
		return err
	}
	data := []byte{family, 0, 0, 0}
	for _, a := range attrs {
		data = append(data, a.Serialize()...)
	}
	return g.kernel.Ask(message, unix.NLM_F_DUMP, data, func(answer []byte) {
		if len(answer) >= sizeofNfgenmsg {
			each(answer[sizeofNfgenmsg:])
		}
	})
}

// listSet returns the decoded elements of a set; none if the set does not exist.
//
// While the kernel resizes the hash table of a set, it lists some elements twice and omits as many
// others, and the ruleset may change at any time. So listSet repeats the dump until distinct
// removes nothing.
func listSet[T any](g *generations, family byte, table, set string, read func(element []byte) T, distinct func([]T) []T) (list []T, err error) {
	var raw [][]byte
	for range 8 {
		var parts [][]T // appending to one list would copy it repeatedly
		err = g.dump(family, nftMsgGetSetElem, func(m []byte) {
			raw = elementsIn(m, raw[:0])
			part := make([]T, len(raw))
			for i, element := range raw {
				part[i] = read(element)
			}
			parts = append(parts, part)
		}, nl.NewRtAttr(nftaListTable, nl.ZeroTerminated(table)), nl.NewRtAttr(nftaListSet, nl.ZeroTerminated(set)))
		list = slices.Concat(parts...)
		listed := len(list)
		if list = distinct(list); !errors.Is(err, nl.ErrDumpInterrupted) && len(list) == listed {
			break
		}
	}
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the elements of %q: %w", set, err)
	}
	return list, nil
}

// elements returns the sorted elements of a set.
func (g *generations) elements(family byte, table, set string) ([]Element, error) {
	return listSet(g, family, table, set, func(element []byte) Element {
		e, _ := elementOf(set, element)
		return e
	}, Sorted)
}

func (g *generations) packets(family byte, table, set string) (map[string]uint64, error) {
	type counter struct {
		Element
		packets uint64
	}
	list, err := listSet(g, family, table, set, func(element []byte) (c counter) {
		c.Element, c.packets = elementOf(set, element)
		return c
	}, func(list []counter) []counter {
		slices.SortFunc(list, func(a, b counter) int { return strings.Compare(a.Key, b.Key) })
		return slices.CompactFunc(list, func(a, b counter) bool { return a.Key == b.Key })
	})
	if list == nil {
		return nil, err
	}
	counters := make(map[string]uint64, len(list))
	for _, c := range list {
		counters[c.Key] = c.packets
	}
	return counters, nil
}

// packetsOf returns the value of a counter expression; 0 for others.
func packetsOf(expression []byte) uint64 {
	for attr, data := range nlattr.All(expression) {
		if attr != unix.NFTA_EXPR_DATA {
			continue
		}
		for attr, value := range nlattr.All(data) {
			if attr == unix.NFTA_COUNTER_PACKETS && len(value) == 8 {
				return binary.BigEndian.Uint64(value)
			}
		}
	}
	return 0
}

func elementsIn(message []byte, list [][]byte) [][]byte {
	for attr, elements := range nlattr.All(message) {
		if attr != nftaListElements {
			continue
		}
		for _, element := range nlattr.All(elements) {
			list = append(list, element)
		}
	}
	return list
}

// elementOf decodes an element and its counter (0 if none).
func elementOf(set string, attrs []byte) (e Element, packets uint64) {
	e.Set = set
	for attr, value := range nlattr.All(attrs) {
		switch attr {
		case nftaElementKey:
			e.Key = dataValue(value)
		case elementKeyEnd:
			e.End = dataValue(value)
		case nftaElementData:
			e.Data, e.Verdict = dataValue(value), dataVerdict(value)
		case nftaElementFlags:
			e.closes = len(value) == 4 && binary.BigEndian.Uint32(value)&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case nftaElementUserData:
			e.Comment, _ = userdata.GetString(value, userdata.NFTNL_UDATA_SET_ELEM_COMMENT)
		case nftaElementExpr:
			packets = packetsOf(value)
		}
	}
	return e, packets
}

func dataValue(data []byte) string {
	for attr, value := range nlattr.All(data) {
		if attr == nftaDataValue {
			return string(value)
		}
	}
	return ""
}

func dataVerdict(data []byte) string {
	for attr, value := range nlattr.All(data) {
		if attr != nftaDataVerdict {
			continue
		}
		var v expr.Verdict
		for attr, value := range nlattr.All(value) {
			switch {
			case attr == unix.NFTA_VERDICT_CODE && len(value) == 4:
				v.Kind = expr.VerdictKind(int32(binary.BigEndian.Uint32(value)))
			case attr == unix.NFTA_VERDICT_CHAIN:
				v.Chain = name(value)
			}
		}
		return textOf(v)
	}
	return ""
}

func name(value []byte) string { return strings.TrimRight(string(value), "\x00") }

// rules returns the comments of all rules, by chain, in order. Expressions are not read: only we
// make rules with these comments.
func (g *generations) rules(family byte, table string) (map[string][]string, error) {
	found := map[string][]string{}
	err := g.dump(family, nftMsgGetRule, func(m []byte) {
		var owner, chain, comment string
		for attr, value := range nlattr.All(m) {
			switch attr {
			case nftaRuleTable:
				owner = name(value)
			case nftaRuleChain:
				chain = name(value)
			case nftaRuleUserData:
				comment, _ = userdata.GetString(value, userdata.TypeComment)
			}
		}
		if owner == table {
			found[chain] = append(found[chain], comment)
		}
	}, nl.NewRtAttr(nftaRuleTable, nl.ZeroTerminated(table)))
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("listing rules: %w", err)
	}
	return found, nil
}
