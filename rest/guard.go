package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/contiv/contiv/listener"
)

// public are the paths that everybody may read: they say how a program is, and change nothing.
var public = []string{"/liveness", "/readiness", "/metrics", "/stats"}

// harmless are the requests that change nothing although their method is not GET.
var harmless = []string{"POST /scheduler/plan"}

// TxnHeader is how a handler says which transaction a request has led to.
const TxnHeader = "Contiv-Transaction"

// IsOperator reports whether a client has shown that it may do everything: by access to a socket, which
// only the socket's user has, or by a certificate.
func IsOperator(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return local != nil && local.Network() == "unix" || certified(r) && clientOf(r).Role == listener.Configure
}

// guard lets clients in, and logs what they change.
func (s *Server) guard(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := r.Method + " " + r.URL.Path
		changes := r.Method != http.MethodGet && r.Method != http.MethodHead && !slices.Contains(harmless, what)
		client := clientOf(r)
		if err := s.admit(r, client, changes); err != nil {
			if changes && s.log != nil && certified(r) { // others could fill the log
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
		defer reader.extend() // for what is sent when all is said
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

// admit says why a client may not do what it asks for.
func (s *Server) admit(r *http.Request, client listener.Client, changes bool) error {
	switch {
	case client.Role == listener.Configure, client.Role == listener.Read && !changes, slices.Contains(public, r.URL.Path) && !changes:
		return nil
	case !certified(r):
		return errors.New("over TCP, this is for clients with a certificate: use the program's socket, or give the program " +
			"--tls-cert-file, --tls-key-file and --tls-client-ca-file")
	}
	role := "contiv:read"
	if changes {
		role = "contiv:configure"
	}
	return fmt.Errorf("the %s does not allow this: it needs the organization %s, or give the program --tls-client-role", client.Name, role)
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

func certified(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }

type clientKey struct{}

// withClient remembers how to find out who is at the other end of a connection.
func (s *Server) withClient(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, clientKey{}, func() listener.Client { return s.options.Client(conn) })
}

// clientOf is who made the request: without a Server, only a name, the address.
func clientOf(r *http.Request) listener.Client {
	if client, ok := r.Context().Value(clientKey{}).(func() listener.Client); ok {
		return client()
	}
	return listener.Client{Name: r.RemoteAddr}
}
