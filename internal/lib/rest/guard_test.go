package rest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/listener/listenertest"
	"github.com/contiv/contiv/internal/lib/rest"
)

// Over TCP, clients without a certificate may only read the health of the program. Changes are
// logged with the client.
func TestPermissions(t *testing.T) {
	a := listenertest.NewAuthority(t)
	cert, key := a.Issue("server")
	withoutCertificate := a.Client("")
	withCA := listener.Options{CertFile: cert, KeyFile: key, ClientCAFile: a.CAFile()}
	withRoles := withCA
	withRoles.Roles = map[string]string{"alice": "configure", listener.Everybody: "read"}
	socket := "unix://" + filepath.Join(t.TempDir(), "agent.sock")
	for _, test := range []struct {
		name    string
		options listener.Options
		address string
		tls     *tls.Config
		role    listener.Role
		who     string
	}{
		{"socket", listener.Options{}, socket, nil, listener.Configure, fmt.Sprintf("user %d, process ", os.Getuid())},
		{"loopback", listener.Options{}, "127.0.0.1:0", nil, listener.Nothing, ""},
		{"TLS without certificate", listener.Options{CertFile: cert, KeyFile: key}, "127.0.0.1:0", withoutCertificate, listener.Nothing, ""},
		{"certificate to configure", withCA, "127.0.0.1:0", a.Client("ops", "contiv:configure"), listener.Configure, "certificate of ops"},
		{"certificate to read", withCA, "127.0.0.1:0", a.Client("auditor", "contiv:read"), listener.Read, "certificate of auditor"},
		{"certificate without role", withCA, "127.0.0.1:0", a.Client("alice"), listener.Nothing, "certificate of alice"},
		{"certificate with a role here", withRoles, "127.0.0.1:0", a.Client("alice"), listener.Configure, "certificate of alice"},
		{"certificate with everybody's role", withRoles, "127.0.0.1:0", a.Client("bob"), listener.Read, "certificate of bob"},
		{"everybody", listener.Options{AllowUnauthenticated: true}, "127.0.0.1:0", nil, listener.Configure, "127.0.0.1:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			server, err := rest.Listen(test.options, slog.New(slog.NewTextHandler(&log, nil)), test.address)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				done <- server.Serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set(rest.TxnHeader, "7")
					w.WriteHeader(http.StatusAccepted)
				}))
			}()
			addr := server.Addrs()[0]
			transport := &http.Transport{TLSClientConfig: test.tls, DialContext: func(context.Context, string, string) (net.Conn, error) {
				return net.Dial(addr.Network(), addr.String())
			}}
			scheme := "http"
			if test.tls != nil {
				scheme = "https"
			}
			for _, c := range []struct {
				method, path string
				needs        listener.Role
			}{
				{http.MethodGet, "/readiness", listener.Nothing}, {http.MethodGet, "/metrics", listener.Nothing},
				{http.MethodGet, "/scheduler/values", listener.Read}, {http.MethodGet, "/readiness/../scheduler", listener.Read},
				{http.MethodPost, "/scheduler/plan", listener.Read},
				{http.MethodPost, "/controller/resync", listener.Configure},
			} {
				request, err := http.NewRequestWithContext(ctx, c.method, scheme+"://127.0.0.1"+c.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := (&http.Client{Transport: transport}).Do(request)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(response.Body)
				response.Body.Close()
				want := http.StatusForbidden
				if test.role >= c.needs {
					want = http.StatusAccepted
				}
				if response.StatusCode != want || want == http.StatusForbidden && !strings.Contains(string(body), "the program") {
					t.Errorf("%s %s: %d %s", c.method, c.path, response.StatusCode, body)
				}
			}
			transport.CloseIdleConnections()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			message := "Change requested"
			if test.role < listener.Configure {
				message = "Request refused"
			}
			line := strings.ReplaceAll(log.String(), `"`, "")
			switch {
			case test.who == "":
				if line != "" {
					t.Errorf("an anonymous client fills the log: %q", line)
				}
			case strings.Count(line, "\n") != 1 || !strings.Contains(line, "msg="+message+" client="+test.who) || !strings.Contains(line, "request=POST /controller/resync") ||
				strings.Contains(line, "status=202 transaction=7") != (test.role == listener.Configure):
				t.Errorf("the log says %q, want %s of %s", line, message, test.who)
			}
		})
	}
}
