package kvscheduler

import (
	"errors"
	"fmt"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

var (
	// ErrClosed is returned for calls on a closed scheduler.
	ErrClosed = errors.New("scheduler is closed")
	// ErrQueueFull is returned by calls that do not wait for a place in the queue.
	ErrQueueFull             = errors.New("transaction queue is full")
	ErrRevertWithResync      = errors.New("a resync cannot be reverted: drop WithRevert or WithResync")
	ErrDownstreamWithValues  = errors.New("a downstream resync carries no values: use FullResync or an empty transaction")
	ErrKeysWithoutDownstream = errors.New("WithOnlyKeys needs WithResync(DownstreamResync)")
	ErrEmptyKey              = errors.New("empty key")
	ErrInvalidKey            = errors.New("key is not valid UTF-8")
	// ErrNoDescriptor is the error in the status of a value without a descriptor. It does not fail
	// the transaction: the value is configured when a descriptor is registered.
	ErrNoDescriptor        = errors.New("no descriptor is registered for the key on this node")
	ErrUnimplementedCreate = errors.New("descriptor has no Create callback")
	ErrUnimplementedDelete = errors.New("descriptor has no Delete callback")
	// ErrUnsupported is wrapped by errors about a feature that the vswitch lacks. The value becomes
	// UNIMPLEMENTED with the error as its reason, and is not retried.
	ErrUnsupported = errors.New("not supported by this vswitch")
)

// KeyError is the failure of one operation.
type KeyError struct {
	Key       string
	Operation pb.TxnOperation
	Err       error
}

func (e *KeyError) Error() string { return fmt.Sprintf("%s (%v): %v", e.Key, e.Operation, e.Err) }
func (e *KeyError) Unwrap() error { return e.Err }

// TransactionError is the error of a commit with failed operations.
type TransactionError struct {
	// SeqNum is NoSeqNum if the transaction was only planned or validated.
	SeqNum uint64
	Errors []*KeyError
	// Reverted is true if the transaction was undone.
	Reverted bool
}

func (e *TransactionError) Error() string {
	var b strings.Builder
	if e.SeqNum == NoSeqNum {
		b.WriteString("not valid")
	} else {
		fmt.Fprintf(&b, "transaction #%d failed", e.SeqNum)
	}
	if e.Reverted {
		b.WriteString(" and was reverted")
	}
	const most = 16
	for i, ke := range e.Errors {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(e.Errors)-most)
			break
		}
		if i == 0 {
			b.WriteString(": ")
		} else {
			b.WriteString("; ")
		}
		b.WriteString(ke.Error())
	}
	return b.String()
}

// Unwrap returns the errors of the operations.
func (e *TransactionError) Unwrap() []error {
	errs := make([]error, len(e.Errors))
	for i, ke := range e.Errors {
		errs[i] = ke
	}
	return errs
}

// InvalidValueError is the reason why a value can never be configured. Fields names the invalid
// fields, if known.
type InvalidValueError struct {
	Err    error
	Fields []string
}

// NewInvalidValueError returns an InvalidValueError for the given fields.
func NewInvalidValueError(err error, fields ...string) error {
	return &InvalidValueError{Err: err, Fields: fields}
}

func (e *InvalidValueError) Error() string {
	if len(e.Fields) == 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v (fields: %s)", e.Err, strings.Join(e.Fields, ", "))
}

func (e *InvalidValueError) Unwrap() error { return e.Err }

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
