package jsontext

import (
	"encoding/binary"
	"math/bits"
)

// ordinary returns the number of leading ASCII bytes that need no escape in a JSON string. It
// checks eight bytes at a time.
func ordinary(data []byte) (n int) {
	const (
		each = 0x0101010101010101
		high = 0x80 * each
	)
	for len(data) >= 8 {
		w := binary.LittleEndian.Uint64(data)
		quote, backslash := w^'"'*each, w^'\\'*each // Subtracting 1 sets the high bit of the first zero byte, and of none before it.
		if odd := (w | (w-' '*each)&^w | (quote-each)&^quote | (backslash-each)&^backslash) & high; odd != 0 {
			return n + bits.TrailingZeros64(odd)/8
		}
		data, n = data[8:], n+8
	}
	return n
}
