package jsontext

import (
	"encoding/binary"
	"math/bits"
)

// ordinary returns how many bytes at the beginning of data are ASCII that stands for itself in a JSON string. It looks at
// eight at a time.
func ordinary(data []byte) (n int) {
	const (
		each = 0x0101010101010101
		high = 0x80 * each
	)
	for len(data) >= 8 {
		w := binary.LittleEndian.Uint64(data)
		quote, backslash := w^'"'*each, w^'\\'*each // a byte that is zero, minus 1, has the high bit: none before it does
		if odd := (w | (w-' '*each)&^w | (quote-each)&^quote | (backslash-each)&^backslash) & high; odd != 0 {
			return n + bits.TrailingZeros64(odd)/8
		}
		data, n = data[8:], n+8
	}
	return n
}
