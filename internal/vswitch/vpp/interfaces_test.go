package vpp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/ip"
	"google.golang.org/protobuf/proto"
)

type site struct {
	vpptest.VPP
	server *vpptest.Server   // nil: a real VPP
	host   *vswitchtest.Host // of a real VPP
}

var serial atomic.Int32

// onEachVPP runs a test on the simulated VPP and, if available, on a real one.
func onEachVPP(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	t.Run("server", func(t *testing.T) {
		s := vpptest.New(t)
		test(t, &site{VPP: s, server: s})
	})
	t.Run("process", func(t *testing.T) {
		vpptest.Need(t)
		h := newNamespace(t)
		test(t, &site{VPP: vpptest.NewProcess(t, h.NetNS), host: h})
	})
}

func newNamespace(t testing.TB) *vswitchtest.Host {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	name := fmt.Sprintf("contiv-vpp-%d-%d", os.Getpid(), serial.Add(1))
	root := &vswitchtest.Host{NetNS: "/proc/self/ns/net"}
	root.Exec(t, "ip netns add "+name)
	t.Cleanup(func() { root.Exec(t, "ip netns del "+name) })
	h := &vswitchtest.Host{NetNS: "/var/run/netns/" + name}
	h.Exec(t, "ip link set dev lo up")
	return h
}

func nsName(h *vswitchtest.Host) string { return strings.TrimPrefix(h.NetNS, "/var/run/netns/") }

func (s *site) addDevice(t testing.TB, name string) {
	t.Helper()
	if s.server != nil {
		s.server.AddDevice(name)
		return
	}
	s.host.Exec(t, fmt.Sprintf("ip link add name %s type veth peer name %s-peer", name, name))
}

func (s *site) addTo(t testing.TB, h *vswitchtest.Host, name, addr string) {
	t.Helper()
	s.host.Exec(t, fmt.Sprintf("ip link add name %s type veth peer name eth0 netns %s", name, nsName(h)))
	for _, command := range []string{"ip link set dev eth0 up", "ip addr add " + addr + " dev eth0"} {
		h.Exec(t, command)
	}
}

func loopback(name string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true}
}

func afPacket(name, device string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{
		Name: name, Type: vpp_interfaces.Interface_AF_PACKET, Enabled: true,
		Link: &vpp_interfaces.Interface_Afpacket{Afpacket: &vpp_interfaces.AfpacketLink{HostIfName: device}},
	}
}

func nic(name string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_DPDK, Enabled: true}
}

func vxlanTunnel(name, src, dst string, vni uint32) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{
		Name: name, Type: vpp_interfaces.Interface_VXLAN_TUNNEL, Enabled: true,
		Link: &vpp_interfaces.Interface_Vxlan{Vxlan: &vpp_interfaces.VxlanLink{SrcAddress: src, DstAddress: dst, Vni: vni}},
	}
}

