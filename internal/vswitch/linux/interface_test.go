package linux

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/command"
	"google.golang.org/protobuf/proto"
)

func loopback(name, netns string) *linux_interfaces.Interface {
	return &linux_interfaces.Interface{
		Name: name, Type: linux_interfaces.Interface_LOOPBACK, Namespace: byPath(netns), Enabled: true,
		IpAddresses: []string{"127.0.0.1/8", "::1/128", "10.0.0.9/32"},
	}
}

func TestLoopbackKeepsTheKernelsAddresses(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	lo := loopback("lo-a", netns)
	n.create(lo)
	contains(t, ip(t, "-n", netns, "addr", "show", "lo"), "127.0.0.1/8", "::1/128", "10.0.0.9/32", "UP")
	n.remove(lo)
	out := ip(t, "-n", netns, "-d", "addr", "show", "lo")
	contains(t, out, "127.0.0.1/8", "::1/128", "UP")
	lacks(t, out, "10.0.0.9", "contiv")
}

func TestSecondLoopbackIsRefused(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.create(loopback("lo-a", netns))
	err := n.tryCreate(loopback("lo-b", netns))
	if !errors.Is(err, ErrLoopbackTaken) || retriable(err) {
		t.Fatalf("got %v, want ErrLoopbackTaken", err)
	}
	contains(t, err.Error(), "lo-a", "lo-b")
}

