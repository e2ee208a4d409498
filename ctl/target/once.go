package target

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

type onceKey struct{}

// WaitOnce has no request wait for an agent to which an earlier one with the context could not connect: it fails with the
// same error. Commands ask several times, and a connection may take seconds to fail.
func WaitOnce(ctx context.Context) context.Context {
	return context.WithValue(ctx, onceKey{}, new(sync.Map))
}

type eachKey struct{}

// EachWithin gives each request to an agent a time of its own. An agent that has not answered in it fails further requests at
// once, so that it costs a command that asks several times no more than that.
func EachWithin(ctx context.Context, timeout time.Duration) context.Context {
	return context.WithValue(ctx, eachKey{}, timeout)
}

// bounded returns the context of one request.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if timeout, ok := ctx.Value(eachKey{}).(time.Duration); ok {
		return context.WithTimeout(context.WithValue(ctx, searchKey{}, true), timeout)
	}
	return ctx, func() {}
}

type searchKey struct{}

// Search returns a context for a first question to all agents, with half of the time that is left, or that each request has.
// An agent that has not answered by its end fails further requests at once, so that there is time to ask the others again.
func Search(ctx context.Context) (context.Context, context.CancelFunc) {
	if timeout, ok := ctx.Value(eachKey{}).(time.Duration); ok {
		return EachWithin(ctx, timeout/2), func() {}
	}
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithTimeout(context.WithValue(ctx, searchKey{}, true), time.Until(deadline)/2)
	}
	return ctx, func() {}
}

// failed returns the error of an earlier request, nil if there was none.
func failed(ctx context.Context, a *Agent) error {
	if known, ok := ctx.Value(onceKey{}).(*sync.Map); ok {
		if err, ok := known.Load(a.identity()); ok {
			return err.(error)
		}
	}
	return nil
}

// remember keeps the explanation of why a connection failed, or a search had no answer in time. That another request was
// given up says nothing about further ones.
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

// identity is the same with and without connections that are kept.
func (a *Agent) identity() [2]string { return [2]string{a.Name, a.URL} }
