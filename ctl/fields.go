package ctl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/jsontext"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/parallel"
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

func fieldsOfJSON(text string) []field { return appendFieldsOfJSON(nil, text) }

func appendFieldsOfJSON(out []field, text string) []field {
	before := len(out)
	r := jsontext.NewTextReader(text)
	out = appendFields(out, r, "")
	if r.End() != nil {
		return append(out[:before], field{"value", text})
	}
	return out
}

// appendFields reads the next JSON value.
func appendFields(out []field, r *jsontext.Reader, name string) []field {
	switch r.Kind() {
	case jsontext.ObjectKind:
		r.Object(func(key []byte) {
			inner := string(key)
			if name != "" {
				inner = name + "." + inner
			}
			out = appendFields(out, r, inner)
		})
	case jsontext.ArrayKind:
		var items []field
		plain, i := true, 0
		r.Array(func() {
			kind := r.Kind()
			plain = plain && kind != jsontext.ObjectKind && kind != jsontext.ArrayKind
			items = appendFields(items, r, name+"["+strconv.Itoa(i)+"]")
			i++
		})
		if plain {
			texts := make([]string, len(items))
			for i, f := range items {
				texts[i] = f.text
			}
			items = []field{{name, strings.Join(texts, ",")}}
		}
		return append(out, items...)
	case jsontext.StringKind:
		return append(out, field{name, r.String()})
	default:
		text := r.RawText()
		if text == "null" {
			text = "<nil>"
		}
		return append(out, field{name, text})
	}
	return out
}

// fieldsText shows a value in a line.
func fieldsText(m proto.Message) string { return inLine("", fields(record.Redact(m))) }

// fieldsTexts does so with many, which are indented unless they are empty.
func fieldsTexts(n int, indent string, value func(i int) proto.Message) []string {
	return slices.Concat(parallel.Collect(n, func(begin, end int) (texts []string) {
		var room []field
		for i := begin; i < end; i++ {
			m := record.Redact(value(i))
			if room = room[:0]; m != nil {
				room = appendFieldsOfJSON(room, content(m))
			}
			texts = append(texts, inLine(indent, room))
		}
		return texts
	})...)
}

func inLine(indent string, fields []field) string {
	if len(fields) == 0 {
		return ""
	}
	var b strings.Builder
	size := len(indent)
	for _, f := range fields {
		size += len(f.name) + len(f.text) + len("=  ")
	}
	b.Grow(size)
	b.WriteString(indent)
	for i, f := range fields {
		if i > 0 {
			b.WriteString("  ")
		}
		b.WriteString(f.name)
		b.WriteByte('=')
		b.WriteString(f.text)
	}
	return b.String()
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
	return inLine("", fieldsOfJSON(string(data)))
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
