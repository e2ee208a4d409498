package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/contiv/contiv/internal/lib/listener"
)

// public are read-only paths that need no authentication.
var public = []string{"/liveness", "/readiness", "/metrics", "/stats"}

// harmless are requests that change nothing although their method is not GET.
var harmless = []string{"POST /scheduler/plan"}

// TxnHeader is the response header with the number of the transaction that the request caused.
const TxnHeader = "Contiv-Transaction"

// IsOperator reports whether the client has all permissions: by access to the socket, which only
// the socket's owner has, or by certificate.
func IsOperator(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return local != nil && local.Network() == "unix" || certified(r) && clientOf(r).Role == listener.Configure
}

// guard authorises requests and logs changes.
func (s *Server) guard(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := r.Method + " " + r.URL.Path
		changes := r.Method != http.MethodGet && r.Method != http.MethodHead && !slices.Contains(harmless, what)
		client := clientOf(r)
		if err := s.admit(r, client, changes); err != nil {
			if changes && s.log != nil && certified(r) { // unauthenticated clients could flood the log
				s.log.Warn("Request refused", "client", client.Name, "request", what)
			}
			Error(w, http.StatusForbidden, err)
			return
		}
		end := s.begin(w, r, client.Name, changes)
		if end == nil {
			return
		}
		defer end()
		reader := patient{w, s.timeouts.write}
		defer reader.extend() // for data that the server flushes after the handler
		w = reader
		if s.log == nil || !changes {
			handler.ServeHTTP(w, r)
			return
		}
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		handler.ServeHTTP(recorder, r)
		fields := []any{"client", client.Name, "request", what, "status", recorder.status}
		if txn := w.Header().Get(TxnHeader); txn != "" {
			fields = append(fields, "transaction", txn)
		}
		s.log.Info("Change requested", fields...)
	})
}

// admit returns an error if the client may not make the request.
func (s *Server) admit(r *http.Request, client listener.Client, changes bool) error {
	switch {
	case client.Role == listener.Configure, client.Role == listener.Read && !changes, slices.Contains(public, r.URL.Path) && !changes:
		return nil
	case !certified(r):
		return errors.New("over TCP, this request needs a client certificate: use the program's socket, or start it with " +
			"--tls-cert-file, --tls-key-file and --tls-client-ca-file")
	}
	role := "contiv:read"
	if changes {
		role = "contiv:configure"
	}
	return fmt.Errorf("permission denied for %s: the certificate needs the organization %s, or start the program with --tls-client-role", client.Name, role)
}

// statusRecorder records the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap supports http.ResponseController.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func certified(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }

type clientKey struct{}

// withClient stores a function in the context that identifies the client of a connection.
func (s *Server) withClient(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, clientKey{}, func() listener.Client { return s.options.Client(conn) })
}

// clientOf returns the client of a request; without a Server, only its address.
func clientOf(r *http.Request) listener.Client {
	if client, ok := r.Context().Value(clientKey{}).(func() listener.Client); ok {
		return client()
	}
	return listener.Client{Name: r.RemoteAddr}
}
