package kernel

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/vishvananda/netlink"
	"google.golang.org/protobuf/proto"
)

func loopback(name string, addrs ...string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{
		Name: name, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true, IpAddresses: addrs, PhysAddress: "02:10:00:00:00:01", Mtu: 1400,
	}
}

// wired is a node with a bridge domain of the TAPs p (10.9.0.2) and q (10.9.0.3).
type wired struct {
	*node
	v    *VSwitch
	bd   *vpp_l2.BridgeDomain
	p, q *vswitchtest.Host
}

const qMAC = "02:10:00:00:00:03"

// newWired creates the domain with ports in the order of names; "loop" is the virtual interface.
func newWired(t *testing.T, names ...string) *wired {
	t.Helper()
	w := &wired{node: newNode(t), bd: &vpp_l2.BridgeDomain{Name: "bd", Forward: true, Learn: true, UnknownUnicastFlood: true, Flood: true, MacAge: 5}}
	w.v = openKernel(t, w.node)
	ctx := t.Context()
	loop := loopback("loop", "10.9.0.1/24", "fd09::1/64")
	check(t, w.v.Interfaces().Create(ctx, loop))
	for _, addr := range loop.GetIpAddresses() {
		check(t, w.v.Interfaces().AddAddress(ctx, "loop", mustPrefix(addr)))
	}
	hosts := map[string]*vswitchtest.Host{}
	for i, name := range []string{"p", "q"} {
		check(t, w.v.Interfaces().Create(ctx, tap(name)))
		hosts[name] = w.Plug(t, models.TapHostIfName(name))
		for _, command := range []string{
			fmt.Sprintf("ip link set dev eth0 address 02:10:00:00:00:0%d up", i+2),
			fmt.Sprintf("ip addr add 10.9.0.%d/24 dev eth0", i+2), fmt.Sprintf("ip addr add fd09::%d/64 dev eth0 nodad", i+2),
			"ip route add default via 10.9.0.1",
		} {
			hosts[name].Exec(t, command)
		}
	}
	w.p, w.q = hosts["p"], hosts["q"]
	for _, name := range names {
		w.bd.Interfaces = append(w.bd.Interfaces, &vpp_l2.BridgeDomain_Interface{Name: name, BridgedVirtualInterface: name == "loop"})
	}
	check(t, w.v.Bridges().Create(ctx, w.bd))
	for _, iface := range w.bd.GetInterfaces() {
		check(t, w.v.Bridges().Bind(ctx, "bd", iface))
	}
	return w
}

func (w *wired) wantMaster(t *testing.T, want string) {
	t.Helper()
	for _, port := range []string{"c-p", "c-q"} {
		if out := w.Exec(t, "ip link show dev "+port); !strings.Contains(out, " master "+want+" ") {
			t.Errorf("%s is not in %s: %s", port, want, out)
		}
	}
}

func (w *wired) wantPings(t *testing.T, from *vswitchtest.Host, addrs ...string) {
	t.Helper()
	for _, addr := range addrs {
		check(t, from.Ping(addr, 56, 5*time.Second))
	}
}

func (w *wired) wantListed(t *testing.T, v *VSwitch, want *vpp_l2.BridgeDomain, entries ...*vpp_l2.FIBEntry) {
	t.Helper()
	list, err := v.Bridges().List(t.Context(), []*vpp_l2.BridgeDomain{want})
	check(t, err)
	sorted := proto.CloneOf(want)
	slices.SortFunc(sorted.GetInterfaces(), func(a, b *vpp_l2.BridgeDomain_Interface) int { return strings.Compare(a.GetName(), b.GetName()) })
	if len(list) != 1 || !proto.Equal(list[0], sorted) {
		t.Errorf("listed: %v, want %v", list, sorted)
	}
	found, err := v.FIB().List(t.Context(), entries)
	check(t, err)
	for _, entry := range entries {
		if !slices.ContainsFunc(found, func(e *vpp_l2.FIBEntry) bool { return proto.Equal(e, entry) }) {
			t.Errorf("L2 FIB: %v, want %v", found, entry)
		}
	}
	if len(found) != len(entries) {
		t.Errorf("L2 FIB: %v, want %v", found, entries)
	}
}

