// Package jsontext encodes and decodes JSON without reflection, for records that exist in large
// numbers. encoding/json copies and checks a value once more for each enclosing MarshalJSON or
// UnmarshalJSON.
package jsontext

import (
	"encoding/json"
	"unicode/utf8"
	"unsafe"
)

// AppendString appends a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(b []byte, text string) []byte {
	b = append(b, '"')
	copied := 0
	for i := ordinary(unsafe.Slice(unsafe.StringData(text), len(text))); i < len(text); {
		c := text[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var char rune
			if char, size = utf8.DecodeRuneInString(text[i:]); char != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		b = append(b, text[copied:i]...)
		i += size
		copied = i
		b = appendEscaped(b, c)
	}
	return append(append(b, text[copied:]...), '"')
}

func appendEscaped(b []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case c == '"', c == '\\':
		return append(b, '\\', c)
	case c == '\n':
		return append(b, `\n`...)
	case c == '\t':
		return append(b, `\t`...)
	case c == '\r':
		return append(b, `\r`...)
	case c == '\b':
		return append(b, `\b`...)
	case c == '\f':
		return append(b, `\f`...)
	case c >= utf8.RuneSelf:
		return append(b, "\ufffd"...)
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}

// AppendStrings appends an array of strings.
func AppendStrings(b []byte, texts []string) []byte {
	b = append(b, '[')
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, text)
	}
	return append(b, ']')
}

// AppendAny appends the encoding/json form of a value.
func AppendAny(b []byte, value any) ([]byte, error) {
	data, err := json.Marshal(value)
	return append(b, data...), err
}
