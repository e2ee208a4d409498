package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/contiv/contiv/api/contiv/rpc"
)

var (
	// ErrNoRevert is returned for transactions that are to be reverted over etcd, whose
	// agents do what they can.
	ErrNoRevert = errors.New("over etcd no transaction can be reverted: leave Revert out, or use gRPC")
	// ErrUnanswered is wrapped when it is not known what became of a transaction.
	ErrUnanswered = errors.New("what became of the transaction is not known")
	// ErrNotMerged is returned when etcd is asked for what others than etcd want.
	ErrNotMerged = errors.New("etcd does not know what other sources want: use gRPC")
)

// RequestError says what is wrong with a request, of which nothing was done.
type RequestError struct{ Err error }

func (e *RequestError) Error() string { return e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }

// UndecodableError names values in etcd that cannot be decoded; it comes with those that can.
type UndecodableError struct{ Err error }

func (e *UndecodableError) Error() string { return e.Err.Error() }
func (e *UndecodableError) Unwrap() error { return e.Err }

// TransactionError is that of a transaction of which something failed.
type TransactionError struct {
	// Items that failed, the first ones if they are many: values, or those derived
	// from them.
	Items []*rpc.TransactionError_Item
	// Omitted is how many more failed.
	Omitted int
	// Transaction is its number at the agent; nil: not known.
	Transaction *uint64
	// Revision in etcd; 0 over gRPC.
	Revision int64
	// Reverted: nothing was changed. Otherwise all else is in effect.
	Reverted bool
	// Text is the agent's, if it gave no items.
	Text string
}

func (e *TransactionError) Error() string {
	var b strings.Builder
	b.WriteString("the transaction")
	if e.Transaction != nil {
		fmt.Fprintf(&b, " #%d", *e.Transaction)
	}
	if e.Reverted {
		b.WriteString(" failed, nothing was changed: ")
	} else {
		b.WriteString(" failed in part: ")
	}
	var parts []string
	for _, item := range e.Items {
		part := item.GetKey() + ": "
		if item.GetOperation() != 0 {
			part += strings.ToLower(item.GetOperation().String()) + ": "
		}
		part += item.GetCause()
		if !e.Reverted {
			part += " (" + item.GetState().String() + ")"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		parts = append(parts, e.Text)
	}
	if e.Omitted > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", e.Omitted))
	}
	b.WriteString(strings.Join(parts, "; "))
	return b.String()
}

// UnsettledError is returned by Wait when ctx ends, or the connection breaks, before all
// values are settled.
type UnsettledError struct {
	// Statuses of the values that are not settled, sorted by key.
	Statuses []*Status
	// Err ended the waiting.
	Err error
}

func (e *UnsettledError) Error() string {
	parts := make([]string, len(e.Statuses))
	for i, s := range e.Statuses {
		parts[i] = keyOf(s) + " is " + Explain(s)
	}
	if len(parts) == 0 {
		return fmt.Sprintf("the statuses cannot be read: %v", e.Err)
	}
	return fmt.Sprintf("not settled: %s: %v", strings.Join(parts, "; "), e.Err)
}
func (e *UnsettledError) Unwrap() error { return e.Err }
