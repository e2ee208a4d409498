package rest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/listener"
	"github.com/contiv/contiv/listener/listenertest"
	"github.com/contiv/contiv/rest"
)

// Over TCP, who shows no certificate may look whether the program works, and nothing else;
// what others change is logged with who they are.
func TestWhoMayDoWhat(t *testing.T) {
	a := listenertest.NewAuthority(t)
	cert, key := a.Issue("server")
	withoutCertificate := a.Client("")
	socket := "unix://" + filepath.Join(t.TempDir(), "agent.sock")
	for _, test := range []struct {
		name    string
		options listener.Options
		address string
		tls     *tls.Config
		trusted bool
		who     string
	}{
		{"socket", listener.Options{}, socket, nil, true, "user 0, process "},
		{"loopback", listener.Options{}, "127.0.0.1:0", nil, false, ""},
		{"TLS without certificate", listener.Options{CertFile: cert, KeyFile: key}, "127.0.0.1:0", withoutCertificate, false, ""},
		{"certificate", listener.Options{CertFile: cert, KeyFile: key, ClientCAFile: a.CAFile()}, "127.0.0.1:0", a.Client("ops"), true, "certificate of ops"},
		{"everybody", listener.Options{AllowUnauthenticated: true}, "127.0.0.1:0", nil, true, "127.0.0.1:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, err := rest.Listen(test.options, test.address)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			server.Log = slog.New(slog.NewTextHandler(&log, nil))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				done <- server.Serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
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
				public       bool
			}{
				{http.MethodGet, "/readiness", true}, {http.MethodGet, "/metrics", true},
				{http.MethodGet, "/scheduler/values", false}, {http.MethodGet, "/readiness/../scheduler", false},
				{http.MethodPost, "/controller/resync", false},
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
				if test.trusted || c.public {
					want = http.StatusAccepted
				}
				if response.StatusCode != want || want == http.StatusForbidden && !strings.Contains(string(body), "socket") {
					t.Errorf("%s %s: %d %s", c.method, c.path, response.StatusCode, body)
				}
			}
			transport.CloseIdleConnections()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			lines := strings.Count(log.String(), "\n")
			if test.trusted != (lines == 1) || test.trusted && (!strings.Contains(log.String(), test.who) || !strings.Contains(log.String(), `what="POST /controller/resync" status=202`)) {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
}
