package lab

import (
	"context"
	"net"
	"net/url"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Etcd returns a client of the lab's etcd, which connects from the underlay. It is
// for the caller to close.
func (l *Lab) Etcd() (*clientv3.Client, error) {
	st, err := l.State()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(etcdURL)
	if err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{
		Endpoints: []string{u.Host},
		Logger:    zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return dialIn(ctx, NetnsPath(st.Underlay()), "tcp", u.Host)
		})},
	})
}
