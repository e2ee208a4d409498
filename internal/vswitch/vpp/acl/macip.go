package acl

import (
	"math/bits"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
	"go.fd.io/govpp/binapi/acl_types"
)

// VPP does not evaluate MAC-IP rules in order. It has a table for each form of a rule (the
// significant MAC bits and the prefix length), and evaluates tables of higher rank first: the rank
// is the number of bits, plus one for IPv6, plus ten per rule. Where the order matters, rules are
// repeated until the ranks agree.

// macipForm is the common form of a table's rules.
type macipForm struct {
	mask [6]byte
	bits int
	ipv6 bool
}

func formOf(r vswitch.ACLRule) macipForm {
	return macipForm{r.MACMask, r.Src.Bits(), r.Src.Addr().Is6()}
}

// rank returns the rank of a table with the number of rules.
func (f macipForm) rank(rules int) int {
	rank := f.bits + 10*rules
	for _, b := range f.mask {
		rank += bits.OnesCount8(b)
	}
	if f.ipv6 {
		rank++
	}
	return rank
}

// macipACLRules returns the rules of a list so that VPP evaluates them as if in order.
func macipACLRules(list *vpp_acl.ACL) ([]acl_types.MacipACLRule, error) {
	all, err := vswitch.ACLRules(list)
	if err != nil {
		return nil, err
	}
	// A rule covered by an earlier one never decides.
	var rules []vswitch.ACLRule
	for _, r := range all {
		hidden := false
		for _, earlier := range rules {
			hidden = hidden || covers(earlier, r)
		}
		if !hidden {
			rules = append(rules, r)
		}
	}
	counts := map[macipForm]int{}
	for _, r := range rules {
		counts[formOf(r)]++
	}
	// above[f] holds the forms to evaluate before f.
	above := map[macipForm]map[macipForm]bool{}
	for j, later := range rules {
		for _, earlier := range rules[:j] {
			if earlier.Action != later.Action && overlap(earlier, later) {
				f := formOf(later)
				if above[f] == nil {
					above[f] = map[macipForm]bool{}
				}
				above[f][formOf(earlier)] = true
			}
		}
	}
	// Raising one form may require raising others, in a circle without end.
	for round := 0; ; round++ {
		if round > len(counts) {
			return nil, vswitch.Unsupported("VPP cannot try these MAC-IP rules in their order: let rules that contradict each other have masks and prefixes of lengths of their own")
		}
		raised := false
		for lower, uppers := range above {
			for upper := range uppers {
				for upper != lower && upper.rank(counts[upper]) <= lower.rank(counts[lower]) {
					counts[upper]++
					raised = true
				}
			}
		}
		if !raised {
			break
		}
	}
	var result []acl_types.MacipACLRule
	for _, r := range rules {
		form, rule := formOf(r), acl_types.MacipACLRule{IsPermit: aclActions[r.Action], SrcPrefix: convert.Prefix(r.Src), SrcMac: r.MAC, SrcMacMask: r.MACMask}
		result = append(result, rule)
		counts[form]--
	}
	for _, r := range rules {
		for ; counts[formOf(r)] > 0; counts[formOf(r)]-- {
			result = append(result, acl_types.MacipACLRule{IsPermit: aclActions[r.Action], SrcPrefix: convert.Prefix(r.Src), SrcMac: r.MAC, SrcMacMask: r.MACMask})
		}
	}
	return result, nil
}

// covers reports whether a matches everything that b matches.
func covers(a, b vswitch.ACLRule) bool {
	for i, m := range a.MACMask {
		if m&^b.MACMask[i] != 0 || b.MAC[i]&m != a.MAC[i] {
			return false
		}
	}
	return a.Src.Bits() <= b.Src.Bits() && a.Src.Contains(b.Src.Addr())
}

// overlap reports whether something matches both.
func overlap(a, b vswitch.ACLRule) bool {
	for i := range a.MAC {
		if both := a.MACMask[i] & b.MACMask[i]; a.MAC[i]&both != b.MAC[i]&both {
			return false
		}
	}
	return a.Src.Overlaps(b.Src)
}
