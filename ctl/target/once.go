package target

import (
	"context"
	"errors"
	"net"
	"sync"
)

type onceKey struct{}

// WaitOnce has no request wait for an agent to which an earlier one with the context could not connect: it fails with the
// same error. Commands ask several times, and a connection may take seconds to fail.
func WaitOnce(ctx context.Context) context.Context {
	return context.WithValue(ctx, onceKey{}, new(sync.Map))
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

// remember keeps the explanation of why a connection failed. That a request was given up says nothing about others.
func remember(ctx context.Context, a *Agent, err, explained error) {
	var operation *net.OpError
	if known, ok := ctx.Value(onceKey{}).(*sync.Map); ok && ctx.Err() == nil && errors.As(err, &operation) && operation.Op == "dial" {
		known.Store(a.identity(), explained)
	}
}

// identity is the same with and without connections that are kept.
func (a *Agent) identity() [2]string { return [2]string{a.Name, a.URL} }
