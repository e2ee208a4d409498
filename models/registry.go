package models

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Model is one kind of northbound value.
type Model struct {
	// Module, Version and Type make up the key prefix, e.g. "vpp.l3", "v2", "route".
	Module, Version, Type string
	// NamePattern tells how the part of the key behind the prefix is made of the
	// message's fields, e.g. "{interface}/peer/{peer_addr}"; see pattern. It is
	// empty for singletons.
	NamePattern string
	// message is the zero value of the Go type.
	message proto.Message
	// name makes the name of a message; nil for singletons.
	name func(protoreflect.Message) string
	// names returns what matches the names that the pattern makes of messages in which the field that begins the name, if one
	// does, is set; nil: any.
	names func() *regexp.Regexp
	// template returns NameTemplate; nil for singletons.
	template func() string
	// prefix is what KeyPrefix returns.
	prefix string
}

// ProtoName is the full name of the message, e.g. "ligato.vpp.l3.Route".
func (m *Model) ProtoName() string { return string(proto.MessageName(m.message)) }

// Name is how ligato's clients call the model, e.g. "vpp.l2.bridge-domain".
func (m *Model) Name() string { return m.Module + "." + m.Type }

// Singleton reports whether there is at most one value of the model.
func (m *Model) Singleton() bool { return m.name == nil }

// NameTemplate says what NamePattern does in the language of ligato's clients, a Go text template, e.g.
// "{{.Interface}}/peer/{{.PeerAddr}}".
func (m *Model) NameTemplate() string {
	if m.Singleton() {
		return ""
	}
	return m.template()
}

// KeyPrefix is common to the keys of the model; it ends with a slash, except for a
// singleton, whose key it is.
func (m *Model) KeyPrefix() string { return m.prefix }

// Matches reports whether the key belongs to the model.
func (m *Model) Matches(key string) bool {
	if m.Singleton() {
		return key == m.KeyPrefix()
	}
	name, ok := strings.CutPrefix(key, m.KeyPrefix())
	return ok && name != "" && !leadsOut(name)
}

// leadsOut reports whether a name has an element of two dots.
func leadsOut(name string) bool {
	return strings.Contains(name, "..") && slices.Contains(strings.Split(name, "/"), "..")
}

// New returns an empty message of the model.
func (m *Model) New() proto.Message { return m.message.ProtoReflect().New().Interface() }

// Key returns the key of a message of the model.
func (m *Model) Key(msg proto.Message) string {
	if m.Singleton() {
		return m.KeyPrefix()
	}
	return m.KeyOfName(m.name(msg.ProtoReflect()))
}

// KeyOfName returns the key of the value with a name, cleaned as ligato cleans paths:
// elements that are empty, or a dot, are left out, so that "if/tap1/" is "if/tap1". Two
// dots, which there lead to keys of other models, make a key that matches no model.
func (m *Model) KeyOfName(name string) string {
	if m.Singleton() {
		return m.KeyPrefix()
	}
	return m.KeyPrefix() + cleanName(name)
}

func cleanName(name string) string {
	if path.Clean(name) == name && name != "." { // almost always
		return strings.TrimPrefix(name, "/")
	}
	elements := strings.Split(name, "/")
	return strings.Join(slices.DeleteFunc(elements, func(e string) bool { return e == "" || e == "." }), "/")
}

// Key returns the key of a northbound message. It panics for messages that are
// no northbound values: with a message of unknown origin, use ForMessage first.
func Key(msg proto.Message) string {
	m, ok := ForMessage(msg)
	if !ok {
		panic(fmt.Sprintf("%s is not a northbound model", proto.MessageName(msg)))
	}
	return m.Key(msg)
}

// ForMessage returns the model of a message.
func ForMessage(msg proto.Message) (*Model, bool) {
	m, ok := byProto[string(proto.MessageName(msg))]
	return m, ok
}

// ForKey returns the model that a key belongs to.
func ForKey(key string) (*Model, bool) {
	for _, m := range all {
		if m.Matches(key) {
			return m, true
		}
	}
	return nil, false
}

// All returns the models, sorted by key prefix.
func All() []*Model {
	models := append([]*Model(nil), all...)
	sort.Slice(models, func(i, j int) bool { return models[i].KeyPrefix() < models[j].KeyPrefix() })
	return models
}

var byProto = func() map[string]*Model {
	index := make(map[string]*Model, len(all))
	for _, m := range all {
		if index[m.ProtoName()] != nil {
			panic("model registered twice: " + m.ProtoName())
		}
		index[m.ProtoName()] = m
	}
	return index
}()
