package access

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

type slow struct {
	clientv3.Auth
	granted int
}

func (s *slow) take(ctx context.Context) error {
	select {
	case <-time.After(20 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slow) RoleDelete(ctx context.Context, _ string) (*clientv3.AuthRoleDeleteResponse, error) {
	return nil, s.take(ctx)
}

func (s *slow) RoleAdd(ctx context.Context, _ string) (*clientv3.AuthRoleAddResponse, error) {
	return nil, s.take(ctx)
}

func (s *slow) RoleGrantPermission(ctx context.Context, _, _, _ string, _ clientv3.PermissionType) (*clientv3.AuthRoleGrantPermissionResponse, error) {
	s.granted++
	return nil, s.take(ctx)
}

func (s *slow) UserAddWithOptions(ctx context.Context, _, _ string, _ *clientv3.UserAddOptions) (*clientv3.AuthUserAddResponse, error) {
	return nil, s.take(ctx)
}

func (s *slow) UserGrantRole(ctx context.Context, _, _ string) (*clientv3.AuthUserGrantRoleResponse, error) {
	return nil, s.take(ctx)
}

func TestClientOfManyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := &slow{}
		k := &Keeper{auth: etcd, log: slog.New(slog.DiscardHandler)}
		var nodes []string
		for i := range 1000 {
			nodes = append(nodes, fmt.Sprintf("node%d", i))
		}
		permissions := clientPermissions(Client{Nodes: nodes})
		if err := k.set(t.Context(), "client:many", nil, permissions); err != nil || etcd.granted != len(permissions) {
			t.Errorf("%d of %d permissions granted: %v", etcd.granted, len(permissions), err)
		}
	})
}
