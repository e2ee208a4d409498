package nft

import (
	"cmp"
	"slices"

	"github.com/mdlayher/netlink"
)

// Element is an element of a set or a map; data and comment may be empty. In sets of
// ranges, End is the last key.
type Element struct{ Set, Key, End, Data, Comment string }

func Compare(a, b Element) int {
	return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Key, b.Key), cmp.Compare(a.End, b.End), cmp.Compare(a.Data, b.Data), cmp.Compare(a.Comment, b.Comment))
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

// wideBuffers makes room for transactions with many elements.
func wideBuffers(c *netlink.Conn) error {
	const size = 16 << 20
	if err := c.SetWriteBuffer(size); err != nil {
		return err
	}
	return c.SetReadBuffer(size)
}
