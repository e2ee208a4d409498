package models

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/lib/config"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// KeyPattern returns the pattern of the model's keys, e.g.
// "config/vpp/v2/teib/{interface}/peer/{peer_addr}".
func (m *Model) KeyPattern() string { return m.KeyPrefix() + m.NamePattern }

// KeyOf returns the key of any message. It returns an error if the message is not a northbound
// value, or lacks fields that its key needs.
func KeyOf(msg proto.Message) (string, error) {
	m, ok := ForMessage(msg)
	if !ok {
		return "", fmt.Errorf("%s is not a northbound value: `contivctl models` lists the models", proto.MessageName(msg))
	}
	key := m.Key(msg)
	if leadsOut(key) {
		return "", fmt.Errorf("a %s cannot have the key %q: give it a name with no element of two dots", m.ProtoName(), key)
	}
	if err := m.checkName(strings.TrimPrefix(key, m.KeyPrefix())); err != nil {
		return "", fmt.Errorf("a %s has no key without the fields that name it: set the fields in %s", m.ProtoName(), m.KeyPattern())
	}
	return key, nil
}

// CheckKey returns an error if no value can have the key. Decode makes this check unnecessary.
func CheckKey(key string) error {
	m, ok := ForKey(key)
	if !ok {
		return noModel(key)
	}
	if err := m.checkName(strings.TrimPrefix(key, m.KeyPrefix())); err != nil {
		return fmt.Errorf("no %s can have the key %q: write it as %s", m.ProtoName(), key, m.KeyPattern())
	}
	return nil
}

func (m *Model) checkName(name string) error {
	if m.names != nil && !m.names().MatchString(name) {
		return fmt.Errorf("%q is not of the form %s", name, m.NamePattern)
	}
	return nil
}

// names returns a regular expression of the names. first: the pattern is at the start of the name.
func (p pattern) names(first bool) string {
	var b strings.Builder
	for i, part := range p {
		switch {
		case part.optional != nil:
			fmt.Fprintf(&b, "(?:%s)?", part.optional.names(false))
		case part.field == nil:
			b.WriteString(regexp.QuoteMeta(part.text))
		default:
			b.WriteString(part.texts(first && i == 0))
		}
	}
	return b.String()
}

// texts returns a regular expression of the texts of a field in a name.
func (p part) texts(first bool) string {
	switch {
	case p.form == "direction":
		return "(?:outbound|inbound)"
	case p.form == "ip-version":
		return "IPv[46]"
	case p.field.Kind() == protoreflect.StringKind && first:
		return "[^/].*"
	case p.field.Kind() == protoreflect.StringKind:
		return ".*"
	case p.field.Enum() == nil:
		return "[0-9]+"
	}
	texts := []string{"-?[0-9]+"}
	for i := range p.field.Enum().Values().Len() {
		texts = append(texts, string(p.field.Enum().Values().Get(i).Name()))
	}
	return "(?:" + strings.Join(texts, "|") + ")"
}

// noModel returns the error for a key without a model. It suggests the most similar prefix.
func noModel(key string) error {
	prefixes := make(map[string]string)
	for _, m := range all {
		prefix := m.KeyPrefix()
		parts := strings.SplitN(key, "/", strings.Count(prefix, "/")+1)
		name := ""
		if len(parts) > strings.Count(prefix, "/") && !m.Singleton() {
			name = parts[len(parts)-1]
		}
		prefixes[prefix+name] = prefix
	}
	if nearest, ok := config.Nearest(key, slices.Sorted(maps.Keys(prefixes))); ok {
		return fmt.Errorf("key %q matches no model: did you mean %q? (`contivctl models` lists the models)", key, prefixes[nearest])
	}
	return fmt.Errorf("key %q matches no model: `contivctl models` lists the models", key)
}