// An existing address is used and stays after deletion.
func TestAddressesOfOthersStay(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	p.tap.IpAddresses = nil
	n.create(p.loop, p.tap)
	ip(t, "-n", netns, "addr", "add", "10.8.0.1/24", "dev", "eth0")
	ip(t, "-n", netns, "addr", "add", "10.9.0.1/24", "dev", "eth0")
	p.tap.IpAddresses = []string{"10.8.0.1/24", "10.1.1.2/32"}
	n.create(p.tap)
	n.retrieve(p.loop, p.tap).hasExactly(t, p.loop, p.tap)
	for _, derived := range deriveFromInterface(p.tap) {
		if isAddressKey(derived.Key) {
			if err := n.deleteAddress(context.Background(), derived.Key, derived.Value.(*linux_interfaces.Interface), kvscheduler.NoMetadata{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := ip(t, "-n", netns, "addr", "show", "eth0")
	contains(t, out, "10.8.0.1/24", "10.9.0.1/24")
	lacks(t, out, "10.1.1.2")
}

func TestExistingDeviceIsLeftAsItIs(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	ip(t, "-n", netns, "link", "add", "nic0", "type", "veth", "peer", "name", "nic1")
	ip(t, "-n", netns, "addr", "add", "192.168.1.1/24", "dev", "nic0")
	nic := &linux_interfaces.Interface{
		Name: "nic", Type: linux_interfaces.Interface_EXISTING, HostIfName: "nic0", Namespace: byPath(netns), Enabled: true,
		IpAddresses: []string{"192.168.1.1/24", "192.168.2.1/24"},
	}
	arp := &linux_l3.ARPEntry{Interface: "nic", IpAddress: "192.168.2.9", HwAddress: "02:00:00:00:00:01"}
	route := &linux_l3.Route{OutgoingInterface: "nic", DstNetwork: "10.20.0.0/16", GwAddr: "192.168.2.9"}
	ip(t, "-n", netns, "neigh", "add", "192.168.1.77", "lladdr", "02:00:00:00:00:77", "dev", "nic0", "nud", "permanent")
	n.create(nic, arp, route)
	ip(t, "-n", netns, "route", "add", "10.21.0.0/16", "via", "192.168.1.7", "proto", "121") // a route of the vswitch
	n.restart()
	n.retrieve(nic, arp, route).hasExactly(t, nic, arp, route)
	n.retrieve(nic).hasExactly(t, nic)
	n.retrieve().hasExactly(t)

	n.restart()
	n.retrieve(nic, arp, route)
	n.remove(route, arp, nic)
	out := ip(t, "-n", netns, "-d", "addr", "show", "nic0")
	contains(t, out, "192.168.1.1/24", "UP")
	lacks(t, out, "192.168.2.1", "contiv")
	contains(t, ip(t, "-n", netns, "route"), "10.21.0.0/16")
	contains(t, ip(t, "-n", netns, "neigh"), "192.168.1.77")
}

// With link_only, no address is added or removed.
func TestLinkOnly(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	p.tap.LinkOnly = true
	n.create(p.tap)
	lacks(t, ip(t, "-n", netns, "addr"), "10.1.1.2", p.tap.PhysAddress)
	n.retrieve(p.tap).hasExactly(t, p.tap)
	ip(t, "-n", netns, "addr", "add", "10.1.1.2/32", "dev", "eth0")
	for _, derived := range deriveFromInterface(p.tap) {
		if isAddressKey(derived.Key) {
			contains(t, derived.Key, "/address/existing/")
			if err := n.deleteAddress(context.Background(), derived.Key, derived.Value.(*linux_interfaces.Interface), kvscheduler.NoMetadata{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	contains(t, ip(t, "-n", netns, "addr"), "10.1.1.2")
}

func TestInterfaceIsUpdatedInPlace(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.addTap("vpp-tap-1")
	p := newPod("1", netns, "10.1.1.2", "10.1.1.1")
	n.create(p.values()...)
	changed := proto.Clone(p.tap).(*linux_interfaces.Interface)
	changed.Mtu, changed.PhysAddress = 1300, "02:00:00:00:00:05"
	if equivalentInterfaces(p.tap, changed) || !sameDevice(p.tap, changed) {
		t.Fatal("a change of MTU and MAC is an update")
	}
	if _, err := n.updateInterface(context.Background(), "", p.tap, changed, InterfaceMetadata{}); err != nil {
		t.Fatal(err)
	}
	want := []proto.Message{p.loop, changed, p.arp, p.gwRoute, p.defRoute}
	n.retrieve(want...).hasExactly(t, want...)
	changed = proto.Clone(changed).(*linux_interfaces.Interface)
	changed.Enabled = false
	if _, err := n.updateInterface(context.Background(), "", p.tap, changed, InterfaceMetadata{}); err != nil {
		t.Fatal(err)
	}
	contains(t, ip(t, "-n", netns, "link", "show", "eth0"), "state DOWN")
}

func TestIPv6IsEnabledInThePod(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	for _, conf := range []string{"all", "default"} {
		command.Run(t, "nsenter", "--net="+pathOf(netns), "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/"+conf+"/disable_ipv6")
	}
	n.addTap("vpp-tap-1")
	n.create(newPod("1", netns, "fd00:1::2", "fd00:1::1").values()...)
	out := ip(t, "-n", netns, "-6", "addr", "show", "eth0")
	contains(t, out, "fd00:1::2/128")
	lacks(t, out, "fd00:1::2/128 scope global tentative")
}

// A pod can use its IPv6 address at once, also on a VETH pair.
func TestIPv6AddressOfAVETHIsUsableAtOnce(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	n.create(
		&linux_interfaces.Interface{Name: "pod", Type: linux_interfaces.Interface_VETH, Enabled: true, HostIfName: "eth0", Namespace: byPath(netns),
			IpAddresses: []string{"fd00:1::2/128"}, Link: &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: "host"}}},
		&linux_interfaces.Interface{Name: "host", Type: linux_interfaces.Interface_VETH, Enabled: true, HostIfName: "host0",
			Link: &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: "pod"}}})
	out := ip(t, "-n", netns, "-6", "addr", "show", "eth0")
	contains(t, out, "fd00:1::2/128")
	lacks(t, out, "fd00:1::2/128 scope global tentative")
}

func TestKindsThatTheKernelLacks(t *testing.T) {
	n, netns := newNode(t), netNSName(t)
	dummy := &linux_interfaces.Interface{Name: "dummy-a", Type: linux_interfaces.Interface_DUMMY, Namespace: byPath(netns), Enabled: true, HostIfName: "d0"}
	vrf := &linux_interfaces.Interface{Name: "vrf-a", Type: linux_interfaces.Interface_VRF_DEVICE, Namespace: byPath(netns), Enabled: true,
		Link: &linux_interfaces.Interface_VrfDev{VrfDev: &linux_interfaces.VrfDevLink{RoutingTable: 10}}}
	for kind, v := range map[string]*linux_interfaces.Interface{"dummy": dummy, "vrf": vrf} {
		options := map[string][]string{"vrf": {"table", "5"}}[kind]
		lacking := exec.Command("ip", append([]string{"-n", n.name, "link", "add", "probe-" + kind, "type", kind}, options...)...).Run() != nil
		err := n.tryCreate(v)
		switch {
		case lacking && !errors.Is(err, kvscheduler.ErrUnsupported):
			t.Errorf("%s: got %v, want ErrUnsupported", kind, err)
		case !lacking && err != nil:
			t.Errorf("%s: %v", kind, err)
		case !lacking:
			n.retrieve(v).hasExactly(t, v)
			n.remove(v)
			lacks(t, ip(t, "-n", netns, "link"), "d0", "vrf-a")
		}
	}
}

func TestInvalidInterfaces(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*linux_interfaces.Interface)
		want   string
	}{
		{"no name", func(v *linux_interfaces.Interface) { v.Name = "" }, "has no name"},
		{"reserved name", func(v *linux_interfaces.Interface) { v.Name = "host-name" }, "reserved"},
		{"long name", func(v *linux_interfaces.Interface) { v.Name = strings.Repeat("x", 250) }, "longer than"},
		{"no type", func(v *linux_interfaces.Interface) { v.Type = 0 }, "has no type"},
		{"link of another type", func(v *linux_interfaces.Interface) { v.Type = linux_interfaces.Interface_EXISTING }, "another type"},
		{"no TAP", func(v *linux_interfaces.Interface) { v.GetTap().VppTapIfName = "" }, "tap.vpp_tap_if_name"},
		{"long device name", func(v *linux_interfaces.Interface) { v.HostIfName = ""; v.Name = "a-name-that-is-too-long" }, "host_if_name"},
		{"slash in device name", func(v *linux_interfaces.Interface) { v.HostIfName = "a/b" }, "host_if_name"},
		{"relative path", func(v *linux_interfaces.Interface) { v.Namespace.Reference = "x" }, "absolute path"},
		{"no PID", func(v *linux_interfaces.Interface) {
			v.Namespace = &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_PID, Reference: "-1"}
		}, "process ID"},
		{"path as name of a namespace", func(v *linux_interfaces.Interface) {
			v.Namespace = &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_NSID, Reference: "../x"}
		}, "name of a file"},
		{"microservice without label", func(v *linux_interfaces.Interface) { v.Namespace = inMicroservice("") }, "the label of a microservice"},
		{"microservice of a label that no key can have", func(v *linux_interfaces.Interface) { v.Namespace = inMicroservice("../x") }, "the label of a microservice"},
		{"MAC", func(v *linux_interfaces.Interface) { v.PhysAddress = "xyz" }, "Ethernet address"},
		{"multicast MAC", func(v *linux_interfaces.Interface) { v.PhysAddress = "01:00:5e:00:00:01" }, "multicast address"},
		{"broadcast MAC", func(v *linux_interfaces.Interface) { v.PhysAddress = "ff:ff:ff:ff:ff:ff" }, "multicast address"},
		{"address", func(v *linux_interfaces.Interface) { v.IpAddresses = []string{"10.0.0.1"} }, "10.0.0.1"},
		{"address twice", func(v *linux_interfaces.Interface) { v.IpAddresses = []string{"fd00::1/64", "fd00:0::1/64"} }, "twice"},
		{"reference twice", func(v *linux_interfaces.Interface) { v.IpAddresses = []string{"alloc:net", "alloc:net/" + v.Name} }, "twice"},
	} {
		v := newPod("1", "x", "10.1.1.2", "10.1.1.1").tap
		if err := validateInterface(v); err != nil {
			t.Fatal(err)
		}
		test.change(v)
		var invalid *kvscheduler.InvalidValueError
		if err := validateInterface(v); !errors.As(err, &invalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an InvalidValueError with %q", test.name, err, test.want)
		}
	}
}

