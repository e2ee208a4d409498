package northbound

import (
	"context"
	"net"
	"time"

	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/listener/quota"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// follows lists the methods with calls of unlimited duration.
var follows = map[string]bool{
	"/ligato.generic.ManagerService/Subscribe":                       true,
	"/ligato.configurator.ConfiguratorService/Notify":                true,
	"/ligato.configurator.StatsPollerService/PollStats":              true,
	"/rpc.StatusService/Watch":                                       true,
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
}

// limits bounds concurrent calls and connections. streamsPerConnection exceeds the calls allowed
// per client, so that the server, not the client's own queue, rejects excess calls with an
// explanation.
type limits struct{ connections, followed, reads, changes quota.Quota }

const (
	callsOfClient = 32
	// streamsPerConnection exceeds the calls of all kinds allowed per client.
	streamsPerConnection = 3*callsOfClient + 4
	// handshakeTimeout bounds the time until a client is identified.
	handshakeTimeout = 10 * time.Second
	// idleTimeout closes connections without calls. Clients reconnect on demand.
	idleTimeout = 15 * time.Minute
	// refusedFor is how long an excess connection stays open to report the reason to its first
	// call.
	refusedFor = 5 * time.Second
)

func newLimits() *limits {
	return &limits{
		connections: quota.Quota{What: "connections", Each: 32, All: 256},
		followed:    quota.Quota{What: "watches and subscriptions", Each: callsOfClient, All: 256},
		reads:       quota.Quota{What: "read calls", Each: callsOfClient, All: 128},
		changes:     quota.Quota{What: "changes", Each: callsOfClient, All: 128},
	}
}

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

// perNetwork keeps separate limits for the local socket and TCP, so that TCP clients cannot block
// local administrators.
type perNetwork struct{ socket, tcp *limits }

func newPerNetwork() perNetwork { return perNetwork{newLimits(), newLimits()} }

func (p perNetwork) at(addr net.Addr) *limits {
	if addr != nil && addr.Network() == "unix" {
		return p.socket
	}
	return p.tcp
}

// open counts a connection until it is closed. An excess connection is closed soon. Until then, its
// calls fail with refusal.
func (p perNetwork) open(conn net.Conn, client listener.Client) (_ net.Conn, refusal error) {
	release, err := p.at(conn.LocalAddr()).connections.Take(client.Name)
	if err != nil {
		end := time.AfterFunc(refusedFor, func() { conn.Close() })
		return &quota.Conn{Conn: conn, Release: func() { end.Stop() }}, status.Error(codes.ResourceExhausted, err.Error())
	}
	return &quota.Conn{Conn: conn, Release: release}, nil
}

// begin counts a call until its context ctx ends.
func (p perNetwork) begin(ctx context.Context, client listener.Client, method string) error {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return status.Error(codes.Internal, "unknown client of the call")
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
