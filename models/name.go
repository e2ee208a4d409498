package models

import (
	"fmt"
	"net/netip"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A pattern describes the name of a value, that is its key without the prefix, by fields of the
// message:
//
//	{interface}/peer/{peer_addr}     fields with texts in between
//	{interface}[/nh/{next_hop}]      the part in brackets is omitted if its field is not set
//	{dst_network:network}            a field in one of the forms
type pattern []part

// part is a text, a field, or an optional pattern.
type part struct {
	text     string
	field    protoreflect.FieldDescriptor
	form     string
	optional pattern
}

// form is a special form of a field in a name.
type form struct {
	// value formats the field's value.
	value func(protoreflect.Value) string
	// template is the equivalent in ligato's name templates; %s is the field.
	template string
}

var forms = map[string]form{
	"":           {template: "{{%s}}"},
	"network":    {networkForm, "{{with ipnet %[1]s}}{{.IP}}/{{.MaskSize}}{{else}}{{%[1]s}}{{end}}"},
	"ip-version": {ipVersionForm, "{{protoip %s}}"},
	"direction":  {directionForm, "{{if %s}}outbound{{else}}inbound{{end}}"},
}

// networkForm returns "<ip>/<length>" with the host bits cleared. Other texts, such as references
// to allocated addresses, stay unchanged.
func networkForm(v protoreflect.Value) string {
	p, err := netip.ParsePrefix(v.String())
	if err != nil {
		return v.String()
	}
	return p.Masked().String()
}

func ipVersionForm(v protoreflect.Value) string {
	addr, err := netip.ParseAddr(v.String())
	switch {
	case err != nil:
		return "<invalid>"
	case addr.Unmap().Is4():
		return "IPv4"
	}
	return "IPv6"
}

func directionForm(v protoreflect.Value) string {
	if v.Bool() {
		return "outbound"
	}
	return "inbound"
}

// parsePattern panics for invalid patterns, which are constants.
func parsePattern(text string, message protoreflect.MessageDescriptor) pattern {
	var p pattern
	for text != "" {
		start := strings.IndexAny(text, "{[")
		if start != 0 {
			if start < 0 {
				start = len(text)
			}
			p = append(p, part{text: text[:start]})
			text = text[start:]
			continue
		}
		end := strings.IndexByte(text, map[byte]byte{'{': '}', '[': ']'}[text[0]])
		if end < 0 {
			panic(fmt.Sprintf("name of %s: %q has no end", message.FullName(), text))
		}
		if text[0] == '[' {
			p = append(p, part{optional: parsePattern(text[1:end], message)})
		} else {
			name, form, _ := strings.Cut(text[1:end], ":")
			field := message.Fields().ByName(protoreflect.Name(name))
			if _, ok := forms[form]; !ok || field == nil {
				panic(fmt.Sprintf("name of %s: no field or form {%s}", message.FullName(), text[1:end]))
			}
			p = append(p, part{field: field, form: form})
		}
		text = text[end+1:]
	}
	return p
}

func (p pattern) name(m protoreflect.Message) string {
	var b strings.Builder
	p.write(&b, m)
	return b.String()
}

func (p pattern) write(b *strings.Builder, m protoreflect.Message) {
	for _, part := range p {
		switch {
		case part.optional != nil:
			if m.Has(part.optional.firstField()) {
				part.optional.write(b, m)
			}
		case part.field == nil:
			b.WriteString(part.text)
		default:
			b.WriteString(fieldText(part.field, part.form, m.Get(part.field)))
		}
	}
}

func fieldText(field protoreflect.FieldDescriptor, form string, v protoreflect.Value) string {
	if value := forms[form].value; value != nil {
		return value(v)
	}
	if field.Enum() != nil {
		if known := field.Enum().Values().ByNumber(v.Enum()); known != nil {
			return string(known.Name())
		}
	}
	return v.String()
}

func (p pattern) firstField() protoreflect.FieldDescriptor {
	for _, part := range p {
		if part.field != nil {
			return part.field
		}
	}
	return nil
}

// template returns the pattern as a ligato name template: a Go text template of the Go message with
// the functions ipnet and protoip.
func (p pattern) template() string {
	var b strings.Builder
	for _, part := range p {
		switch {
		case part.optional != nil:
			fmt.Fprintf(&b, "{{if %s}}%s{{end}}", goField(part.optional.firstField()), part.optional.template())
		case part.field == nil:
			b.WriteString(part.text)
		default:
			fmt.Fprintf(&b, forms[part.form].template, goField(part.field))
		}
	}
	return b.String()
}

// goField returns the name of a field in a template: "vr_id" is ".VrId".
func goField(field protoreflect.FieldDescriptor) string {
	name := "."
	for word := range strings.SplitSeq(string(field.Name()), "_") {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}
