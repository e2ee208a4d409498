package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/lib/listener"
)

// maxBody limits the body of a request, in bytes.
const maxBody = 4 << 20

// maxConnections limits the connections of each listener.
const maxConnections = 512

// timeouts for a client: to send the header, to send the whole request, to read each part of an
// answer, and between requests.
type timeouts struct{ header, request, write, idle time.Duration }

// Server serves one handler on several addresses.
type Server struct {
	log         *slog.Logger
	listeners   []net.Listener
	timeouts    timeouts
	socket, tcp *limits
	// options authenticate clients.
	options listener.Options
}

// Listen opens the addresses as listener.Options.Listen does. Over TCP, including loopback, clients
// without a role may only read the public paths unless o.AllowUnauthenticated. log, if not nil,
// receives a line for each request that may change something.
func Listen(o listener.Options, log *slog.Logger, addresses ...string) (*Server, error) {
	s := &Server{log: log, options: o, socket: newLimits(), tcp: newLimits(),
		timeouts: timeouts{header: 10 * time.Second, request: 30 * time.Second, write: 3 * time.Minute, idle: 2 * time.Minute}}
	for _, address := range addresses {
		l, err := o.Listen(address)
		if err != nil {
			s.close()
			return nil, fmt.Errorf("cannot serve HTTP on %s: %w", address, err)
		}
		s.listeners = append(s.listeners, l)
	}
	return s, nil
}

// Addrs returns the addresses of the listeners.
func (s *Server) Addrs() []net.Addr {
	addrs := make([]net.Addr, len(s.listeners))
	for i, l := range s.listeners {
		addrs[i] = l.Addr()
	}
	return addrs
}

// Serve serves requests until ctx ends or a listener fails. Requests in progress get five seconds
// to finish.
func (s *Server) Serve(ctx context.Context, handler http.Handler) error {
	handler = http.MaxBytesHandler(s.guard(inJSON(handler)), maxBody)
	failed := make(chan error, len(s.listeners))
	servers := make([]*http.Server, len(s.listeners))
	for i, l := range s.listeners {
		servers[i] = &http.Server{
			Handler:           handler,
			ConnContext:       s.withClient,
			ConnState:         LimitConnections(maxConnections),
			ReadHeaderTimeout: s.timeouts.header, ReadTimeout: s.timeouts.request, IdleTimeout: s.timeouts.idle,
			MaxHeaderBytes: 64 << 10,
			HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: 100},
		}
		go func() { failed <- servers[i].Serve(l) }()
	}
	var err error
	running := len(s.listeners)
	select {
	case <-ctx.Done():
	case err = <-failed:
		running--
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var stopped sync.WaitGroup
	for _, server := range servers {
		stopped.Go(func() {
			if server.Shutdown(stop) != nil {
				server.Close()
			}
		})
	}
	stopped.Wait()
	for range running {
		<-failed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s *Server) close() {
	for _, l := range s.listeners {
		l.Close()
	}
}
