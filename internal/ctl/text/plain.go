package text

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// plain is a writer that escapes terminal control characters in names, values and errors as in Go:
// \x1b. It keeps line breaks and tabs.
//
// A write must not end within a character.
type plain struct{ w io.Writer }

func (p plain) Write(text []byte) (int, error) {
	if _, err := p.w.Write(printable(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

func printable(text []byte) []byte {
	first := indexCommand(text)
	if first < 0 {
		return text
	}
	var b bytes.Buffer
	b.Write(text[:first])
	for text = text[first:]; len(text) > 0; {
		c, size := utf8.DecodeRune(text)
		switch {
		case c == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case isCommand(c) && c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		case isCommand(c):
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.Write(text[:size])
		}
		text = text[size:]
	}
	return b.Bytes()
}

// indexCommand returns the index of the first character that a terminal may not simply show, or -1.
func indexCommand(text []byte) int {
	const (
		each = 0x0101010101010101
		high = 0x80 * each
	)
	for i := 0; i < len(text); {
		if i+8 <= len(text) { // fast path: eight harmless ASCII characters
			w := binary.LittleEndian.Uint64(text[i:])
			deleted := w ^ 0x7f*each // a zero byte for each DEL
			if (w|(w-' '*each)&^w|(deleted-each)&^deleted)&high == 0 {
				i += 8
				continue
			}
		}
		if harmless[text[i]] {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if isCommand(r) {
			return i
		}
		i += size
	}
	return -1
}

// harmless marks the ASCII characters that terminals show.
var harmless = func() (is [256]bool) {
	for c := range byte(utf8.RuneSelf) {
		is[c] = !isCommand(rune(c))
	}
	return is
}()

// isCommand reports whether a terminal may interpret a character: control characters, line and
// paragraph separators, and characters that change the text direction.
func isCommand(c rune) bool {
	return unicode.IsControl(c) && c != '\n' && c != '\t' || c == utf8.RuneError || unicode.In(c, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// WritePlain copies output of a Plain writer, colours included, to another writer.
func WritePlain(w io.Writer, from *bytes.Buffer) {
	if p, ok := w.(plain); ok {
		w = p.w
	}
	_, _ = from.WriteTo(w) // errors cannot be reported anywhere
}

// Plain returns a writer for untrusted text to a terminal.
func Plain(w io.Writer) io.Writer { return plain{w} }
