package target

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

type onceKey struct{}

// WaitOnce makes requests to an agent fail at once after a failed connection to it, with the same
// error. A connection may take seconds to fail, and commands ask several times.
func WaitOnce(ctx context.Context) context.Context {
	return context.WithValue(ctx, onceKey{}, new(sync.Map))
}

type eachKey struct{}

// EachWithin gives each request its own timeout. After a timeout, further requests to that agent
// fail at once.
func EachWithin(ctx context.Context, timeout time.Duration) context.Context {
	return context.WithValue(ctx, eachKey{}, timeout)
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if timeout, ok := ctx.Value(eachKey{}).(time.Duration); ok {
		return context.WithTimeout(context.WithValue(ctx, searchKey{}, true), timeout)
	}
	return ctx, func() {}
}

type searchKey struct{}

// Search returns a context for a first question to all agents, with half of the remaining time or
// of the time per request. Agents without an answer fail further requests at once, which leaves
// time to ask the others.
func Search(ctx context.Context) (context.Context, context.CancelFunc) {
	if timeout, ok := ctx.Value(eachKey{}).(time.Duration); ok {
		return EachWithin(ctx, timeout/2), func() {}
	}
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithTimeout(context.WithValue(ctx, searchKey{}, true), time.Until(deadline)/2)
	}
	return ctx, func() {}
}

// failed returns the error of an earlier request, or nil.
func failed(ctx context.Context, a *Agent) error {
	if known, ok := ctx.Value(onceKey{}).(*sync.Map); ok {
		if err, ok := known.Load(a.identity()); ok {
			return err.(error)
		}
	}
	return nil
}

// remember stores the explanation of a failed connection or an expired search. It ignores cancelled
// requests.
func remember(ctx context.Context, a *Agent, err, explained error) {
	known, ok := ctx.Value(onceKey{}).(*sync.Map)
	if !ok {
		return
	}
	var operation *net.OpError
	searching := ctx.Value(searchKey{}) != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
	if searching || ctx.Err() == nil && errors.As(err, &operation) && operation.Op == "dial" {
		known.Store(a.identity(), explained)
	}
}

// identity ignores whether connections are kept.
func (a *Agent) identity() [2]string { return [2]string{a.Name, a.URL} }
