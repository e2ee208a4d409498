package rest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/rest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServeOnSocketAndPort(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "new", "agent.sock")
	server, err := rest.Listen(listener.Options{AllowUnauthenticated: true}, nil, "unix://"+socket, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- server.Serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			rest.Error(w, http.StatusNotFound, errors.New("no such thing"))
		}))
	}()

	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info, err)
	}
	for _, addr := range server.Addrs() {
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial(addr.Network(), addr.String())
		}}
		response, err := (&http.Client{Transport: transport}).Get("http://agent/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		transport.CloseIdleConnections()
		if response.StatusCode != http.StatusNotFound || !strings.Contains(string(body), `"Error": "no such thing"`) {
			t.Errorf("%s: %d %s", addr, response.StatusCode, body)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
