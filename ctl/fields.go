package ctl

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/contiv/contiv/kvscheduler/record"
	"google.golang.org/protobuf/proto"
)

// field is a part of a value: "tap.version" with the text "2". Lists of plain
// values are one field.
type field struct{ name, text string }

// fields splits a value into its fields, in the order of its definition.
func fields(m proto.Message) []field {
	if m == nil {
		return nil
	}
	return fieldsOfJSON(content(m))
}

func fieldsOfJSON(text string) []field {
	r := fieldReader{rest: text}
	if r.value(""); r.wrong || len(r.rest) > 0 {
		return []field{{"value", text}}
	}
	return r.out
}

// fieldReader takes JSON apart.
type fieldReader struct {
	rest  string
	out   []field
	wrong bool // this is no JSON
}

// value reads the next value.
func (r *fieldReader) value(name string) {
	switch r.space(); {
	case r.skip('{'):
		for !r.wrong && !r.skip('}') {
			inner := r.scalar()
			if !r.skip(':') {
				r.wrong = true
			}
			if name != "" {
				inner = name + "." + inner
			}
			r.value(inner)
			r.skip(',')
		}
	case r.skip('['):
		first, plain := len(r.out), true
		var texts []string
		for i := 0; !r.wrong && !r.skip(']'); i++ {
			item := fmt.Sprintf("%s[%d]", name, i)
			r.value(item)
			r.skip(',')
			if plain = plain && len(r.out) == first+i+1 && r.out[first+i].name == item; plain {
				texts = append(texts, r.out[first+i].text)
			}
		}
		if plain {
			r.out = append(r.out[:first], field{name, strings.Join(texts, ",")})
		}
	default:
		r.out = append(r.out, field{name, r.scalar()})
	}
	r.space()
}

// scalar reads a text, number or word.
func (r *fieldReader) scalar() string {
	r.space()
	end := strings.IndexAny(r.rest, ",:]} \n")
	if strings.HasPrefix(r.rest, `"`) {
		if end = strings.IndexAny(r.rest[1:], `"\`) + 1; end > 0 && r.rest[end] == '"' {
			text := r.rest[1:end]
			r.rest = r.rest[end+1:]
			return text
		}
		d := json.NewDecoder(strings.NewReader(r.rest)) // of an unusual one
		var text string
		r.wrong = r.wrong || d.Decode(&text) != nil
		r.rest = r.rest[min(int(d.InputOffset()), len(r.rest)):]
		return text
	}
	if end < 0 {
		end = len(r.rest)
	}
	text := r.rest[:end]
	r.rest = r.rest[end:]
	r.wrong = r.wrong || !json.Valid([]byte(text))
	return text
}

// skip reports whether a character follows, and reads it if so.
func (r *fieldReader) skip(c byte) bool {
	r.space()
	if r.rest == "" || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *fieldReader) space() { r.rest = strings.TrimLeft(r.rest, " \n") }

// fieldsText shows a value in a line.
func fieldsText(m proto.Message) string { return inLine(fields(record.Redact(m))) }

func inLine(fields []field) string {
	var texts []string
	for _, f := range fields {
		texts = append(texts, f.name+"="+f.text)
	}
	return strings.Join(texts, "  ")
}

// metadataText formats the metadata of a value on one line; "" if there is none.
func metadataText(m any) string {
	if m == nil {
		return ""
	}
	data, err := json.Marshal(m)
	if err != nil || len(data) == 0 || data[0] != '{' {
		return fmt.Sprint(m)
	}
	return inLine(fieldsOfJSON(string(data)))
}

// changes lists the differing fields: "mtu: 1450 → 9000".
func changes(from, to proto.Message) []string {
	before := make(map[string]string)
	for _, f := range fields(from) {
		before[f.name] = f.text
	}
	var out []string
	for _, f := range fields(to) {
		old, was := before[f.name]
		delete(before, f.name)
		switch {
		case !was:
			out = append(out, f.name+": unset → "+f.text)
		case old != f.text:
			out = append(out, f.name+": "+old+" → "+f.text)
		}
	}
	for _, f := range fields(from) {
		if _, gone := before[f.name]; gone {
			out = append(out, f.name+": "+f.text+" → unset")
		}
	}
	return out
}
