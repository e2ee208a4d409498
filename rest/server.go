package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/contiv/contiv/listener"
)

// Server serves one handler on several addresses.
type Server struct{ listeners []net.Listener }

// Listen opens the addresses, each as listener.Options.Listen does.
func Listen(o listener.Options, addresses ...string) (*Server, error) {
	s := &Server{}
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

// Addrs returns the addresses that are listened on.
func (s *Server) Addrs() []net.Addr {
	addrs := make([]net.Addr, len(s.listeners))
	for i, l := range s.listeners {
		addrs[i] = l.Addr()
	}
	return addrs
}

// Serve answers requests until ctx ends or a listener fails. Requests in
// progress get five seconds to finish.
func (s *Server) Serve(ctx context.Context, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() { failed <- server.Serve(l) }()
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
	if server.Shutdown(stop) != nil {
		server.Close()
	}
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
