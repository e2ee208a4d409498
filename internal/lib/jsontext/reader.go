package jsontext

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// deepest is the maximum nesting depth.
const deepest = 1000

// Reader parses JSON from left to right. After the first error it returns zero values; End returns
// the error.
type Reader struct {
	data  []byte
	at    int
	depth int
	err   error
	keeps bool // strings are parts of the data
}

// NewReader returns a Reader of a JSON value. The data must not change while results of the Reader
// are in use.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// NewTextReader returns a Reader whose strings are parts of the text, so each keeps all of it in
// memory.
func NewTextReader(text string) *Reader {
	return &Reader{data: unsafe.Slice(unsafe.StringData(text), len(text)), keeps: true} // a Reader does not modify its data
}

// Left returns the number of unread bytes.
func (r *Reader) Left() int { return len(r.data) - r.at }

// End returns the first error. Data after the value is an error.
func (r *Reader) End() error {
	if r.space(); r.err == nil && r.at < len(r.data) {
		r.fail("something follows the value")
	}
	return r.err
}

// Fail sets the error unless one is set.
func (r *Reader) Fail(err error) {
	if r.err == nil && err != nil {
		r.err = err
	}
}

func (r *Reader) fail(what string) {
	r.Fail(fmt.Errorf("JSON: %s at byte %d", what, r.at))
	r.at = len(r.data)
}

func (r *Reader) space() {
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case ' ', '\n', '\t', '\r':
			r.at++
		default:
			return
		}
	}
}

// next returns the first byte of the next token, or 0 at the end.
func (r *Reader) next() byte {
	if r.space(); r.err != nil || r.at >= len(r.data) {
		return 0
	}
	return r.data[r.at]
}

// take reads c if it is the next token.
func (r *Reader) take(c byte) bool {
	if r.next() != c {
		return false
	}
	r.at++
	return true
}

func (r *Reader) expect(c byte) {
	if !r.take(c) {
		r.fail("missing " + strconv.QuoteRune(rune(c)))
	}
}

// members calls one for each member of an object or an array, which must read it.
func (r *Reader) members(begin, end byte, one func()) {
	if r.Null() {
		return
	}
	if r.expect(begin); r.err != nil {
		return
	}
	if r.depth++; r.depth > deepest {
		r.fail("values are nested too deeply")
	}
	if !r.take(end) {
		for r.err == nil {
			if one(); !r.take(',') {
				r.expect(end)
				break
			}
		}
	}
	r.depth--
}

// Object calls member with the name of each member of an object. member must read the value,
// possibly with Skip. The name is valid until then. null has no members.
func (r *Reader) Object(member func(name []byte)) {
	r.members('{', '}', func() {
		name := r.text()
		r.expect(':')
		if r.err == nil {
			member(name)
		}
	})
}

// Array calls element for each element of an array, which must read it. null has no elements.
func (r *Reader) Array(element func()) { r.members('[', ']', element) }

// Null reads null if it is the next value and reports whether it was.
func (r *Reader) Null() bool { return r.next() == 'n' && r.literal("null") }

func (r *Reader) literal(word string) bool {
	if len(r.data)-r.at < len(word) || string(r.data[r.at:r.at+len(word)]) != word {
		r.fail("no value")
		return false
	}
	r.at += len(word)
	return true
}

// Bool reads a boolean; null is false.
func (r *Reader) Bool() bool {
	switch r.next() {
	case 't':
		return r.literal("true")
	case 'f':
		r.literal("false")
	default:
		if !r.Null() {
			r.fail("no truth value")
		}
	}
	return false
}

// String reads a string; null is "".
func (r *Reader) String() string { return r.textOf(r.text()) }

// RawText is Raw as a string.
func (r *Reader) RawText() string { return r.textOf(r.Raw()) }

func (r *Reader) textOf(part []byte) string {
	if r.keeps {
		return unsafe.String(unsafe.SliceData(part), len(part))
	}
	return string(part)
}

// Strings reads an array of strings.
func (r *Reader) Strings() (texts []string) {
	r.Array(func() { texts = append(texts, r.String()) })
	return texts
}

// text reads a string. It returns a part of the data if nothing is escaped.
func (r *Reader) text() []byte {
	if r.Null() {
		return nil
	}
	raw, plain := r.quoted()
	if plain || r.err != nil {
		return raw
	}
	var text string
	if err := json.Unmarshal(r.data[r.at-len(raw)-2:r.at], &text); err != nil {
		r.fail(err.Error())
	}
	return []byte(text)
}

// quoted skips a string and returns the bytes between the quotes. plain: they need no decoding.
func (r *Reader) quoted() (raw []byte, plain bool) {
	if r.expect('"'); r.err != nil {
		return nil, true
	}
	begin, ascii, escaped := r.at, true, false
	for i := r.at + ordinary(r.data[r.at:]); i < len(r.data); i++ {
		switch c := r.data[i]; {
		case c == '"':
			r.at = i + 1
			raw = r.data[begin:i]
			return raw, !escaped && (ascii || utf8.Valid(raw))
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			r.at = i
			r.fail("a control character in a string")
			return nil, true
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	r.at = len(r.data)
	r.fail("a string without an end")
	return nil, true
}

// Int reads an integer; null is 0.
func (r *Reader) Int() int64 {
	if r.Null() {
		return 0
	}
	n, err := strconv.ParseInt(string(r.number()), 10, 64)
	if err != nil {
		r.fail("no whole number")
	}
	return n
}

// Uint reads an unsigned integer; null is 0.
func (r *Reader) Uint() uint64 {
	if r.Null() {
		return 0
	}
	n, err := strconv.ParseUint(string(r.number()), 10, 64)
	if err != nil {
		r.fail("no whole number")
	}
	return n
}

func (r *Reader) number() []byte {
	r.space()
	begin := r.at
	for r.at < len(r.data) {
		switch c := r.data[r.at]; {
		case '0' <= c && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			r.at++
			continue
		}
		break
	}
	return r.data[begin:r.at]
}

// Raw reads a value and returns its part of the data, which is valid JSON.
func (r *Reader) Raw() []byte {
	r.space()
	begin := r.at
	if r.Skip(); r.err != nil {
		return nil
	}
	return r.data[begin:r.at]
}

// Skip reads a value.
func (r *Reader) Skip() {
	switch c := r.next(); {
	case c == '{':
		r.Object(func([]byte) { r.Skip() })
	case c == '[':
		r.Array(r.Skip)
	case c == '"':
		if raw, plain := r.quoted(); !plain && !json.Valid(r.data[r.at-len(raw)-2:r.at]) {
			r.fail("a wrong escape in a string")
		}
	case c == 't', c == 'f':
		r.Bool()
	case c == 'n':
		r.Null()
	case c == '-' || '0' <= c && c <= '9':
		if !json.Valid(r.number()) {
			r.fail("a wrong number")
		}
	default:
		r.fail("no value")
	}
}

// Any reads a value as encoding/json reads one into an empty interface.
func (r *Reader) Any() (value any) {
	if r.Null() { // the most frequent case
		return nil
	}
	if raw := r.Raw(); r.err == nil {
		r.Fail(json.Unmarshal(raw, &value))
	}
	return value
}

// Kinds of tokens.
const (
	ObjectKind = '{'
	ArrayKind  = '['
	StringKind = '"'
	OtherKind  = '0' // a number, true, false or null
)

// Kind returns the kind of the next value.
func (r *Reader) Kind() byte {
	switch c := r.next(); c {
	case ObjectKind, ArrayKind, StringKind:
		return c
	}
	return OtherKind
}
