package jsontext

// AppendIndented appends valid JSON, indented as by json.Indent with two spaces. rename may change
// the names of members in place.
func AppendIndented(b, data []byte, rename func(name []byte)) []byte {
	depth := 0
	line := func() {
		b = append(b, '\n')
		for range depth {
			b = append(b, ' ', ' ')
		}
	}
	opened := false // the last token began an object or an array
	for i := 0; i < len(data); {
		c := data[i]
		if c == ' ' || c == '\n' || c == '\t' || c == '\r' {
			i++
			continue
		}
		closes := c == '}' || c == ']'
		if closes {
			depth--
		}
		if opened != closes {
			line()
		}
		opened = c == '{' || c == '['
		switch {
		case c == '"':
			end := endOfString(data, i)
			begin := len(b)
			b = append(b, data[i:end]...)
			i = end
			if isName(data[end:]) {
				rename(b[begin+1 : len(b)-1])
			}
			continue
		case c == ':':
			b = append(b, ':', ' ')
		case c == ',':
			b = append(b, ',')
			line()
		default:
			b = append(b, c)
		}
		if opened {
			depth++
		}
		i++
	}
	return b
}

// endOfString returns the end of the string that begins at i.
func endOfString(data []byte, i int) int {
	i++
	for i += ordinary(data[i:]); i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(data))
}

// isName reports whether the string before the text is the name of a member.
func isName(after []byte) bool {
	for _, c := range after {
		switch c {
		case ' ', '\n', '\t', '\r':
		default:
			return c == ':'
		}
	}
	return false
}
