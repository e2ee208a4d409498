package vswitch

import (
	"context"

	"google.golang.org/protobuf/proto"
)

// Filter judges connections by the values of contiv.filter, as filter.State does:
// those that the vswitch forwards, by the addresses of their ends, whichever way
// services and NAT changed them. Connections of the node itself, and to it, pass; so
// do answers, ICMP errors of connections that pass, and neighbour discovery.
//
// Values come and go in any order: a list that does not exist has no rules, a set no
// members, and what a value that is gone was needed for works as before without it.
// Each call is one step: a packet meets what was before or what is after. That of Change is what
// makes deny rules safe, because without a set that they refer to more would pass. Connections
// that exist are judged anew: they go on if they may still be opened, else they stop.
type Filter interface {
	// Set makes or changes values of any of the models, all of them or none.
	Set(ctx context.Context, values ...proto.Message) error
	// Remove removes values by their names.
	Remove(ctx context.Context, values ...proto.Message) error
	// Change makes or changes some values and removes others: all of that, or nothing.
	Change(ctx context.Context, set, remove []proto.Message) error
	// List returns the values of all models. What is missing or damaged differs
	// from what is expected.
	List(ctx context.Context, expected []proto.Message) ([]proto.Message, error)
}
