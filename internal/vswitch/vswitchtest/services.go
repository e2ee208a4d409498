package vswitchtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

type (
	mapping44 = vpp_nat.DNat44_StaticMapping
	local44   = vpp_nat.DNat44_StaticMapping_LocalIP
)

// serviceLab is a natLab with a ServiceNetwork and one IP version. Its three pods are inside.
type serviceLab struct {
	*natLab
	ipv6    bool
	network *contiv_nat.ServiceNetwork
	// service and other are cluster IPs. twice is the range of source addresses of hairpin
	// connections.
	service, other string
	twice          []string
	pod            func(n int) string
	gateway        func(n int) string // of the pod, an address of the vswitch
	client         func(n int) string // additional addresses of the world, 10 to 25
	outside        string             // first address of the world
	// scopes is set if the vswitch distinguishes client scopes, shared if the node's processes are
	// clients.
	scopes, shared bool
	// fewMove and flowsStay are set from Config. clientIP is set if the vswitch supports client_ip.
	fewMove, flowsStay, clientIP bool
}

func newServiceLab(t *testing.T, c Config, ipv6 bool) *serviceLab {
	t.Helper()
	probe := open(t, c.NewSite(t))
	if err := probe.ServiceNetworks().Create(t.Context(), &contiv_nat.ServiceNetwork{Inside: []string{"fd31::/32"}}); errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Skip(err)
	}
	caps := probe.Capabilities()
	l := &serviceLab{ipv6: ipv6, scopes: caps.ClientScopes, shared: caps.HostStackShared, fewMove: c.ClientsOfDNAT66Move, flowsStay: c.FlowsOfDNAT66Stay, clientIP: !c.ClientIPIgnored}
	if ipv6 {
		l.natLab, l.service, l.other, l.twice, l.outside = newDNAT66Lab(t, c), service66, "fd96::77", []string{"fd31:0:0:9::fe"}, world66
		l.network = &contiv_nat.ServiceNetwork{Inside: []string{"fd31::/32"}, ServiceSubnets: []string{"fd96::/64"}}
		l.pod, l.gateway = pod66, func(n int) string { return "fd31:0:0:" + strconv.Itoa(n) + "::1" }
		l.client = func(n int) string { return "fd32::" + strconv.Itoa(n) }
	} else {
		l.natLab, l.service, l.other, l.twice, l.outside = newNATLabIn(t, c, caps.MultipleVRFs), "10.96.0.1", "10.96.0.77", []string{twicePool, twicePoolIP}, worldIP
		l.network = &contiv_nat.ServiceNetwork{Inside: []string{"10.31.0.0/16"}, ServiceSubnets: []string{"10.96.0.0/16"}}
		l.pod, l.gateway = podIP, func(n int) string { return "10.31." + strconv.Itoa(n) + ".1" }
		l.client = func(n int) string { return "10.32.0." + strconv.Itoa(n) }
	}
	if !l.shared {
		l.network.OutsideInterfaces = []string{"world"}
	}
	return l
}

func (l *serviceLab) mapping(protocol vpp_nat.DNat44_Protocol, pods ...int) *mapping44 {
	m := &mapping44{ExternalIp: l.service, ExternalPort: 80, Protocol: protocol, TwiceNat: vpp_nat.DNat44_StaticMapping_SELF}
	for _, n := range pods {
		m.LocalIps = append(m.LocalIps, &local44{LocalIp: l.pod(n), LocalPort: servicePort, Probability: 1})
	}
	return m
}

func (l *serviceLab) value(mappings ...*mapping44) proto.Message {
	if !l.ipv6 {
		for _, m := range mappings {
			if m.TwiceNat != vpp_nat.DNat44_StaticMapping_DISABLED && !l.shared {
				m.TwiceNatPoolIp = twicePool
			}
		}
		return &vpp_nat.DNat44{Label: "default/web", StMappings: mappings}
	}
	for _, m := range mappings {
		if m.TwiceNat != vpp_nat.DNat44_StaticMapping_DISABLED {
			m.TwiceNatPoolIp = l.twice[0]
		}
	}
	return vswitch.DNAT66FromDNAT44(&vpp_nat.DNat44{Label: "default/web", StMappings: mappings})
}

