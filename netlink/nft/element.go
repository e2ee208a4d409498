package nft

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
)

// Element is an element of a set or a map; all but the first two may be empty. In sets
// whose keys are ranges of several fields, End is the last key. In verdict maps, Verdict
// is "drop", "accept", "return", "goto CHAIN" or "jump CHAIN".
type Element struct {
	Set, Key, End, Data, Verdict, Comment string
	// closes: the key is the first one behind a range.
	closes bool
}

func Compare(a, b Element) int {
	return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Key, b.Key), cmp.Compare(a.End, b.End), cmp.Compare(a.Data, b.Data),
		cmp.Compare(a.Verdict, b.Verdict), cmp.Compare(a.Comment, b.Comment))
}

// Sorted returns the elements in order, each once.
func Sorted(list []Element) []Element {
	slices.SortFunc(list, Compare)
	return slices.Compact(list)
}

// Difference returns what is in one sorted list only.
func Difference(before, after []Element) (gone, new []Element) {
	for len(before) > 0 && len(after) > 0 {
		switch c := Compare(before[0], after[0]); {
		case c == 0:
			before, after = before[1:], after[1:]
		case c < 0:
			gone, before = append(gone, before[0]), before[1:]
		default:
			new, after = append(new, after[0]), after[1:]
		}
	}
	return append(gone, before...), append(new, after...)
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

// wideBuffers makes room for transactions with many elements.
func wideBuffers(c *netlink.Conn) error {
	const size = 16 << 20
	if err := c.SetWriteBuffer(size); err != nil {
		return err
	}
	return c.SetReadBuffer(size)
}
