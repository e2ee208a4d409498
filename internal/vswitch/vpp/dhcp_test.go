package vpp

import (
	"context"
	"net/netip"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
)

// lessor assigns and revokes a leased address of the interface "uplink".
type lessor struct {
	give func(addr netip.Prefix, router netip.Addr)
	take func()
}

func newLessor(t *testing.T, s *site) lessor {
	t.Helper()
	if s.server != nil {
		s.server.AddDevice("v1up")
		return lessor{
			func(addr netip.Prefix, router netip.Addr) { s.server.Lease("uplink", addr, router) },
			func() { s.server.Lease("uplink", netip.Prefix{}, netip.Addr{}) },
		}
	}
	h := newNamespace(t)
	s.addTo(t, h, "v1up", "10.9.0.1/24")
	server := vswitchtest.NewDHCPServer(t, h, "eth0", netip.MustParseAddr("10.9.0.1"))
	return lessor{
		func(addr netip.Prefix, router netip.Addr) {
			server.Up(t, vswitchtest.DHCPOffer{Address: addr, Router: router, Length: 4 * time.Second})
		},
		server.Down,
	}
}

func TestDHCPClientsReportTheirLeases(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		l := newLessor(t, s)
		v := open(t, s)
		leases := make(chan *vpp_interfaces.DHCPLease, 100)
		v.WatchLeases(func(iface string, lease *vpp_interfaces.DHCPLease) {
			if iface != "uplink" {
				t.Errorf("a lease of %s", iface)
			}
			leases <- lease
		})
		next := func() *vpp_interfaces.DHCPLease {
			t.Helper()
			select {
			case lease := <-leases:
				return lease
			case <-time.After(30 * time.Second):
				t.Fatal("no lease is reported")
				return nil
			}
		}
		uplink := afPacket("uplink", "v1up")
		create(t, v, uplink)
		for range 2 {
			if err := v.Interfaces().SetDHCPClient(t.Context(), "uplink"); err != nil {
				t.Fatal(err)
			}
		}
		addr, router := netip.MustParsePrefix("10.9.0.7/24"), netip.MustParseAddr("10.9.0.1")
		l.give(addr, router)
		lease := next()
		if lease.GetHostIpAddress() != addr.String() || lease.GetRouterIpAddress() != "10.9.0.1/24" || lease.GetHostPhysAddress() == "" {
			t.Errorf("leased: %v", lease)
		}
		uplink.SetDhcpClient = true
		wantInterfaces(t, v, uplink) // the leased address is not a configured one
		if list, err := v.Interfaces().Leases(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("leases %v, error %v", list, err)
		}

		// A restarted agent finds the client and the lease.
		v.Close()
		v = open(t, s)
		v.WatchLeases(func(_ string, lease *vpp_interfaces.DHCPLease) { leases <- lease })
		wantInterfaces(t, v, uplink)
		if lease := next(); lease.GetHostIpAddress() != addr.String() {
			t.Errorf("found: %v", lease)
		}
		l.take()
		if lease := next(); lease != nil {
			t.Errorf("after the lease has run out: %v", lease)
		}
		for range 2 {
			if err := v.Interfaces().UnsetDHCPClient(context.Background(), "uplink"); err != nil {
				t.Fatal(err)
			}
		}
		uplink.SetDhcpClient = false
		wantInterfaces(t, v, uplink)
	})
}