// The virtual interface holds the ports of its bridge domain, whichever is bound first, and returns
// them with their flags and L2 FIB entries.
func TestVirtualInterfaceHoldsThePorts(t *testing.T) {
	for _, order := range [][]string{{"loop", "p", "q"}, {"p", "loop", "q"}, {"p", "q", "loop"}} {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			w := newWired(t, order...)
			ctx := t.Context()
			w.wantMaster(t, "c-loop")
			w.wantPings(t, w.p, "10.9.0.3", "fd09::3", "10.9.0.1", "fd09::1")
			entries := []*vpp_l2.FIBEntry{
				{BridgeDomain: "bd", PhysAddress: qMAC, OutgoingInterface: "q", StaticConfig: true},
				{BridgeDomain: "bd", PhysAddress: "02:10:00:00:00:99", OutgoingInterface: "p"},
				{BridgeDomain: "bd", PhysAddress: "02:10:00:00:00:01", OutgoingInterface: "loop", StaticConfig: true, BridgedVirtualInterface: true},
				{BridgeDomain: "bd", PhysAddress: "02:10:00:00:00:98", OutgoingInterface: "loop", BridgedVirtualInterface: true},
			}
			for _, entry := range entries {
				check(t, w.v.FIB().Create(ctx, entry))
			}
			w.wantListed(t, w.v, w.bd, entries...)
			w.wantPings(t, w.p, "10.9.0.3", "10.9.0.1")

			restarted := openKernel(t, w.node)
			found, err := restarted.Interfaces().List(ctx, []*vpp_interfaces.Interface{loopback("loop", "10.9.0.1/24", "fd09::1/64"), tap("p"), tap("q")})
			check(t, err)
			if i := slices.IndexFunc(found, func(i *vpp_interfaces.Interface) bool { return i.GetName() == "loop" }); i < 0 || found[i].GetType() != vpp_interfaces.Interface_SOFTWARE_LOOPBACK {
				t.Errorf("interfaces after a restart: %v", found)
			}
			w.wantListed(t, restarted, w.bd, entries...)

			for _, entry := range entries[2:] {
				check(t, w.v.FIB().Delete(ctx, entry))
			}
			w.wantListed(t, w.v, w.bd, entries[:2]...)
			w.wantPings(t, w.p, "10.9.0.1")
			virtual := w.bd.GetInterfaces()[slices.Index(order, "loop")]
			check(t, w.v.Bridges().Unbind(ctx, "bd", virtual))
			w.wantMaster(t, "cb-bd")
			w.wantPings(t, w.p, "10.9.0.3")
			without := proto.CloneOf(w.bd)
			without.Interfaces = slices.DeleteFunc(without.Interfaces, func(i *vpp_l2.BridgeDomain_Interface) bool { return i.GetName() == "loop" })
			w.wantListed(t, w.v, without, entries[:2]...)

			check(t, w.v.Bridges().Bind(ctx, "bd", virtual))
			w.wantMaster(t, "c-loop")
			w.wantListed(t, w.v, w.bd, entries[:2]...)
			check(t, w.v.Bridges().Unbind(ctx, "bd", virtual))
			check(t, w.v.Bridges().Delete(ctx, w.bd))
			if out := w.Exec(t, "ip -o link show type bridge"); strings.Contains(out, "cb-bd") || !strings.Contains(out, "c-loop") {
				t.Errorf("bridges after the deletion: %s", out)
			}
		})
	}
}

