package ctl

import (
	"encoding/json"
	"fmt"
	"io"
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
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var out []field
	err := appendFields(&out, d, "")
	if _, end := d.Token(); err != nil || end != io.EOF {
		return []field{{"value", text}}
	}
	return out
}

// appendFields reads the next JSON value.
func appendFields(out *[]field, d *json.Decoder, name string) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return err
			}
			inner := fmt.Sprint(key)
			if name != "" {
				inner = name + "." + inner
			}
			if err := appendFields(out, d, inner); err != nil {
				return err
			}
		}
		_, err = d.Token()
	case json.Delim('['):
		var items []field
		plain := true
		for i := 0; d.More(); i++ {
			item := fmt.Sprintf("%s[%d]", name, i)
			if err := appendFields(&items, d, item); err != nil {
				return err
			}
			plain = plain && len(items) == i+1 && items[i].name == item
		}
		if plain {
			var texts []string
			for _, f := range items {
				texts = append(texts, f.text)
			}
			items = []field{{name, strings.Join(texts, ",")}}
		}
		*out = append(*out, items...)
		_, err = d.Token()
	default:
		*out = append(*out, field{name, fmt.Sprint(token)})
	}
	return err
}

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
