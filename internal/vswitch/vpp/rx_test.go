package vpp

import (
	"errors"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	interfaces_api "go.fd.io/govpp/binapi/interface"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"go.fd.io/govpp/binapi/interface_types"
)

func TestRxQueues(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		s.addDevice(t, "v1rx")
		v := open(t, s)
		create(t, v, afPacket("port", "v1rx"))
		type mode = vpp_interfaces.Interface_RxMode
		const interrupt, polling = vpp_interfaces.Interface_RxMode_INTERRUPT, vpp_interfaces.Interface_RxMode_POLLING
		for _, modes := range [][]*mode{{{Mode: interrupt, DefaultMode: true}}, {{Mode: polling}}, {{Mode: polling}, {Mode: interrupt, DefaultMode: true}}} {
			if err := v.RxQueues().SetModes(t.Context(), "port", modes); err != nil {
				t.Errorf("%v: %v", modes, err)
			}
		}
		if err := v.RxQueues().SetModes(t.Context(), "port", []*mode{{Mode: polling, Queue: 9}}); !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("queue 9: got %v, want %v", err, kvscheduler.ErrUnsupported)
		}
		if err := v.RxQueues().UnsetModes(t.Context(), "port"); err != nil {
			t.Error(err)
		}
		if err := v.RxQueues().UnsetModes(t.Context(), "nothing"); err != nil {
			t.Error(err)
		}
		if err := v.RxQueues().Place(t.Context(), "port", &vpp_interfaces.Interface_RxPlacement{MainThread: true}); err != nil {
			t.Error(err)
		}
		if err := v.RxQueues().Place(t.Context(), "port", &vpp_interfaces.Interface_RxPlacement{Worker: 7}); !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("a worker that VPP has not: got %v, want %v", err, kvscheduler.ErrUnsupported)
		}
	})
}

func TestRxQueuesAreReadBack(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		s.addDevice(t, "v1rd")
		v := open(t, s)
		port := afPacket("port", "v1rd")
		create(t, v, port)
		type mode = vpp_interfaces.Interface_RxMode
		const interrupt, polling = vpp_interfaces.Interface_RxMode_INTERRUPT, vpp_interfaces.Interface_RxMode_POLLING
		port.RxModes = []*mode{{Mode: polling, DefaultMode: true}}
		port.RxPlacements = []*vpp_interfaces.Interface_RxPlacement{{MainThread: true}}
		set := func(modes ...*mode) {
			t.Helper()
			if err := v.RxQueues().SetModes(t.Context(), "port", modes); err != nil {
				t.Fatal(err)
			}
		}
		set(port.GetRxModes()...)
		wantInterfaces(t, v, port)

		set(&mode{Mode: interrupt}) // like a foreign client
		found := func() *vpp_interfaces.Interface {
			t.Helper()
			all, err := v.Interfaces().List(t.Context(), []*vpp_interfaces.Interface{port})
			if err != nil || len(all) != 1 {
				t.Fatalf("found %v, %v", all, err)
			}
			return all[0]
		}
		if got := found().GetRxModes(); len(got) != 1 || got[0].GetMode() != interrupt {
			t.Errorf("found %v after the mode was changed", got)
		}
		port.RxModes = []*mode{{Mode: polling, DefaultMode: true}, {Mode: interrupt}}
		wantInterfaces(t, v, port)
		port.RxPlacements = []*vpp_interfaces.Interface_RxPlacement{{Worker: 3}}
		if got := found().GetRxPlacements(); len(got) != 1 || !got[0].GetMainThread() {
			t.Errorf("found %v, want the main thread", got)
		}
	})
}

// VPP may sleep until packets arrive, initially and after a mode is deleted.
func TestInterruptsAreTheDefault(t *testing.T) {
	modeOf := func(t *testing.T, v *VSwitch) interface_types.RxMode {
		t.Helper()
		all, err := session.Dump[interfaces_api.SwInterfaceRxPlacementDetails](t.Context(), v.vpp, session.Core, &interfaces_api.SwInterfaceRxPlacementDump{SwIfIndex: ownership.NoIndex})
		if err != nil || len(all) != 1 {
			t.Fatalf("found %v, %v", all, err)
		}
		return all[0].Mode
	}
	test := func(t *testing.T, s *site, port *vpp_interfaces.Interface) {
		v := open(t, s)
		create(t, v, port)
		if got := modeOf(t, v); got != interface_types.RX_MODE_API_INTERRUPT {
			t.Errorf("at first: %v", got)
		}
		if err := v.RxQueues().SetModes(t.Context(), "port", []*vpp_interfaces.Interface_RxMode{{Mode: vpp_interfaces.Interface_RxMode_POLLING, DefaultMode: true}}); err != nil {
			t.Fatal(err)
		}
		if got := modeOf(t, v); got != interface_types.RX_MODE_API_POLLING {
			t.Errorf("when polling is requested: %v", got)
		}
		if err := v.RxQueues().UnsetModes(t.Context(), "port"); err != nil {
			t.Fatal(err)
		}
		if got := modeOf(t, v); got != interface_types.RX_MODE_API_INTERRUPT {
			t.Errorf("when it is not any more: %v", got)
		}
	}
	t.Run("AF_PACKET", func(t *testing.T) {
		onEachVPP(t, func(t *testing.T, s *site) {
			s.addDevice(t, "v1in")
			test(t, s, afPacket("port", "v1in"))
		})
	})
	t.Run("TAP", func(t *testing.T) {
		onEachVPPWithTaps(t, func(t *testing.T, s *site) {
			test(t, s, tapWith("port", &vpp_interfaces.TapLink{Version: 2}))
		})
	})
}

func TestIP6NDIsSetAndUnset(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		s.addDevice(t, "v1nd")
		v := open(t, s)
		port := afPacket("port", "v1nd")
		create(t, v, port)
		port.Ip6Nd = &vpp_interfaces.Interface_IP6ND{AddressAutoconfig: true, InstallDefaultRoutes: true}
		for range 2 {
			if err := v.Interfaces().SetIP6ND(t.Context(), "port", port.GetIp6Nd()); err != nil {
				t.Fatal(err)
			}
		}
		wantInterfaces(t, v, port)
		for range 2 {
			if err := v.Interfaces().UnsetIP6ND(t.Context(), "port"); err != nil {
				t.Fatal(err)
			}
		}
	})
}