// A domain that does not flood sends no broadcasts and multicasts of its virtual interface either.
func TestVirtualInterfaceDoesNotFlood(t *testing.T) {
	for _, order := range [][]string{{"loop", "p"}, {"p", "loop"}} {
		w := newWired(t, order...)
		ctx := t.Context()
		w.Exec(t, "sysctl -q -w net.ipv6.conf.c-p.disable_ipv6=1") // a TAP sends packets of its own
		check(t, w.v.Bridges().Delete(ctx, w.bd))
		w.bd = &vpp_l2.BridgeDomain{Name: "bd", Forward: true, Interfaces: w.bd.GetInterfaces()}
		check(t, w.v.Bridges().Create(ctx, w.bd))
		for _, iface := range w.bd.GetInterfaces() {
			check(t, w.v.Bridges().Bind(ctx, "bd", iface))
		}
		w.wantListed(t, w.v, w.bd)
		sent := func() string {
			lines := strings.Split(strings.TrimSpace(w.Exec(t, "ip -s link show dev c-p")), "\n")
			return lines[len(lines)-1]
		}
		before := sent()
		for _, addr := range []string{"10.9.0.99", "fd09::99", "ff02::1%c-loop"} {
			_, _ = w.Try("ping -n -c 1 -W 0.5 " + addr)
		}
		if after := sent(); after != before {
			t.Errorf("port %v: sent %s, and now %s", order, before, after)
		}
		check(t, w.v.Neighbours().Create(ctx, &vpp_l3.ARPEntry{Interface: "loop", IpAddress: "10.9.0.2", PhysAddress: "02:10:00:00:00:02", Static: true}))
		check(t, w.v.FIB().Create(ctx, &vpp_l2.FIBEntry{BridgeDomain: "bd", PhysAddress: "02:10:00:00:00:02", OutgoingInterface: "p", StaticConfig: true}))
		w.p.Exec(t, "ip neigh replace 10.9.0.1 lladdr 02:10:00:00:00:01 dev eth0 nud permanent")
		w.wantPings(t, w.Host, "10.9.0.2")
	}
}

// A bridge that is down does not forward. So a disabled virtual interface returns the ports.
func TestDisabledVirtualInterfaceDoesNotStopTheOthers(t *testing.T) {
	w := newWired(t, "loop", "p", "q")
	up := loopback("loop", "10.9.0.1/24", "fd09::1/64")
	down := proto.CloneOf(up)
	down.Enabled = false
	check(t, w.v.Interfaces().Update(t.Context(), up, down))
	w.wantMaster(t, "cb-bd")
	w.wantPings(t, w.p, "10.9.0.3")
	w.wantListed(t, w.v, w.bd)
	check(t, w.v.Interfaces().Update(t.Context(), down, up))
	w.wantMaster(t, "c-loop")
	w.wantPings(t, w.p, "10.9.0.1", "10.9.0.3", "fd09::1")
	w.wantListed(t, w.v, w.bd)
}

// A domain that lost its own bridge takes the ports over from the virtual interface, and its removal
// releases them.
func TestPortsOfALostBridgeAreNotLeftInTheVirtualInterface(t *testing.T) {
	w := newWired(t, "loop", "p", "q")
	w.Exec(t, "ip link del dev cb-bd")
	check(t, w.v.Bridges().Create(t.Context(), w.bd))
	for _, iface := range slices.Backward(w.bd.GetInterfaces()) {
		check(t, w.v.Bridges().Bind(t.Context(), "bd", iface))
	}
	w.wantMaster(t, "c-loop")
	w.wantListed(t, w.v, w.bd)
	w.wantPings(t, w.p, "10.9.0.1", "10.9.0.3")
	w.Exec(t, "ip link del dev cb-bd")
	for _, iface := range w.bd.GetInterfaces() {
		check(t, w.v.Bridges().Unbind(t.Context(), "bd", iface))
	}
	if out := w.Exec(t, "ip -o link show type veth"); strings.Contains(out, "master") {
		t.Errorf("ports are left: %s", out)
	}
}

func TestLoopbackIsTheVirtualInterfaceOfOneDomain(t *testing.T) {
	w := newWired(t, "loop", "p")
	ctx := t.Context()
	check(t, w.v.Bridges().Create(ctx, &vpp_l2.BridgeDomain{Name: "other", Forward: true}))
	for _, virtual := range []bool{false, true} {
		if err := w.v.Bridges().Bind(ctx, "other", &vpp_l2.BridgeDomain_Interface{Name: "loop", BridgedVirtualInterface: virtual}); err == nil || !strings.Contains(err.Error(), "another bridge domain") {
			t.Errorf("bound to a second domain: %v", err)
		}
	}
	check(t, w.v.Interfaces().Create(ctx, loopback("second")))
	if err := w.v.Bridges().Bind(ctx, "bd", &vpp_l2.BridgeDomain_Interface{Name: "second"}); err == nil || !strings.Contains(err.Error(), `"loop" is its virtual interface`) {
		t.Errorf("a second loopback: %v", err)
	}
}

