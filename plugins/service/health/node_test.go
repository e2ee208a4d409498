package health

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
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
