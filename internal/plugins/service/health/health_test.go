package health

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/service/processor"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String()).Port()
}

func newServer(t *testing.T, healthy *bool) *Server {
	t.Helper()
	s := New(func() bool { return *healthy }, slog.New(slog.NewTextHandler(io.Discard, nil)))
	t.Cleanup(s.Close)
	return s
}

func get(host string, port uint16) (*http.Response, string, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + net.JoinHostPort(host, strconv.Itoa(int(port))) + "/healthz")
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, string(body), err
}

func TestLoadBalancersAreToldOfLocalEndpoints(t *testing.T) {
	healthy, port := true, freePort(t)
	s := newServer(t, &healthy)
	id := processor.ID{Namespace: "default", Name: "web"}
	for _, test := range []struct {
		endpoints int
		healthy   bool
		status    int
	}{{2, true, 200}, {0, true, 503}, {1, true, 200}, {1, false, 503}} {
		healthy = test.healthy
		s.Set([]processor.HealthCheck{{ID: id, Port: port, Endpoints: test.endpoints}}, nil)
		for _, host := range []string{"127.0.0.1", "::1"} {
			response, body, err := get(host, port)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{
				"service":        map[string]any{"namespace": "default", "name": "web"},
				"localEndpoints": float64(test.endpoints), "serviceProxyHealthy": test.healthy,
			}
			var got map[string]any
			if err := json.Unmarshal([]byte(body), &got); err != nil || !reflect.DeepEqual(got, want) || response.StatusCode != test.status {
				t.Errorf("%+v at %s: %s %s (%v)", test, host, response.Status, body, err)
			}
			for header, want := range map[string]string{
				"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "X-Load-Balancing-Endpoint-Weight": strconv.Itoa(test.endpoints),
			} {
				if got := response.Header.Get(header); got != want {
					t.Errorf("%s is %q, want %q", header, got, want)
				}
			}
		}
	}
	s.Set(nil, nil)
	if response, _, err := get("127.0.0.1", port); err == nil {
		t.Errorf("a service that is gone: %s", response.Status)
	}
}

func TestOnlyAddressesForNodePortsAnswer(t *testing.T) {
	healthy, port := true, freePort(t)
	s := newServer(t, &healthy)
	check := []processor.HealthCheck{{Port: port, Endpoints: 1}}
	s.Set(check, []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")})
	for host, want := range map[string]bool{"127.0.0.1": true, "::1": true, "127.0.0.2": false} {
		if _, _, err := get(host, port); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
	s.Set(check, []netip.Addr{netip.MustParseAddr("127.0.0.2")})
	for host, want := range map[string]bool{"127.0.0.1": false, "::1": false, "127.0.0.2": true} {
		if _, _, err := get(host, port); (err == nil) != want {
			t.Errorf("after a change, %s: %v", host, err)
		}
	}
}

func TestPortInUseIsToldAndTriedAgain(t *testing.T) {
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port, healthy := netip.MustParseAddrPort(taken.Addr().String()).Port(), true
	s := newServer(t, &healthy)
	check := []processor.HealthCheck{{ID: processor.ID{Namespace: "default", Name: "web"}, Port: port, Endpoints: 1}}
	s.Set(check, nil)
	if got := s.Problems(); len(got) != 1 || !strings.Contains(got[0], "default/web") || !strings.Contains(got[0], "in use") {
		t.Errorf("problems: %q", got)
	}
	taken.Close()
	s.Set(check, nil)
	if _, _, err := get("127.0.0.1", port); err != nil || len(s.Problems()) > 0 {
		t.Errorf("once the port is free: %v, problems %q", err, s.Problems())
	}
}