// Without ports, a bridge has no carrier. Addresses and routes of a loopback do not depend on that,
// and its MAC and MTU do not follow the ports.
func TestLoopbackWithoutPorts(t *testing.T) {
	n := newNode(t)
	for _, version := range []string{"ipv4", "ipv6"} {
		n.Exec(t, "sysctl -q -w net."+version+".conf.default.ignore_routes_with_linkdown=1")
	}
	v := openKernel(t, n)
	ctx := t.Context()
	for mtu, want := range map[uint32]int{0: 1500, 68: 68, 1400: 1400, 1500: 1500, 65535: 65535} {
		t.Run(fmt.Sprint("MTU ", mtu), func(t *testing.T) {
			loop := loopback("loop")
			loop.Mtu = mtu
			if mtu == 0 {
				loop.PhysAddress = "" // the kernel would follow the port
			}
			check(t, v.Interfaces().Create(ctx, loop))
			read := func() netlink.Link {
				link, err := v.Net.LinkByName("c-loop")
				check(t, err)
				if link.Attrs().MTU != want {
					t.Errorf("MTU %d, want %d", link.Attrs().MTU, want)
				}
				return link
			}
			mac := read().Attrs().HardwareAddr.String()
			n.Exec(t, "ip link add port address 02:00:00:00:00:01 mtu 1300 type veth")
			n.Exec(t, "ip link set dev port master c-loop up")
			n.Exec(t, "ip link set dev port mtu 1200")
			if now := read().Attrs().HardwareAddr.String(); now != mac {
				t.Errorf("MAC %s of a loopback that had %s", now, mac)
			}
			n.Exec(t, "ip link del dev port")
			check(t, v.Interfaces().Delete(ctx, loop))
		})
	}
	check(t, v.Interfaces().Create(ctx, loopback("loop")))
	for _, addr := range []string{"10.9.0.1/24", "fd09::1/64"} {
		check(t, v.Interfaces().AddAddress(ctx, "loop", mustPrefix(addr)))
		check(t, n.Ping(mustPrefix(addr).Addr().String(), 56, 5*time.Second))
	}
	for _, neighbour := range []string{"10.9.0.2", "fd09::2"} {
		if out := n.Exec(t, "ip route get "+neighbour); !strings.Contains(out, "dev c-loop") {
			t.Errorf("route to %s: %s", neighbour, out)
		}
	}
	if out := n.Exec(t, "ip -6 addr show dev c-loop tentative"); out != "" {
		t.Errorf("tentative: %s", out)
	}
	list, err := v.States().List(ctx)
	check(t, err)
	if len(list) != 1 || list[0].GetOperStatus() != vpp_interfaces.InterfaceState_UP {
		t.Errorf("states: %v", list)
	}
}

// A node that is upgraded keeps the veth pair of its loopback, which carries packets. A loopback that
// is made again is a bridge.
func TestVethPairOfAnEarlierVersionStays(t *testing.T) {
	n := newNode(t)
	topo := vswitchtest.Topology{Node: 1, NIC: nic, Pods: 1}
	n.Batch(t, fmt.Sprintf(`link add c-vxlanBVI group 121 mtu %d address 12:2b:00:00:00:01 type veth peer name cp-vxlanBVI mtu %[1]d
link set dev cp-vxlanBVI alias contiv:vpp-port/vxlanBVI up
link set dev c-vxlanBVI alias contiv:vpp/vxlanBVI up
link add cb-vxlanBD group 121 type bridge mcast_snooping 0
link set dev cb-vxlanBD alias contiv:vpp-bd[]/vxlanBD up
link set dev cp-vxlanBVI master cb-vxlanBD
addr add 192.168.30.1/24 dev c-vxlanBVI
`, vswitchtest.MTU))
	index := func() string {
		out, _, _ := strings.Cut(n.Exec(t, "ip -o link show dev c-vxlanBVI"), ":")
		return out
	}
	before := index()
	s := repairing(t, n, topo.Values()...)
	if now := index(); now != before {
		t.Errorf("device %s was replaced by %s", before, now)
	}
	ports := func(bridge string) string { return n.Exec(t, "ip -o link show master "+bridge) }
	if out := ports("cb-vxlanBD"); !strings.Contains(out, "cp-vxlanBVI") || !strings.Contains(out, "cv10-") {
		t.Errorf("ports of the bridge: %s", out)
	}
	if out := n.Exec(t, "bridge fdb show dev cp-vxlanBVI"); !strings.Contains(out, "12:2b:00:00:00:01 master cb-vxlanBD static") {
		t.Errorf("L2 FIB of the port: %s", out)
	}
	n.Exec(t, "ip link set dev cp-vxlanBVI nomaster")
	await.That(t, "the pair is bound again", func() error {
		if out := ports("cb-vxlanBD"); !strings.Contains(out, "cp-vxlanBVI") {
			return fmt.Errorf("ports of the bridge: %s", out)
		}
		return nil
	})
	check(t, s.Barrier(t.Context()))

	n.Exec(t, "ip link del dev c-vxlanBVI")
	await.That(t, "the loopback is a bridge", func() error {
		out, err := n.Try("ip -o link show master c-vxlanBVI")
		if err != nil || !strings.Contains(out, "cv10-") {
			return fmt.Errorf("ports of the loopback: %s (%w)", out, err)
		}
		return nil
	})
	check(t, s.Barrier(t.Context()))
	if out := ports("cb-vxlanBD"); out != "" {
		t.Errorf("ports of the bridge: %s", out)
	}
}

