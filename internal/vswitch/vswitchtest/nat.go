package vswitchtest

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

type (
	mapping = vpp_nat.DNat44_StaticMapping
	local   = vpp_nat.DNat44_StaticMapping_LocalIP
)

func dnat(label string, mappings ...*mapping) *vpp_nat.DNat44 {
	return &vpp_nat.DNat44{Label: label, StMappings: mappings}
}

// service maps port 80 of an address to pods by number.
func service(ip string, proto vpp_nat.DNat44_Protocol, pods ...int) *mapping {
	m := &mapping{ExternalIp: ip, ExternalPort: 80, Protocol: proto}
	for _, n := range pods {
		m.LocalIps = append(m.LocalIps, &local{LocalIp: podIP(n), LocalPort: servicePort, Probability: 1})
	}
	return m
}

func with(m *mapping, edit func(*mapping)) *mapping {
	edit(m)
	return m
}

const (
	byTCP  = vpp_nat.DNat44_TCP
	byUDP  = vpp_nat.DNat44_UDP
	byICMP = vpp_nat.DNat44_ICMP
)

func runNAT(t *testing.T, c Config) {
	if _, ok := c.NewSite(t).(PacketSite); !ok {
		t.Skip("this driver carries no packets")
	}
	lab := newNATLab(t, c)
	lab.sessions = c.SessionsOfDNAT
	pods, world := lab.pods, lab.world

	t.Run("pods leave the cluster with an address of the pool", func(t *testing.T) {
		lab.set(t)
		first := ""
		for range 3 {
			_, seen, err := pods[1].who(t, "tcp", "", worldIP, servicePort)
			if err != nil || seen != poolFirst && seen != poolLast || first != "" && seen != first {
				t.Errorf("the world sees %q (%v), want always the same of %s-%s", seen, err, poolFirst, poolLast)
			}
			first = seen
		}
		pods[1].want(t, "tcp", podIP(2), servicePort, "pod2", podIP(1))
	})
	t.Run("a mapping of a whole address", func(t *testing.T) {
		lab.set(t, dnat("a", &mapping{ExternalIp: "10.96.0.1", LocalIps: []*local{{LocalIp: podIP(1)}}}))
		world.want(t, "tcp", "10.96.0.1", servicePort, "pod1", worldIP)
		world.want(t, "udp", "10.96.0.1", servicePort, "pod1", worldIP)
		if err := world.Ping("10.96.0.1", 56, longWait); err != nil {
			t.Error(err)
		}
	})
	t.Run("a mapping of one port", func(t *testing.T) {
		lab.set(t, dnat("a", service("10.96.0.1", byTCP, 1)))
		world.want(t, "tcp", "10.96.0.1", 80, "pod1", worldIP)
		pods[2].want(t, "tcp", "10.96.0.1", 80, "pod1", podIP(2))
		for _, other := range []struct {
			network string
			port    int
		}{{"udp", 80}, {"tcp", 81}, {"tcp", servicePort}} {
			if err := world.Probe(other.network, "10.96.0.1", other.port, false); err == nil {
				t.Errorf("%s %d is answered", other.network, other.port)
			}
		}
	})
	t.Run("a mapping of SCTP", func(t *testing.T) {
		sctp := dnat("a", service("10.96.0.1", vswitch.DNATProtocolSCTP, 1))
		if err := lab.agent.vs.NAT().SetDNAT(t.Context(), sctp); errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Skip(err)
		}
		lab.set(t, sctp)
		pods[1].answerSCTP(t, "pod1")
		world.wantSCTP(t, "10.96.0.1", 80, "pod1", worldIP)
		pods[2].wantSCTP(t, "10.96.0.1", 80, "pod1", podIP(2))
		for port, network := range map[int]string{80: "tcp", 81: "sctp"} {
			c, err := world.connect(network, "10.96.0.1", port, shortWait)
			if err == nil {
				c.Close()
				t.Errorf("%s %d is answered", network, port)
			}
		}
	})
	t.Run("a mapping of ICMP only", func(t *testing.T) {
		icmp := dnat("a", &mapping{ExternalIp: "10.96.0.1", Protocol: byICMP, LocalIps: []*local{{LocalIp: podIP(1)}}})
		if err := lab.agent.vs.NAT().SetDNAT(t.Context(), icmp); errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Skip(err)
		}
		lab.set(t, icmp)
		if err := world.Probe("ping", "10.96.0.1", 0, true); err != nil {
			t.Error(err)
		}
		if err := world.Probe("udp", "10.96.0.1", servicePort, false); err == nil {
			t.Error("UDP is answered")
		}
	})
	t.Run("backends with weights", func(t *testing.T) {
		m := service("10.96.0.1", byTCP, 1, 2, 3)
		m.LocalIps[1].Probability, m.LocalIps[2].Probability = 3, 0
		lab.set(t, dnat("a", m))
		const calls = 240
		count := lab.count(t, calls, func() (string, string, error) { return world.who(t, "tcp", "", "10.96.0.1", 80) })
		// The expectation for pod2 is 3/4 or 180, with a standard deviation below 7.
		if n := count["pod2"]; n < 140 || n > 220 || count["pod3"] > 0 || count["pod1"]+n != calls {
			t.Errorf("%v of %d, want about three times as many for pod2 as for pod1, and none for pod3", count, calls)
		}
	})
	t.Run("session affinity", func(t *testing.T) { lab.testAffinity(t) })
	t.Run("exceptions from translation (identity mappings)", func(t *testing.T) {
		lab.set(t, dnat("all", &mapping{ExternalIp: worldIP, LocalIps: []*local{{LocalIp: podIP(1)}}}), &vpp_nat.DNat44{
			Label: "identities", IdMappings: []*vpp_nat.DNat44_IdentityMapping{{IpAddress: podIP(2)}, {IpAddress: worldIP, Port: servicePort}},
		})
		pods[2].want(t, "tcp", worldIP, servicePort, "world", podIP(2))
		pods[2].want(t, "udp", worldIP, servicePort, "pod1", podIP(2))
		if _, seen, err := pods[3].who(t, "tcp", "", worldIP, servicePort); err != nil || seen == podIP(3) {
			t.Errorf("the world sees %q (%v), want an address of the pool", seen, err)
		}
	})
	t.Run("a pod that uses its own service", func(t *testing.T) {
		lab.set(t, dnat("a", with(service("10.96.0.1", byTCP, 1), func(m *mapping) { m.TwiceNat = vpp_nat.DNat44_StaticMapping_SELF })))
		who, seen, err := pods[1].who(t, "tcp", "", "10.96.0.1", 80)
		if err != nil || who != "pod1" || seen != twicePool && seen != twicePoolIP {
			t.Errorf("it is %q, which sees %q (%v); want pod1 to see an address for twice-NAT", who, seen, err)
		}
		pods[2].want(t, "tcp", "10.96.0.1", 80, "pod1", podIP(2))
	})
	t.Run("twice-NAT", func(t *testing.T) {
		lab.set(t, dnat("a", with(service("10.96.0.1", byTCP, 1), func(m *mapping) {
			m.TwiceNat, m.TwiceNatPoolIp = vpp_nat.DNat44_StaticMapping_ENABLED, twicePoolIP
		}), with(service("10.96.0.2", byTCP, 2), func(m *mapping) { m.TwiceNat = vpp_nat.DNat44_StaticMapping_ENABLED })))
		world.want(t, "tcp", "10.96.0.1", 80, "pod1", twicePoolIP)
		if who, seen, err := world.who(t, "tcp", "", "10.96.0.2", 80); err != nil || who != "pod2" || seen != twicePool && seen != twicePoolIP {
			t.Errorf("it is %q, which sees %q (%v); want pod2 to see an address for twice-NAT", who, seen, err)
		}
	})
	t.Run("the node uses a service", func(t *testing.T) {
		if !lab.agent.vs.Capabilities().HostStackShared {
			t.Skip("the node has a stack of its own")
		}
		lab.set(t, dnat("a", service("10.96.0.1", byTCP, 1)))
		if who, _, err := lab.site.Self().who(t, "tcp", "10.31.1.1", "10.96.0.1", 80); err != nil || who != "pod1" {
			t.Errorf("it is %q: %v", who, err)
		}
	})
	t.Run("ICMP errors find their way back", func(t *testing.T) {
		if c.NoICMPErrors {
			t.Skip("this driver declares that they do not")
		}
		m := service("10.96.0.1", byUDP, 1)
		m.LocalIps[0].LocalPort = 9
		lab.set(t, dnat("a", m))
		call, err := world.call(t, "udp", "", "10.96.0.1", 80)
		if err != nil {
			t.Fatal(err)
		}
		if err := call.untilTold(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want %v", err, syscall.ECONNREFUSED)
		}
	})
	t.Run("connections go on when mappings change", func(t *testing.T) { lab.testChanges(t) })
	t.Run("a mapping of the addresses of an interface", func(t *testing.T) { lab.testExternalInterface(t) })
	t.Run("a second mapping of the same address and port is refused", func(t *testing.T) {
		lab.set(t, dnat("a", service("10.96.0.1", byTCP, 1)))
		err := lab.agent.vs.NAT().SetDNAT(t.Context(), dnat("b", service("10.96.0.2", byTCP, 2), service("10.96.0.1", byTCP, 2)))
		if err == nil {
			t.Error("a second mapping is accepted")
		}
		world.want(t, "tcp", "10.96.0.1", 80, "pod1", worldIP)
		if err := world.Probe("tcp", "10.96.0.2", 80, false); err == nil {
			t.Error("half of a refused value works")
		}
	})
	t.Run("interfaces and pools as older versions configure them", func(t *testing.T) { testGlobalLists(t, c) })
	t.Run("a restarted agent finds everything, and removes everything", func(t *testing.T) { lab.testRestart(t) })
}

