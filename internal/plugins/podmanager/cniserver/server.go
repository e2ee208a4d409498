package cniserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/api/contiv/cniwire"
	"github.com/contiv/contiv/internal/lib/listener/quota"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// helloTimeout bounds the silence of a new connection and the sending of an answer.
const helloTimeout = 10 * time.Second

const (
	// maxCalls limits concurrent calls. A runtime makes a few for each pod of a node, by default up
	// to 110.
	maxCalls = 1024
	// maxConnections is higher than maxCalls, because connections above it are closed without an
	// answer.
	maxConnections = 2 * maxCalls
)

// Server serves a service until Stop.
type Server struct {
	service                 cni.RemoteCNIServer
	inProgress, connections quota.Quota
	log                     *slog.Logger
	grpc                    *grpc.Server
	methods                 map[string]method

	// ctx is the parent of all contiv-cni calls. accepting ends on Stop. calls counts connections
	// of contiv-cni or of an unknown protocol.
	ctx, accepting     context.Context
	cancel, stopAccept context.CancelFunc
	calls              sync.WaitGroup

	mu       sync.Mutex
	stopped  bool
	listener net.Listener
}

// New returns a server for the service.
func New(service cni.RemoteCNIServer, log *slog.Logger) *Server {
	s := &Server{
		service: service, log: log, methods: methodsOf(service),
		inProgress: quota.Quota{What: "CNI requests", All: maxCalls}, connections: quota.Quota{What: "connections", All: maxConnections},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.accepting, s.stopAccept = context.WithCancel(s.ctx)
	s.grpc = grpc.NewServer(grpc.MaxConcurrentStreams(2*maxCalls), grpc.ConnectionTimeout(helloTimeout),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
			end, err := s.beginCall()
			if err != nil {
				return nil, err
			}
			defer end()
			defer s.recoverPanic(info.FullMethod, &err)
			return handler(ctx, req)
		}))
	cni.RegisterRemoteCNIServer(s.grpc, service)
	return s
}

func (s *Server) beginCall() (end func(), err error) {
	end, err = s.inProgress.Take("")
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	return end, nil
}

func (s *Server) recoverPanic(method string, err *error) {
	if cause := recover(); cause != nil {
		s.log.Error("Panic in a CNI request", "method", method, "panic", cause, "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "panic in the agent: %v (see its log)", cause)
	}
}

// Serve serves requests until Stop. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	forGRPC := newHandover(l.Addr())
	s.mu.Lock()
	s.listener = l
	stopped := s.stopped
	s.mu.Unlock()
	if stopped {
		return l.Close()
	}
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(forGRPC) }()
	err := s.accept(l, forGRPC)
	if s.isStopped() {
		err = nil
	} else {
		s.grpc.Stop()
	}
	if grpcErr := <-served; err == nil && !errors.Is(grpcErr, grpc.ErrServerStopped) {
		err = grpcErr
	}
	l.Close()
	if err != nil {
		return fmt.Errorf("serve CNI requests on %v: %w", l.Addr(), err)
	}
	return nil
}

// accept serves each connection in its own goroutine, so that a silent one delays no other.
func (s *Server) accept(l net.Listener, forGRPC *handover) error {
	const maxPause = time.Second
	pause, full := time.Duration(0), false
	var order arrivals
	for {
		conn, err := l.Accept()
		if err == nil {
			pause = 0
			release, err := s.connections.Take("")
			if err != nil {
				conn.Close()
				if !full {
					s.log.Error("Serving CNI requests failed", "error", err)
				}
				full = true
				continue
			}
			full = false
			arrived := order.next(conn)
			conn = &quota.Conn{Conn: conn, Release: release}
			if !s.begin() {
				conn.Close()
				return nil
			}
			go s.serve(conn, arrived, forGRPC)
			continue
		}
		var temporary interface{ Temporary() bool }
		if !errors.As(err, &temporary) || !temporary.Temporary() {
			return err
		}
		// For example, no file descriptor is left.
		pause = min(max(2*pause, 5*time.Millisecond), maxPause)
		s.log.Warn("Accepting a CNI request failed", "error", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-s.accepting.Done():
			return nil
		}
	}
}

func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.calls.Add(1)
	}
	return !s.stopped
}

func (s *Server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// serve detects the protocol of a connection.
func (s *Server) serve(conn net.Conn, arrived *arrival, forGRPC *handover) {
	defer s.calls.Done()
	defer arrived.start()
	conn.SetDeadline(time.Now().Add(helloTimeout))
	stop := context.AfterFunc(s.accepting, func() { conn.SetDeadline(time.Now()) })
	var first [len(cniwire.Magic)]byte
	_, err := io.ReadFull(conn, first[:])
	stop()
	switch {
	case err != nil:
		conn.Close()
	case string(first[:]) == cniwire.Magic:
		s.serveCall(conn, arrived)
		conn.Close()
	default: // gRPC rejects other protocols
		conn.SetDeadline(time.Time{})
		forGRPC.give(&startedConn{Conn: conn, start: first[:]})
	}
}

// Stop waits for requests in progress until ctx ends, and ends Serve.
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	s.stopped = true
	l := s.listener
	s.mu.Unlock()
	s.stopAccept()
	if l != nil {
		l.Close()
	}
	done := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		s.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.cancel()
		s.grpc.Stop()
		<-done
	}
	s.cancel()
}
