package northbound

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"

	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/listener"
	"github.com/contiv/contiv/plugins/contivgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// reads are the methods that change nothing. All others are for clients that may configure.
var reads = map[string]bool{
	"/ligato.generic.ManagerService/GetConfig":                       true,
	"/ligato.generic.ManagerService/DumpState":                       true,
	"/ligato.generic.ManagerService/Subscribe":                       true,
	"/ligato.generic.MetaService/KnownModels":                        true,
	"/ligato.generic.MetaService/ProtoFileDescriptor":                true,
	"/ligato.configurator.ConfiguratorService/Get":                   true,
	"/ligato.configurator.ConfiguratorService/Dump":                  true,
	"/ligato.configurator.ConfiguratorService/Notify":                true,
	"/ligato.configurator.StatsPollerService/PollStats":              true,
	"/rpc.StatusService/Watch":                                       true,
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
}

// handshake finds out who connects. The listener has made TLS of the connection already, if it is
// to have TLS.
type handshake struct {
	identify func(net.Conn) listener.Client
	limits   perNetwork
}

// identity is what is known of a connection.
type identity struct {
	credentials.CommonAuthInfo
	listener.Client
	// refusal is the answer to all calls of a connection too many.
	refusal error
}

// AuthType implements credentials.AuthInfo.
func (identity) AuthType() string { return "contiv" }

// ServerHandshake implements credentials.TransportCredentials.
func (h handshake) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	level := credentials.NoSecurity
	if secure, ok := conn.(*tls.Conn); ok {
		if err := secure.Handshake(); err != nil { // gRPC has set a deadline
			return nil, nil, err
		}
		level = credentials.PrivacyAndIntegrity
	}
	client := h.identify(conn)
	conn, refusal := h.limits.open(conn, client)
	return conn, identity{credentials.CommonAuthInfo{SecurityLevel: level}, client, refusal}, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (handshake) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("credentials of a server")
}

// Info implements credentials.TransportCredentials.
func (handshake) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

// Clone implements credentials.TransportCredentials.
func (h handshake) Clone() credentials.TransportCredentials { return h }

// OverrideServerName implements credentials.TransportCredentials.
func (handshake) OverrideServerName(string) error { return nil }

// clientOf returns who calls: nobody, with no role, if that is not known.
func clientOf(ctx context.Context) listener.Client {
	if from, ok := peer.FromContext(ctx); ok {
		if i, ok := from.AuthInfo.(identity); ok {
			return i.Client
		}
	}
	return listener.Client{}
}

// admit returns who calls, and an error if the client may not call the method.
func admit(ctx context.Context, method string) (listener.Client, error) {
	client := clientOf(ctx)
	needs, name := listener.Configure, "contiv:configure"
	if reads[method] {
		needs, name = listener.Read, "contiv:read"
	}
	if client.Role < needs {
		return client, status.Errorf(codes.PermissionDenied, "the %s does not allow %s: it needs the organization %s, or give the agent --tls-client-role", client.Name, method, name)
	}
	return client, nil
}

func (s *Server) refuse(client listener.Client, method string, err error) error {
	if !reads[method] {
		s.log.Warn("Request refused", "who", client.Name, "what", method, "error", err)
	}
	s.requests.WithLabelValues(method, status.Code(err).String()).Observe(0)
	return err
}

// shown is what a client gets to see of an answer.
func shown(client listener.Client, reply any) any {
	if message, ok := reply.(proto.Message); ok && client.Role < listener.Configure {
		return record.Redact(message)
	}
	return reply
}

// shownStream is a stream of answers.
type shownStream struct {
	grpc.ServerStream
	client listener.Client
}

// SendMsg implements grpc.ServerStream.
func (s shownStream) SendMsg(m any) error { return s.ServerStream.SendMsg(shown(s.client, m)) }

// outcome intercepts the metadata that report a call's outcome.
type outcome struct {
	grpc.ServerTransportStream
	told metadata.MD
}

// SetHeader implements grpc.ServerTransportStream.
func (o *outcome) SetHeader(md metadata.MD) error {
	o.told = metadata.Join(o.told, md)
	return o.ServerTransportStream.SetHeader(md)
}

func (o *outcome) log(log *slog.Logger, client listener.Client, method string, err error) {
	fields := []any{"who", client.Name, "what", method, "status", status.Code(err).String()}
	for field, key := range map[string]string{"event": contivgrpc.EventMetadata, "transaction": contivgrpc.TxnMetadata} {
		if values := o.told.Get(key); len(values) > 0 {
			fields = append(fields, field, values[0])
		}
	}
	log.Info("Request to change something", fields...)
}