func (l *serviceLab) serve(t *testing.T, mappings ...*mapping44) {
	t.Helper()
	l.set(t, l.network, l.value(mappings...))
}

func edited(m *mapping44, edit func(*mapping44)) *mapping44 {
	edit(m)
	return m
}

const (
	tcp44 = vpp_nat.DNat44_TCP
	udp44 = vpp_nat.DNat44_UDP
)

func (l *serviceLab) wantRefused(t *testing.T, h *Host, network, addr string, port int) {
	t.Helper()
	start := time.Now()
	c, err := h.call(t, network, "", addr, port)
	if err == nil {
		err = c.untilTold()
	}
	refused := l.isRefusal(err)
	if network == "udp" && h.NetNS == l.site.Self().NetNS {
		refused = refused || errors.Is(err, syscall.EPERM) // local senders get EPERM
	}
	if took := time.Since(start); !refused || took > longWait {
		t.Errorf("%s %s port %d: %v after %v, want %v at once", network, addr, port, err, took, syscall.ECONNREFUSED)
	}
}

// isRefusal accepts the errors of reject routes in a user-space stack.
func (l *serviceLab) isRefusal(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || !l.shared && (errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.EACCES))
}

func (l *serviceLab) wantUnimplemented(t *testing.T, m *mapping44) {
	t.Helper()
	v := l.value(m)
	txn := l.agent.NewTransaction()
	txn.Put(models.Key(v), v)
	_, _ = txn.Commit(t.Context())
	if state := l.agent.ValueStatus(models.Key(v)).GetValue().GetState(); state != pb.ValueState_UNIMPLEMENTED {
		t.Errorf("%v is %v, want UNIMPLEMENTED", m, state)
	}
}

// untilTold repeats a request until it gets an answer or an error other than a timeout. The kernel
// limits ICMP messages to a client to one per second, including the redirect for a pod that calls
// itself.
func (c caller) untilTold() error {
	var err error
	for deadline := time.Now().Add(longWait); time.Now().Before(deadline); {
		if _, _, err = c.ask(shortWait); !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
	return err
}

// wantIgnored checks that a client gets neither an answer nor an error.
func (l *serviceLab) wantIgnored(t *testing.T, h *Host, from string) {
	t.Helper()
	err := h.in(func() error {
		d := net.Dialer{Timeout: shortWait}
		if from != "" {
			d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
		}
		c, err := d.DialContext(context.Background(), "tcp", net.JoinHostPort(l.service, "80"))
		if err == nil {
			c.Close()
		}
		return err
	})
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		t.Errorf("from %q: got %v, want no answer", from, err)
	}
}

func runServices(t *testing.T, c Config) {
	if _, ok := c.NewSite(t).(PacketSite); !ok {
		t.Skip("this driver carries no packets")
	}
	for name, ipv6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) { newServiceLab(t, c, ipv6).run(t) })
	}
}

