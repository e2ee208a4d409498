package vswitch

import (
	"context"

	"google.golang.org/protobuf/proto"
)

// Filter permits or denies the connections that the vswitch forwards by the values of
// contiv.filter, as filter.State does. The addresses are those of the two ends, however services
// and NAT translate them. Connections from and to the node itself pass; so do replies, ICMP errors
// of permitted connections, and neighbour discovery.
//
// Values may be added and removed in any order: a missing list has no rules, and a missing set no
// members. Each call is atomic: a packet is evaluated against the state before or after it. Change
// needs this for deny rules, which would let more packets pass while a set that they refer to is
// missing. Existing connections are evaluated again: they continue if they could still be opened,
// else they stop.
type Filter interface {
	// Set makes or changes values of any of the models, all of them or none.
	Set(ctx context.Context, values ...proto.Message) error
	// Remove removes values by their names.
	Remove(ctx context.Context, values ...proto.Message) error
	// Change makes or changes some values and removes others: all of that, or nothing.
	Change(ctx context.Context, set, remove []proto.Message) error
	// List returns the values of all models. Missing or damaged objects show as differences from
	// the expected values.
	List(ctx context.Context, expected []proto.Message) ([]proto.Message, error)
}
