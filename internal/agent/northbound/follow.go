package northbound

import (
	"context"
	"errors"

	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// follow sends events to a client until its call or the service ends, or send fails.
func follow(call context.Context, ended <-chan struct{}, watcher *kvscheduler.Watcher, send func([]kvscheduler.StatusEvent) error) error {
	ctx, cancel := context.WithCancel(call)
	defer cancel()
	go func() { // ends with ctx
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		events, err := watcher.Next(ctx)
		switch {
		case err != nil && ctx.Err() != nil && call.Err() == nil:
			return errEnds
		case err != nil:
			return watchError(err)
		}
		if err := send(events); err != nil {
			return err
		}
	}
}

func watchError(err error) error {
	switch {
	case errors.Is(err, kvscheduler.ErrLostPlace):
		return status.Error(codes.OutOfRange, "the client is too slow, changes were lost: read the state and subscribe again")
	case errors.Is(err, kvscheduler.ErrClosed):
		return errEnds
	}
	return status.FromContextError(err).Err()
}
