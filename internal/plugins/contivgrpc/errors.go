package contivgrpc

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/contiv/contiv/api/contiv/rpc"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// A status travels in HTTP headers, which clients limit, some to 8 KiB. These limits bound its
// text and details, in bytes.
const (
	maxText    = 1 << 10
	maxDetails = 4 << 10
	maxCause   = 512
)

// statusError returns the gRPC status of an outcome; nil for success.
func (s *Service) statusError(o controller.Outcome) error {
	if o.Err == nil || o.Accepted && onlyUnsupported(o.Err) {
		return nil
	}
	st := status.New(code(o.Err), shorten(o.Err.Error(), maxText))
	if o.Txn() != nil {
		if detailed, err := st.WithDetails(s.transactionError(o)); err == nil {
			st = detailed
		}
	}
	return st.Err()
}

// onlyUnsupported reports whether only unsupported values failed, which is no failure of the
// request: their state is UNIMPLEMENTED with the reason.
func onlyUnsupported(err error) bool { return len(unsupportedIn(err)) > 0 }

func unsupportedIn(err error) (failed []*kvscheduler.KeyError) {
	var inner []error
	switch e := err.(type) {
	case *kvscheduler.TransactionError:
		for _, failure := range e.Errors {
			if !errors.Is(failure.Err, kvscheduler.ErrUnsupported) {
				return nil
			}
		}
		return e.Errors
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	}
	for _, err := range inner {
		some := unsupportedIn(err)
		if len(some) == 0 {
			return nil
		}
		failed = append(failed, some...)
	}
	return failed
}

func code(err error) codes.Code {
	switch {
	case errors.Is(err, controller.ErrQueueFull):
		return codes.ResourceExhausted
	case errors.Is(err, controller.ErrClosed), errors.Is(err, controller.ErrAborting):
		return codes.Unavailable
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, controller.ErrBlockingFollowUp):
		return codes.Internal
	}
	return codes.FailedPrecondition
}

func (s *Service) transactionError(o controller.Outcome) *rpc.TransactionError {
	result := &rpc.TransactionError{Transaction: proto.Uint64(o.Txn().SeqNum), Reverted: !o.Accepted}
	txn, ok := errors.AsType[*kvscheduler.TransactionError](o.Err)
	if !ok {
		return result
	}
	size := 0
	for i, e := range txn.Errors {
		item := &rpc.TransactionError_Item{
			Key:       e.Key,
			Operation: e.Operation,
			Cause:     shorten(e.Err.Error(), maxCause),
			State:     s.states.ValueStatus(e.Key).GetValue().GetState(),
		}
		if size += proto.Size(item); size > maxDetails {
			result.Omitted = uint32(len(txn.Errors) - i)
			break
		}
		result.Items = append(result.Items, item)
	}
	return result
}

func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
