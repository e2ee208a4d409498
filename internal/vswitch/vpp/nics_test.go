package vpp

import (
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
)

func TestNICsOfDPDK(t *testing.T) {
	onEachDPDK(t, func(t *testing.T, s *site) {
		v := open(t, s)
		for range 2 {
			if names, err := v.NICs(t.Context()); err != nil || !slices.Equal(names, []string{vpptest.DPDKName}) {
				t.Errorf("network cards %v, %v; want %s", names, err, vpptest.DPDKName)
			}
			create(t, v, nic(vpptest.DPDKName), loopback("lo"))
		}
	})
}

func TestNICsAreInTheOrderOfVPP(t *testing.T) {
	server := vpptest.New(t)
	s := &site{VPP: server, server: server}
	server.AddNIC("GigabitEthernet0/9/0")
	server.AddNIC("GigabitEthernet0/8/0")
	v := open(t, s)
	want := []string{"GigabitEthernet0/9/0", "GigabitEthernet0/8/0"} // in VPP's order
	wantNICs := func() {
		t.Helper()
		if names, err := v.NICs(t.Context()); err != nil || !slices.Equal(names, want) {
			t.Errorf("network cards %v, %v; want %v", names, err, want)
		}
	}
	wantNICs()
	create(t, v, nic(want[1]), loopback("lo"))
	wantNICs()
	for index, name := range want {
		if got, err := v.NIC(t.Context(), uint32(index)+1); err != nil || got != name {
			t.Errorf("network card %d is %s, %v; want %s", index+1, got, err, name)
		}
	}
	for _, index := range []uint32{0, 3, 7} { // local0, a loopback, none
		if got, err := v.NIC(t.Context(), index); err == nil || !strings.Contains(err.Error(), "1 (GigabitEthernet0/9/0), 2 (GigabitEthernet0/8/0)") {
			t.Errorf("network card %d is %s, %v", index, got, err)
		}
	}
}

// A VPP without DPDK has none.
func TestNoNICs(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		s.addDevice(t, "v1nic")
		v := open(t, s)
		create(t, v, afPacket("port", "v1nic"), loopback("lo"))
		if names, err := v.NICs(t.Context()); err != nil || len(names) > 0 {
			t.Errorf("network cards %v, %v", names, err)
		}
	})
}
