package northbound

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"

	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/contiv/contiv/kvscheduler/record"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// reads lists the read-only methods. All others require the role Configure.
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

// handshake identifies clients. The listener has already established TLS if configured.
type handshake struct {
	identify func(net.Conn) listener.Client
	limits   perNetwork
}

// identity describes the client of a connection.
type identity struct {
	credentials.CommonAuthInfo
	listener.Client
	// refusal is the error returned for each call of an excess connection.
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

// clientOf returns the calling client, or one without a role if it is unknown.
func clientOf(ctx context.Context) listener.Client {
	if from, ok := peer.FromContext(ctx); ok {
		if i, ok := from.AuthInfo.(identity); ok {
			return i.Client
		}
	}
	return listener.Client{}
}

// admit returns the calling client, and an error if it may not call the method.
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
		s.log.Warn("Request refused", "client", client.Name, "request", method, "error", err)
	}
	s.requests.WithLabelValues(method, status.Code(err).String()).Observe(0)
	return err
}

// shown redacts secrets in a response unless the client may configure.
func redacted(client listener.Client, reply any) any {
	if message, ok := reply.(proto.Message); ok && client.Role < listener.Configure {
		return record.Redact(message)
	}
	return reply
}

// redactedStream redacts the messages of a stream.
type redactedStream struct {
	grpc.ServerStream
	client listener.Client
}

func (s redactedStream) SendMsg(m any) error { return s.ServerStream.SendMsg(redacted(s.client, m)) }

// outcome captures the response metadata that identify the event and transaction of a call.
type outcome struct {
	grpc.ServerTransportStream
	captured metadata.MD
}

// SetHeader implements grpc.ServerTransportStream.
func (o *outcome) SetHeader(md metadata.MD) error {
	o.captured = metadata.Join(o.captured, md)
	return o.ServerTransportStream.SetHeader(md)
}

func (o *outcome) log(log *slog.Logger, client listener.Client, method string, err error) {
	fields := []any{"client", client.Name, "request", method, "status", status.Code(err).String()}
	for field, key := range map[string]string{"event": contivgrpc.EventMetadata, "transaction": contivgrpc.TxnMetadata} {
		if values := o.captured.Get(key); len(values) > 0 {
			fields = append(fields, field, values[0])
		}
	}
	log.Info("Change requested", fields...)
}
