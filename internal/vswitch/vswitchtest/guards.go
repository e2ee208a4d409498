package vswitchtest

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/guard"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// runGuards tests source guards: the driver lists them, and they drop forged packets of pods and of
// hosts on the underlay.
func runGuards(t *testing.T, c Config) {
	caps := open(t, c.NewSite(t)).Capabilities()
	if !caps.SourceGuards {
		t.Skip("this vswitch has no source guards")
	}
	t.Run("a restarted agent finds, changes and removes them", func(t *testing.T) { testGuardLifecycle(t, c) })
	t.Run("an interface passes no packet before it has its guard", func(t *testing.T) { testGuardFirst(t, c) })
	if _, ok := c.NewSite(t).(PacketSite); !ok {
		return
	}
	t.Run("pods send with their own addresses only", func(t *testing.T) {
		lab := newGuardLab(t, c)
		t.Run("sources", lab.testSources)
		t.Run("ARP", lab.testARP)
		t.Run("neighbour discovery", lab.testDiscovery)
		t.Run("ICMP errors", lab.testErrors)
		t.Run("a restarted agent", lab.testRestart)
		t.Run("changed addresses count at once", lab.testChange)
		t.Run("an interface created again", lab.testAnew)
		if caps.ConnectionLimits {
			t.Run("limit of connections", lab.testLimit)
			t.Run("limit of connections of two interfaces", lab.testSharedLimit)
			t.Run("limit of connections that end at once", lab.testEnded)
		}
	})
	t.Run("no pod changes the path MTU of nodes and tunnels", func(t *testing.T) { testPathMTU(t, c) })
	t.Run("VXLAN packets come from nodes of the cluster only", func(t *testing.T) { testVXLANPeers(t, c) })
}

func guardOf(t Topology, pod int, addrs ...string) *guard.SourceGuard {
	return &guard.SourceGuard{Interface: t.Tap(pod), MacAddress: t.PodMAC(pod), IpAddresses: addrs}
}

func testGuardLifecycle(t *testing.T, c Config) {
	site := c.NewSite(t)
	topo := topology(t, site, 2)
	one, two := guardOf(topo, 1, "10.1.1.2", "fd10:1::2"), guardOf(topo, 2, "10.1.1.3")
	values := guardValues(topo, one, two)
	a := startAgent(t, site)
	a.resync(values...)
	a.wantConfigured(values)
	wantNothingExecuted(t, "second resync", a.resync(values...))
	a.stop()
	b := startAgent(t, site)
	wantNothingExecuted(t, "resync after a restart", b.resync(values...))

	one, two = proto.CloneOf(one), proto.CloneOf(two)
	two.IpAddresses, two.MacAddress = []string{"fd10:1::3", "10.1.1.4"}, "02:FE:00:00:01:77"
	if b.vs.Capabilities().ConnectionLimits {
		one.MaxConnections, two.MaxConnections, two.CountedWith = 100, 100, one.GetInterface()
	}
	changed := guardValues(topo, one, two)
	for _, op := range b.put(changed...) {
		if !strings.HasPrefix(op.Key, models.SourceGuard.KeyPrefix()) {
			t.Errorf("changing guards executed %v %s", op.Operation, op.Key)
		}
	}
	wantNothingExecuted(t, "resync after a change", b.resync(changed...))
	b.stop()
	d := startAgent(t, site)
	wantNothingExecuted(t, "resync after a change and a restart", d.resync(changed...))
	without := changed[:len(changed)-1]
	for _, v := range without {
		if iface, ok := v.(*vpp_interfaces.Interface); ok && iface.GetName() == topo.Tap(2) {
			iface.SourceGuarded = false
		}
	}
	d.resync(without...)
	wantNothingExecuted(t, "resync without one of them", d.resync(without...))
	d.resync()
	d.stop()
	e := startAgent(t, site)
	wantNothingExecuted(t, "resync of nothing", e.resync())
}

