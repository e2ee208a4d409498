package contivgrpc

import (
	"context"

	"github.com/contiv/contiv/api/contiv/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Register registers rpc.DataChangeService and rpc.DataResyncService with the server.
func (s *Service) Register(server grpc.ServiceRegistrar) {
	rpc.RegisterDataChangeServiceServer(server, dataServer{Service: s})
	rpc.RegisterDataResyncServiceServer(server, dataServer{Service: s})
}

type dataServer struct {
	rpc.UnsafeDataChangeServiceServer
	rpc.UnsafeDataResyncServiceServer
	*Service
}

func (s dataServer) Put(ctx context.Context, r *rpc.DataRequest) (*rpc.PutResponse, error) {
	return &rpc.PutResponse{}, s.call(ctx, r, putValues)
}

func (s dataServer) Del(ctx context.Context, r *rpc.DataRequest) (*rpc.DelResponse, error) {
	return &rpc.DelResponse{}, s.call(ctx, r, deleteValues)
}

func (s dataServer) Resync(ctx context.Context, r *rpc.DataRequest) (*rpc.ResyncResponse, error) {
	return &rpc.ResyncResponse{}, s.call(ctx, r, replaceValues)
}

func (s *Service) call(ctx context.Context, r *rpc.DataRequest, v verb) error {
	change, err := changeOf(ctx, r, v)
	if err != nil {
		return status.Error(codes.InvalidArgument, shorten(err.Error(), maxText))
	}
	_, err = s.Apply(ctx, change)
	return err
}
