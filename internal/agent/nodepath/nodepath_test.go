package nodepath

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/agent/pathexplain"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	vnetns "github.com/vishvananda/netns"
)

// someStates is a vswitch with these interface states.
type someStates []*vpp_interfaces.InterfaceState

func (s someStates) List(context.Context) ([]*vpp_interfaces.InterfaceState, error) { return s, nil }

func (s someStates) Watch(func(...*vpp_interfaces.InterfaceState)) {}

// The uplink is the vswitch's device. If that reads a kernel device, both count.
func TestDevicesOfAVSwitchOfItsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root")
	}
	runtime.LockOSThread() // the thread ends with the test
	ns, err := vnetns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	for _, line := range []string{
		"ip link add eth0 mtu 1400 type veth peer name far", "ip link set far up", "ip link set eth0 up",
		"ip link add eth1 mtu 1500 type veth peer name far1", "ip link set eth1 up",
	} {
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %s", line, out)
		}
	}
	const up, down = vpp_interfaces.InterfaceState_UP, vpp_interfaces.InterfaceState_DOWN
	addr := netip.MustParsePrefix("192.168.16.1/24")
	for name, c := range map[string]struct {
		internal    string
		admin, link vpp_interfaces.InterfaceState_Status
		mtu         uint32
		want        pathexplain.Device
	}{
		"of VPP":               {"GigabitEthernet0/8/0", up, up, 9000, pathexplain.Device{Up: true, Carrier: true, MTU: 9000}},
		"without carrier":      {"GigabitEthernet0/8/0", up, down, 9000, pathexplain.Device{Up: true, MTU: 9000}},
		"AF_PACKET":            {"host-eth0", up, up, 9000, pathexplain.Device{Up: true, Carrier: true, MTU: 1400}},
		"AF_XDP":               {"eth0", up, up, 1300, pathexplain.Device{Up: true, Carrier: true, MTU: 1300}},
		"of unknown MTU":       {"host-eth0", up, up, 0, pathexplain.Device{Up: true, Carrier: true, MTU: 1400}},
		"the kernel's is dead": {"host-eth1", up, up, 9000, pathexplain.Device{Up: true, MTU: 1500}},
		"down":                 {"host-eth0", down, down, 9000, pathexplain.Device{MTU: 1400}},
	} {
		// Not with t.Run, whose goroutines run on threads in other namespaces.
		states := someStates{
			{Name: "vpp-tap-1", InternalName: "tap0", AdminStatus: up, OperStatus: up},
			{Name: "main", InternalName: c.internal, AdminStatus: c.admin, OperStatus: c.link, Mtu: c.mtu},
		}
		got, err := vswitchDevices(t.Context(), states, contivconf.Resolved{Main: contivconf.Interface{Name: "main"}}, &nodesync.Node{VPPIPs: []netip.Prefix{addr}})
		c.want.Name, c.want.Address = "main", addr.Addr()
		if diff := cmp.Diff([]pathexplain.Device{c.want}, got, cmpopts.EquateComparable(netip.Addr{})); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

// Each existing pod interface is listed once, with its host device.
func TestConnectedPods(t *testing.T) {
	report := ipnet.PodsReport{Pods: []ipnet.PodReport{{
		Namespace: "default", Name: "web", NetNS: "/ns", Interface: "eth0", MTU: 1430, IPs: []string{"10.1.1.2/32", "fd10::2/128"}, VPPInterface: "tap",
		CustomInterfaces: []ipnet.CustomIfReport{
			{Name: "net1", IPs: []string{"10.1.1.3"}, VPPInterface: "tap-net1", ServiceEndpoint: true}, {Name: "net2", IPs: []string{"10.1.1.4"}, VPPInterface: "tap-net2"},
			{Name: "bare", VPPInterface: "tap-bare"}, {Name: "late", IPs: []string{"10.1.1.5"}, VPPInterface: "tap-late", Problem: "no room"},
		},
	}}}
	addr := netip.MustParseAddr
	want := []pathexplain.Pod{
		{Name: "default/web", NetNS: "/ns", Interface: "eth0", Device: "device of tap", Addresses: []netip.Addr{addr("10.1.1.2"), addr("fd10::2")}, MTU: 1430},
		{Name: "default/web", NetNS: "/ns", Interface: "net1", Device: "device of tap-net1", Addresses: []netip.Addr{addr("10.1.1.3")}, MTU: 1430},
		{Name: "default/web", NetNS: "/ns", Interface: "net2", Device: "device of tap-net2", Addresses: []netip.Addr{addr("10.1.1.4")}, MTU: 1430},
		{Name: "default/web", NetNS: "/ns", Interface: "bare", Device: "device of tap-bare", MTU: 1430},
	}
	got := connectedPods(report, func(iface string) string { return "device of " + iface })
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Error(diff)
	}
}
