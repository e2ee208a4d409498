package northbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// maxRequest bounds the size of a request in bytes: tens of thousands of values.
const maxRequest = 64 << 20

// Server is the gRPC server. Register the services before calling Serve.
type Server struct {
	*grpc.Server
	log      *slog.Logger
	requests *prometheus.HistogramVec
	limits   perNetwork
	// methods returns the served methods.
	methods func() map[string]bool
}

// NewServer returns a server that counts its calls in metrics, if not nil. identify identifies the
// client of a connection, as listener.Options.Client does. The server logs each change with its
// client.
func NewServer(identify func(net.Conn) listener.Client, metrics prometheus.Registerer, log *slog.Logger) *Server {
	s := &Server{log: log, limits: newPerNetwork(), requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "contiv_grpc_request_duration_seconds",
		Help:    "Calls of the northbound gRPC API, by method and result.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
	}, []string{"method", "code"})}
	if metrics != nil {
		metrics.MustRegister(s.requests)
	}
	s.Server = grpc.NewServer(append(serverLimits(), grpc.Creds(handshake{identify, s.limits}), grpc.InTapHandle(s.tap), grpc.MaxRecvMsgSize(maxRequest),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream))...)
	s.methods = sync.OnceValue(s.served)
	reflection.Register(s.Server)
	return s
}

// Serve serves and finally closes all listeners. It returns after Stop or an error.
func (s *Server) Serve(listeners ...net.Listener) error {
	var group errgroup.Group
	for _, l := range listeners {
		group.Go(func() error {
			err := s.Server.Serve(l)
			if err == nil || errors.Is(err, grpc.ErrServerStopped) {
				return nil
			}
			s.Server.Stop()
			return fmt.Errorf("serve gRPC on %v: %w", l.Addr(), err)
		})
	}
	return group.Wait()
}

// stopGrace bounds how long Stop waits for calls in progress.
const stopGrace = 3 * time.Second

// Stop rejects new calls, waits up to stopGrace or until ctx ends for calls in progress, and ends
// Serve.
func (s *Server) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	stop := context.AfterFunc(ctx, s.Server.Stop)
	defer stop()
	s.Server.GracefulStop()
}

func (s *Server) served() map[string]bool {
	methods := make(map[string]bool)
	for service, info := range s.GetServiceInfo() {
		for _, method := range info.Methods {
			methods["/"+service+"/"+method.Name] = true
		}
	}
	return methods
}

// tap rejects calls before their requests are read. Interceptors run only after decoding.
func (s *Server) tap(ctx context.Context, call *tap.Info) (context.Context, error) {
	if !s.methods()[call.FullMethodName] {
		return ctx, nil // gRPC reports unknown methods
	}
	client, err := admit(ctx, call.FullMethodName)
	if err == nil {
		err = s.limits.begin(ctx, client, call.FullMethodName)
	}
	if err != nil {
		return ctx, s.refuse(client, call.FullMethodName, err)
	}
	return ctx, nil
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	client := clientOf(ctx)
	outcome := &outcome{ServerTransportStream: grpc.ServerTransportStreamFromContext(ctx)}
	if !reads[info.FullMethod] {
		defer func() { outcome.log(s.log, client, info.FullMethod, err) }()
	}
	defer s.finish(info.FullMethod, time.Now(), &err)
	reply, err = handler(grpc.NewContextWithServerTransportStream(ctx, outcome), req)
	return redacted(client, reply), err
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer s.finish(info.FullMethod, time.Now(), &err)
	return handler(srv, redactedStream{stream, clientOf(stream.Context())})
}

// finish turns a panic into the failure of one call, and counts the call.
func (s *Server) finish(method string, start time.Time, err *error) {
	if cause := recover(); cause != nil {
		s.log.Error("Panic in a gRPC call", "method", method, "panic", cause, "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "panic in the agent: %v (see its log)", cause)
	}
	s.requests.WithLabelValues(method, status.Code(*err).String()).Observe(time.Since(start).Seconds())
}