// br_netfilter shows the frames of bridges to the hooks of IP. Connections through a virtual
// interface are translated once, and answers to their clients are no new connections.
func TestFramesThatNetfilterSees(t *testing.T) {
	w := newWired(t, "p", "q", "loop")
	ctx := t.Context()
	if _, err := w.Try("sysctl -q -w net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1"); err != nil {
		t.Skip("no br_netfilter: ", err)
	}
	a := tap("a")
	check(t, w.v.Interfaces().Create(ctx, a))
	check(t, w.v.Interfaces().AddAddress(ctx, "a", mustPrefix("10.8.0.1/24")))
	client := w.Plug(t, models.TapHostIfName("a"))
	for _, command := range []string{"ip link set dev eth0 up", "ip addr add 10.8.0.2/24 dev eth0", "ip route add default via 10.8.0.1"} {
		client.Exec(t, command)
	}
	check(t, w.v.NAT().Enable(ctx, &vpp_nat.Nat44Global{Forwarding: true}))
	for _, name := range []string{"a", "loop"} {
		check(t, w.v.NAT().AddInterface(ctx, &vpp_nat.Nat44Interface{Name: name, NatOutside: true}))
	}
	serve := func(name, backend string, to *vswitchtest.Host, port uint32) {
		check(t, w.v.NAT().SetDNAT(ctx, &vpp_nat.DNat44{Label: name, StMappings: []*vpp_nat.DNat44_StaticMapping{{
			ExternalIp: "10.96.0.1", ExternalPort: port, LocalIps: []*vpp_nat.DNat44_StaticMapping_LocalIP{{LocalIp: backend, LocalPort: uint32(to.Serve(t, backend)), Probability: 1}},
		}}}))
	}
	serve("bridged", "10.9.0.2", w.p, 80)
	serve("routed", "10.8.0.2", client, 81)
	asks := func(what string, from *vswitchtest.Host, addr string, port int, want string) {
		t.Helper()
		if seen, err := from.Ask(addr, port); err != nil || seen != want {
			t.Errorf("%s: the server saw %q (%v), want %q", what, seen, err, want)
		}
	}
	asks("into the domain", client, "10.9.0.3", w.q.Serve(t, "10.9.0.3"), "10.8.0.2")
	asks("out of the domain", w.q, "10.8.0.2", client.Serve(t, "10.8.0.2"), "10.9.0.3")
	asks("within the domain", w.p, "10.9.0.3", w.q.Serve(t, "10.9.0.3"), "10.9.0.2")
	asks("translated into the domain", client, "10.96.0.1", 80, "10.8.0.2")
	asks("translated out of the domain", w.q, "10.96.0.1", 81, "10.9.0.3")
	asks("to the node", w.q, "10.9.0.1", w.Serve(t, "10.9.0.1"), "10.9.0.3")
	asks("from the node", w.Host, "10.9.0.3", w.q.Serve(t, "10.9.0.3"), "10.9.0.1")

}