func (l *natLab) count(t *testing.T, calls int, who func() (string, string, error)) map[string]int {
	t.Helper()
	count := map[string]int{}
	for range calls {
		name, _, err := who()
		if err != nil {
			t.Fatal(err)
		}
		count[name]++
	}
	return count
}

func (l *natLab) testAffinity(t *testing.T) {
	sticky := func(timeout uint32, pods ...int) *vpp_nat.DNat44 {
		return dnat("a", with(service("10.96.0.1", byTCP, pods...), func(m *mapping) { m.SessionAffinity = timeout }))
	}
	from := func(n int) func() (string, string, error) {
		return func() (string, string, error) {
			return l.world.who(t, "tcp", fmt.Sprintf("10.32.0.%d", n), "10.96.0.1", 80)
		}
	}
	l.set(t, sticky(600, 1, 2))
	had, pods := map[int]string{}, map[string]bool{}
	for n := 10; n < 26; n++ {
		for name, times := range l.count(t, 4, from(n)) {
			if had[n], pods[name] = name, true; times < 4 {
				t.Errorf("client %d does not stay with %s", n, name)
			}
		}
	}
	for n := 26; n < 50 && len(pods) < 2; n++ { // fails once in 2^15
		l.world.Exec(t, fmt.Sprintf("ip addr add 10.32.0.%d/24 dev eth0", n))
		name, _, err := from(n)()
		if err != nil {
			t.Fatal(err)
		}
		pods[name] = true
	}
	if len(pods) < 2 {
		t.Errorf("all clients get %v", pods)
	}
	l.set(t, sticky(600, 1, 2, 3))
	for n := 10; n < 26; n++ {
		if name, _, err := from(n)(); err != nil || name != had[n] {
			t.Errorf("client %d moves from %s to %s (%v) when a backend is added", n, had[n], name, err)
		}
	}
	l.set(t, sticky(600, 2))
	l.set(t, sticky(600, 2, 3))
	for n := 10; n < 26; n++ {
		if name, _, err := from(n)(); err != nil || name == "pod1" || had[n] == "pod2" && name == "pod1" {
			t.Errorf("client %d gets %s (%v), which is gone", n, name, err)
		}
	}
	if l.sessions {
		return // takes too long
	}
	l.set(t, sticky(1, 1, 2, 3))
	first, _, err := from(10)()
	if err != nil {
		t.Fatal(err)
	}
	for tries := 0; ; tries++ {
		if tries == 12 {
			t.Errorf("the client never leaves %s", first)
		}
		time.Sleep(1100 * time.Millisecond) // longer than the affinity timeout
		if name, _, err := from(10)(); err != nil || name != first || tries == 12 {
			return
		}
	}
}

