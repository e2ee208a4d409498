package northbound

import (
	"context"
	"net"
	"time"

	"github.com/contiv/contiv/listener"
	"github.com/contiv/contiv/listener/quota"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// follows are the methods whose calls last as long as the client likes.
var follows = map[string]bool{
	"/ligato.generic.ManagerService/Subscribe":                       true,
	"/ligato.configurator.ConfiguratorService/Notify":                true,
	"/ligato.configurator.StatsPollerService/PollStats":              true,
	"/rpc.StatusService/Watch":                                       true,
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
}

// limits bound what clients have in progress at once. A call that would wait in the client,
// because of streamsPerConnection, would not be told why: so it is more than the calls of one client.
type limits struct{ connections, followed, reads, changes quota.Quota }

const (
	callsOfClient = 32
	// streamsPerConnection is more than a client's calls of all kinds.
	streamsPerConnection = 3*callsOfClient + 4
	// handshakeTimeout is how long a connection may take until it is known who made it.
	handshakeTimeout = 10 * time.Second
	// idleTimeout is how long a connection may stay without calls: clients connect again when they need it.
	idleTimeout = 15 * time.Minute
	// refusedFor is how long a connection too many stays, for its first call to be told why.
	refusedFor = 5 * time.Second
)

func newLimits() *limits {
	return &limits{
		connections: quota.Quota{What: "connections", Each: 32, All: 256},
		followed:    quota.Quota{What: "watches and subscriptions", Each: callsOfClient, All: 256},
		reads:       quota.Quota{What: "calls that read", Each: callsOfClient, All: 128},
		changes:     quota.Quota{What: "calls that change something", Each: callsOfClient, All: 128},
	}
}

// of returns the limit for calls of a method.
func (l *limits) of(method string) *quota.Quota {
	switch {
	case follows[method]:
		return &l.followed
	case reads[method]:
		return &l.reads
	}
	return &l.changes
}

func serverLimits() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxConcurrentStreams(streamsPerConnection), grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout}),
	}
}

// perNetwork are limits of their own for each network: clients of TCP do not keep away those of the
// socket, who are on this machine and may end the others.
type perNetwork struct{ socket, tcp *limits }

func newPerNetwork() perNetwork { return perNetwork{newLimits(), newLimits()} }

func (p perNetwork) at(addr net.Addr) *limits {
	if addr != nil && addr.Network() == "unix" {
		return p.socket
	}
	return p.tcp
}

// open counts a connection until it is closed. One too many is closed soon; until then, refusal is
// the answer to its calls.
func (p perNetwork) open(conn net.Conn, client listener.Client) (_ net.Conn, refusal error) {
	release, err := p.at(conn.LocalAddr()).connections.Take(client.Name)
	if err != nil {
		end := time.AfterFunc(refusedFor, func() { conn.Close() })
		return &quota.Conn{Conn: conn, Release: func() { end.Stop() }}, status.Error(codes.ResourceExhausted, err.Error())
	}
	return &quota.Conn{Conn: conn, Release: release}, nil
}

// begin counts a call until ctx, that of the call, ends.
func (p perNetwork) begin(ctx context.Context, client listener.Client, method string) error {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return status.Error(codes.Internal, "it is not known where the call comes from")
	}
	if i, ok := from.AuthInfo.(identity); ok && i.refusal != nil {
		return i.refusal
	}
	release, err := p.at(from.LocalAddr).of(method).Take(client.Name)
	if err != nil {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	context.AfterFunc(ctx, release)
	return nil
}