func create(t testing.TB, v *VSwitch, list ...*vpp_interfaces.Interface) {
	t.Helper()
	for _, iface := range list {
		if err := v.Interfaces().Create(t.Context(), iface); err != nil {
			t.Fatal(err)
		}
		for _, addr := range iface.GetIpAddresses() {
			if err := v.Interfaces().AddAddress(t.Context(), iface.GetName(), netip.MustParsePrefix(addr)); err != nil {
				t.Fatal(err)
			}
		}
		if lender := iface.GetUnnumbered().GetInterfaceWithIp(); lender != "" {
			if err := v.Interfaces().SetUnnumbered(t.Context(), iface.GetName(), lender); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// wantInterfaces checks the result of List; MAC and MTU only where given.
func wantInterfaces(t testing.TB, v *VSwitch, want ...*vpp_interfaces.Interface) {
	t.Helper()
	got, err := v.Interfaces().List(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]*vpp_interfaces.Interface{}
	for _, w := range want {
		wanted[w.GetName()] = w
	}
	for _, g := range got {
		w := wanted[g.GetName()]
		delete(wanted, g.GetName())
		g = proto.CloneOf(g)
		if w.GetPhysAddress() == "" {
			g.PhysAddress = ""
		}
		if w.GetMtu() == 0 {
			g.Mtu = 0
		}
		if w.GetUnnumbered() != nil {
			g.Vrf = w.GetVrf()
		}
		slices.Sort(g.IpAddresses)
		if !proto.Equal(g, w) {
			t.Errorf("found %v,\nwant  %v", g, w)
		}
	}
	for name := range wanted {
		t.Errorf("%s is not found", name)
	}
}

// basics returns the kinds of interfaces that every node has, except TAPs, which not every machine
// supports.
func basics() []*vpp_interfaces.Interface {
	gateway, bvi, pod, port := loopback("gateway"), loopback("bvi"), afPacket("pod", "v1pod"), nic("v1nic")
	gateway.IpAddresses = []string{"10.1.1.1/24", "fd00:1::1/64", "fe80::1/64"}
	bvi.Mtu, bvi.PhysAddress, bvi.Enabled = 1450, "12:2b:00:00:00:01", false
	pod.Mtu, pod.PhysAddress = 1450, "02:01:00:00:00:01"
	pod.Unnumbered = &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: "gateway"}
	port.IpAddresses = []string{"192.168.16.1/24"}
	return []*vpp_interfaces.Interface{
		gateway, bvi, pod, port,
		vxlanTunnel("tunnel", "192.168.16.1", "192.168.16.2", 10), vxlanTunnel("tunnel6", "fd00:16::1", "fd00:16::2", 10),
	}
}

func TestInterfacesAreReadBackAsCreated(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		s.addDevice(t, "v1pod")
		s.addDevice(t, "v1nic")
		v := open(t, s)
		list := basics()
		for range 2 {
			create(t, v, list...)
			wantInterfaces(t, v, list...)
		}
		// A restarted agent finds them.
		v.Close()
		v = open(t, s)
		wantInterfaces(t, v, list...)
		create(t, v, list...)
		wantInterfaces(t, v, list...)

		for range 2 {
			for _, iface := range slices.Backward(list) {
				remove(t, v, iface)
			}
		}
		wantInterfaces(t, v)
		if left, err := session.Dump[interfaces_api.SwInterfaceDetails](t.Context(), v.vpp, session.Core, &interfaces_api.SwInterfaceDump{SwIfIndex: ^ownership.Index(0)}); err != nil || len(left) != 1 {
			t.Errorf("left over: %v, error %v, want nothing but local0", left, err)
		}
	})
}

func remove(t testing.TB, v *VSwitch, iface *vpp_interfaces.Interface) {
	t.Helper()
	ctx, port := context.Background(), v.Interfaces() // also when the test has ended
	if iface.GetUnnumbered() != nil {
		if err := port.UnsetUnnumbered(ctx, iface.GetName()); err != nil {
			t.Error(err)
		}
	}
	for _, addr := range iface.GetIpAddresses() {
		if err := port.DeleteAddress(ctx, iface.GetName(), netip.MustParsePrefix(addr)); err != nil {
			t.Error(err)
		}
	}
	if err := port.Delete(ctx, iface); err != nil {
		t.Error(err)
	}
}

func TestUpdateChangesStateMACAndMTU(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		s.addDevice(t, "v1pod")
		v := open(t, s)
		pod, bvi := afPacket("pod", "v1pod"), loopback("bvi")
		create(t, v, pod, bvi)
		for _, old := range []*vpp_interfaces.Interface{pod, bvi} {
			for _, change := range []func(*vpp_interfaces.Interface){
				func(i *vpp_interfaces.Interface) { i.Enabled = false },
				func(i *vpp_interfaces.Interface) { i.Mtu = 1400 },
				func(i *vpp_interfaces.Interface) { i.Mtu = 9200 },
				func(i *vpp_interfaces.Interface) { i.PhysAddress = "02:00:00:00:00:77" },
				func(i *vpp_interfaces.Interface) { i.Enabled = true },
			} {
				next := proto.CloneOf(old)
				change(next)
				for range 2 {
					if err := v.Interfaces().Update(t.Context(), old, next); err != nil {
						t.Fatal(err)
					}
				}
				old = next
			}
			switch old.GetName() {
			case "pod":
				pod = old
			case "bvi":
				bvi = old
			}
			wantInterfaces(t, v, pod, bvi)
		}
	})
}

