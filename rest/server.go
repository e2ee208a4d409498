package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Server serves one handler on several addresses.
type Server struct{ listeners []net.Listener }

// Listen opens the addresses: "unix:///path" for a socket that only the user
// may open (mode 0600; a stale socket is replaced), else "host:port".
func Listen(addresses ...string) (*Server, error) {
	s := &Server{}
	for _, address := range addresses {
		l, err := listen(address)
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

func listen(address string) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix://")
	if !unix {
		return net.Listen("tcp", address)
	}
	return ListenUnix(path)
}

// ListenUnix opens a unix socket with mode 0600, in a directory that is created
// with mode 0700 if it is missing. A socket that nobody listens on any more is
// replaced; one that is in use is an error.
func ListenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("another process listens on %s: stop it, or choose another path", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