func testGuardFirst(t *testing.T, c Config) {
	site := c.NewSite(t)
	topo := topology(t, site, 1)
	g := guardOf(topo, 1, "10.1.1.2")
	values := guardValues(topo, g)
	a := startAgent(t, site)
	a.resync(values[:len(values)-1]...)
	key := models.VPPInterfaceKey(topo.Tap(1))
	if s := a.ValueStatus(key).GetValue(); s.GetState() != pb.ValueState_PENDING {
		t.Errorf("without its guard the interface is %v, want PENDING", s.GetState())
	}
	a.put(g)
	a.wantConfigured(values)
	txn := a.NewTransaction()
	txn.Delete(models.Key(g))
	_, _ = txn.Commit(t.Context())
	if s := a.ValueStatus(key).GetValue(); s.GetState() != pb.ValueState_PENDING {
		t.Errorf("without its guard any more the interface is %v, want PENDING", s.GetState())
	}
}

// guardValues returns interfaces of dual-stack pods, followed by their guards.
func guardValues(topo Topology, guards ...*guard.SourceGuard) (values []proto.Message) {
	values = append(values, &vpp_interfaces.Interface{
		Name: GatewayLoop, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true, IpAddresses: []string{"10.1.1.1/24", "fd10:1::1/64"},
	})
	for i := range guards {
		pod := i + 1
		ip6 := fmt.Sprintf("fd10:1::%d", pod+1)
		values = append(values,
			&vpp_interfaces.Interface{
				Name: topo.Tap(pod), Type: vpp_interfaces.Interface_TAP, Enabled: true, Mtu: MTU, PhysAddress: topo.GatewayMAC(pod), SourceGuarded: true,
				Unnumbered: &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: GatewayLoop},
				Link:       &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
			})
		for _, ip := range []string{topo.PodIP(pod), ip6} {
			bits := map[bool]string{true: "/128", false: "/32"}[ip == ip6]
			values = append(values,
				&vpp_l3.ARPEntry{Interface: topo.Tap(pod), IpAddress: ip, PhysAddress: topo.PodMAC(pod), Static: true},
				&vpp_l3.Route{DstNetwork: ip + bits, OutgoingInterface: topo.Tap(pod)})
		}
	}
	for _, g := range guards {
		values = append(values, g)
	}
	return values
}

// guardLab has two guarded pods. The first one attacks, the second one listens.
type guardLab struct {
	t            testing.TB // of the whole test
	site         PacketSite
	topo         Topology
	agent        *agent
	guards       []*guard.SourceGuard
	pods         []*Host
	hostile, ear *frames.Wire
	own, gateway frames.MAC
	sent         int
	// noConnections: see Config.ErrorsOfNoConnection.
	noConnections bool
}

func newGuardLab(t *testing.T, c Config) *guardLab {
	t.Helper()
	lab := &guardLab{t: t, site: c.NewSite(t).(PacketSite), noConnections: c.ErrorsOfNoConnection}
	lab.topo = topology(t, lab.site, 2)
	lab.guards = []*guard.SourceGuard{guardOf(lab.topo, 1, "10.1.1.2", "fd10:1::2"), guardOf(lab.topo, 2, "10.1.1.3", "fd10:1::3")}
	lab.own, lab.gateway = frames.ParseMAC(t, lab.topo.PodMAC(1)), frames.ParseMAC(t, lab.topo.GatewayMAC(1))
	lab.agent = startAgent(t, lab.site)
	lab.agent.resync(lab.values()...)
	lab.agent.wantConfigured(lab.values())
	lab.plug(lab.t)
	// VPP does not count in the first second after its start.
	for deadline := time.Now().Add(longWait); lab.drops(t)[vswitch.DropIPv4] == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("drops are not counted")
		}
		lab.hostile.Send(t, frames.Datagram(lab.own, lab.gateway, addr("10.1.1.99"), addr("10.1.1.3"), "to be counted", false))
	}
	return lab
}