func TestInvalidRoutesAndNeighbours(t *testing.T) {
	for _, route := range []*linux_l3.Route{
		{DstNetwork: "10.0.0.0/8"},
		{OutgoingInterface: "x", DstNetwork: "10.0.0.0"},
		{OutgoingInterface: "x", DstNetwork: "10.0.0.0/8", GwAddr: "fd00::1"},
		{OutgoingInterface: "x", DstNetwork: "10.0.0.0/8", GwAddr: "gw"},
		{OutgoingInterface: "x", DstNetwork: "10.0.0.0/8", GwAddr: "10.0.0.1", Scope: linux_l3.Route_LINK},
	} {
		if validateRoute(route) == nil {
			t.Errorf("valid: %v", route)
		}
	}
	for _, arp := range []*linux_l3.ARPEntry{
		{IpAddress: "10.0.0.1", HwAddress: "02:00:00:00:00:01"},
		{Interface: "x", IpAddress: "10.0.0.1/24", HwAddress: "02:00:00:00:00:01"},
		{Interface: "x", IpAddress: "10.0.0.1", HwAddress: "02"},
	} {
		if validateARP(arp) == nil {
			t.Errorf("valid: %v", arp)
		}
	}
}

func TestGatewayIsReachable(t *testing.T) {
	route := &linux_l3.Route{OutgoingInterface: "if/1", DstNetwork: "0.0.0.0/0", GwAddr: "10.1.1.1"}
	var gw kvscheduler.Dependency
	for _, dep := range routeDependencies(route) {
		if dep.Label == "gw-reachable" {
			gw = dep
		}
	}
	for key, want := range map[string]bool{
		models.LinuxInterfaceAddressKey("if/1", models.AddrStatic, "10.1.1.2/24"):   true,
		models.LinuxInterfaceAddressKey("if/1", models.AddrExisting, "10.1.1.2/24"): true,
		models.LinuxInterfaceAddressKey("if/1", models.AddrStatic, "10.1.1.2/32"):   false,
		models.LinuxLinkLocalRouteKey("if/1", "10.1.1.1/32"):                        true,
		models.LinuxLinkLocalRouteKey("if/1", "10.1.2.0/24"):                        false,
		models.LinuxLinkLocalRouteKey("if/1", "nonsense"):                           false,
	} {
		matches := gw.AnyOf.KeySelector(key) && (strings.HasPrefix(key, gw.AnyOf.KeyPrefixes[0]) || strings.HasPrefix(key, gw.AnyOf.KeyPrefixes[1]))
		if matches != want {
			t.Errorf("%s: got %v, want %v", key, matches, want)
		}
	}
	route.GwAddr, route.DstNetwork = "fe80::1", "::/0"
	if deps := routeDependencies(route); len(deps) != 2 {
		t.Errorf("a link-local gateway depends on %v", deps)
	}
}

func TestAddressKeys(t *testing.T) {
	for key, want := range map[string]string{
		models.LinuxInterfaceAddressKey("eth0", models.AddrStatic, "10.0.0.1/24"):    "eth0 static 10.0.0.1/24",
		models.LinuxInterfaceAddressKey("a/address/b", models.AddrStatic, "::1/128"): "a/address/b static ::1/128",
		models.LinuxHostNameAddressKey("static", "10.0.0.1/24"):                      "",
		models.LinuxInterfaceStateKey("eth0", true):                                  "",
		"linux/interface/eth0/address/other/10.0.0.1/24":                             "",
	} {
		iface, source, addr, ok := parseAddressKey(key)
		if got := strings.TrimSpace(iface + " " + source + " " + addr); ok != (want != "") || got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}
