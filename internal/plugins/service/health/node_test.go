package health

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/contiv/contiv/internal/plugins/service/processor"
)

func TestLoadBalancersAreToldOfTheNode(t *testing.T) {
	healthy, port := true, freePort(t)
	n := NewNode(net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))), func() bool { return healthy }, slog.New(slog.NewTextHandler(io.Discard, nil)))
	t.Cleanup(n.Close)
	if _, _, err := get("127.0.0.1", port); err == nil {
		t.Error("it listens before it is enabled")
	}
	n.Serve(true)
	n.Serve(true)
	for _, want := range []int{200, 503, 200} {
		healthy = want == 200
		response, body, err := get("127.0.0.1", port)
		var answer map[string]any
		if err != nil || response.StatusCode != want || json.Unmarshal([]byte(body), &answer) != nil || answer["nodeEligible"] != true || answer["currentTime"] == nil {
			t.Errorf("got %v %s %v, want %d", response, body, err, want)
		}
	}
	second := NewNode(n.address, n.healthy, n.log)
	second.Serve(true)
	if problem := second.Problem(); !strings.Contains(problem, "healthzBindAddress: listen tcp 127.0.0.1:") {
		t.Errorf("a port in use: %q", problem)
	}
	n.Serve(false)
	second.Serve(true)
	if _, _, err := get("127.0.0.1", port); err != nil || second.Problem() != "" {
		t.Errorf("the port is free again: %v, %q", err, second.Problem())
	}
	second.Close()
	never := NewNode("", n.healthy, n.log)
	never.Serve(true)
	if never.server != nil || never.Problem() != "" {
		t.Error("it listens without an address")
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	healthy, port := true, freePort(t)
	n := NewNode(net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))), func() bool { return healthy }, slog.New(slog.DiscardHandler))
	defer n.Close()
	n.Serve(true)
	check := freePort(t)
	s := newServer(t, &healthy)
	s.Set([]processor.HealthCheck{{Port: check, Endpoints: 1}}, nil)
	for name, server := range map[string]*http.Server{"node": n.server, "service": s.ports[check].server} {
		var closed atomic.Int32
		for range maxConnections + 3 {
			server.ConnState(&fakeConn{closed: &closed}, http.StateNew)
		}
		for closed.Load() < 3 { // they are closed in the background
			runtime.Gosched()
		}
		if n := closed.Load(); n != 3 {
			t.Errorf("%s: %d connections closed, want 3", name, n)
		}
	}
}

type fakeConn struct {
	net.Conn
	closed *atomic.Int32
}

func (c *fakeConn) Close() error {
	c.closed.Add(1)
	return nil
}
