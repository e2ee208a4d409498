package shortcut

import "unsafe"

// text returns the bytes without a copy. They must not change while the string is in use.
func text(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

// buffer collects bytes in data. It ignores additions that do not fit.
type buffer struct {
	data []byte
	n    int
	full bool
}

func (b *buffer) add(s string) {
	if len(s) > len(b.data)-b.n {
		b.full = true
		return
	}
	b.n += copy(b.data[b.n:], s)
}

func (b *buffer) addByte(c byte) {
	if b.n >= len(b.data) {
		b.full = true
		return
	}
	b.data[b.n] = c
	b.n++
}

func (b *buffer) addLength(n int) {
	b.addByte(byte(n >> 24))
	b.addByte(byte(n >> 16))
	b.addByte(byte(n >> 8))
	b.addByte(byte(n))
}

func (b *buffer) decimal(n int64) {
	divisor := int64(1)
	for n/divisor >= 10 {
		divisor *= 10
	}
	for ; divisor > 0; divisor /= 10 {
		b.addByte(byte('0' + n/divisor%10))
	}
}

func (b *buffer) text() string { return text(b.data[:b.n]) }

type message struct{ buffer }

func newMessage(data []byte) message {
	m := message{buffer{data: data}}
	m.add(magic)
	m.addLength(0)
	return m
}

func (m *message) field(value string) {
	m.addLength(len(value))
	m.add(value)
}

// finished returns the message, or "" if it is too large.
func (m *message) finished() string {
	if m.full {
		return ""
	}
	whole := m.n
	m.n = len(magic)
	m.addLength(whole - m.n - 4)
	m.n = whole
	return m.text()
}

// reader reads the fields of a message. short is set if fields are missing.
type reader struct {
	rest  string
	short bool
}

func (r *reader) field() string {
	if len(r.rest) < 4 || length(r.rest) > len(r.rest)-4 {
		r.rest, r.short = "", true
		return ""
	}
	n := 4 + length(r.rest)
	value := r.rest[4:n]
	r.rest = r.rest[n:]
	return value
}

// length decodes the first four bytes. data must have them.
func length(data string) int {
	return int(data[0])<<24 | int(data[1])<<16 | int(data[2])<<8 | int(data[3])
}
