package southbound

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/vswitch"
)

type echo struct{ vswitch.VSwitch }

func (echo) CLI(_ context.Context, command string) (string, error) { return "did " + command, nil }

func TestCommandsForVPPComeFromOperators(t *testing.T) {
	for name, test := range map[string]struct {
		network, body string
		vs            vswitch.VSwitch
		status        int
		answer        string
	}{
		"socket":         {"unix", `{"vppclicommand": " show version "}`, echo{}, http.StatusOK, `"did show version"`},
		"any user":       {"tcp", `{"vppclicommand": "show version"}`, echo{}, http.StatusForbidden, "agent.sock"},
		"empty":          {"unix", `{"vppclicommand": ""}`, echo{}, http.StatusBadRequest, "empty"},
		"two commands":   {"unix", `{"vppclicommand": "show version\nquit"}`, echo{}, http.StatusBadRequest, "several lines"},
		"another body":   {"unix", `{"command": "show version"}`, echo{}, http.StatusBadRequest, "vppclicommand"},
		"another switch": {"unix", `{"vppclicommand": "show version"}`, struct{ vswitch.VSwitch }{}, http.StatusNotImplemented, "kernel"},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			for pattern, handler := range (&Southbound{vs: test.vs, log: plugintest.Logger()}).Handlers() {
				mux.Handle(pattern, handler)
			}
			address := "127.0.0.1:0"
			if test.network == "unix" {
				address = filepath.Join(t.TempDir(), "s")
			}
			l, err := net.Listen(test.network, address)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewUnstartedServer(mux)
			server.Listener.Close()
			server.Listener = l
			server.Start()
			defer server.Close()
			client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, test.network, l.Addr().String())
			}}}
			response, err := client.Post("http://agent"+vppCommandURL, "application/json", strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			answer := make([]byte, 1024)
			n, _ := response.Body.Read(answer)
			if response.StatusCode != test.status || !strings.Contains(string(answer[:n]), test.answer) {
				t.Errorf("%d %s, want %d and %q", response.StatusCode, answer[:n], test.status, test.answer)
			}
		})
	}
}
