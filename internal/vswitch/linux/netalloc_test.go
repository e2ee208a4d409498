package linux

import (
	"slices"
	"strings"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	netalloc_pb "github.com/contiv/contiv/api/ligato/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// allocatedPod returns a veth pair whose end veth-a has an allocated address.
func allocatedPod(ns1, ns2 string) (alloc *netalloc_pb.IPAllocation, values []proto.Message) {
	veth := func(name, peer, netns string, addrs ...string) *linux_interfaces.Interface {
		return &linux_interfaces.Interface{
			Name: name, Type: linux_interfaces.Interface_VETH, Namespace: byPath(netns), HostIfName: "eth0", Enabled: true,
			IpAddresses: addrs, Link: &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: peer}},
		}
	}
	alloc = &netalloc_pb.IPAllocation{NetworkName: "net", InterfaceName: "veth-a", Address: "10.5.0.1/24", Gw: "10.5.0.2"}
	return alloc, []proto.Message{
		veth("veth-a", "veth-b", ns1, "alloc:net"),
		veth("veth-b", "veth-a", ns2, "10.5.0.2/24", "10.6.0.2/24", "10.77.0.1/32"),
		&linux_l3.Route{OutgoingInterface: "veth-a", DstNetwork: "0.0.0.0/0", GwAddr: "alloc:net/GW", Scope: linux_l3.Route_GLOBAL},
		&linux_l3.ARPEntry{Interface: "veth-b", IpAddress: "alloc:net/veth-a", HwAddress: "02:00:00:00:00:0a"},
	}
}

func TestAllocatedAddressesOfPods(t *testing.T) {
	a, ns1, ns2 := newAgent(t), netNSName(t), netNSName(t)
	alloc, values := allocatedPod(ns1, ns2)
	values[0].(*linux_interfaces.Interface).PhysAddress = "02:00:00:00:00:0a"
	a.watch()
	a.commit(a.put(values...))
	a.inState(pb.ValueState_PENDING, values[2], values[3])
	lacks(t, ip(t, "-n", ns1, "addr"), "inet 10.")

	a.commit(a.put(alloc))
	a.inState(pb.ValueState_CONFIGURED, append(values, alloc)...)
	contains(t, ip(t, "-n", ns1, "addr"), "10.5.0.1/24")
	contains(t, ip(t, "-n", ns1, "route"), "default via 10.5.0.2 dev eth0")
	contains(t, ip(t, "-n", ns2, "neigh"), "10.5.0.1 dev eth0 lladdr 02:00:00:00:00:0a PERMANENT")
	pings(t, ns1, "10.77.0.1", true) // through the gateway

	for _, test := range []struct{ netns, change, reason string }{
		{ns1, "addr del 10.5.0.1/24 dev eth0", "address 10.5.0.1/24 of veth-a was deleted"},
		{ns1, "route del default", "default route of veth-a was deleted"},
		{ns2, "neigh del 10.5.0.1 dev eth0", "neighbour 10.5.0.1 of veth-b was deleted"},
	} {
		ip(t, append([]string{"-n", test.netns}, strings.Fields(test.change)...)...)
		waitFor(t, func() bool { return a.lastTxn(test.reason) != nil }, "a transaction records that "+test.reason)
		a.inState(pb.ValueState_CONFIGURED, values...)
		pings(t, ns1, "10.77.0.1", true)
	}

	moved := proto.CloneOf(alloc)
	moved.Address, moved.Gw = "10.6.0.1/24", "10.6.0.2"
	a.commit(a.put(moved))
	a.inState(pb.ValueState_CONFIGURED, append(values, moved)...)
	contains(t, ip(t, "-n", ns1, "addr"), "10.6.0.1/24")
	lacks(t, ip(t, "-n", ns1, "addr"), "10.5.0.1")
	contains(t, ip(t, "-n", ns1, "route"), "default via 10.6.0.2 dev eth0")
	lacks(t, ip(t, "-n", ns2, "neigh"), "10.5.0.1 dev")
	pings(t, ns1, "10.77.0.1", true)

	a.restart()
	a.watch()
	ops := operations(a.commit(a.put(append(values, moved)...), kvscheduler.WithResync(kvscheduler.FullResync)))
	if ops = slices.DeleteFunc(ops, func(op string) bool { return strings.Contains(op, "netalloc") }); len(ops) > 0 {
		t.Errorf("the resync did %q", ops)
	}
	ip(t, "-n", ns1, "addr", "del", "10.6.0.1/24", "dev", "eth0")
	waitFor(t, func() bool { return a.lastTxn("address 10.6.0.1/24 of veth-a was deleted") != nil }, "drift is noticed after a restart")
	pings(t, ns1, "10.77.0.1", true)

	a.restart()
	a.commit(a.put(append(values, alloc)...), kvscheduler.WithResync(kvscheduler.FullResync))
	a.inState(pb.ValueState_CONFIGURED, append(values, alloc)...)
	contains(t, ip(t, "-n", ns1, "addr"), "10.5.0.1/24")
	lacks(t, ip(t, "-n", ns1, "addr")+ip(t, "-n", ns1, "route"), "10.6.0.")

	a.commit(a.delete(alloc))
	a.inState(pb.ValueState_PENDING, values[2], values[3])
	lacks(t, ip(t, "-n", ns1, "addr"), "inet 10.")
	a.commit(a.delete(values...))
}

