package northbound

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/contiv/contiv/api/ligato/configurator"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

type configService struct {
	configurator.UnsafeConfiguratorServiceServer
	*Ligato
}

// Get returns the merged values of all external sources.
func (s *configService) Get(context.Context, *configurator.GetRequest) (*configurator.GetResponse, error) {
	external := s.External()
	values := make([]proto.Message, 0, len(external))
	for _, key := range slices.Sorted(maps.Keys(external)) {
		values = append(values, external[key])
	}
	return &configurator.GetResponse{Config: newConfig(values)}, nil
}

// Update puts values. With full_resync, it also deletes the client's other values.
func (s *configService) Update(ctx context.Context, r *configurator.UpdateRequest) (*configurator.UpdateResponse, error) {
	change, err := newChange(ctx)
	if err != nil {
		return nil, err
	}
	change.Replace, change.Full = r.GetFullResync(), r.GetFullResync()
	if err := s.apply(ctx, change, r.GetUpdate(), false, r.GetWaitDone()); err != nil {
		return nil, err
	}
	return &configurator.UpdateResponse{}, nil
}

// Delete deletes the values with the keys of the given ones.
func (s *configService) Delete(ctx context.Context, r *configurator.DeleteRequest) (*configurator.DeleteResponse, error) {
	change, err := newChange(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.apply(ctx, change, r.GetDelete(), true, r.GetWaitDone()); err != nil {
		return nil, err
	}
	return &configurator.DeleteResponse{}, nil
}

func (s *configService) apply(ctx context.Context, change contivgrpc.Change, config *configurator.Config, remove, waitDone bool) error {
	err := eachValue(config, func(key string, value proto.Message) error {
		if _, twice := change.Values[key]; twice {
			return fmt.Errorf("key %q occurs twice in the request: remove one", key)
		}
		if remove {
			value = nil
		}
		change.Values[key] = value
		return nil
	})
	if err != nil {
		return refused("%v", err)
	}
	if _, err := s.Clients.Apply(ctx, change); err != nil {
		return err
	}
	if waitDone {
		if _, err := s.Scheduler.WaitSettled(ctx, slices.Collect(maps.Keys(change.Values))...); err != nil {
			return watchError(err)
		}
	}
	return nil
}

// Dump reads the current values from the vswitch and the kernel.
func (s *configService) Dump(ctx context.Context, _ *configurator.DumpRequest) (*configurator.DumpResponse, error) {
	dumped, err := s.Scheduler.Dump(ctx, kvscheduler.SBView, kvscheduler.DumpFilter{})
	if err != nil {
		return nil, status.Errorf(codes.Internal, "cannot read all values: %v", err)
	}
	values := make([]proto.Message, 0, len(dumped))
	for _, v := range dumped {
		values = append(values, v.Value)
	}
	return &configurator.DumpResponse{Dump: newConfig(values)}, nil
}

// Notify sends changes of interfaces until the client ends the call.
func (s *configService) Notify(r *configurator.NotifyRequest, stream grpc.ServerStreamingServer[configurator.NotifyResponse]) error {
	next := r.GetIdx()
	for {
		batch, more, at := s.notifications.from(next)
		next = at
		for _, n := range batch {
			if next = n.GetNextIdx(); !passes(n.GetNotification(), r.GetFilters()) {
				continue
			}
			if err := stream.Send(n); err != nil {
				return err
			}
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-more:
		case <-s.ended:
			return errEnds
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}
