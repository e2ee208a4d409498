package vpp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/kvscheduler"
	"go.fd.io/govpp/binapi/tapv2"
	"google.golang.org/protobuf/proto"
)

// onEachVPPWithTaps is onEachVPP without a real VPP on machines where VPP cannot create TAPs.
func onEachVPPWithTaps(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	onEachVPP(t, func(t *testing.T, s *site) {
		if s.server == nil && !vhostNet() {
			t.Skip("this machine has no /dev/vhost-net, without which VPP makes no TAPs: modprobe vhost_net")
		}
		test(t, s)
	})
}

func tapWith(name string, link *vpp_interfaces.TapLink) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true, Link: &vpp_interfaces.Interface_Tap{Tap: link}}
}

func TestTapsAreReadBackAsCreated(t *testing.T) {
	onEachVPPWithTaps(t, func(t *testing.T, s *site) {
		v := open(t, s)
		plain, special := tapWith("plain", &vpp_interfaces.TapLink{Version: 2}),
			tapWith("special", &vpp_interfaces.TapLink{HostIfName: "far", RxRingSize: 512, TxRingSize: 1024})
		plain.PhysAddress, plain.Mtu = "02:01:00:00:00:01", 1450
		tunnel := tapWith("tunnel", &vpp_interfaces.TapLink{Version: 2, EnableTunnel: true})
		for range 2 {
			create(t, v, plain, special, tunnel)
			wantInterfaces(t, v, plain, special, tunnel)
		}
		changed := proto.CloneOf(special)
		changed.GetTap().RxRingSize = 2048
		create(t, v, changed) // the earlier attempt's has other parameters
		wantInterfaces(t, v, plain, changed, tunnel)
		changes := reasons(t, v)
		s.Restart()
		<-changes
		wantInterfaces(t, v)
		create(t, v, plain, changed, tunnel) // with equal names of far ends
		wantInterfaces(t, v, plain, changed, tunnel)
		for _, iface := range []*vpp_interfaces.Interface{plain, changed, tunnel} {
			remove(t, v, iface)
		}
		wantInterfaces(t, v)
	})
}

// A packet that VPP does not segment would stop an AF_PACKET interface for good.
func TestTapsForLargePacketsAreRefused(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		err := v.Interfaces().Create(t.Context(), tapWith("tap", &vpp_interfaces.TapLink{Version: 2, EnableGso: true}))
		if !errors.Is(err, kvscheduler.ErrUnsupported) || !strings.Contains(err.Error(), "leave enableGSO out") {
			t.Errorf("got %v", err)
		}
		wantInterfaces(t, v)
	})
}

// The far end of a TAP is created in the requested namespace and waits there. A deleted one is
// detected.
func TestFarEndsOfTaps(t *testing.T) {
	onEachVPPWithTaps(t, func(t *testing.T, s *site) {
		if s.server != nil {
			t.Skip("the simulated VPP makes no devices: make test-vpp")
		}
		pod := newNamespace(t)
		v := open(t, s)
		tap := tapWith("tap", &vpp_interfaces.TapLink{Version: 2, HostNamespace: &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_FD, Reference: pod.NetNS}})
		tap.Mtu = 1400
		far := hostEnd(tap)
		create(t, v, tap)
		wantInterfaces(t, v, tap)
		if link := pod.Exec(t, "ip -o link show dev "+far); !strings.Contains(link, "mtu 1400") || strings.Contains(link, ",UP") {
			t.Errorf("the far end is %s, want MTU 1400, down", link)
		}
		pod.Exec(t, "ip link set dev "+far+" name eth0")
		wantInterfaces(t, v, tap) // with any current name
		pod.Exec(t, "ip link del dev eth0")
		got, err := v.Interfaces().List(t.Context(), []*vpp_interfaces.Interface{tap})
		if err != nil || len(got) != 1 || proto.Equal(got[0].GetTap(), tap.GetTap()) {
			t.Errorf("found %v, %v, want a TAP that is not the one that is wanted", got, err)
		}
		create(t, v, tap)
		wantInterfaces(t, v, tap)
		pod.Exec(t, "ip link show dev "+far)
		remove(t, v, tap)
		if _, err := pod.Try("ip link show dev " + far); err == nil {
			t.Error("the far end is there after the TAP was removed")
		}
	})
}

func TestTapThatVPPHasNoBuffersForIsRefused(t *testing.T) {
	onEachVPPWithTaps(t, func(t *testing.T, s *site) {
		if s.server != nil {
			s.server.SetBuffers(vpptest.ProcessBuffers)
		}
		v := open(t, s)
		const rings = vpptest.ProcessBuffers/2048 - 1
		var list []*vpp_interfaces.Interface
		for i := range rings {
			list = append(list, tapWith(fmt.Sprintf("tap%d", i), &vpp_interfaces.TapLink{Version: 2, RxRingSize: 2048}))
		}
		create(t, v, list...)
		one := tapWith("one", &vpp_interfaces.TapLink{Version: 2, RxRingSize: 2048})
		if err := v.Interfaces().Create(t.Context(), one); err == nil || !strings.Contains(err.Error(), "tapv2RxRingSize") {
			t.Errorf("got %v, want an error that says what to change", err)
		}
		remove(t, v, list[0])
		create(t, v, one)
		wantInterfaces(t, v, append(list[1:], one)...)
		taps, err := session.Dump[tapv2.SwInterfaceTapV2Details](t.Context(), v.vpp, session.Core, &tapv2.SwInterfaceTapV2Dump{SwIfIndex: ^ownership.Index(0)})
		if err != nil || len(taps) != rings {
			t.Errorf("VPP has %d TAPs, %v, want %d", len(taps), err, rings)
		}
	})
}