func (l *serviceLab) run(t *testing.T) {
	var node *Host
	if l.shared {
		node = l.site.Self()
	}
	hosts := func(list ...*Host) []*Host { return slices.DeleteFunc(list, func(h *Host) bool { return h == nil }) }
	t.Run("source address at the endpoint", func(t *testing.T) {
		l.serve(t, l.mapping(tcp44, 1), l.mapping(udp44, 1))
		for _, network := range []string{"tcp", "udp"} {
			l.pods[2].want(t, network, l.service, 80, "pod1", l.pod(2))
			l.world.want(t, network, l.service, 80, "pod1", l.outside)
			for _, h := range hosts(node) {
				h.want(t, network, l.service, 80, "pod1", l.gateway(1))
			}
			who, seen, err := l.pods[1].who(t, network, "", l.service, 80)
			if err != nil || who != "pod1" || !slices.Contains(l.twice, seen) {
				t.Errorf("a pod that calls itself by %s reaches %s, which sees %s (%v)", network, who, seen, err)
			}
		}
		l.pods[2].want(t, "tcp", l.pod(1), servicePort, "pod1", l.pod(2))
	})
	t.Run("addresses and ports with the same digits in a row", func(t *testing.T) {
		at := func(addr string, port uint32, pod int) *mapping44 {
			return edited(l.mapping(tcp44, pod), func(m *mapping44) { m.ExternalIp, m.ExternalPort = addr, port })
		}
		longer := l.service + "1"
		l.serve(t, at(l.service, 1, 1), at(l.service, 11, 2), at(longer, 1, 3), at(longer, 11, 1))
		for _, want := range []struct {
			addr string
			port int
			pod  string
		}{{l.service, 1, "pod1"}, {l.service, 11, "pod2"}, {longer, 1, "pod3"}, {longer, 11, "pod1"}} {
			l.world.want(t, "tcp", want.addr, want.port, want.pod, l.outside)
		}
	})
	t.Run("an endpoint with another address", l.testClientIP)
	t.Run("no endpoint", func(t *testing.T) {
		refuse := func(m *mapping44) { m.Otherwise = vpp_nat.DNat44_StaticMapping_REFUSE }
		l.serve(t, edited(l.mapping(tcp44), refuse), edited(l.mapping(udp44), refuse))
		for _, h := range hosts(l.pods[1], l.world, node) {
			for _, network := range []string{"tcp", "udp"} {
				l.wantRefused(t, h, network, l.service, 80)
			}
		}
	})
	t.Run("a port of no service", func(t *testing.T) {
		l.serve(t, l.mapping(tcp44, 1))
		for _, h := range hosts(l.pods[1], node) {
			l.wantRefused(t, h, "tcp", l.service, 81)
			l.wantRefused(t, h, "udp", l.service, 80)
			l.wantRefused(t, h, "tcp", l.other, 80)
		}
	})
	t.Run("inside and outside", func(t *testing.T) { l.testScopes(t, node) })
	t.Run("source ranges", func(t *testing.T) {
		if !l.scopes {
			l.wantUnimplemented(t, edited(l.mapping(tcp44, 1), func(m *mapping44) { m.SourceRanges = []string{l.client(10) + "/" + strconv.Itoa(l.bits())} }))
			return
		}
		l.serve(t, edited(l.mapping(tcp44, 1), func(m *mapping44) {
			m.SourceRanges = []string{l.client(10) + "/" + strconv.Itoa(l.bits()), l.pod(3) + "/" + strconv.Itoa(l.bits()-8), l.pod(3) + "/" + strconv.Itoa(l.bits())}
		}))
		l.pods[3].want(t, "tcp", l.service, 80, "pod1", l.pod(3))
		if who, seen, err := l.world.who(t, "tcp", l.client(10), l.service, 80); err != nil || who != "pod1" || seen != l.client(10) {
			t.Errorf("%s answers, which sees %s: %v", who, seen, err)
		}
		l.wantIgnored(t, l.world, "")
		l.wantIgnored(t, l.pods[2], "")
		l.wantIgnored(t, node, "")
	})
	t.Run("source ranges of guarded pods", l.testSourceRanges)
	t.Run("session affinity when the second endpoint comes", func(t *testing.T) {
		if l.fewMove {
			t.Skip("clients of this vswitch move when the second endpoint comes")
		}
		sticky := func(m *mapping44) { m.SessionAffinity = 600 }
		l.serve(t, edited(l.mapping(tcp44, 1), sticky))
		for n := 10; n < 20; n++ {
			if _, _, err := l.world.who(t, "tcp", l.client(n), l.service, 80); err != nil {
				t.Fatal(err)
			}
		}
		l.serve(t, edited(l.mapping(tcp44, 1, 2), sticky))
		for n := 10; n < 20; n++ {
			if who, _, err := l.world.who(t, "tcp", l.client(n), l.service, 80); err != nil || who != "pod1" {
				t.Errorf("client %d moves to %s (%v)", n, who, err)
			}
		}
	})
	t.Run("session affinity of a port with several addresses", l.testPortAffinity)
	t.Run("UDP when the first endpoint comes, and when it goes", func(t *testing.T) {
		refuse := func(m *mapping44) { m.Otherwise = vpp_nat.DNat44_StaticMapping_REFUSE }
		l.serve(t, edited(l.mapping(udp44), refuse))
		call, err := l.pods[2].call(t, "udp", "", l.service, 80)
		if err != nil {
			t.Fatal(err)
		}
		if err := call.untilTold(); !l.isRefusal(err) {
			t.Errorf("without endpoint: %v", err)
		}
		l.serve(t, l.mapping(udp44, 1))
		call.wantAnswer(t, "pod1")
		if l.flowsStay {
			return
		}
		l.serve(t, l.mapping(udp44, 3))
		call.wantAnswer(t, "pod3")
		l.serve(t, edited(l.mapping(udp44), refuse))
		if err := call.untilTold(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("after the last endpoint: %v", err)
		}
	})
	t.Run("UDP when the endpoints of some clients change", func(t *testing.T) { l.testFlowsOfSomeClients(t, node) })
	t.Run("TCP when an endpoint goes", func(t *testing.T) {
		reset := func(m *mapping44) { m.ResetRemoved = true }
		refuse := func(m *mapping44) { m.Otherwise = vpp_nat.DNat44_StaticMapping_REFUSE }
		for _, after := range []struct {
			what    string
			mapping func() *mapping44
		}{{"to another", func() *mapping44 { return l.mapping(tcp44, 3) }}, {"the last one", func() *mapping44 { return edited(l.mapping(tcp44), refuse) }}} {
			for _, resets := range []bool{false, true} {
				if resets && !l.shared {
					continue // the agent knows the pods' namespaces, where VPP's driver finds sockets: see package test/vpp
				}
				edit := func(*mapping44) {}
				if resets {
					edit = reset
				}
				l.serve(t, edited(l.mapping(tcp44, 1), edit))
				call, err := l.pods[2].call(t, "tcp", "", l.service, 80)
				if err != nil {
					t.Fatal(err)
				}
				call.wantAnswer(t, "pod1")
				l.serve(t, edited(after.mapping(), edit))
				switch _, _, err := call.ask(longWait); {
				case !resets && err != nil:
					t.Errorf("%s, not to be reset: %v", after.what, err)
				case resets && !errors.Is(err, syscall.ECONNRESET):
					t.Errorf("%s, to be reset: %v", after.what, err)
				}
			}
		}
		// Flows of remaining endpoints continue.
		l.serve(t, edited(l.mapping(tcp44, 1), reset))
		call, err := l.pods[2].call(t, "tcp", "", l.service, 80)
		if err != nil {
			t.Fatal(err)
		}
		l.serve(t, edited(l.mapping(tcp44, 1, 3), reset))
		call.wantAnswer(t, "pod1")
	})
	if l.shared && l.scopes { // required by the cases
		t.Run("cases", l.runTable)
	}
	t.Run("a restarted agent finds everything, and removes everything", func(t *testing.T) { l.testServiceRestart(t) })
}

