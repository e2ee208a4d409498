package vpp

import (
	"errors"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/vswitch/vpp/vpptest"
	"google.golang.org/protobuf/proto"
)

// dpdkDevice is the other end of a NIC of DPDK.
const dpdkDevice = "wire"

// serverWithNIC has a NIC whenever it starts.
type serverWithNIC struct{ *vpptest.Server }

func (s serverWithNIC) Restart() {
	s.Server.Restart()
	s.AddNIC(vpptest.DPDKName)
}

// onEachDPDK runs a test on the simulated VPP and, if there is one, on a real VPP, that have
// a NIC by themselves.
func onEachDPDK(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	t.Run("server", func(t *testing.T) {
		s := serverWithNIC{vpptest.New(t)}
		s.AddNIC(vpptest.DPDKName)
		test(t, &site{VPP: s, server: s.Server})
	})
	t.Run("process", func(t *testing.T) {
		vpptest.NeedDPDK(t)
		h := newNamespace(t)
		test(t, &site{VPP: vpptest.NewDPDKProcess(t, h.NetNS, vpptest.DPDKTap(dpdkDevice), func() { h.Exec(t, "ip link set dev "+dpdkDevice+" up") }), host: h})
	})
}

func TestNICOfDPDK(t *testing.T) {
	onEachDPDK(t, func(t *testing.T, s *site) {
		v := open(t, s)
		wantInterfaces(t, v) // it is not ours yet
		err := v.Interfaces().Create(t.Context(), nic("GigabitEthernet0/8/0"))
		if err == nil || !strings.Contains(err.Error(), "VPP itself drives "+vpptest.DPDKName+", and there is no device") {
			t.Errorf("a NIC that does not exist: %v", err)
		}
		port := nic(vpptest.DPDKName)
		port.IpAddresses = []string{"10.3.0.1/24"}
		create(t, v, port, port)
		wantInterfaces(t, v, port)

		for _, change := range []func(*vpp_interfaces.Interface){
			func(i *vpp_interfaces.Interface) { i.PhysAddress = "02:00:00:00:00:07" },
			func(i *vpp_interfaces.Interface) { i.Mtu = 1400 },
			func(i *vpp_interfaces.Interface) { i.Mtu = 1500 },
		} {
			changed := proto.CloneOf(port)
			change(changed)
			if err := v.Interfaces().Update(t.Context(), port, changed); err != nil {
				t.Fatal(err)
			}
			port = changed
			wantInterfaces(t, v, port)
		}

		v.Close()
		v = open(t, s) // another agent
		wantInterfaces(t, v, port)

		v.Close()
		s.Restart()
		v = open(t, s)
		wantInterfaces(t, v)
		create(t, v, port)
		wantInterfaces(t, v, port)

		for range 2 {
			if err := v.Interfaces().Delete(t.Context(), port); err != nil {
				t.Fatal(err)
			}
		}
		wantInterfaces(t, v)
		create(t, v, port)
		wantInterfaces(t, v, port)
	})
}

func TestRxQueuesOfDPDK(t *testing.T) {
	onEachDPDK(t, func(t *testing.T, s *site) {
		v := open(t, s)
		create(t, v, nic(vpptest.DPDKName))
		set := func(mode vpp_interfaces.Interface_RxMode_Type) error {
			return v.RxQueues().SetModes(t.Context(), vpptest.DPDKName, []*vpp_interfaces.Interface_RxMode{{Mode: mode, DefaultMode: true}})
		}
		if err := set(vpp_interfaces.Interface_RxMode_POLLING); err != nil {
			t.Error(err)
		}
		// Most of DPDK's drivers can only be polled.
		if err := set(vpp_interfaces.Interface_RxMode_INTERRUPT); !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("interrupt mode: got %v, want %v", err, kvscheduler.ErrUnsupported)
		}
		if err := v.RxQueues().UnsetModes(t.Context(), vpptest.DPDKName); err != nil {
			t.Error(err)
		}
		if err := v.RxQueues().Place(t.Context(), vpptest.DPDKName, &vpp_interfaces.Interface_RxPlacement{MainThread: true}); err != nil {
			t.Error(err)
		}
		if err := v.RxQueues().Place(t.Context(), vpptest.DPDKName, &vpp_interfaces.Interface_RxPlacement{Worker: 7}); !errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Errorf("a worker that VPP has not: got %v, want %v", err, kvscheduler.ErrUnsupported)
		}
	})
}

// TestPacketsByDPDK: what is beyond the NIC is the stack of VPP's namespace.
func TestPacketsByDPDK(t *testing.T) {
	vpptest.NeedDPDK(t)
	h := newNamespace(t)
	s := &site{host: h, VPP: vpptest.NewDPDKProcess(t, h.NetNS, vpptest.DPDKTap(dpdkDevice), func() {
		h.Exec(t, "ip addr add 10.3.0.2/24 dev "+dpdkDevice)
		h.Exec(t, "ip link set dev "+dpdkDevice+" up")
		h.Exec(t, "ip route add 10.1.0.0/24 via 10.3.0.1")
	})}
	v := open(t, s)
	pod := s.attachPod(t, v, "pod", "10.1.0.2/24", "10.1.0.1")
	port := nic(vpptest.DPDKName)
	port.IpAddresses = []string{"10.3.0.1/24"}
	create(t, v, port)
	ping(t, h, "10.1.0.2")
	ping(t, pod, "10.3.0.2")
	short := proto.CloneOf(port)
	short.Mtu = 1400
	if err := v.Interfaces().Update(t.Context(), port, short); err != nil {
		t.Fatal(err)
	}
	if err := h.Ping("10.1.0.2", 1400-28, pingTime); err != nil {
		t.Errorf("packets as long as the MTU: %v", err)
	}
}
