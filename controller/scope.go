package controller

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// scope marks the contexts that handlers are given with the event that they
// process.
type scope struct {
	controller *Controller
	seq        uint64
	// ended is set when the event has been processed: a goroutine that outlives it
	// with its context sends ordinary events.
	ended atomic.Bool
}

type scopeKey struct{}

func withScope(ctx context.Context, s *scope) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

// currentScope returns the event being processed by the caller, nil if none.
func currentScope(ctx context.Context) *scope {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok && !s.ended.Load() {
		return s
	}
	return nil
}

// EventSeqNum returns the sequence number of the event for which a handler was
// given the context.
func EventSeqNum(ctx context.Context) (seq uint64, ok bool) {
	if s := currentScope(ctx); s != nil {
		return s.seq, true
	}
	return 0, false
}

// Logger returns a logger whose lines carry the sequence number of the event
// for which a handler was given the context; log itself for other contexts.
func Logger(ctx context.Context, log *slog.Logger) *slog.Logger {
	if seq, ok := EventSeqNum(ctx); ok {
		return log.With("event", seq)
	}
	return log
}
