package vpp

import (
	"errors"
	"strings"
	"testing"

	"go.fd.io/govpp/binapi/interface_types"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/kvscheduler"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"google.golang.org/protobuf/proto"
)

// dpdkDevice is the other end of a DPDK NIC.
const dpdkDevice = "wire"

type serverWithNIC struct{ *vpptest.Server }

func (s serverWithNIC) Restart() {
	s.Server.Restart()
	s.AddNIC(vpptest.DPDKName)
}

// onEachDPDK runs a test on a simulated VPP with a NIC and, if available, on a real one.
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
		wantInterfaces(t, v) // not owned by the driver yet
		err := v.Interfaces().Create(t.Context(), nic("GigabitEthernet0/8/0"))
		if err == nil || !strings.Contains(err.Error(), "VPP itself drives "+vpptest.DPDKName+", and no device") {
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

// A NIC that VPP lists but could not initialize fails repeatedly and does not count as up.
func TestBrokenNICOfDPDK(t *testing.T) {
	test := func(t *testing.T, s vpptest.VPP, name string) {
		v := open(t, s)
		for range 2 {
			err := v.Interfaces().Create(t.Context(), nic(name))
			if err == nil || !strings.Contains(err.Error(), "could not initialize the network card: rte_eth_rx_queue_setup[port:0, errno:-12]") {
				t.Errorf("got error %v", err)
			}
			i, err := v.ifs.Index(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			// VPP refuses to set it up, but reports it as up from then on.
			_ = v.vpp.Call(t.Context(), session.Core, &interfaces_api.SwInterfaceSetFlags{SwIfIndex: i, Flags: interface_types.IF_STATUS_API_FLAG_ADMIN_UP}, &interfaces_api.SwInterfaceSetFlagsReply{})
			if d, err := v.ifs.Details(t.Context(), i); err != nil || d.Flags&interface_types.IF_STATUS_API_FLAG_ADMIN_UP == 0 {
				t.Errorf("VPP has %v, %v, want it up", d, err)
			}
		}
		found, err := v.Interfaces().List(t.Context(), []*vpp_interfaces.Interface{nic(name)})
		if err != nil || len(found) != 1 || found[0].GetEnabled() {
			t.Errorf("found %v, %v: want it down", found, err)
		}
	}
	t.Run("server", func(t *testing.T) {
		s := vpptest.New(t)
		s.AddBrokenNIC("Ethernet0")
		test(t, s, "Ethernet0")
	})
	t.Run("process", func(t *testing.T) {
		vpptest.NeedDPDK(t)
		h := newNamespace(t)
		h.Exec(t, "ip link add name eth0 type veth peer name eth1")
		broken := vpptest.DPDKBroken("eth0")
		test(t, vpptest.NewDPDKProcess(t, h.NetNS, broken, func() {}), broken.Name)
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
		// Most DPDK drivers only support polling.
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

// TestPacketsByDPDK sends packets from the stack of VPP's namespace, the NIC's other end.
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