// testPortAffinity: a client gets the same endpoint of a service port at all addresses of the
// service.
func (l *serviceLab) testPortAffinity(t *testing.T) {
	type address struct {
		ip   string
		port uint32
	}
	addresses := []address{{l.service, 80}, {l.other, 80}, {l.other, 30080}} // the last one like a node port
	mapping := func(at address, clients vpp_nat.DNat44_StaticMapping_Clients, pods ...int) *mapping44 {
		return edited(l.mapping(tcp44, pods...), func(m *mapping44) {
			m.ExternalIp, m.ExternalPort, m.AffinityPort, m.SessionAffinity, m.Clients = at.ip, at.port, 443, 600, clients
		})
	}
	serve := func(pods ...int) {
		t.Helper()
		var mappings []*mapping44
		for _, at := range addresses {
			mappings = append(mappings, mapping(at, vpp_nat.DNat44_StaticMapping_ALL, pods...))
		}
		l.serve(t, mappings...)
	}
	ask := func(h *Host, from string, at address) string {
		t.Helper()
		who, _, err := h.who(t, "tcp", from, at.ip, int(at.port))
		if err != nil {
			t.Fatalf("from %q to %v: %v", from, at, err)
		}
		return who
	}
	// each returns the endpoint of each client by number, if it is the same at all addresses.
	each := func(addresses ...address) map[int]string {
		t.Helper()
		had := map[int]string{}
		for n := 10; n < 22; n++ {
			for i := range 2 * len(addresses) {
				at := addresses[(n+i)%len(addresses)]
				switch who := ask(l.world, l.client(n), at); {
				case i == 0:
					had[n] = who
				case who != had[n]:
					t.Errorf("client %d comes to %s at %v, and to %s at %v", n, who, at, had[n], addresses[n%len(addresses)])
				}
			}
		}
		return had
	}
	// VPP forgets the clients of other tests. The kernel has none with this affinity port.
	l.serve(t, l.mapping(tcp44, 1))
	// VPP resolves IPv6 neighbours only for packets that it has not translated.
	for n := 10; n < 22; n++ {
		if _, _, err := l.world.who(t, "tcp", l.client(n), l.pod(1), servicePort); err != nil {
			t.Fatal(err)
		}
	}
	serve(1, 2, 3)
	before := each(addresses...)
	serve(1, 2)
	after := each(addresses...)
	came := map[string]bool{}
	for n, pod := range before {
		came[pod] = true
		if !l.fewMove && pod != "pod3" && after[n] != pod {
			t.Errorf("client %d moves from %s to %s because pod3 goes", n, pod, after[n])
		}
	}
	if len(came) < 2 {
		t.Errorf("all clients come to %v", came)
	}
	if !l.scopes {
		return
	}
	local := []*mapping44{mapping(addresses[0], vpp_nat.DNat44_StaticMapping_ALL, 1, 2, 3)}
	for _, at := range addresses[1:] {
		local = append(local, mapping(at, vpp_nat.DNat44_StaticMapping_INSIDE, 1, 2, 3), mapping(at, vpp_nat.DNat44_StaticMapping_OUTSIDE, 2, 3))
	}
	l.serve(t, local...)
	cluster := each(addresses[0])
	outside := each(addresses[1:]...)
	for n, pod := range cluster {
		if is := ask(l.world, l.client(n), addresses[0]); is != pod {
			t.Errorf("client %d moves from %s to %s because it comes by an address without that", n, pod, is)
		}
		if pod != "pod1" && outside[n] != pod || outside[n] == "pod1" {
			t.Errorf("client %d, which has %s, comes to %s by an address for pod2 and pod3", n, pod, outside[n])
		}
	}
	had := ask(l.pods[2], "", addresses[1])
	for _, at := range append(addresses, addresses...) {
		if is := ask(l.pods[2], "", at); is != had {
			t.Errorf("pod2 comes to %s at %v, and to %s", is, at, had)
		}
	}
}