func TestVRFsOfInterfaces(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		s.addDevice(t, "v1pod")
		v := open(t, s)
		addTable(t, v, 7, false)
		addTable(t, v, 7, true)
		gateway, pod := loopback("gateway"), afPacket("pod", "v1pod")
		create(t, v, gateway, pod)
		gateway.Vrf = 7
		both := vswitch.IPVersions{V4: true, V6: true}
		for range 2 {
			if err := v.Interfaces().SetVRF(t.Context(), "gateway", 7, both); err != nil {
				t.Fatal(err)
			}
		}
		gateway.IpAddresses = []string{"10.1.1.1/24", "fd00:1::1/64"}
		for range 2 {
			for _, addr := range gateway.GetIpAddresses() {
				if err := v.Interfaces().AddAddress(t.Context(), "gateway", netip.MustParsePrefix(addr)); err != nil {
					t.Fatal(err)
				}
			}
		}
		pod.Unnumbered = &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: "gateway"}
		for range 2 { // it follows the lender into its VRF
			if err := v.Interfaces().SetUnnumbered(t.Context(), "pod", "gateway"); err != nil {
				t.Fatal(err)
			}
		}
		wantInterfaces(t, v, gateway, pod)

		remove(t, v, pod)
		for range 2 {
			for _, addr := range gateway.GetIpAddresses() {
				if err := v.Interfaces().DeleteAddress(t.Context(), "gateway", netip.MustParsePrefix(addr)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 2 {
			if err := v.Interfaces().UnsetVRF(t.Context(), "gateway", 7, both); err != nil {
				t.Fatal(err)
			}
		}
		wantInterfaces(t, v, loopback("gateway"))
	})
}

func TestTunnelToAGroupOutlivesItsInterface(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		tunnel := vxlanTunnel("group", "10.0.0.1", "239.1.1.1", 7)
		tunnel.GetVxlan().Multicast = "via"
		create(t, v, loopback("via"), tunnel)
		wantInterfaces(t, v, loopback("via"), tunnel)
		remove(t, v, loopback("via"))
		remove(t, v, tunnel)
		wantInterfaces(t, v)
		create(t, v, loopback("via"), tunnel)
		wantInterfaces(t, v, loopback("via"), tunnel)
	})
}

func TestOverlappingAddressesAreRefused(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		a := loopback("a")
		a.IpAddresses = []string{"10.1.1.1/24", "fd00:1::1/64"}
		create(t, v, a, loopback("b"))
		for _, addr := range []string{"10.1.1.2/24", "fd00:1::2/64"} {
			err := v.Interfaces().AddAddress(context.Background(), "b", netip.MustParsePrefix(addr))
			if err == nil || !strings.Contains(err.Error(), "overlap") {
				t.Errorf("%s: got %v, want an error that says what is wrong", addr, err)
			}
		}
		wantInterfaces(t, v, a, loopback("b"))
	})
}

func TestInterfacesOfOthersAreLeftAlone(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		if err := v.vpp.Call(t.Context(), session.Core, &interfaces_api.CreateLoopback{}, &interfaces_api.CreateLoopbackReply{}); err != nil {
			t.Fatal(err)
		}
		create(t, v, loopback("loop0"))
		wantInterfaces(t, v, loopback("loop0"))
		remove(t, v, loopback("loop0"))
		wantInterfaces(t, v)
		if left, _ := session.Dump[interfaces_api.SwInterfaceDetails](t.Context(), v.vpp, session.Core, &interfaces_api.SwInterfaceDump{SwIfIndex: ^ownership.Index(0)}); len(left) != 2 {
			t.Errorf("left over: %v, want the foreign loopback and local0", left)
		}
	})
}

func TestInterfacesThatSomebodyDeletedAreMadeAgain(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		list := []*vpp_interfaces.Interface{loopback("a"), vxlanTunnel("t", "10.0.0.1", "10.0.0.2", 7)}
		create(t, v, list...)
		i, err := v.ifs.Index(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if err := v.vpp.Call(t.Context(), session.Core, &interfaces_api.DeleteLoopback{SwIfIndex: i}, &interfaces_api.DeleteLoopbackReply{}); err != nil {
			t.Fatal(err)
		}
		wantInterfaces(t, v, list[1])
		create(t, v, list...)
		wantInterfaces(t, v, list...)

		s.Restart()
		for { // until the driver has noticed
			if err := v.Interfaces().Create(t.Context(), list[0]); err == nil {
				break
			}
		}
		create(t, v, list...)
		wantInterfaces(t, v, list...)
	})
}

func addTable(t testing.TB, v *VSwitch, id uint32, v6 bool) {
	t.Helper()
	err := v.vpp.Call(t.Context(), session.Core, &ip.IPTableAddDelV2{IsAdd: true, Table: ip.IPTable{TableID: id, IsIP6: v6}}, &ip.IPTableAddDelV2Reply{})
	if _, unknown := errors.AsType[*vppapi.UnknownMessageError](err); err != nil && !unknown {
		t.Fatal(err)
	}
}
