package controller

import (
	"errors"
	"fmt"
)

var (
	// ErrQueueFull is returned by PushEvent when the queue is full.
	ErrQueueFull = errors.New("event queue is full: try again later")
	// ErrClosed is the result of events that were not processed before Close.
	ErrClosed = errors.New("event loop is closed")
	// ErrWithdrawn is the result of events that their sender withdrew.
	ErrWithdrawn = errors.New("event was withdrawn before it was processed")
	// ErrAborting is the result of events after a fatal error.
	ErrAborting = errors.New("event loop is aborting")
	// ErrBlockingFollowUp is returned for a blocking event that a handler sends.
	ErrBlockingFollowUp = errors.New("a handler must not wait for an event, because the event loop would wait for itself: " +
		"send an event that embeds NonBlocking, which is processed next")
	// ErrNoStartupResync is the fatal error after startupResyncDeadline.
	ErrNoStartupResync = errors.New("startup resync has not executed")
)

// FatalError is returned by a handler when the agent must exit and be restarted.
type FatalError struct{ Err error }

// NewFatalError wraps err in a FatalError.
func NewFatalError(err error) error { return &FatalError{err} }

func (e *FatalError) Error() string { return fmt.Sprintf("fatal: %v", e.Err) }
func (e *FatalError) Unwrap() error { return e.Err }

// AbortEventError is returned by a handler to stop the processing of the event: nothing is
// committed, and a healing resync follows.
type AbortEventError struct{ Err error }

// NewAbortEventError wraps err in an AbortEventError.
func NewAbortEventError(err error) error { return &AbortEventError{err} }

func (e *AbortEventError) Error() string { return fmt.Sprintf("event aborted: %v", e.Err) }
func (e *AbortEventError) Unwrap() error { return e.Err }

func isFatal(err error) bool { _, ok := errors.AsType[*FatalError](err); return ok }
func isAbort(err error) bool { _, ok := errors.AsType[*AbortEventError](err); return ok }
