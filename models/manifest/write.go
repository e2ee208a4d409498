package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/lib/jsontext"
	"github.com/contiv/contiv/models"
	"sigs.k8s.io/yaml"
)

// Format returns the documents of the values in order; Parse returns the same values. Only keys and
// messages are used.
func Format(values []Value) ([]byte, error) {
	var b []byte
	for _, v := range values {
		text, err := models.Marshal(v.Message)
		if err == nil {
			b, err = Append(b, v.Key, string(text))
		}
		if err != nil {
			return nil, fmt.Errorf("value of %s: %w", v.Key, err)
		}
	}
	return b, nil
}

// Append appends the document of a value, which is JSON.
func Append(b []byte, key, value string) ([]byte, error) {
	if len(b) > 0 {
		b = append(b, "---\n"...)
	}
	begin := len(b)
	b = append(b, "key: "...)
	b, simple := appendText(b, key)
	if simple {
		b = append(b, '\n')
		b, simple = appendMember(b, "value", value, 0)
	}
	if simple {
		return b, nil
	}
	keyText, err := yaml.Marshal(map[string]string{"key": key})
	if err != nil {
		return nil, err
	}
	valueText, err := yaml.JSONToYAML(fmt.Appendf(nil, `{"value":%s}`, value))
	return append(append(b[:begin], keyText...), valueText...), err
}

// appendMember appends a member of an object like package yaml, but much faster. It returns
// simple=false for values that need package yaml: texts that may need quotes, fractions, and names
// that it would sort differently.
func appendMember(b []byte, name, value string, indent int) (_ []byte, simple bool) {
	b = append(append(b, spaces(indent)...), name...)
	b = append(b, ':')
	r := jsontext.NewTextReader(value)
	switch r.Kind() {
	case jsontext.ObjectKind:
		members, simple := membersOf(r)
		switch {
		case !simple:
			return b, false
		case len(members) == 0:
			return append(b, " {}\n"...), true
		}
		b = append(b, '\n')
		return appendMembers(b, members, indent+2)
	case jsontext.ArrayKind:
		return appendList(b, r, indent)
	}
	b, simple = appendScalar(append(b, ' '), r)
	return append(b, '\n'), simple
}

func appendMembers(b []byte, members []member, indent int) (_ []byte, simple bool) {
	for _, m := range members {
		if b, simple = appendMember(b, m.name, m.value, indent); !simple {
			return b, false
		}
	}
	return b, true
}

// appendList appends a list after the name of a member. Lists of lists are not simple.
func appendList(b []byte, r *jsontext.Reader, indent int) (_ []byte, simple bool) {
	simple, empty := true, true
	r.Array(func() {
		if empty {
			b = append(b, '\n')
		}
		empty = false
		begin := len(b)
		switch r.Kind() {
		case jsontext.ArrayKind:
			simple = false
		case jsontext.ObjectKind:
			members, ok := membersOf(r)
			if len(members) == 0 {
				b = append(append(b, spaces(indent)...), "- {}\n"...)
				simple = simple && ok
				return
			}
			b, simple = appendMembers(b, members, indent+2)
			if simple = simple && ok; simple {
				b[begin+indent] = '-'
			}
			return
		default:
			var ok bool
			b, ok = appendScalar(append(append(b, spaces(indent)...), "- "...), r)
			b = append(b, '\n')
			simple = simple && ok
			return
		}
		r.Skip()
	})
	if empty {
		b = append(b, " []\n"...)
	}
	return b, simple && r.End() == nil
}

type member struct{ name, value string }

// membersOf reads an object and returns its members sorted by name.
func membersOf(r *jsontext.Reader) (members []member, simple bool) {
	simple = true
	r.Object(func(name []byte) {
		for _, c := range name {
			simple = simple && ('a' <= c && c <= 'z' || c == '_')
		}
		m := member{name: string(name)}
		m.value = r.RawText()
		members = append(members, m)
		simple = simple && !ambiguous[m.name]
	})
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return members, simple
}

func appendScalar(b []byte, r *jsontext.Reader) (_ []byte, simple bool) {
	if r.Kind() == jsontext.StringKind {
		return appendText(b, r.String())
	}
	raw := r.RawText()
	return append(b, raw...), !strings.ContainsAny(raw, ".eE-") || raw == "true" || raw == "false"
}

// ambiguous texts have another meaning without quotes.
var ambiguous = map[string]bool{
	"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "true": true, "false": true, "null": true, "nan": true, "inf": true,
}

// appendText appends a text that needs no quotes.
func appendText(b []byte, text string) (_ []byte, simple bool) {
	dots, other := 0, false
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '/':
			other = other || i == 0 || c == '/'
		case '0' <= c && c <= '9':
		case c == '.' && i > 0:
			dots++
		case (c == '_' || c == '-') && i > 0:
		default:
			return b, false
		}
	}
	if !other && (dots != 3 || strings.ContainsAny(text, "_-")) || len(text) < 6 && ambiguous[strings.ToLower(text)] {
		return b, false
	}
	return append(b, text...), true
}

func spaces(n int) string { return strings.Repeat(" ", n) }
