package vswitch

import (
	"context"

	"google.golang.org/protobuf/proto"
)

// Bulk is an optional interface of a driver's Routes, Neighbours and FIB: many values of one model
// at once, without waiting for one after the other. Each fares as if it were alone.
type Bulk[V proto.Message] interface {
	// CreateAll and DeleteAll return an error for each of the values; nil: it went well.
	CreateAll(ctx context.Context, values []V) []error
	DeleteAll(ctx context.Context, values []V) []error
}
