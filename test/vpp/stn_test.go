package vpp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"golang.org/x/sys/unix"
)

// singleNIC is a lab in which the first node shares its only NIC with VPP. The second node uses the
// kernel.
type singleNIC struct {
	*lab.Lab
	t             testing.TB
	node, outside lab.Endpoint
	routes        string // routes of the NIC while the host owns it
	connections   []*connection
}

type connection struct {
	what string
	net.Conn
}

// dial connects to an echo server in another endpoint that runs until the test ends.
func dial(t testing.TB, from, to lab.Endpoint) *connection {
	t.Helper()
	address := labtest.Echo(t, to.Netns, net.JoinHostPort(to.Address.String(), "0"))
	c := &connection{what: from.Name + " → " + to.Name}
	err := lab.InNetns(lab.NetnsPath(from.Netns), func() (err error) {
		c.Conn, err = net.DialTimeout("tcp", address, 10*time.Second)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", c.what, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (c *connection) echo(t testing.TB, after string) {
	t.Helper()
	sent := strings.Repeat("0123456789abcdef", 1024)
	c.SetDeadline(time.Now().Add(30 * time.Second))
	go io.WriteString(c, sent)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != sent {
		t.Fatalf("the TCP connection %s is broken after %s: %v", c.what, after, err)
	}
}

func upSingleNIC(t *testing.T, config string, agentFlags ...string) *singleNIC {
	t.Helper()
	if os.Getenv(lab.BinaryVariable) == "" {
		t.Skip("needs VPP 25.10: make test-vpp " + lab.BinaryVariable + "=/usr/bin/vpp")
	}
	if os.Geteuid() != 0 {
		t.Skip("the lab makes network namespaces; run the tests as root")
	}
	s := &singleNIC{t: t, Lab: labtest.Up(t, lab.Options{
		Name: fmt.Sprintf("st%d", os.Getpid()), BinDir: binaries, VSwitches: []string{lab.VPPVSwitch, lab.KernelVSwitch}, SingleNIC: true, ContivConfig: config, AgentFlags: agentFlags})}
	st, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	if s.node, err = st.Endpoint("node1"); err == nil {
		s.outside, err = st.Endpoint(lab.OutsideName)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// holder waits until the given party owns the NIC.
func (s *singleNIC) holder(want journal.Holder) (e *journal.Entry) {
	s.t.Helper()
	await.That(s.t, fmt.Sprintf("the card is with %q", want), func() error {
		j, err := journal.File(s.Path("nodes", "node1", "stn", "journal.json")).Load()
		if err != nil {
			return err
		}
		if len(j.NICs) == 0 && want == "" {
			return nil
		}
		if len(j.NICs) != 1 || j.NICs[0].Holder != want {
			return fmt.Errorf("it is not: %+v", j.NICs)
		}
		e = j.NICs[0]
		return nil
	})
	return e
}

func (s *singleNIC) onHost(device string) string {
	s.t.Helper()
	return strings.TrimSpace(s.routesOf("-4", device) + " " + s.routesOf("-6", device))
}

func (s *singleNIC) routesOf(family, device string) string {
	s.t.Helper()
	out, err := s.Exec(s.t.Context(), "node1", "ip", family, "route", "show", "dev", device)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool { return strings.HasPrefix(line, "fe80::/64 ") })
	return strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
}

// back waits until the host owns the NIC again with all routes, and checks that this took at most 5
// seconds.
func (s *singleNIC) back(after string, since time.Time) {
	s.t.Helper()
	e := s.holder(journal.Host)
	took := e.Since.Sub(since)
	if took < 0 {
		s.t.Logf("%s: VPP did not have the card yet", after)
	} else {
		s.t.Logf("%s: the card was back after %v: %s", after, took.Round(time.Millisecond), e.Reason)
	}
	if took > 5*time.Second {
		s.t.Errorf("%s: it took %v to give the card back", after, took)
	}
	if got := s.onHost("eth0"); got != s.routes {
		s.t.Errorf("%s: the card has the routes %q, want %q", after, got, s.routes)
	}
	s.reachable(after)
}

func (s *singleNIC) reachable(after string) {
	s.t.Helper()
	for _, c := range s.connections {
		c.echo(s.t, after)
	}
}

// watched measures the longest outage of the host from outside during do, for the addresses of each
// pair of endpoints. The default is IPv4.
func (s *singleNIC) watched(what string, do func(), pairs ...[2]lab.Endpoint) (longest time.Duration) {
	s.t.Helper()
	if len(pairs) == 0 {
		pairs = [][2]lab.Endpoint{{s.outside, s.node}}
	}
	var streams []*lab.Stream
	for _, pair := range pairs {
		stream, err := lab.StartStream(pair[0], pair[1], 5*time.Millisecond)
		if err != nil {
			s.t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	flow := func() {
		s.t.Helper()
		ctx, cancel := context.WithTimeout(s.t.Context(), await.Patience)
		defer cancel()
		for i, stream := range streams {
			if err := stream.Await(ctx, 50); err != nil {
				s.t.Fatalf("%s, %s: %v", what, pairs[i][1].Address, err)
			}
		}
	}
	flow()
	do()
	flow()
	for i, stream := range streams {
		report := stream.Stop()
		s.t.Logf("%s, %s: %v", what, pairs[i][1].Address, report)
		longest = max(longest, report.LongestGap)
	}
	s.reachable(what)
	return longest
}

func (s *singleNIC) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// A node with a single NIC is reachable before, during and after the takeover by VPP. TCP
// connections survive, and the host gets the NIC back soon after any process is killed.
func TestSingleNIC(t *testing.T) {
	for by, flags := range map[string][]string{"AF_PACKET": nil, "AF_XDP": {"--vpp-xdp-device", "eth0"}} {
		t.Run(by, func(t *testing.T) { testSingleNIC(t, flags...) })
	}
}

func testSingleNIC(t *testing.T, agentFlags ...string) {
	s := upSingleNIC(t, "", agentFlags...)
	ctx := t.Context()
	s.holder(journal.VSwitch)
	if err := s.StopAgent(ctx, "node1"); err != nil {
		t.Fatal(err)
	}
	s.holder("")
	s.routes = s.onHost("eth0")
	if want := "default via 192.168.16.254 192.168.16.0/24 proto kernel scope link src 192.168.16.1"; s.routes != want {
		t.Fatalf("released, the card has the routes %q, want %q", s.routes, want)
	}
	s.connections = []*connection{dial(t, s.outside, s.node), dial(t, s.node, s.outside)}
	s.reachable("the release")

	gap := s.watched("theft", func() { s.must(s.StartAgent(ctx, "node1")); s.holder(journal.VSwitch) })
	if gap >= time.Second {
		t.Errorf("the host could not be reached for %v during the theft", gap)
	}
	if routes := s.onHost("eth0"); routes != "" {
		t.Errorf("stolen, the card has the routes %s", routes)
	}
	if routes := s.onHost("vpp1"); !strings.Contains(routes, "default via 192.168.16.254") {
		t.Errorf("the host has no default route through VPP: %s", routes)
	}

	if len(agentFlags) == 0 {
		s.renewLease()
	}
	for name, restart := range map[string]func(context.Context, string) error{
		"agent restart": s.RestartAgent,
		"agent killed": func(ctx context.Context, node string) error {
			return errors.Join(s.KillAgent(ctx, node), s.StartAgent(ctx, node))
		},
		"VPP restart": s.RestartVPP,
		"VPP killed":  s.KillVPP,
		"contiv-stn killed": func(ctx context.Context, node string) error {
			return errors.Join(s.KillSTN(ctx, node), s.StartSTN(ctx, node))
		},
	} {
		since := s.holder(journal.VSwitch).Since
		s.watched(name, func() { s.must(restart(ctx, "node1")); s.holder(journal.VSwitch) })
		if e := s.holder(journal.VSwitch); strings.HasPrefix(name, "agent ") && !e.Since.Equal(since) {
			t.Errorf("%s: VPP, which went on, lost the card, and has had it again since %v", name, e.Since)
		}
	}

	began := time.Now()
	thaw, err := s.FreezeVPP("node1")
	s.must(err)
	s.back("VPP hangs", began)
	s.must(thaw())
	s.holder(journal.VSwitch)
	s.reachable("VPP going on")

	began = time.Now()
	s.must(s.KillUnit(ctx, "node1"))
	s.back("contiv-init, VPP and agent killed", began)

	for _, step := range s.steps() {
		s.killedAfter(step)
	}

	s.must(s.StartAgent(ctx, "node1"))
	s.holder(journal.VSwitch)
	s.must(errors.Join(s.KillSTN(ctx, "node1"), s.KillUnit(ctx, "node1")))
	began = time.Now()
	s.must(s.StartSTN(ctx, "node1"))
	s.back("all killed, contiv-stn restarted", began)
	s.must(s.StartAgent(ctx, "node1"))
	s.holder(journal.VSwitch)

	addPods(t, s.Lab, lab.PodSpec{Name: "a", Node: "node1"}, lab.PodSpec{Name: "b", Node: "node1"}, lab.PodSpec{Name: "c", Node: "node2"})
	requireConnected(t, s.Lab)
	s.reachable("pods were added")
}

// step is a step of the takeover. reached returns nil after the step.
type step struct {
	name    string
	reached func() error
}

func (s *singleNIC) steps() []step {
	runs := func(program string) func() error {
		return func() error {
			if len(lab.ProcessesIn(s.node.Netns, program)) == 0 {
				return errors.New("it does not run")
			}
			return nil
		}
	}
	return []step{
		{"contiv-init runs", runs("contiv-init")},
		{"VPP runs", runs("vpp_main")},
		{"the agent runs", runs("contiv-agent")},
		{"VPP has attached to the card", func() error {
			out, err := s.VPPCommand(s.t.Context(), "node1", "show", "interface")
			if err == nil && !strings.Contains(out, "eth0") {
				err = errors.New(out)
			}
			return err
		}},
		{"the interconnect is there", func() error {
			out, err := s.Exec(s.t.Context(), "node1", "ip", "link", "show", "vpp1", "up")
			if err == nil && out == "" {
				err = errors.New("it is down")
			}
			return err
		}},
		{"VPP has the card", func() error {
			j, err := journal.File(s.Path("nodes", "node1", "stn", "journal.json")).Load()
			if err == nil && (len(j.NICs) != 1 || j.NICs[0].Holder != journal.VSwitch) {
				err = errors.New("it has not")
			}
			return err
		}},
	}
}

// killedAfter kills VPP, the agent, contiv-init and contiv-stn right after a step of the takeover.
func (s *singleNIC) killedAfter(step step) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	started := make(chan struct{})
	go func() {
		defer close(started)
		s.StartAgent(ctx, "node1") // fails because of cancel
	}()
	await.That(s.t, step.name, step.reached)
	cancel()
	<-started
	s.must(errors.Join(s.KillSTN(s.t.Context(), "node1"), s.KillUnit(s.t.Context(), "node1")))
	began := time.Now()
	s.must(s.StartSTN(s.t.Context(), "node1"))
	s.back("all killed as soon as "+step.name, began)
}

// renewLease simulates a DHCP client of the host that renews the lease of the NIC while VPP owns
// it.
func (s *singleNIC) renewLease() {
	s.t.Helper()
	st, err := s.State()
	s.must(err)
	listen := func(ns, device, port string) (c net.PacketConn) {
		s.must(lab.InNetns(lab.NetnsPath(ns), func() (err error) {
			toDevice := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
				return errors.Join(raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), device) }), err)
			}}
			c, err = toDevice.ListenPacket(s.t.Context(), "udp4", ":"+port)
			return err
		}))
		c.SetDeadline(time.Now().Add(await.Patience))
		s.t.Cleanup(func() { c.Close() })
		return c
	}
	server, client := listen(st.Underlay(), "nodes", "67"), listen(s.node.Netns, "eth0", "68")
	_, err = client.WriteTo([]byte("request"), &net.UDPAddr{IP: lab.RouterAddress.Addr().AsSlice(), Port: 67})
	s.must(err)
	buffer := make([]byte, 64)
	_, from, err := server.ReadFrom(buffer)
	s.must(err)
	if want := net.JoinHostPort(s.node.Address.String(), "68"); from.String() != want {
		s.t.Errorf("the DHCP server hears %s, not %s", from, want)
	}
	_, err = server.WriteTo([]byte("answer"), from)
	s.must(err)
	n, _, err := client.ReadFrom(buffer)
	if err != nil || string(buffer[:n]) != "answer" {
		s.t.Errorf("the DHCP client of the host hears %q, %v", buffer[:n], err)
	}
}

