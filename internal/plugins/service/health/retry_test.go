package health

import (
	"net"
	"net/netip"
	"testing"

	"github.com/contiv/contiv/internal/plugins/service/processor"
)

func TestRetry(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port, healthy := netip.MustParseAddrPort(taken.Addr().String()).Port(), true
	s := newServer(t, &healthy)
	s.Set([]processor.HealthCheck{{ID: processor.ID{Namespace: "default", Name: "web"}, Port: port, Endpoints: 1}}, []netip.Addr{netip.MustParseAddr("127.0.0.1")})
	s.Retry()
	if len(s.Problems()) != 1 {
		t.Errorf("while it is taken: %q", s.Problems())
	}
	taken.Close()
	s.Retry()
	if _, _, err := get("127.0.0.1", port); err != nil || len(s.Problems()) > 0 {
		t.Errorf("once the port is free: %v, problems %q", err, s.Problems())
	}
	s.Set(nil, nil)
	s.Retry()
	if _, _, err := get("127.0.0.1", port); err == nil {
		t.Error("an unneeded port is opened")
	}
}
