package text

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// plain is a writer that passes on text without what terminals take for commands: names,
// values and errors come from others, who may have put escape sequences into them. These
// are shown as Go writes them: \x1b. Lines and tabulators stay.
//
// Nothing that is written may end within a character.
type plain struct{ w io.Writer }

func (p plain) Write(text []byte) (int, error) {
	if _, err := p.w.Write(printable(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

func printable(text []byte) []byte {
	if !bytes.ContainsFunc(text, isCommand) {
		return text
	}
	var b bytes.Buffer
	for len(text) > 0 {
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

// isCommand reports whether a terminal may do something else than to show the character:
// control characters, and those that change the direction of text.
func isCommand(c rune) bool {
	return unicode.IsControl(c) && c != '\n' && c != '\t' || c == utf8.RuneError || unicode.Is(unicode.Bidi_Control, c)
}

// WritePlain writes what a writer of Plain has written already, colours included, to another one.
func WritePlain(w io.Writer, from *bytes.Buffer) {
	if p, ok := w.(plain); ok {
		w = p.w
	}
	_, _ = from.WriteTo(w) // there is nobody to tell errors
}

// Plain returns a writer to a terminal for texts of others.
func Plain(w io.Writer) io.Writer { return plain{w} }