// testClientIP makes pod1 an endpoint at an address that differs from its source address. Drivers
// that ignore client_ip serve all clients except pod1, whose kernel drops packets from its own
// address.
func (l *serviceLab) testClientIP(t *testing.T) {
	at := netip.MustParseAddr(l.pod(1))
	for range 7 {
		at = at.Next()
	}
	added := fmt.Sprintf("%s/%d dev eth0", at, l.bits())
	if l.ipv6 { // deprecated addresses are not used as a source
		added += " nodad preferred_lft 0"
	}
	l.pods[1].Exec(t, "ip addr add "+added)
	t.Cleanup(func() { l.pods[1].Exec(t, fmt.Sprintf("ip addr del %s/%d dev eth0", at, l.bits())) })
	const port = servicePort + 1
	l.pods[1].answer(t, "pod1", netip.AddrPortFrom(at, port).String()) // UDP answers come from that address
	with := func(m *mapping44) {
		m.LocalIps[0] = &local44{LocalIp: at.String(), LocalPort: port, Probability: 1, ClientIp: l.pod(1)}
	}
	l.serve(t, edited(l.mapping(tcp44, 1), with), edited(l.mapping(udp44, 1), with))
	for _, network := range []string{"tcp", "udp"} {
		l.pods[2].want(t, network, l.service, 80, "pod1", l.pod(2))
		l.world.want(t, network, l.service, 80, "pod1", l.outside)
		who, seen, err := l.pods[1].who(t, network, "", l.service, 80)
		switch timeout, ok := errors.AsType[net.Error](err); {
		case l.clientIP && (err != nil || who != "pod1" || !slices.Contains(l.twice, seen)):
			t.Errorf("a pod that calls itself at another address by %s reaches %s, which sees %s (%v)", network, who, seen, err)
		case !l.clientIP && (!ok || !timeout.Timeout()):
			t.Errorf("a pod that calls itself at another address by %s reaches %s, which sees %s (%v), want no answer", network, who, seen, err)
		}
	}
}

