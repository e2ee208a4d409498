package ctl

import (
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/internal/lib/jsontext"
	"github.com/contiv/contiv/internal/lib/parallel"
	"github.com/contiv/contiv/kvscheduler/record"
	"google.golang.org/protobuf/proto"
)

// field is a part of a value: "tap.version" with the text "2". A list of scalars is one field.
type field struct{ name, text string }

// fields splits a value into its fields, in definition order.
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

// fieldsText formats a value on one line.
func fieldsText(m proto.Message) string { return inLine("", fields(record.Redact(m))) }

// fieldsTexts formats n values, indented unless they are empty.
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

// metadataText formats a value's metadata on one line; "" if none.
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

// naturalKeys lists the fields that identify list items, with the separator before each; ":" is for
// ports.
var naturalKeys = map[string][]struct{ before, field string }{
	"st_mappings": {{"", "external_interface"}, {"", "external_ip"}, {":", "external_port"}, {"/", "protocol"}, {" ", "clients"}},
	"local_ips":   {{"", "local_ip"}, {":", "local_port"}},
	"id_mappings": {{"", "interface"}, {"", "ip_address"}, {":", "port"}, {"/", "protocol"}},
	"interfaces":  {{"", "name"}},
}

// keyedField is a field whose name contains natural keys instead of list indexes.
type keyedField struct {
	field
	// items with natural keys that contain the field, the outermost first:
	// "local_ips[10.1.1.2:8080]".
	items []string
}

// listItem matches the index of a list item in a field name.
var listItem = regexp.MustCompile(`(\w+)\[\d+\]`)

func keyed(list []field) []keyedField {
	texts := make(map[string]string, len(list))
	for _, f := range list {
		texts[f.name] = f.text
	}
	whose := map[string]string{} // item by natural key → by number
	var out []keyedField
	for _, f := range list {
		k := keyedField{field: field{text: f.text}}
		end := 0
		for _, at := range listItem.FindAllStringSubmatchIndex(f.name, -1) {
			numbered, list := f.name[:at[1]], f.name[at[2]:at[3]]
			k.name += f.name[end:at[0]]
			end = at[1]
			item := k.name + list + "[" + naturalKey(list, numbered, texts) + "]"
			if other, taken := whose[item]; strings.HasSuffix(item, "[]") || taken && other != numbered { // no key of its own
				k.name += f.name[at[0]:at[1]]
				continue
			}
			whose[item] = numbered
			k.name, k.items = item, append(k.items, item)
		}
		k.name += f.name[end:]
		out = append(out, k)
	}
	return out
}

// naturalKey returns the natural key of a list item; "" if none.
func naturalKey(list, item string, texts map[string]string) (key string) {
	for _, part := range naturalKeys[list] {
		switch text, has := texts[item+"."+part.field]; {
		case !has:
		case part.before == ":":
			key = net.JoinHostPort(key, text)
		case key == "":
			key = text
		default:
			key += part.before + text
		}
	}
	return key
}

// changes lists the differing fields: "mtu: 1450 → 9000". List items are compared by their natural
// keys; items on one side only are shown whole.
func changes(from, to proto.Message) []string {
	before, after := keyed(fields(from)), keyed(fields(to))
	old := make(map[string]string, len(before))
	had, has := map[string]bool{}, map[string]bool{}
	for _, f := range before {
		old[f.name] = f.text
		for _, item := range f.items {
			had[item] = true
		}
	}
	for _, f := range after {
		for _, item := range f.items {
			has[item] = true
		}
	}
	var out []string
	told := map[string]bool{}
	whole := func(f keyedField, there map[string]bool, what string) bool {
		i := slices.IndexFunc(f.items, func(item string) bool { return !there[item] })
		if i < 0 {
			return false
		}
		if item := f.items[i]; !told[item] {
			told[item] = true
			out = append(out, item+" "+what)
		}
		return true
	}
	for _, f := range after {
		text, was := old[f.name]
		delete(old, f.name)
		switch {
		case !was && !whole(f, had, "added"):
			out = append(out, f.name+": unset → "+f.text)
		case was && text != f.text:
			out = append(out, f.name+": "+text+" → "+f.text)
		}
	}
	for _, f := range before {
		if _, gone := old[f.name]; gone && !whole(f, has, "removed") {
			out = append(out, f.name+": "+f.text+" → unset")
		}
	}
	return out
}