func (lab *guardLab) values() []proto.Message { return guardValues(lab.topo, lab.guards...) }

func (lab *guardLab) plug(t testing.TB) {
	t.Helper()
	lab.pods = nil
	for pod := 1; pod <= 2; pod++ {
		host := lab.site.Plug(t, lab.topo.TapHostName(pod))
		for _, command := range []string{
			fmt.Sprintf("ip link set dev eth0 address %s mtu %d up", lab.topo.PodMAC(pod), MTU),
			fmt.Sprintf("ip addr add %s/32 dev eth0", lab.topo.PodIP(pod)),
			fmt.Sprintf("ip addr add fd10:1::%d/128 dev eth0 nodad", pod+1),
			"ip route add 10.1.1.1/32 dev eth0 scope link", "ip route add default via 10.1.1.1 dev eth0",
			"ip route add fd10:1::1/128 dev eth0", "ip route add default via fd10:1::1 dev eth0",
			fmt.Sprintf("ip neigh replace 10.1.1.1 lladdr %s dev eth0 nud permanent", lab.topo.GatewayMAC(pod)),
			fmt.Sprintf("ip neigh replace fd10:1::1 lladdr %s dev eth0 nud permanent", lab.topo.GatewayMAC(pod)),
		} {
			host.Exec(t, command)
		}
		lab.pods = append(lab.pods, host)
	}
	lab.hostile, lab.ear = lab.pods[0].wire(t, "eth0"), lab.pods[1].wire(t, "eth0")
	for _, dst := range []string{lab.topo.PodIP(2), "fd10:1::3"} {
		wantPing(t, "with its own address", lab.pods[0], dst)
	}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// arrives sends forged frames, followed by a valid one. It returns the forged texts that arrived
// before the valid one.
func (lab *guardLab) arrive(t testing.TB, sent map[string][]byte) (arrived []string) {
	t.Helper()
	lab.ear.Drain()
	for _, frame := range sent {
		lab.hostile.Send(t, frame)
	}
	// Valid packets of each version arrive, so all earlier packets have been processed.
	for _, src := range []string{"10.1.1.2", "fd10:1::2"} {
		lab.sent++
		last := fmt.Sprintf("barrier-%d-", lab.sent)
		dst := map[string]string{"10.1.1.2": "10.1.1.3", "fd10:1::2": "fd10:1::3"}[src]
		lab.hostile.Send(t, frames.Datagram(lab.own, lab.gateway, addr(src), addr(dst), last, false))
		seen := lab.ear.Receive(longWait, frames.Containing(last))
		if seen == nil {
			t.Fatalf("packets of %s do not arrive", src)
		}
		for name := range sent {
			if slices.ContainsFunc(seen, frames.Containing(name)) {
				arrived = append(arrived, name)
			}
		}
	}
	return arrived
}

func (lab *guardLab) drops(t testing.TB) map[vswitch.DropReason]uint64 {
	t.Helper()
	list, err := lab.agent.vs.SourceGuards().Drops(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts := map[vswitch.DropReason]uint64{}
	for _, d := range list {
		if d.Interface == lab.topo.Tap(1) {
			counts[d.Reason] = d.Packets
		}
	}
	return counts
}

// wantCounted waits until the counter of reason is at least more above its value in before. A vswitch may update its counters
// with a delay.
func (lab *guardLab) wantCounted(t testing.TB, before map[vswitch.DropReason]uint64, reason vswitch.DropReason, more int) {
	t.Helper()
	var now uint64
	for deadline := time.Now().Add(longWait); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if now = lab.drops(t)[reason]; now >= before[reason]+uint64(more) {
			return
		}
	}
	t.Errorf("%s: counted %d, want %d more than %d; all that is counted: %v", reason, now, more, before[reason], lab.drops(t))
}

func (lab *guardLab) testSources(t *testing.T) {
	before := lab.drops(t)
	forged := map[string][]byte{}
	forge := func(from frames.MAC, sources []string, dst string, fragment bool) {
		for _, src := range sources {
			name := fmt.Sprintf("[%s from %x %v]", src, from, fragment)
			forged[name] = frames.Datagram(from, lab.gateway, addr(src), addr(dst), name+"        ", fragment)
		}
	}
	foreign4 := []string{"10.1.1.3", "10.1.1.1", "10.1.1.99", "10.1.2.2", "192.168.16.1", "192.168.30.2", "8.8.8.8", "0.0.0.0", "255.255.255.255", "127.0.0.1", "224.0.0.1", "10.96.0.1"}
	foreign6 := []string{"fd10:1::3", "fd10:1::1", "fd10:1::99", "fd10:2::2", "fd00:16::1", "2001:db8::1", "::", "::1", "ff02::1", "fe80::1", "64:ff9b::8.8.8.8"}
	forge(lab.own, foreign4, "10.1.1.3", false)
	forge(lab.own, foreign4[:1], "10.1.1.3", true)
	forge(lab.own, foreign6, "fd10:1::3", false)
	forge(lab.own, foreign6[:1], "fd10:1::3", true)
	stranger := frames.MAC{2, 0, 0, 0, 0, 0x99}
	forge(stranger, []string{"10.1.1.2"}, "10.1.1.3", false)
	forge(stranger, []string{"fd10:1::2"}, "fd10:1::3", false)
	for _, name := range lab.arrive(t, forged) {
		t.Errorf("arrived: %s", name)
	}
	lab.wantCounted(t, before, vswitch.DropIPv4, len(foreign4)+1)
	lab.wantCounted(t, before, vswitch.DropIPv6, len(foreign6)-1) // some are dropped as malformed
	lab.wantCounted(t, before, vswitch.DropMAC, 2)
	if got := lab.arrive(t, map[string][]byte{"own": frames.Datagram(lab.own, lab.gateway, addr("10.1.1.2"), addr("10.1.1.3"), "own", false)}); len(got) == 0 {
		t.Error("packets of the pod from its own address do not arrive")
	}
}

// wantNeighbours checks that the node has only configured neighbours and link-local addresses of
// pods.
func (lab *guardLab) wantNeighbours(t testing.TB) {
	t.Helper()
	if !lab.agent.vs.Capabilities().HostStackShared {
		return
	}
	for line := range strings.Lines(lab.site.Self().Exec(t, "ip neigh show nud all")) {
		if f := strings.Fields(line); len(f) == 0 || strings.HasPrefix(f[0], "ff02:") || strings.HasPrefix(f[0], "224.") || strings.Contains(line, "PERMANENT") || strings.Contains(line, "NOARP") ||
			slices.Contains([]string{vswitch.LinkLocal(lab.own).String(), vswitch.LinkLocal(frames.ParseMAC(t, lab.topo.PodMAC(2))).String()}, f[0]) {
			continue
		}
		t.Errorf("the node has the neighbour %s", line)
	}
}

func (lab *guardLab) testARP(t *testing.T) {
	before := lab.drops(t)
	stranger := frames.MAC{2, 0, 0, 0, 0, 0x99}
	gateway := addr("10.1.1.1")
	lab.hostile.Drain()
	forged := [][]byte{
		frames.ARP(lab.own, false, lab.own, addr("10.1.1.99"), gateway),       // request with another pod's sender address
		frames.ARP(lab.own, true, lab.own, addr("10.1.1.3"), gateway),         // reply for another pod
		frames.ARP(lab.own, false, lab.own, addr("10.1.1.1"), gateway),        // claims the gateway's address
		frames.ARP(lab.own, false, stranger, addr("10.1.1.2"), gateway),       // claims another MAC address
		frames.ARP(stranger, false, stranger, addr("192.168.16.77"), gateway), // from another MAC address
	}
	for i := range 50 { // floods the table
		forged = append(forged, frames.ARP(lab.own, false, lab.own, netip.AddrFrom4([4]byte{10, 1, 9, byte(i + 1)}), gateway))
	}
	for _, frame := range forged {
		lab.hostile.Send(t, frame)
	}
	lab.wantCounted(t, before, vswitch.DropARP, len(forged))
	lab.wantNeighbours(t)
	lab.hostile.Send(t, frames.ARP(lab.own, false, lab.own, addr("10.1.1.2"), gateway))
	isAnswer := func(frame []byte) bool {
		return len(frame) >= 42 && frame[12] == 8 && frame[13] == 6 && frame[21] == 2 && string(frame[28:32]) == string(gateway.AsSlice())
	}
	if lab.hostile.Receive(longWait, isAnswer) == nil {
		t.Error("no answer to ARP and ND requests with own addresses")
	}
	wantPing(t, "afterwards", lab.pods[1], "10.1.1.2")
}

func (lab *guardLab) testDiscovery(t *testing.T) {
	before := lab.drops(t)
	stranger := frames.MAC{2, 0, 0, 0, 0, 0x99}
	own, gateway, all := addr("fd10:1::2"), addr("fd10:1::1"), addr("ff02::1")
	local := vswitch.LinkLocal(lab.own)
	node := frames.MAC{0x33, 0x33, 0, 0, 0, 1}
	discover := func(src, dst netip.Addr, kind byte, target netip.Addr, option byte, value frames.MAC) []byte {
		return frames.Discovery(lab.own, node, src, dst, kind, target, option, value)
	}
	forged := [][]byte{
		discover(own, all, frames.NeighborSolicitation, gateway, frames.SourceLink, stranger), // claims another MAC address
		discover(own, all, frames.NeighborAdvertisement, gateway, frames.TargetLink, lab.own), // claims the gateway's address
		discover(own, all, frames.NeighborAdvertisement, addr("fd10:1::3"), frames.TargetLink, lab.own),
		discover(own, all, frames.NeighborAdvertisement, addr("fd10:1::3"), 0, frames.MAC{}),
		discover(own, all, frames.NeighborAdvertisement, own, frames.TargetLink, stranger),
		discover(local, all, frames.RouterAdvertisement, local, 0, frames.MAC{}),
		discover(local, all, frames.RouterAdvertisement, local, frames.SourceLink, lab.own),
		discover(local, all, frames.Redirect, addr("fd10:1::3"), 0, frames.MAC{}),
	}
	foreign := [][]byte{
		discover(addr("fd10:1::3"), all, frames.NeighborSolicitation, gateway, frames.SourceLink, lab.own),
		discover(addr("::"), all, frames.NeighborSolicitation, gateway, 0, frames.MAC{}), // duplicate address detection of the gateway's address
		discover(addr("fe80::99"), all, frames.NeighborSolicitation, gateway, frames.SourceLink, lab.own),
	}
	for _, frame := range slices.Concat(forged, foreign) {
		lab.hostile.Send(t, frame)
	}
	lab.wantCounted(t, before, vswitch.DropND, len(forged))
	lab.wantCounted(t, before, vswitch.DropIPv6, len(foreign))
	lab.wantNeighbours(t)
	for name, frame := range map[string][]byte{
		"with its MAC address": discover(own, gateway, frames.NeighborSolicitation, gateway, frames.SourceLink, lab.own),
		"without":              frames.Discovery(lab.own, lab.gateway, own, gateway, frames.NeighborSolicitation, gateway, 0, frames.MAC{}),
	} {
		lab.hostile.Drain()
		lab.hostile.Send(t, frame)
		if lab.hostile.Receive(longWait, func(f []byte) bool {
			return len(f) >= 78 && f[12] == 0x86 && f[20] == unix.IPPROTO_ICMPV6 && f[54] == frames.NeighborAdvertisement && string(f[62:78]) == string(gateway.AsSlice())
		}) == nil {
			t.Errorf("no answer to ARP and ND requests with own addresses, %s", name)
		}
	}
	wantPing(t, "afterwards", lab.pods[1], "fd10:1::2")
}

func (lab *guardLab) forged() map[string][]byte {
	return map[string][]byte{
		"forged4": frames.Datagram(lab.own, lab.gateway, addr("10.1.1.9"), addr("10.1.1.3"), "forged4", false),
		"forged6": frames.Datagram(lab.own, lab.gateway, addr("fd10:1::9"), addr("fd10:1::3"), "forged6", false),
	}
}

func (lab *guardLab) testRestart(t *testing.T) {
	lab.agent.stop()
	if got := lab.arrive(t, lab.forged()); len(got) > 0 {
		t.Errorf("arrived while the agent is down: %v", got)
	}
	lab.agent = startAgent(lab.t, lab.site)
	wantNothingExecuted(t, "resync", lab.agent.resync(lab.values()...))
	if got := lab.arrive(t, lab.forged()); len(got) > 0 {
		t.Errorf("arrived: %v", got)
	}
}

func (lab *guardLab) testChange(t *testing.T) {
	was := lab.guards[0]
	defer func() { lab.guards[0] = was }()
	lab.guards[0] = guardOf(lab.topo, 1, "10.1.1.2", "fd10:1::2", "10.1.1.9", "fd10:1::9")
	lab.agent.put(lab.guards[0])
	if got := lab.arrive(t, lab.forged()); len(got) != 2 {
		t.Errorf("of two more addresses, arrived: %v", got)
	}
	lab.agent.put(was)
	if got := lab.arrive(t, lab.forged()); len(got) > 0 {
		t.Errorf("of addresses that it has no more, arrived: %v", got)
	}
}

func (lab *guardLab) testAnew(t *testing.T) {
	txn := lab.agent.NewTransaction()
	for pod := 1; pod <= 2; pod++ {
		txn.Delete(models.VPPInterfaceKey(lab.topo.Tap(pod)))
	}
	if _, err := txn.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	lab.agent.put(lab.values()...)
	lab.agent.wantConfigured(lab.values())
	lab.plug(lab.t)
	if got := lab.arrive(t, lab.forged()); len(got) > 0 {
		t.Errorf("arrived: %v", got)
	}
}

func (lab *guardLab) testLimit(t *testing.T) {
	const limit = 5
	g := proto.CloneOf(lab.guards[0])
	g.MaxConnections = limit
	lab.agent.put(g)
	wantNothingExecuted(t, "resync", lab.agent.resync(guardValues(lab.topo, g, lab.guards[1])...))
	for i, dst := range []string{"10.1.1.3", "fd10:1::3"} {
		before := lab.drops(t)
		port := 7000 + i
		lab.pods[1].Echo(t, "tcp", dst, port)
		var open []net.Conn
		for range 3 * limit {
			if c, err := lab.pods[0].dial("tcp", dst, port, shortWait); err == nil {
				open = append(open, c)
			}
		}
		if len(open) == 0 || len(open) > limit {
			t.Errorf("%s: opened %d connections, want some, and %d at most", dst, len(open), limit)
		}
		lab.wantCounted(t, before, vswitch.DropConnections, 2*limit)
		for _, c := range open {
			if err := exchange(c, longWait); err != nil {
				t.Errorf("%s: an open connection does not go on: %v", dst, err)
			}
			c.Close()
		}
		if err := lab.pods[0].Probe("tcp", dst, port, true); err != nil {
			t.Errorf("%s: no connection after others are closed: %v", dst, err)
		}
		lab.pods[0].Echo(t, "tcp", map[int]string{0: "10.1.1.2", 1: "fd10:1::2"}[i], port)
		if err := lab.pods[1].Probe("tcp", map[int]string{0: "10.1.1.2", 1: "fd10:1::2"}[i], port, true); err != nil {
			t.Errorf("%s: another pod: %v", dst, err)
		}
	}
	lab.agent.put(lab.guards[0])
}

func (lab *guardLab) testSharedLimit(t *testing.T) {
	const limit = 6
	one, two := proto.CloneOf(lab.guards[0]), proto.CloneOf(lab.guards[1])
	one.MaxConnections, two.MaxConnections, one.CountedWith, two.CountedWith = limit, limit, "pod", "pod"
	lab.agent.put(one, two)
	wantNothingExecuted(t, "resync", lab.agent.resync(guardValues(lab.topo, one, two)...))
	addrs := []string{lab.topo.PodIP(1), lab.topo.PodIP(2)}
	open := func() (list []net.Conn) {
		for from, pod := range lab.pods {
			for range limit / 2 {
				if c, err := pod.dial("tcp", addrs[1-from], 7600+from, shortWait); err == nil {
					list = append(list, c)
				}
			}
		}
		return list
	}
	for from := range lab.pods {
		lab.pods[1-from].Echo(t, "tcp", addrs[1-from], 7600+from)
	}
	first := open()
	if len(first) != limit {
		t.Errorf("two interfaces opened %d connections, want %d", len(first), limit)
	}
	before := lab.drops(t)
	second := open()
	if len(second) > 0 {
		t.Errorf("two interfaces opened %d connections more than their limit", len(second))
	}
	lab.wantCounted(t, before, vswitch.DropConnections, limit/2)
	for _, c := range append(first, second...) {
		c.Close()
	}
	lab.agent.put(lab.guards[0], lab.guards[1])
}

// testEnded: a pod opens connections that end at once. They do not count as open, so a vswitch
// bounds how many a pod opens, and forgets them soon.
func (lab *guardLab) testEnded(t *testing.T) {
	const limit, most, attempts, port = 16, 3 * 16, 20 * 16, 7700
	alone, together := proto.CloneOf(lab.guards[0]), proto.CloneOf(lab.guards[0])
	alone.MaxConnections, together.MaxConnections, together.CountedWith = limit, limit, "pod"
	for name, g := range map[string]*guard.SourceGuard{"an interface": alone, "of a pod": together} {
		for from, to := range map[netip.Addr]netip.Addr{addr("10.1.1.2"): addr("10.1.1.3"), addr("fd10:1::2"): addr("fd10:1::3")} {
			t.Run(fmt.Sprintf("%s, to %v", name, to), func(t *testing.T) {
				lab.agent.put(g)
				lab.pods[1].Echo(t, "tcp", to.String(), port)
				before := lab.drops(t)
				// The pod's kernel resets what the server answers.
				for i := range attempts {
					lab.hostile.Send(t, frames.TCP(lab.own, lab.gateway, netip.AddrPortFrom(from, uint16(20000+i)), netip.AddrPortFrom(to, port), frames.SYN))
				}
				lab.wantCounted(t, before, vswitch.DropConnections, attempts-most)
				if n := lab.tracked(t, from); n == 0 || n > most {
					t.Errorf("%d connections of the pod are tracked, want some, and %d at most", n, most)
				}
				const soon = 5 * time.Second
				for deadline := time.Now().Add(soon); lab.tracked(t, from) > 0; time.Sleep(20 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%d connections of the pod are tracked %v after their end", lab.tracked(t, from), soon)
					}
				}
				if err := lab.pods[0].Probe("tcp", to.String(), port, true); err != nil {
					t.Errorf("no connection afterwards: %v", err)
				}
			})
		}
	}
	lab.agent.put(lab.guards[0])
}