func (l *serviceLab) seenItself(t *testing.T) string {
	t.Helper()
	_, seen, err := l.pods[1].who(t, "tcp", "", l.service, 80)
	if err != nil || !slices.Contains(l.twice, seen) {
		t.Errorf("pod1 is seen as %q (%v)", seen, err)
	}
	return seen
}

func (l *serviceLab) bits() int {
	if l.ipv6 {
		return 128
	}
	return 32
}

// testFlowsOfSomeClients changes a service like externalTrafficPolicy, internalTrafficPolicy and
// source ranges. UDP flows that the change still allows continue, all others move.
func (l *serviceLab) testFlowsOfSomeClients(t *testing.T, node *Host) {
	if !l.scopes || l.flowsStay {
		t.Skip("all clients of this vswitch have the same endpoints")
	}
	clients := func(kind vpp_nat.DNat44_StaticMapping_Clients, m *mapping44) *mapping44 {
		return edited(m, func(m *mapping44) { m.Clients = kind })
	}
	const inside, outside, own = vpp_nat.DNat44_StaticMapping_INSIDE, vpp_nat.DNat44_StaticMapping_OUTSIDE, vpp_nat.DNat44_StaticMapping_NODE
	drop := func(m *mapping44) { m.Otherwise = vpp_nat.DNat44_StaticMapping_DROP }
	open := func(t *testing.T, want string) (fromInside, fromOutside, fromNode caller) {
		t.Helper()
		var calls []caller
		for _, h := range []*Host{l.pods[2], l.world, node} {
			call, err := h.call(t, "udp", "", l.service, 80)
			if err != nil {
				t.Fatal(err)
			}
			call.wantAnswer(t, want)
			calls = append(calls, call)
		}
		return calls[0], calls[1], calls[2]
	}
	t.Run("outside", func(t *testing.T) { // Cluster, Local with an endpoint, Local without an endpoint, Cluster
		l.serve(t, l.mapping(udp44, 1))
		in, out, self := open(t, "pod1")
		l.serve(t, clients(inside, l.mapping(udp44, 1, 3)), clients(outside, l.mapping(udp44, 3)))
		out.wantAnswer(t, "pod3")
		in.wantAnswer(t, "pod1")
		self.wantAnswer(t, "pod1")
		l.serve(t, clients(inside, l.mapping(udp44, 1, 3)), clients(outside, edited(l.mapping(udp44), drop)))
		out.wantSilence(t)
		in.wantAnswer(t, "pod1")
		self.wantAnswer(t, "pod1")
		l.serve(t, l.mapping(udp44, 1))
		out.wantAnswer(t, "pod1")
		in.wantAnswer(t, "pod1")
	})
	t.Run("inside", func(t *testing.T) {
		l.serve(t, l.mapping(udp44, 1))
		in, out, _ := open(t, "pod1")
		l.serve(t, clients(inside, l.mapping(udp44, 3)), clients(outside, l.mapping(udp44, 1)))
		in.wantAnswer(t, "pod3")
		out.wantAnswer(t, "pod1")
	})
	t.Run("the node itself", func(t *testing.T) {
		l.serve(t, l.mapping(udp44, 1))
		in, out, self := open(t, "pod1")
		l.serve(t, l.mapping(udp44, 1), clients(own, l.mapping(udp44, 3)))
		self.wantAnswer(t, "pod3")
		in.wantAnswer(t, "pod1")
		out.wantAnswer(t, "pod1")
	})
	t.Run("source ranges", func(t *testing.T) {
		ranges := func(prefixes ...string) *mapping44 {
			return edited(l.mapping(udp44, 1), func(m *mapping44) { m.SourceRanges = prefixes })
		}
		one := func(addr string) string { return addr + "/" + strconv.Itoa(l.bits()) }
		l.serve(t, l.mapping(udp44, 1))
		in, out, _ := open(t, "pod1")
		l.serve(t, ranges(one(l.pod(2)), one(l.outside)))
		in.wantAnswer(t, "pod1")
		out.wantAnswer(t, "pod1")
		l.serve(t, ranges(one(l.pod(2))))
		out.wantSilence(t)
		in.wantAnswer(t, "pod1")
		l.serve(t, ranges(one(l.outside)))
		in.wantSilence(t)
		out.wantAnswer(t, "pod1")
	})
}

