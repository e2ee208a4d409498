package service_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/test/await"
)

// The other proxy releases the ports when it ends.
func TestPortsForLoadBalancersBecomeFree(t *testing.T) {
	var taken []net.Listener
	var ports []uint16
	for range 2 {
		l, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		taken, ports = append(taken, l), append(ports, netip.MustParseAddrPort(l.Addr().String()).Port())
	}
	cfg, err := config.Load(fmt.Appendf(nil, "services: auto\nhealthzBindAddress: 0.0.0.0:%d", ports[0]))
	if err != nil {
		t.Fatal(err)
	}
	s, err := service.New(service.Capabilities{HostStackShared: true, ClientScopes: true, ResetsConnections: true}, fake{}, fake{}, service.Roles{Proxy: newCluster().proxy(cfg)}, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	web := webService()
	web.ServiceType, web.ExternalTrafficPolicy, web.HealthCheckNodePort = "LoadBalancer", "Local", int32(ports[1])
	resync(t, s, state(web))
	if problems := s.Warnings(); len(problems) != 2 {
		t.Fatalf("while the ports are taken: %q", problems)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { s.WatchOtherProxies(ctx, 10*time.Millisecond, func() error { return nil }) })
	defer watching.Wait()
	defer cancel()
	for _, l := range taken {
		l.Close()
	}
	await.That(t, "the ports are open", func() error {
		if problems := s.Warnings(); len(problems) > 0 {
			return fmt.Errorf("%q", problems)
		}
		return nil
	})
}
