package vswitchtest

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

type (
	mapping66 = contiv_nat.DNat66_StaticMapping
	local66   = contiv_nat.DNat66_StaticMapping_LocalIP
)

const (
	world66   = "fd32::2"
	service66 = "fd96::1"
	twice66   = "fd96:ffff::1"
	tcp66     = contiv_nat.DNat66_TCP
	udp66     = contiv_nat.DNat66_UDP
)

func pod66(n int) string { return fmt.Sprintf("fd31:0:0:%d::2", n) }

func dnat66(label string, mappings ...*mapping66) *contiv_nat.DNat66 {
	return &contiv_nat.DNat66{Label: label, StMappings: mappings}
}

// service6 maps port 80 of an address to pods by number.
func service6(ip string, protocol contiv_nat.DNat66_Protocol, pods ...int) *mapping66 {
	m := &mapping66{ExternalIp: ip, ExternalPort: 80, Protocol: protocol}
	for _, n := range pods {
		m.LocalIps = append(m.LocalIps, &local66{LocalIp: pod66(n), LocalPort: servicePort, Probability: 1})
	}
	return m
}

func with66(m *mapping66, edit func(*mapping66)) *mapping66 {
	edit(m)
	return m
}

// newDNAT66Lab returns an IPv6 natLab. If DNAT66 supports VRFs, the pods are in a separate VRF with
// routes to the world.
//
//	pod1 fd31:0:0:1::2 ─┐            ┌─ world fd32::2, ::10 …
//	pod2 fd31:0:0:2::2 ─┼─ vswitch ──┘
//	pod3 fd31:0:0:3::2 ─┘   services fd96::/64
func newDNAT66Lab(t *testing.T, c Config) *natLab {
	t.Helper()
	lab := &natLab{site: c.NewSite(t).(PacketSite), sessions: c.FlowsOfDNAT66Stay}
	lab.agent = startAgent(t, lab.site)
	tap := func(name, addr string, vrf uint32) *vpp_interfaces.Interface {
		return &vpp_interfaces.Interface{
			Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true, IpAddresses: []string{addr}, Vrf: vrf,
			Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
		}
	}
	lab.values = []proto.Message{tap("world", "fd32::1/64", 0)}
	vrf := uint32(0)
	if caps := lab.agent.vs.Capabilities(); caps.MultipleVRFs {
		vrf = 1
		lab.values = append(lab.values,
			&vpp_l3.VrfTable{Id: vrf, Protocol: vpp_l3.VrfTable_IPV6, Label: "pods"},
			&vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, VrfId: vrf, DstNetwork: "::/0"},
			&vpp_l3.Route{Type: vpp_l3.Route_INTER_VRF, DstNetwork: "fd31::/32", ViaVrfId: vrf})
	} else if caps.HostStackShared {
		// The node itself needs a route to services.
		lab.values = append(lab.values, &vpp_l3.Route{DstNetwork: "fd96::/64", NextHopAddr: world66, OutgoingInterface: "world"})
	}
	for n := 1; n <= 3; n++ {
		lab.values = append(lab.values, tap(fmt.Sprintf("pod%d", n), fmt.Sprintf("fd31:0:0:%d::1/64", n), vrf))
	}
	lab.agent.resync(lab.values...)
	lab.agent.wantConfigured(lab.values)
	lab.pods = []*Host{nil}
	for n := 1; n <= 3; n++ {
		pod := lab.plug66(t, fmt.Sprintf("pod%d", n), pod66(n), fmt.Sprintf("fd31:0:0:%d::1", n))
		lab.pods = append(lab.pods, pod)
		pod.answerAll(t, fmt.Sprintf("pod%d", n))
	}
	lab.world = lab.plug66(t, "world", world66, "fd32::1")
	for n := 10; n < 26; n++ {
		lab.world.Exec(t, fmt.Sprintf("ip addr add fd32::%d/64 dev eth0 nodad preferred_lft 0", n))
	}
	lab.world.answerAll(t, "world")
	for n := 1; n <= 3; n++ { // wait for duplicate address detection of the vswitch's addresses
		if err := lab.pods[n].Ping(world66, 56, longWait); err != nil {
			t.Fatal(err)
		}
	}
	return lab
}

