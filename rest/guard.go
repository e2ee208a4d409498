package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"golang.org/x/sys/unix"
)

// public are the paths that everybody may read: they say how a program is, and change nothing.
var public = []string{"/liveness", "/readiness", "/metrics", "/stats"}

// IsOperator reports whether a client has shown who it is: by access to a socket, which only
// the socket's user has, or by a certificate.
func IsOperator(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return local != nil && local.Network() == "unix" || r.TLS != nil && len(r.TLS.VerifiedChains) > 0
}

// guard lets clients in, and logs what they change.
func (s *Server) guard(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.open && !IsOperator(r) && !slices.Contains(public, r.URL.Path) {
			Error(w, http.StatusForbidden, errors.New("over TCP, this is for clients with a certificate: use the program's socket, or give the program "+
				"--tls-cert-file, --tls-key-file and --tls-client-ca-file"))
			return
		}
		if s.Log == nil || r.Method == http.MethodGet || r.Method == http.MethodHead {
			handler.ServeHTTP(w, r)
			return
		}
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		handler.ServeHTTP(recorder, r)
		s.Log.Info("Request to change something", "who", who(r), "what", r.Method+" "+r.URL.Path, "status", recorder.status)
	})
}

// statusRecorder remembers the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

type peerKey struct{}

// withPeer remembers which process is at the other end of a unix socket.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return ctx
	}
	var peer *unix.Ucred
	if raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }) != nil || err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, fmt.Sprintf("user %d, process %d", peer.Uid, peer.Pid))
}

// who names a client: by its certificate, else by its process, else by its address.
func who(r *http.Request) string {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return "certificate of " + r.TLS.PeerCertificates[0].Subject.CommonName
	}
	if peer, ok := r.Context().Value(peerKey{}).(string); ok {
		return peer
	}
	return r.RemoteAddr
}
