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

// Model is a kind of northbound value.
type Model struct {
	// Module, Version and Type form the key prefix, e.g. "vpp.l3", "v2", "route".
	Module, Version, Type string
	// NamePattern describes the key without the prefix, e.g. "{interface}/peer/{peer_addr}"; see
	// pattern. It is empty for singletons.
	NamePattern string
	message     proto.Message
	// name returns the name of a message; nil for singletons.
	name func(protoreflect.Message) string
	// names matches the names of messages in which the first field of the name is set; nil: any
	// name.
	names func() *regexp.Regexp
	// template implements NameTemplate; nil for singletons.
	template func() string
	prefix   string
}

// ProtoName returns the full name of the message, e.g. "ligato.vpp.l3.Route".
func (m *Model) ProtoName() string { return string(proto.MessageName(m.message)) }

// Name returns ligato's name of the model, e.g. "vpp.l2.bridge-domain".
func (m *Model) Name() string { return m.Module + "." + m.Type }

// Singleton reports whether the model has at most one value.
func (m *Model) Singleton() bool { return m.name == nil }

// NameTemplate returns NamePattern as a ligato name template, e.g.
// "{{.Interface}}/peer/{{.PeerAddr}}"; "" for singletons.
func (m *Model) NameTemplate() string {
	if m.Singleton() {
		return ""
	}
	return m.template()
}

// KeyPrefix returns the common prefix of the model's keys, which ends with a slash; for a
// singleton, its key.
func (m *Model) KeyPrefix() string { return m.prefix }

// Matches reports whether the key belongs to the model.
func (m *Model) Matches(key string) bool {
	if m.Singleton() {
		return key == m.KeyPrefix()
	}
	name, ok := strings.CutPrefix(key, m.KeyPrefix())
	return ok && name != "" && !leadsOut(name)
}

// leadsOut reports whether a name has the path element "..".
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

// KeyOfName returns the key of the value with a name. Like ligato, it removes empty path elements
// and ".", so that "if/tap1/" is "if/tap1". With "..", which could lead to other models in ligato,
// the key matches no model.
func (m *Model) KeyOfName(name string) string {
	if m.Singleton() {
		return m.KeyPrefix()
	}
	return m.KeyPrefix() + cleanName(name)
}

func cleanName(name string) string {
	if path.Clean(name) == name && name != "." { // the usual case
		return strings.TrimPrefix(name, "/")
	}
	elements := strings.Split(name, "/")
	return strings.Join(slices.DeleteFunc(elements, func(e string) bool { return e == "" || e == "." }), "/")
}

// Key returns the key of a northbound message. It panics for other messages; check with ForMessage
// first.
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

// ForKey returns the model of a key.
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
