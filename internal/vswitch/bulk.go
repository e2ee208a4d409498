package vswitch

import (
	"context"

	"google.golang.org/protobuf/proto"
)

// Bulk is an optional interface of a driver's Routes, Neighbours and FIB. It changes many values of
// one model at once. The values succeed or fail independently.
type Bulk[V proto.Message] interface {
	// CreateAll and DeleteAll return one error per value; nil means success.
	CreateAll(ctx context.Context, values []V) []error
	DeleteAll(ctx context.Context, values []V) []error
}