func (l *natLab) plug66(t *testing.T, name, addr, gateway string) *Host {
	t.Helper()
	host := l.site.Plug(t, models.TapHostIfName(name))
	host.Exec(t, "sysctl -qw net.ipv6.conf.eth0.accept_ra=0")
	for _, command := range []string{
		"ip addr add " + addr + "/64 dev eth0 nodad", "ip link set dev eth0 up", "ip -6 route add default via " + gateway,
	} {
		host.Exec(t, command)
	}
	return host
}

func runDNAT66(t *testing.T, c Config) {
	if _, ok := c.NewSite(t).(PacketSite); !ok {
		t.Skip("this driver carries no packets")
	}
	lab := newDNAT66Lab(t, c)
	pods, world := lab.pods, lab.world

	t.Run("a mapping of one port", func(t *testing.T) {
		lab.set(t, dnat66("a", service6(service66, tcp66, 1)), dnat66("b", with66(service6(service66, udp66, 2), func(m *mapping66) { m.ExternalPort = 53 })))
		world.want(t, "tcp", service66, 80, "pod1", world66)
		pods[2].want(t, "tcp", service66, 80, "pod1", pod66(2))
		pods[3].want(t, "udp", service66, 53, "pod2", pod66(3))
		for _, other := range []struct {
			network string
			port    int
		}{{"udp", 80}, {"tcp", 81}, {"tcp", servicePort}} {
			if err := world.Probe(other.network, service66, other.port, false); err == nil {
				t.Errorf("%s %d is answered", other.network, other.port)
			}
		}
	})
	t.Run("mappings of the vswitch's own addresses", func(t *testing.T) {
		lab.set(t, dnat66("a", service6("fd32::1", tcp66, 1)))
		world.want(t, "tcp", "fd32::1", 80, "pod1", world66)
		pods[2].want(t, "tcp", "fd32::1", 80, "pod1", pod66(2))
		if err := world.Ping("fd32::1", 56, longWait); err != nil {
			t.Error(err)
		}
	})
	t.Run("backends outside the cluster", func(t *testing.T) {
		m := service6(service66, tcp66)
		m.LocalIps = []*local66{{LocalIp: world66, LocalPort: servicePort}}
		lab.set(t, dnat66("a", m))
		pods[1].want(t, "tcp", service66, 80, "world", pod66(1))
	})
	t.Run("backends with weights", func(t *testing.T) {
		m := service6(service66, tcp66, 1, 2, 3)
		m.LocalIps[1].Probability, m.LocalIps[2].Probability = 3, 0
		lab.set(t, dnat66("a", m))
		const calls = 240
		count := lab.count(t, calls, func() (string, string, error) { return pods[3].who(t, "tcp", "", service66, 80) })
		// The expectation for pod2 is 3/4 or 180, with a standard deviation below 7.
		if n := count["pod2"]; n < 140 || n > 220 || count["pod3"] > 0 || count["pod1"]+n != calls {
			t.Errorf("%v of %d, want about three times as many for pod2 as for pod1, and none for pod3", count, calls)
		}
	})
	t.Run("session affinity", func(t *testing.T) { lab.testAffinity66(t, c) })
	t.Run("a pod that uses its own service", func(t *testing.T) {
		lab.set(t, dnat66("a", with66(service6(service66, tcp66, 1), func(m *mapping66) {
			m.TwiceNat, m.TwiceNatIp = contiv_nat.DNat66_StaticMapping_SELF, twice66
		})))
		pods[1].want(t, "tcp", service66, 80, "pod1", twice66)
		pods[2].want(t, "tcp", service66, 80, "pod1", pod66(2))
		world.want(t, "tcp", service66, 80, "pod1", world66)
		pods[2].want(t, "tcp", pod66(1), servicePort, "pod1", pod66(2))
	})
	t.Run("twice-NAT", func(t *testing.T) {
		twice := dnat66("a", with66(service6(service66, tcp66, 1), func(m *mapping66) {
			m.TwiceNat, m.TwiceNatIp = contiv_nat.DNat66_StaticMapping_ENABLED, twice66
		}))
		if err := lab.agent.vs.DNAT66().Set(t.Context(), twice); errors.Is(err, kvscheduler.ErrUnsupported) {
			t.Skip(err)
		}
		lab.set(t, twice)
		world.want(t, "tcp", service66, 80, "pod1", twice66)
		pods[2].want(t, "tcp", service66, 80, "pod1", twice66)
	})
	t.Run("the node uses a service", func(t *testing.T) {
		if !lab.agent.vs.Capabilities().HostStackShared {
			t.Skip("the node has a stack of its own")
		}
		lab.set(t, dnat66("a", service6(service66, tcp66, 1)))
		if who, _, err := lab.site.Self().who(t, "tcp", "fd31:0:0:1::1", service66, 80); err != nil || who != "pod1" {
			t.Errorf("it is %q: %v", who, err)
		}
	})
	t.Run("ICMP errors find their way back", func(t *testing.T) {
		m := service6(service66, udp66, 1)
		m.LocalIps[0].LocalPort = 9
		lab.set(t, dnat66("a", m))
		call, err := world.call(t, "udp", "", service66, 80)
		if err != nil {
			t.Fatal(err)
		}
		if err := call.untilTold(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want %v", err, syscall.ECONNREFUSED)
		}
	})
	t.Run("connections go on when mappings change", func(t *testing.T) { lab.testChanges66(t) })
	t.Run("a second mapping of the same address and port is refused", func(t *testing.T) {
		lab.set(t, dnat66("a", service6(service66, tcp66, 1)))
		err := lab.agent.vs.DNAT66().Set(t.Context(), dnat66("b", service6("fd96::2", tcp66, 2), service6("fd96:0::1", tcp66, 2)))
		if err == nil {
			t.Error("a second mapping is accepted")
		}
		world.want(t, "tcp", service66, 80, "pod1", world66)
		if err := world.Probe("tcp", "fd96::2", 80, false); err == nil {
			t.Error("half of a refused value works")
		}
	})
	t.Run("interfaces that are added after a mapping", func(t *testing.T) {
		lab.set(t, dnat66("a", service6(service66, tcp66, 1)))
		later := &vpp_interfaces.Interface{
			Name: "later", Type: vpp_interfaces.Interface_TAP, Enabled: true, IpAddresses: []string{"fd33::1/64"},
			Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
		}
		lab.agent.put(later)
		host := lab.plug66(t, "later", "fd33::2", "fd33::1")
		host.want(t, "tcp", service66, 80, "pod1", "fd33::2")
		txn := lab.agent.NewTransaction()
		txn.Delete(models.Key(later))
		if _, err := txn.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("a restarted agent finds everything, and removes everything", func(t *testing.T) { lab.testRestart66(t) })
}

func (l *natLab) testAffinity66(t *testing.T, c Config) {
	sticky := func(pods ...int) *contiv_nat.DNat66 {
		return dnat66("a", with66(service6(service66, tcp66, pods...), func(m *mapping66) { m.SessionAffinity = 600 }))
	}
	from := func(n int) func() (string, string, error) {
		return func() (string, string, error) {
			return l.world.who(t, "tcp", fmt.Sprintf("fd32::%d", n), service66, 80)
		}
	}
	l.set(t, sticky(1, 2))
	had, pods := map[int]string{}, map[string]bool{}
	for n := 10; n < 26; n++ {
		for name, times := range l.count(t, 4, from(n)) {
			if had[n], pods[name] = name, true; times < 4 {
				t.Errorf("client %d does not stay with %s", n, name)
			}
		}
	}
	for n := 26; n < 50 && len(pods) < 2; n++ { // fails once in 2^15
		l.world.Exec(t, fmt.Sprintf("ip addr add fd32::%d/64 dev eth0 nodad preferred_lft 0", n))
		name, _, err := from(n)()
		if err != nil {
			t.Fatal(err)
		}
		pods[name] = true
	}
	if len(pods) < 2 {
		t.Errorf("all clients get %v", pods)
	}
	moved := 0
	l.set(t, sticky(1, 2, 3))
	for n := 10; n < 26; n++ {
		if name, _, err := from(n)(); err != nil || name != had[n] {
			if moved++; err != nil || !c.ClientsOfDNAT66Move {
				t.Errorf("client %d moves from %s to %s (%v) when a backend is added", n, had[n], name, err)
			}
		}
	}
	if moved > 13 { // the expectation is a third
		t.Errorf("%d of 16 clients get another backend when one comes", moved)
	}
	l.set(t, sticky(2))
	l.set(t, sticky(2, 3))
	for n := 10; n < 26; n++ {
		if name, _, err := from(n)(); err != nil || name == "pod1" {
			t.Errorf("client %d gets %s (%v), which is gone", n, name, err)
		}
	}
}

func (l *natLab) testChanges66(t *testing.T) {
	l.set(t, dnat66("other", service6("fd96::9", tcp66, 3)))
	call := func(network string) caller {
		t.Helper()
		c, err := l.world.call(t, network, "", "fd96::3", 80)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	both := func(pods ...int) *contiv_nat.DNat66 {
		return dnat66("a", service6("fd96::3", udp66, pods...), service6("fd96::3", tcp66, pods...))
	}
	query := call("udp")
	query.wantSilence(t) // no endpoint yet: the connection is not translated
	l.set(t, both(1))
	query.wantAnswer(t, "pod1")
	stream := call("tcp")
	stream.wantAnswer(t, "pod1")
	l.set(t, both(1, 2))
	query.wantAnswer(t, "pod1")
	stream.wantAnswer(t, "pod1")
	l.set(t, both(2, 3))
	stream.wantAnswer(t, "pod1") // the TCP connection survives
	if l.sessions {
		query.wantAnswer(t, "pod1")
	} else if who, _, err := query.ask(longWait); err != nil || who == "pod1" {
		t.Errorf("UDP still goes to %q (%v)", who, err)
	}
	fresh := call("udp")
	if who, _, err := fresh.ask(longWait); err != nil || who == "pod1" {
		t.Errorf("a new connection goes to %q (%v)", who, err)
	}
	l.set(t)
	stream.wantAnswer(t, "pod1")
	if !l.sessions {
		query.wantSilence(t)
	}
	if err := l.world.Probe("udp", "fd96::3", 80, false); err == nil {
		t.Error("a service that is gone answers")
	}
}

func (l *natLab) testRestart66(t *testing.T) {
	values := []proto.Message{
		dnat66("web/one", with66(service6(service66, tcp66, 1, 2, 3), func(m *mapping66) {
			m.SessionAffinity, m.TwiceNat, m.TwiceNatIp = 600, contiv_nat.DNat66_StaticMapping_SELF, twice66
		}), service6(service66, udp66, 1)),
		dnat66("two", with66(service6("fd96::2", tcp66, 1, 3), func(m *mapping66) { m.LocalIps[0].Probability = 7 })),
		dnat66("nothing"),
	}
	l.set(t, values...)
	all := append(append([]proto.Message{}, l.values...), values...)
	l.agent.stop()
	l.world.want(t, "udp", service66, 80, "pod1", world66)
	l.agent = startAgent(t, l.site)
	wantNothingExecuted(t, "resync after a restart", l.agent.resync(all...))
	l.agent.wantConfigured(all)
	l.world.want(t, "udp", service66, 80, "pod1", world66)
	l.agent.stop()
	l.agent = startAgent(t, l.site)
	l.agent.resync(l.values...)
	if err := l.world.Probe("tcp", service66, 80, false); err == nil {
		t.Error("a service is left")
	}
	wantNothingExecuted(t, "second resync", l.agent.resync(l.values...))
}
