package lab

import (
	"context"
	"net"

	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Etcd returns a client of the lab's etcd that connects from the underlay as root. The caller must
// close it.
func (l *Lab) Etcd() (*clientv3.Client, error) { return l.EtcdAs(access.Root) }

// EtcdAs returns a client of the lab's etcd for another user, such as "node:node1". In a lab with
// PlainText all users have full access.
func (l *Lab) EtcdAs(user string) (*clientv3.Client, error) {
	st, err := l.State()
	if err != nil {
		return nil, err
	}
	config, err := l.tlsOf(st, user)
	if err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{
		Endpoints: []string{st.etcdURL()},
		TLS:       config,
		Logger:    zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return dialIn(ctx, NetnsPath(st.Underlay()), "tcp", st.etcdAddress())
		})},
	})
}
