package nft

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables/expr"
)

// Element is an element of a set or a map. Only Set and Key are required. In sets of ranges of
// several fields, End is the last key. In verdict maps, Verdict is "drop", "accept", "return",
// "goto CHAIN" or "jump CHAIN".
type Element struct {
	Set, Key, End, Data, Verdict, Comment string
	// closes: the key is the first one after a range
	closes bool
}

func Compare(a, b Element) int {
	if c := cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Key, b.Key)); c != 0 {
		return c // the usual case; sets are large
	}
	return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.Data, b.Data), cmp.Compare(a.Verdict, b.Verdict), cmp.Compare(a.Comment, b.Comment))
}

// Sorted returns the elements in order without duplicates.
func Sorted(list []Element) []Element {
	slices.SortFunc(list, Compare)
	return slices.Compact(list)
}

// verdictOf is the inverse of textOf.
func verdictOf(text string) *expr.Verdict {
	word, chain, _ := strings.Cut(text, " ")
	return &expr.Verdict{Kind: verdicts[word], Chain: chain}
}

func textOf(v expr.Verdict) string {
	for word, kind := range verdicts {
		if kind == v.Kind {
			return strings.TrimSuffix(word+" "+v.Chain, " ")
		}
	}
	return fmt.Sprintf("verdict %d", v.Kind)
}

var verdicts = map[string]expr.VerdictKind{
	"accept": expr.VerdictAccept, "drop": expr.VerdictDrop, "return": expr.VerdictReturn, "goto": expr.VerdictGoto, "jump": expr.VerdictJump,
}