func (l *serviceLab) testScopes(t *testing.T, node *Host) {
	inside := func(m *mapping44) { m.Clients = vpp_nat.DNat44_StaticMapping_INSIDE }
	outside := func(m *mapping44) { m.Clients = vpp_nat.DNat44_StaticMapping_OUTSIDE }
	if !l.scopes {
		l.testOneScope(t)
		return
	}
	t.Run("other endpoints", func(t *testing.T) {
		l.serve(t, edited(l.mapping(tcp44, 1), inside), edited(l.mapping(tcp44, 2), outside))
		l.pods[3].want(t, "tcp", l.service, 80, "pod1", l.pod(3))
		node.want(t, "tcp", l.service, 80, "pod1", l.gateway(1))
		l.world.want(t, "tcp", l.service, 80, "pod2", l.outside)
	})
	t.Run("other endpoints for the node itself", func(t *testing.T) {
		own := func(m *mapping44) { m.Clients = vpp_nat.DNat44_StaticMapping_NODE }
		for _, others := range [][]*mapping44{
			{l.mapping(tcp44, 1)}, {edited(l.mapping(tcp44, 1), inside), edited(l.mapping(tcp44, 1), outside)},
		} {
			l.serve(t, append(others, edited(l.mapping(tcp44, 2), own))...)
			l.pods[3].want(t, "tcp", l.service, 80, "pod1", l.pod(3))
			node.want(t, "tcp", l.service, 80, "pod2", l.gateway(2))
			l.world.want(t, "tcp", l.service, 80, "pod1", l.outside)
		}
	})
	t.Run("none outside", func(t *testing.T) {
		l.serve(t, edited(l.mapping(tcp44, 1), inside), edited(edited(l.mapping(tcp44), outside), func(m *mapping44) {
			m.Otherwise = vpp_nat.DNat44_StaticMapping_DROP
		}))
		l.pods[3].want(t, "tcp", l.service, 80, "pod1", l.pod(3))
		node.want(t, "tcp", l.service, 80, "pod1", l.gateway(1))
		l.wantIgnored(t, l.world, "")
	})
	t.Run("clients outside hidden", func(t *testing.T) {
		hide := func(m *mapping44) { m.MasqueradeOutside = true }
		l.serve(t, edited(l.mapping(tcp44, 1), hide))
		l.world.want(t, "tcp", l.service, 80, "pod1", l.gateway(1))
		l.pods[3].want(t, "tcp", l.service, 80, "pod1", l.pod(3))
		if seen := l.seenItself(t); seen == l.pod(1) {
			t.Errorf("pod1 sees itself as %s", seen)
		}
	})
	t.Run("affinity of each sort", func(t *testing.T) {
		sticky := func(m *mapping44) { m.SessionAffinity = 600 }
		l.serve(t, edited(edited(l.mapping(tcp44, 1, 2), inside), sticky), edited(edited(l.mapping(tcp44, 2, 3), outside), sticky))
		for _, from := range []struct {
			host *Host
			not  string
		}{{l.pods[2], "pod3"}, {l.world, "pod1"}} {
			count := l.count(t, 8, func() (string, string, error) { return from.host.who(t, "tcp", "", l.service, 80) })
			if len(count) != 1 || count[from.not] > 0 {
				t.Errorf("answers %v", count)
			}
		}
	})
}

