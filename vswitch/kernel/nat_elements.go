package kernel

import (
	"cmp"
	"slices"

	"github.com/mdlayher/netlink"
)

// natElement is an element of a set or a map; data and comment may be empty.
type natElement struct{ set, key, data, comment string }

func compareElements(a, b natElement) int {
	return cmp.Or(cmp.Compare(a.set, b.set), cmp.Compare(a.key, b.key), cmp.Compare(a.data, b.data), cmp.Compare(a.comment, b.comment))
}

// sorted returns the elements in order, each once.
func sorted(list []natElement) []natElement {
	slices.SortFunc(list, compareElements)
	return slices.Compact(list)
}

// difference returns what is in one sorted list only.
func difference(before, after []natElement) (gone, new []natElement) {
	for len(before) > 0 && len(after) > 0 {
		switch c := compareElements(before[0], after[0]); {
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
