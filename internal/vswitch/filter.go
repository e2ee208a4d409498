package vswitch

import (
	"context"

	"google.golang.org/protobuf/proto"
)

// Filter applies the values of contiv.filter to connections that the vswitch forwards, as
// policyrules.State does. It matches the addresses of the two ends, regardless of services and NAT.
// Connections from and to the node, replies, ICMP errors of permitted connections, and neighbour
// discovery pass.
//
// Values may be added and removed in any order: a missing list has no rules, and a missing set no
// members. Each call is atomic: a packet is evaluated against the state before or after it. Change
// needs this for deny rules, which would permit more packets while their set is missing. Existing
// connections are evaluated again: they continue only if they could still be opened.
type Filter interface {
	// Set creates or changes values of any of the models, all of them or none.
	Set(ctx context.Context, values ...proto.Message) error
	// Remove removes values by name.
	Remove(ctx context.Context, values ...proto.Message) error
	// Change sets some values and removes others, all of them or none.
	Change(ctx context.Context, set, remove []proto.Message) error
	// List returns the values of all models. Missing or damaged objects show as differences from
	// the expected values.
	List(ctx context.Context, expected []proto.Message) ([]proto.Message, error)
}