func TestInvalidReferencesToAllocations(t *testing.T) {
	for text, err := range map[string]error{
		"of interface b, not of a": validateInterface(&linux_interfaces.Interface{
			Name: "a", Type: linux_interfaces.Interface_DUMMY, IpAddresses: []string{"alloc:net/b"},
		}),
		"remove /GW": validateInterface(&linux_interfaces.Interface{
			Name: "a", Type: linux_interfaces.Interface_DUMMY, IpAddresses: []string{"alloc:net/GW"},
		}),
		"add /GW":           validateRoute(&linux_l3.Route{OutgoingInterface: "a", DstNetwork: "10.0.0.0/8", GwAddr: "alloc:net"}),
		"has no interface":  validateRoute(&linux_l3.Route{OutgoingInterface: "a", DstNetwork: "alloc:net"}),
		"of scope LINK has": validateRoute(&linux_l3.Route{OutgoingInterface: "a", DstNetwork: "10.0.0.0/8", GwAddr: "alloc:net/GW", Scope: linux_l3.Route_LINK}),
		"has no network":    validateARP(&linux_l3.ARPEntry{Interface: "a", IpAddress: "alloc:", HwAddress: "02:00:00:00:00:01"}),
	} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}

// A reference may name its interface or not. The key of the derived address has the form used in
// the value, and routes through the interface accept either.
func TestFormsOfReferences(t *testing.T) {
	a, ns1, ns2 := newAgent(t), netNSName(t), netNSName(t)
	alloc, values := allocatedPod(ns1, ns2)
	iface, route := values[0].(*linux_interfaces.Interface), values[2].(*linux_l3.Route)
	values = append(values[:3], alloc)
	for _, form := range []struct{ address, gateway string }{
		{"alloc:net", "alloc:net/GW"}, {"alloc:net/veth-a", "alloc:net/GW"}, {"alloc:net/veth-a", "alloc:net/veth-a/GW"}, {"alloc:net", "alloc:net/veth-a/GW"},
	} {
		iface, route = proto.CloneOf(iface), proto.CloneOf(route)
		iface.IpAddresses, route.GwAddr = []string{form.address}, form.gateway
		values[0], values[2] = iface, route
		a.commit(a.put(values...))
		a.inState(pb.ValueState_CONFIGURED, values...)
		key := models.LinuxInterfaceAddressKey("veth-a", models.AddrAllocRef, form.address)
		if !strings.HasSuffix(key, "/"+form.address) || a.scheduler.ValueStatus(key).GetValue().GetState() != pb.ValueState_CONFIGURED {
			t.Errorf("%v: no %s", form, key)
		}
		contains(t, ip(t, "-n", ns1, "addr"), "10.5.0.1/24")
		pings(t, ns1, "10.77.0.1", true)

		a.restart()
		ops := operations(a.commit(a.put(values...), kvscheduler.WithResync(kvscheduler.FullResync)))
		if ops = slices.DeleteFunc(ops, func(op string) bool { return strings.Contains(op, "netalloc") }); len(ops) > 0 {
			t.Errorf("%v: the resync did %q", form, ops)
		}
		a.inState(pb.ValueState_CONFIGURED, values...)
	}
}

// The gateways 0.0.0.0 and :: mean no gateway, for both IP versions.
func TestUnspecifiedGatewayIsNone(t *testing.T) {
	a, ns1, ns2 := newAgent(t), netNSName(t), netNSName(t)
	_, values := allocatedPod(ns1, ns2)
	values[0].(*linux_interfaces.Interface).IpAddresses = []string{"10.5.0.1/24"}
	values = values[:2]
	links := values
	for dst, gw := range map[string]string{"10.77.0.1/32": "0.0.0.0", "10.78.0.0/16": "::", "fd77::/64": "::", "fd78::/64": "0.0.0.0", "10.79.0.0/16": ""} {
		values = append(values, &linux_l3.Route{OutgoingInterface: "veth-a", DstNetwork: dst, GwAddr: gw})
	}
	a.commit(a.put(values...))
	a.inState(pb.ValueState_CONFIGURED, values...)
	routes := ip(t, "-n", ns1, "route") + ip(t, "-n", ns1, "-6", "route")
	contains(t, routes, "10.77.0.1 dev eth0", "10.78.0.0/16 dev eth0", "fd77::/64 dev eth0", "fd78::/64 dev eth0", "10.79.0.0/16 dev eth0")
	lacks(t, routes, "via")
	pings(t, ns1, "10.77.0.1", true)

	if ops := operations(a.commit(a.put(values...), kvscheduler.WithResync(kvscheduler.FullResync))); len(ops) > 0 {
		t.Errorf("the resync did %q", ops)
	}
	a.restart()
	if ops := operations(a.commit(a.put(values...), kvscheduler.WithResync(kvscheduler.FullResync))); len(ops) > 0 {
		t.Errorf("the resync after a restart did %q", ops)
	}
	a.inState(pb.ValueState_CONFIGURED, values...)

	a.commit(a.delete(values[len(links):]...))
	lacks(t, ip(t, "-n", ns1, "route")+ip(t, "-n", ns1, "-6", "route"), "10.77.", "10.78.", "10.79.", "fd77:", "fd78:")
}
