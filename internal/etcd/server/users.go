package server

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// Root is the user with all permissions, who creates all other users.
const Root = "root"

// maintenanceIsRoots restricts calls to Root that etcd allows to every certificate: raising an
// alarm, which stops all writes, and compacting, which ends watches.
func maintenanceIsRoots(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	changes := false
	switch r := request.(type) {
	case *pb.AlarmRequest:
		changes = r.Action != pb.AlarmRequest_GET
	case *pb.CompactionRequest:
		changes = true
	}
	if changes && !isRoot(ctx) {
		return nil, rpctypes.ErrGRPCPermissionDenied
	}
	return handle(ctx, request)
}

func isRoot(ctx context.Context) bool { return commonNameIn(ctx) == Root }

func commonNameIn(ctx context.Context) string {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return commonNameOf(from.AuthInfo)
}

// askForUsers enables authentication, with the common name of the certificate as the user. The data
// remember that it is enabled. For new data, this is the first transaction.
func (s *Server) askForUsers(ctx context.Context) error {
	if s.etcd.Server.AuthStore().IsAuthEnabled() {
		return nil
	}
	err := s.enableUsers(ctx)
	if err != nil && s.etcd.Server.AuthStore().IsAuthEnabled() { // another member was faster
		return nil
	}
	return err
}

func (s *Server) enableUsers(ctx context.Context) error {
	client := v3client.New(s.etcd.Server)
	defer client.Close()
	if _, err := client.RoleAdd(ctx, Root); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return fmt.Errorf("add the role %s: %w", Root, err)
	}
	if _, err := client.UserAddWithOptions(ctx, Root, "", &clientv3.UserAddOptions{NoPassword: true}); err != nil && !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		return fmt.Errorf("add the user %s: %w", Root, err)
	}
	if _, err := client.UserGrantRole(ctx, Root, Root); err != nil {
		return fmt.Errorf("grant the user %s its role: %w", Root, err)
	}
	if _, err := client.AuthEnable(ctx); err != nil {
		return fmt.Errorf("have etcd ask for users: %w", err)
	}
	return nil
}