// tracked returns the number of TCP connections that a pod has opened and the node tracks.
func (lab *guardLab) tracked(t testing.TB, from netip.Addr) (n int) {
	t.Helper()
	family := netlink.InetFamily(netlink.FAMILY_V4)
	if from.Is6() {
		family = netlink.FAMILY_V6
	}
	var flows []*netlink.ConntrackFlow
	if err := lab.site.Self().in(func() (err error) {
		flows, err = netlink.ConntrackTableList(netlink.ConntrackTable, family)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, flow := range flows {
		if src, _ := netip.AddrFromSlice(flow.Forward.SrcIP); src.Unmap() == from && flow.Forward.Protocol == unix.IPPROTO_TCP {
			n++
		}
	}
	return n
}

// testVXLANPeers: a vswitch accepts VXLAN packets only from the peer of a tunnel.
func testVXLANPeers(t *testing.T, c Config) {
	one, two := c.NewSite(t).(PacketSite), c.NewSite(t).(PacketSite)
	one.Connect(t, two)
	const peer, stranger = "192.168.16.2", "192.168.16.77"
	outside := two.Self()
	if site, ok := one.(OutsideSite); ok {
		outside = site.Outside(t, peer+"/24")
		site.Outside(t, stranger+"/24")
	} else {
		outside.Exec(t, "ip link set dev "+two.NIC()+" up")
		outside.Exec(t, "ip addr add "+peer+"/24 dev "+two.NIC())
		outside.Exec(t, "ip addr add "+stranger+"/24 dev "+two.NIC())
	}
	topo := Topology{Node: 1, NIC: one.NIC(), Pods: 1}
	n := newNode(t, one, topo)
	g := guardOf(topo, 1, topo.PodIP(1))
	n.agent.put(g)
	ear := n.pods[0].wire(t, "eth0")

	inject := func(from *Host, src, dst, text string) {
		t.Helper()
		inner := frames.Datagram(frames.ParseMAC(t, bviMAC(2)), frames.ParseMAC(t, bviMAC(1)), addr("10.1.2.9"), addr(topo.PodIP(1)), text, false)
		message := frames.VXLAN(10, inner)
		err := from.in(func() error {
			conn, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(src)}, &net.UDPAddr{IP: net.ParseIP(dst), Port: 4789})
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write(message)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wantPing(t, "to the node", outside, topo.NodeIP()) // neighbours are resolved
	barrier := func(name string, forged ...string) {
		t.Helper()
		inject(outside, peer, topo.NodeIP(), name)
		seen := ear.Receive(longWait, frames.Containing(name))
		if seen == nil {
			t.Error("packets of the peer do not arrive")
		}
		for _, text := range forged {
			if slices.ContainsFunc(seen, frames.Containing(text)) {
				t.Errorf("arrived: VXLAN %s", text)
			}
		}
	}
	inject(outside, stranger, topo.NodeIP(), "from a stranger")
	inject(n.pods[0], topo.PodIP(1), topo.NodeIP(), "from a pod")
	barrier("barrier 1", "from a stranger", "from a pod")
	counted := uint64(0)
	for deadline := time.Now().Add(longWait); counted == 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		drops, err := n.agent.vs.SourceGuards().Drops(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range drops {
			if d.Reason == vswitch.DropVXLAN && d.Interface != topo.Tap(1) {
				counted += d.Packets
			}
		}
	}
	if counted == 0 {
		t.Error("VXLAN of a stranger is not counted")
	}

	// After SNAT, a pod's packet would have the node's address, which the other node trusts.
	t.Run("a pod to another node", func(t *testing.T) {
		device := two.NIC()
		if _, ok := one.(OutsideSite); ok {
			device = "sw"
		}
		far := outside.wire(t, device)
		inject(n.pods[0], topo.PodIP(1), peer, "from a pod to a peer")
		last := "something else"
		err := n.pods[0].in(func() error {
			conn, err := net.Dial("udp", net.JoinHostPort(peer, "4788"))
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write([]byte(last))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		seen := far.Receive(longWait, frames.Containing(last))
		if seen == nil {
			t.Error("packets other than VXLAN do not arrive")
		}
		if slices.ContainsFunc(seen, frames.Containing("from a pod to a peer")) {
			t.Error("VXLAN of a pod arrived at another node")
		}
	})
}
