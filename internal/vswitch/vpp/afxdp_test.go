package vpp

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	interfaces_api "go.fd.io/govpp/binapi/interface"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"go.fd.io/govpp/binapi/interface_types"
)

func openXDP(t testing.TB, s vpptest.VPP, device string) *VSwitch {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	v, err := New(ctx, Options{Socket: s.Socket(), XDPDevices: []string{device}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

func TestDeviceTakenOverByXDP(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		s.addDevice(t, "eth0")
		v := openXDP(t, s, "eth0")
		if _, err := v.vpp.Use(session.Core); err != nil {
			t.Skip(err)
		}
		iface := nic("eth0")
		create(t, v, iface, iface)
		names := func(v *VSwitch) (names []string) {
			found, err := v.Interfaces().List(t.Context(), []*vpp_interfaces.Interface{iface})
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range found {
				names = append(names, i.GetName()+" "+i.GetType().String())
			}
			return names
		}
		want := []string{"eth0 DPDK"}
		if got := names(v); !slices.Equal(got, want) {
			t.Errorf("found %v, want %v", got, want)
		}
		v.Close()
		v = openXDP(t, s, "eth0")
		if got := names(v); !slices.Equal(got, want) {
			t.Errorf("another agent found %v, want %v", got, want)
		}
		for range 2 {
			if err := v.Interfaces().Delete(t.Context(), iface); err != nil {
				t.Fatal(err)
			}
		}
		if got := names(v); len(got) > 0 {
			t.Errorf("deleted, but found: %v", got)
		}
		// The kernel releases the device asynchronously.
		err := v.Interfaces().Create(t.Context(), iface)
		for end := time.Now().Add(pingTime); err != nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			err = v.Interfaces().Create(t.Context(), iface)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func TestPacketsByXDP(t *testing.T) {
	s, v := newRealSite(t)
	if _, err := v.vpp.Use(session.Core); err != nil {
		t.Skip(err)
	}
	v.Close()
	v = openXDP(t, s, "eth0")
	peer := newNamespace(t)
	s.addTo(t, peer, "eth0", "10.3.0.2/24")
	create(t, v, nic("eth0"))
	if err := v.Interfaces().AddAddress(t.Context(), "eth0", netip.MustParsePrefix("10.3.0.1/24")); err != nil {
		t.Fatal(err)
	}
	ping(t, peer, "10.3.0.1")
	in := inVPP(t, v, "eth0")
	if link := s.host.Exec(t, "ip -o link show eth0"); in == nil || !strings.Contains(link, in.L2Address.String()) {
		t.Errorf("VPP has %+v, want the MAC of the device: %s", in, link)
	}
	if queues, err := session.Dump[interfaces_api.SwInterfaceRxPlacementDetails](t.Context(), v.vpp, session.Core, &interfaces_api.SwInterfaceRxPlacementDump{SwIfIndex: ownership.NoIndex}); err != nil || len(queues) != 1 || queues[0].Mode != interface_types.RX_MODE_API_INTERRUPT {
		t.Errorf("queues %v, %v: want one with interrupts", queues, err)
	}
}

// inVPP returns an interface by VPP's name, or nil.
func inVPP(t testing.TB, v *VSwitch, name string) *interfaces_api.SwInterfaceDetails {
	t.Helper()
	all, err := session.Dump[interfaces_api.SwInterfaceDetails](t.Context(), v.vpp, session.Core, &interfaces_api.SwInterfaceDump{SwIfIndex: ownership.NoIndex})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.InterfaceName == name {
			return d
		}
	}
	return nil
}

// With AF_XDP, the host would not receive the packets that keep its lease.
func TestDeviceWithLeaseIsNotTakenOverByXDP(t *testing.T) {
	s, v := newRealSite(t)
	v.Close()
	v = openXDP(t, s, "eth0")
	s.addDevice(t, "eth0")
	s.host.Exec(t, "ip addr add 10.3.0.9/24 dev eth0 valid_lft 3600 preferred_lft 3600")
	create(t, v, nic("eth0"))
	if inVPP(t, v, "host-eth0") == nil {
		t.Errorf("VPP has it not by AF_PACKET, but as %+v", inVPP(t, v, "eth0"))
	}
}
