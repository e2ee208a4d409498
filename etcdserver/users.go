package etcdserver

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// Root is the user who may do everything, and makes all other users.
const Root = "root"

// askForUsers makes etcd ask who somebody is: the common name of the certificate. Data
// remember that they are guarded so; for new ones it is the first transaction.
func (s *Server) askForUsers(ctx context.Context) error {
	if s.etcd.Server.AuthStore().IsAuthEnabled() {
		return nil
	}
	client := v3client.New(s.etcd.Server)
	defer client.Close()
	if _, err := client.RoleAdd(ctx, Root); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return fmt.Errorf("add the role %s: %w", Root, err)
	}
	if _, err := client.UserAddWithOptions(ctx, Root, "", &clientv3.UserAddOptions{NoPassword: true}); err != nil && !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		return fmt.Errorf("add the user %s: %w", Root, err)
	}
	if _, err := client.UserGrantRole(ctx, Root, Root); err != nil {
		return fmt.Errorf("give the user %s its role: %w", Root, err)
	}
	if _, err := client.AuthEnable(ctx); err != nil {
		return fmt.Errorf("have etcd ask for users: %w", err)
	}
	return nil
}