func (l *natLab) testChanges(t *testing.T) {
	l.set(t, dnat("other", service("10.96.0.9", byTCP, 3)))
	call := func(network, addr string) caller {
		t.Helper()
		c, err := l.world.call(t, network, "", addr, 80)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	query := call("udp", "10.96.0.1")
	query.wantSilence(t) // no endpoint yet: the connection is not translated
	l.set(t, dnat("a", service("10.96.0.1", byUDP, 1), service("10.96.0.1", byTCP, 1)))
	query.wantAnswer(t, "pod1")
	stream := call("tcp", "10.96.0.1")
	stream.wantAnswer(t, "pod1")

	l.set(t, dnat("a", service("10.96.0.1", byUDP, 1, 2), service("10.96.0.1", byTCP, 1, 2)))
	query.wantAnswer(t, "pod1")
	stream.wantAnswer(t, "pod1")
	l.set(t, dnat("a", service("10.96.0.1", byUDP, 2, 3), service("10.96.0.1", byTCP, 2, 3)))
	if who, _, err := query.ask(longWait); err != nil || who == "pod1" {
		t.Errorf("UDP still goes to %q (%v)", who, err)
	}
	if !l.sessions {
		stream.wantAnswer(t, "pod1") // the TCP connection survives
	}
	l.set(t)
	query.wantSilence(t)
	if !l.sessions {
		stream.wantAnswer(t, "pod1")
	}
}

func (l *natLab) testExternalInterface(t *testing.T) {
	m := with(service("", byTCP, 1), func(m *mapping) { m.ExternalInterface = "world" })
	l.set(t, dnat("a", m))
	l.world.want(t, "tcp", "10.32.0.1", 80, "pod1", worldIP)
	reports := l.agent.watch(t.Context())
	moved := &vpp_interfaces.Interface{}
	for _, v := range l.values {
		if i, ok := v.(*vpp_interfaces.Interface); ok && i.GetName() == "world" {
			moved = proto.CloneOf(i)
		}
	}
	back := proto.CloneOf(moved)
	moved.IpAddresses = append(moved.IpAddresses, "10.32.0.3/24")
	l.agent.put(moved)
	r := reports.next(t)
	if err := l.agent.ReportDrift(r.reason, r.keys...); err != nil {
		t.Fatal(err)
	}
	reports.drain(l.agent)
	l.world.want(t, "tcp", "10.32.0.3", 80, "pod1", worldIP)
	l.world.want(t, "tcp", "10.32.0.1", 80, "pod1", worldIP)
	l.agent.put(back)
	reports.drain(l.agent)
}

// testGlobalLists: the obsolete lists of the global value are applied and listed.
func testGlobalLists(t *testing.T, c Config) {
	site := c.NewSite(t)
	topo := topology(t, site, 1)
	global := &vpp_nat.Nat44Global{
		Forwarding: true, VirtualReassembly: &vpp_nat.VirtualReassembly{DropFragments: true},
		NatInterfaces: []*vpp_nat.Nat44Global_Interface{{Name: topo.Tap(1), IsInside: true}, {Name: topo.Tap(1)}, {Name: topo.NIC, OutputFeature: true}},
		AddressPool:   []*vpp_nat.Nat44Global_Address{{Address: topo.NodeIP()}, {Address: "10.1.1.254", TwiceNat: true}},
	}
	var values []proto.Message
	for _, v := range topo.Values() {
		switch v.(type) {
		case *vpp_nat.Nat44Global:
			values = append(values, global)
		case *vpp_nat.Nat44Interface, *vpp_nat.Nat44AddressPool:
		default:
			values = append(values, v)
		}
	}
	a := startAgent(t, site)
	a.resync(values...)
	a.wantConfigured(values)
	wantNothingExecuted(t, "second resync", a.resync(values...))
	a.stop()
	b := startAgent(t, site)
	wantNothingExecuted(t, "resync after a restart", b.resync(values...))
	less := proto.CloneOf(global)
	//lint:ignore SA1019 some still use them
	less.NatInterfaces, less.AddressPool = less.NatInterfaces[1:], less.AddressPool[:1]
	if ops := b.put(less); len(ops) == 0 {
		t.Error("fewer interfaces: nothing was executed")
	}
	b.stop()
	d := startAgent(t, site)
	wantNothingExecuted(t, "resync with fewer", d.resync(edit(values, func(v proto.Message) proto.Message {
		if _, ok := v.(*vpp_nat.Nat44Global); ok {
			return less
		}
		return nil
	})...))
	d.resync()
	wantNothingExecuted(t, "second resync without values", d.resync())
}

func (l *natLab) testRestart(t *testing.T) {
	values := []proto.Message{
		dnat("web/one", with(service("10.96.0.1", byTCP, 1, 2, 3), func(m *mapping) {
			m.SessionAffinity, m.TwiceNat = 600, vpp_nat.DNat44_StaticMapping_SELF
		}), service("10.96.0.1", byUDP, 1)),
		dnat("two", with(service("", byTCP, 3), func(m *mapping) { m.ExternalInterface = "world" })),
		dnat("three", &mapping{ExternalIp: "10.96.0.3", LocalIps: []*local{{LocalIp: podIP(2)}}}),
		dnat("nothing"),
		&vpp_nat.DNat44{Label: "identities", IdMappings: []*vpp_nat.DNat44_IdentityMapping{
			{Interface: "pod1"}, {IpAddress: worldIP, Protocol: byUDP, Port: 4789}, {IpAddress: worldIP, Protocol: byTCP, Port: 179},
		}},
	}
	l.set(t, values...)
	all := append(append([]proto.Message{}, l.values...), values...)
	l.agent.stop()
	l.world.want(t, "udp", "10.96.0.1", 80, "pod1", worldIP)
	l.agent = startAgent(t, l.site)
	wantNothingExecuted(t, "resync after a restart", l.agent.resync(all...))
	l.agent.wantConfigured(all)
	l.world.want(t, "udp", "10.96.0.1", 80, "pod1", worldIP)

	query, err := l.world.call(t, "udp", "", "10.96.0.1", 80)
	if err != nil {
		t.Fatal(err)
	}
	if who, _, err := query.ask(longWait); err != nil || who != "pod1" {
		t.Errorf("it is %q: %v", who, err)
	}
	l.agent.stop()
	l.agent = startAgent(t, l.site)
	l.agent.resync(l.values...)
	if who, _, err := query.ask(shortWait); err == nil {
		t.Errorf("a UDP connection outlived its mapping, which a restarted agent removed: %q answers", who)
	}
	if err := l.world.Probe("tcp", "10.96.0.1", 80, false); err == nil {
		t.Error("a service is left")
	}
	wantNothingExecuted(t, "second resync", l.agent.resync(l.values...))
}
