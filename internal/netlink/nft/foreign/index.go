package foreign

import (
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// chain indexes the rules of a chain by a compared field: of 10,000 rules for single addresses,
// only the matching ones are evaluated.
type chain struct {
	rules []*nftables.Rule
	// others are the numbers of the rules without an indexed field.
	others []int
	fields []field
}

// field is a part of the headers that rules compare with values.
type field struct {
	load  *expr.Payload
	mask  string           // "": none
	rules map[string][]int // by value
	all   []int            // used if the value is unknown
}

func newChain(rules []*nftables.Rule) *chain {
	c := &chain{rules: rules}
	for i, rule := range rules {
		load, mask, value := condition(rule)
		if load == nil {
			c.others = append(c.others, i)
			continue
		}
		at := slices.IndexFunc(c.fields, func(f field) bool {
			return f.load.Base == load.Base && f.load.Offset == load.Offset && f.load.Len == load.Len && f.mask == mask
		})
		if at < 0 {
			at = len(c.fields)
			c.fields = append(c.fields, field{load: load, mask: mask, rules: map[string][]int{}})
		}
		f := &c.fields[at]
		f.rules[value] = append(f.rules[value], i)
		f.all = append(f.all, i)
	}
	return c
}

// candidates returns the numbers of the rules that a packet may match, in order.
func (c *chain) candidates(l *loaded) []int {
	found := c.others
	for _, f := range c.fields {
		some := f.all
		if value := l.payload(f.load); value != nil {
			some = f.rules[masked(value, f.mask)]
		}
		if len(some) > 0 {
			found = slices.Concat(found, some)
		}
	}
	if len(found) > len(c.others) {
		slices.Sort(found)
	}
	return found
}

func masked(value []byte, mask string) string {
	if mask == "" {
		return string(value)
	}
	out := make([]byte, len(value))
	for i := range out {
		out[i] = value[i] & mask[i]
	}
	return string(out)
}

// condition returns a comparison for equality that the rule requires, preferably of an address; nil
// if the rule has none.
func condition(rule *nftables.Rule) (best *expr.Payload, bestMask, bestValue string) {
	var load *expr.Payload
	mask := ""
	for _, e := range rule.Exprs {
		switch e := e.(type) {
		case *expr.Payload:
			if load, mask = e, ""; e.OperationType != expr.PayloadLoad {
				load = nil
			}
		case *expr.Bitwise:
			if load == nil || mask != "" || e.SourceRegister != load.DestRegister || e.DestRegister != load.DestRegister ||
				len(e.Mask) != int(load.Len) || slices.ContainsFunc(e.Xor, func(b byte) bool { return b != 0 }) {
				load = nil
				continue
			}
			mask = string(e.Mask)
		case *expr.Cmp:
			if load == nil || e.Op != expr.CmpOpEq || e.Register != load.DestRegister || len(e.Data) != int(load.Len) {
				continue
			}
			if best == nil || best.Base != expr.PayloadBaseNetworkHeader || best.Len < minAddress && load.Len >= minAddress {
				best, bestMask, bestValue = load, mask, string(e.Data)
			}
		default:
			load = nil
		}
	}
	return best, bestMask, bestValue
}

// minAddress is the minimum size of an address comparison, in bytes: networks of 8 bits are as
// small as the protocol, which selects less.
const minAddress = 2