// In a dual-stack cluster, both IP versions of the host pass through VPP, and the host gets the
// addresses and routes of both back when VPP ends.
func TestSingleNICDualStack(t *testing.T) {
	s := upSingleNIC(t, `
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vppHostSubnetCIDR: 172.30.0.0/16,fd17:30::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
  serviceCIDR: 10.96.0.0/12,fd96::/108
`)
	ctx := t.Context()
	node6, outside6 := s.node, s.outside
	node6.Address, outside6.Address = s.giveIPv6(), netip.MustParseAddr("fd20::10")
	st, err := s.State()
	s.must(err)
	s.ip("-n " + st.Underlay() + " address add fd20::1/64 dev outside nodad")
	s.ip("-n " + s.outside.Netns + " address add fd20::10/64 dev eth0 nodad")
	s.ip("-n " + s.outside.Netns + " route add fd16::/112 via fd20::1")
	s.routes = s.onHost("eth0")
	for _, want := range []string{"default via 192.168.16.254", "default via fd16::fe", "fd16::/112"} {
		if !strings.Contains(s.routes, want) {
			t.Fatalf("the card has the routes %q, without %s", s.routes, want)
		}
	}
	s.connections = []*connection{dial(t, s.outside, s.node), dial(t, s.node, s.outside), dial(t, outside6, node6), dial(t, node6, outside6)}
	both := [][2]lab.Endpoint{{s.outside, s.node}, {outside6, node6}}
	gap := s.watched("theft", func() { s.must(s.StartAgent(ctx, "node1")); s.holder(journal.VSwitch) }, both...)
	if gap >= time.Second {
		t.Errorf("the host could not be reached for %v during the theft", gap)
	}
	if routes := s.onHost("eth0"); routes != "" {
		t.Errorf("stolen, the card has the routes %s", routes)
	}
	if routes := s.routesOf("-6", "vpp1"); !strings.Contains(routes, "default via ") {
		t.Errorf("the host has no default route of IPv6 through VPP: %s", routes)
	}
	s.watched("agent restart", func() { s.must(s.RestartAgent(ctx, "node1")); s.holder(journal.VSwitch) }, both...)
	s.watched("VPP killed", func() { s.must(s.KillVPP(ctx, "node1")); s.holder(journal.VSwitch) }, both...)

	pods := addPods(t, s.Lab, lab.PodSpec{Name: "a", Node: "node1"}, lab.PodSpec{Name: "c", Node: "node2"})
	a6, c6 := pods[0].Endpoint(), pods[1].Endpoint()
	for _, e := range []*lab.Endpoint{&a6, &c6} {
		out, err := s.Exec(ctx, e.Name, "ip", "-6", "-o", "address", "show", "dev", "eth0", "scope", "global")
		s.must(err)
		p, err := netip.ParsePrefix(strings.Fields(out + " ? ? ? ?")[3])
		if err != nil {
			t.Fatalf("pod %s has no address of IPv6: %s", e.Name, out)
		}
		e.Address = p.Addr()
	}
	for _, pair := range [][2]lab.Endpoint{{a6, c6}, {c6, a6}, {node6, a6}, {pods[1].Endpoint(), pods[0].Endpoint()}, {s.node, pods[0].Endpoint()}} {
		await.That(t, pair[0].Name+" reaches "+pair[1].Address.String(), func() error {
			_, err := lab.Ping(ctx, pair[0], pair[1])
			return err
		})
	}

	// The host resets TCP connections to the node port of a service without endpoints, and refuses
	// UDP, because it also has the address.
	none := served{name: "none", number: 14, policy: "Cluster", port: 8080}
	apply(t, s.Lab, none)
	labtest.RequireQuiet(t, s.Lab)
	for _, e := range []lab.Endpoint{s.node, node6} {
		for who, netns := range map[string]string{"outside": s.outside.Netns, "a pod": a6.Netns} {
			for _, network := range []string{"tcp", "udp"} {
				if network == "udp" && netns == s.outside.Netns && e.Address.Is4() {
					continue // NAT drops the host's ICMP message: docs/design/services.md
				}
				began := time.Now()
				_, _, err := labtest.AskPeer(netns, network, none.nodePort(e.Address))
				if took := time.Since(began); !errors.Is(err, syscall.ECONNREFUSED) || took > time.Second {
					t.Errorf("%s to a node port without endpoint, %s at %s: %v after %v, want it refused at once", who, network, e.Address, err, took)
				}
			}
		}
	}

	s.restrictsHost(t, pods[0], both)

	began := time.Now()
	s.must(s.KillUnit(ctx, "node1"))
	s.back("contiv-init, VPP and agent killed", began)
	s.must(s.StartAgent(ctx, "node1"))
	s.holder(journal.VSwitch)
	s.reachable("another theft")
}

