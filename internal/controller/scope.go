package controller

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// scope ties the context of a handler to the event being processed.
type scope struct {
	controller *Controller
	seq        uint64
	// ended is set after processing. Events sent with the context by a goroutine that outlives the
	// event are ordinary ones.
	ended atomic.Bool
}

type scopeKey struct{}

func withScope(ctx context.Context, s *scope) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

// currentScope returns the scope of the event being processed by the caller, or nil.
func currentScope(ctx context.Context) *scope {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok && !s.ended.Load() {
		return s
	}
	return nil
}

// EventSeqNum returns the sequence number of the event whose handler received ctx.
func EventSeqNum(ctx context.Context) (seq uint64, ok bool) {
	if s := currentScope(ctx); s != nil {
		return s.seq, true
	}
	return 0, false
}

// Logger returns log with the attribute "event" if ctx is the context of a handler.
func Logger(ctx context.Context, log *slog.Logger) *slog.Logger {
	if seq, ok := EventSeqNum(ctx); ok {
		return log.With("event", seq)
	}
	return log
}
