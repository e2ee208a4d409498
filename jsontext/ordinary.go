package jsontext

import (
	"encoding/binary"
	"math/bits"
)

// ordinary returns how many bytes at the beginning of data are ASCII that stands for itself in a JSON string. It looks at
// eight at a time.
func ordinary[T []byte | string](data T) int {
	const (
		each = 0x0101010101010101
		high = 0x80 * each
	)
	zero := func(w uint64) uint64 { return (w - each) &^ w } // sets the high bit of the first byte that is 0
	var eight [8]byte
	i := 0
	for ; i+8 <= len(data); i += 8 {
		copy(eight[:], data[i:])
		w := binary.LittleEndian.Uint64(eight[:])
		if odd := (w | (w-' '*each)&^w | zero(w^'"'*each) | zero(w^'\\'*each)) & high; odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	return i
}