// restrictsHost checks that changes of source ranges do not affect other traffic of the host, all
// of which passes through VPP.
func (s *singleNIC) restrictsHost(t *testing.T, endpoint lab.Pod, both [][2]lab.Endpoint) {
	t.Helper()
	endpointSlices := balancedSlices(globalAddresses(t, endpoint))
	for _, ranges := range []string{"192.0.2.0/24", `"fd98::/64"`, ""} {
		gap := s.watched("source ranges "+ranges, func() {
			labtest.Apply(t, s.Lab, fmt.Sprintf(balancedManifest, "Cluster", ranges)+endpointSlices)
			labtest.RequireQuiet(t, s.Lab)
		}, both...)
		if gap >= time.Second {
			t.Errorf("the host could not be reached for %v", gap)
		}
	}
}

func TestSingleNICIsReported(t *testing.T) {
	s := upSingleNIC(t, "")
	s.holder(journal.VSwitch)
	warnings := func() string {
		var answer struct{ Warnings []string }
		s.must(s.Agent("node1").Get(t.Context(), "/readiness", &answer))
		return strings.Join(answer.Warnings, "\n")
	}
	if got := warnings(); strings.Contains(got, "eth0") {
		t.Errorf("warnings are %s", got)
	}
	thaw, err := s.FreezeVPP("node1") // the agent cannot repair a frozen VPP
	s.must(err)
	await.That(t, "the event", func() error {
		var history []json.RawMessage
		s.must(s.Agent("node1").Get(t.Context(), "/controller/event-history", &history))
		text := fmt.Sprintf("%s", history)
		for _, want := range []string{"network card eth0 is the vswitch's", "network card eth0 is the host's"} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("no event says that %s", want)
			}
		}
		return nil
	})
	s.must(thaw())
	s.holder(journal.VSwitch)
	s.must(s.KillSTN(t.Context(), "node1"))
	await.That(t, "the warning", func() error {
		if got := warnings(); !strings.Contains(got, "contiv-stn does not answer") {
			return fmt.Errorf("warnings are %q", got)
		}
		return nil
	})
}