// testOneScope replaces testScopes for a vswitch with one mapping for all clients.
func (l *serviceLab) testOneScope(t *testing.T) {
	l.wantUnimplemented(t, edited(l.mapping(tcp44, 1), func(m *mapping44) { m.Clients = vpp_nat.DNat44_StaticMapping_OUTSIDE }))
	hide := func(m *mapping44) { m.MasqueradeOutside = true }
	for _, network := range []string{"tcp", "udp"} {
		protocol := tcp44
		if network == "udp" {
			protocol = udp44
		}
		l.serve(t, edited(l.mapping(protocol, 1), hide))
		l.world.want(t, network, l.service, 80, "pod1", l.twice[0])
		l.pods[3].want(t, network, l.service, 80, "pod1", l.pod(3))
	}
	l.serve(t, edited(l.mapping(tcp44, 1), hide))
	if seen := l.seenItself(t); seen == l.pod(1) {
		t.Errorf("pod1 sees itself as %s", seen)
	}
	l.serve(t, edited(l.mapping(tcp44, 1, 2, 3), func(m *mapping44) { m.SessionAffinity = 600 }))
	for _, h := range []*Host{l.pods[2], l.world} {
		if count := l.count(t, 8, func() (string, string, error) { return h.who(t, "tcp", "", l.service, 80) }); len(count) != 1 {
			t.Errorf("answers %v", count)
		}
	}
}

func (l *serviceLab) testServiceRestart(t *testing.T) {
	mappings := func(first int) proto.Message {
		if !l.scopes {
			return l.value(
				l.mapping(udp44, first), edited(l.mapping(tcp44), func(m *mapping44) { m.Otherwise = vpp_nat.DNat44_StaticMapping_REFUSE }),
				edited(l.mapping(tcp44, 1, 2), func(m *mapping44) {
					m.ExternalPort, m.SessionAffinity, m.AffinityPort, m.MasqueradeOutside = 81, 600, 80, true
				}),
				edited(l.mapping(tcp44, 1), func(m *mapping44) { m.ExternalPort, m.MasqueradeOutside, m.LocalIps[0].Elsewhere = 82, true, true }),
			)
		}
		scoped := func(port uint32, clients vpp_nat.DNat44_StaticMapping_Clients, pods ...int) *mapping44 {
			return edited(l.mapping(tcp44, pods...), func(m *mapping44) {
				m.ExternalPort, m.Clients, m.SessionAffinity, m.AffinityPort = port, clients, 600, 80
				m.SourceRanges = []string{l.client(10) + "/" + strconv.Itoa(l.bits()-4)}
			})
		}
		return l.value(
			l.mapping(udp44, first), scoped(81, vpp_nat.DNat44_StaticMapping_INSIDE, 1, 2), scoped(81, vpp_nat.DNat44_StaticMapping_OUTSIDE, 3),
			edited(l.mapping(tcp44), func(m *mapping44) { m.Otherwise = vpp_nat.DNat44_StaticMapping_REFUSE }),
			edited(scoped(82, vpp_nat.DNat44_StaticMapping_ALL, 1), func(m *mapping44) { m.MasqueradeOutside, m.LocalIps[0].Elsewhere = true, true }),
		)
	}
	values := []proto.Message{l.network, mappings(1)}
	l.set(t, values...)
	all := append(append([]proto.Message{}, l.values...), values...)
	l.agent.stop()
	l.world.want(t, "udp", l.service, 80, "pod1", l.outside)
	l.agent = startAgent(t, l.site)
	wantNothingExecuted(t, "resync after a restart", l.agent.resync(all...))
	l.agent.wantConfigured(all)
	l.wantRefused(t, l.pods[1], "tcp", l.service, 80)
	l.set(t, l.network, mappings(2))
	l.world.want(t, "udp", l.service, 80, "pod2", l.outside)
	l.agent.stop()
	l.agent = startAgent(t, l.site)
	l.agent.resync(l.values...)
	if _, _, err := l.pods[1].who(t, "udp", "", l.service, 80); err == nil {
		t.Error("a service is left")
	}
	wantNothingExecuted(t, "second resync", l.agent.resync(l.values...))
}
