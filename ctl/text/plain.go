package text

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// plain is a writer that neutralises escape sequences: names, values and errors come from elsewhere,
// and may contain some. They are shown in Go's notation: \x1b. Line breaks and tabs stay.
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

// indexCommand returns the index of the first character that a terminal may do something else with than to show it, or -1.
func indexCommand(text []byte) int {
	const (
		each = 0x0101010101010101
		high = 0x80 * each
	)
	for i := 0; i < len(text); {
		if i+8 <= len(text) { // most often, eight characters of ASCII are none
			w := binary.LittleEndian.Uint64(text[i:])
			deleted := w ^ 0x7f*each // a byte of 0 for each of DEL
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

// harmless are the characters of ASCII that are none.
var harmless = func() (is [256]bool) {
	for c := range byte(utf8.RuneSelf) {
		is[c] = !isCommand(rune(c))
	}
	return is
}()

// isCommand reports whether a terminal may do something else than to show the character:
// control characters, and those that change the direction of text.
func isCommand(c rune) bool {
	return unicode.IsControl(c) && c != '\n' && c != '\t' || c == utf8.RuneError || unicode.Is(unicode.Bidi_Control, c)
}

// WritePlain copies text that a writer of Plain has already written, colours included, to another writer.
func WritePlain(w io.Writer, from *bytes.Buffer) {
	if p, ok := w.(plain); ok {
		w = p.w
	}
	_, _ = from.WriteTo(w) // errors cannot be reported anywhere
}

// Plain returns a writer to a terminal for text from elsewhere.
func Plain(w io.Writer) io.Writer { return plain{w} }
