package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/contiv/contiv/api/contiv/rpc"
)

var (
	// ErrNoRevert is returned for transactions over etcd with Revert.
	ErrNoRevert = errors.New("transactions over etcd cannot be reverted: omit Revert or use gRPC")
	// ErrUnanswered is wrapped by errors of transactions with an unknown outcome.
	ErrUnanswered = errors.New("the outcome of the transaction is unknown")
	// ErrNotMerged is returned by GetMerged over etcd, which has only its own values.
	ErrNotMerged = errors.New("etcd has no values of other sources: use gRPC")
)

// RequestError is the error of an invalid request, which changed nothing.
type RequestError struct{ Err error }

func (e *RequestError) Error() string { return e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }

// UndecodableError names the values in etcd that cannot be decoded. The other values are returned
// with it.
type UndecodableError struct{ Err error }

func (e *UndecodableError) Error() string { return e.Err.Error() }
func (e *UndecodableError) Unwrap() error { return e.Err }

// TransactionError is the error of a transaction with failures.
type TransactionError struct {
	// Items that failed, possibly only the first ones: values or derived values.
	Items []*rpc.TransactionError_Item
	// Omitted is the number of further failures.
	Omitted int
	// Transaction is the agent's number of the transaction; nil: unknown.
	Transaction *uint64
	// Revision in etcd; 0 over gRPC.
	Revision int64
	// Reverted: nothing was changed. Otherwise all other changes are in effect.
	Reverted bool
	// Text is the agent's message if it sent no items.
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

// UnsettledError is returned by Wait if ctx ends or the connection breaks before all values are
// settled.
type UnsettledError struct {
	// Statuses of the unsettled values, sorted by key.
	Statuses []*Status
	// Err is the error that ended Wait.
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
