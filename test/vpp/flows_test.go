package vpp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/netlink/sockets"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"golang.org/x/sys/unix"
)

const endpointPort = 8080

func upEndpoints(t *testing.T, timeouts string) (*lab.Lab, []lab.Pod) {
	t.Helper()
	l := upServices(t, servicesConfig, "services: vswitch\n"+timeouts, "vpp")
	pods := addPods(t, l, lab.PodSpec{Name: "a", Node: "node1"}, lab.PodSpec{Name: "b", Node: "node1"}, lab.PodSpec{Name: "c", Node: "node1"})
	for _, p := range pods[:2] {
		labtest.TellName(t, p.Netns, p.Name, endpointPort)
	}
	return l, pods
}

// A UDP flow and a TCP connection keep their endpoint until the idle timeout of service.conf. Their
// next packets go to another endpoint, which does not know the TCP connection.
func TestSilentFlowsMove(t *testing.T) {
	l, pods := upEndpoints(t, "tcpNATSessionTimeout: 4\notherNATSessionTimeout: 2\n")
	web := served{name: "web", number: 10, policy: "Cluster", port: endpointPort, node: "node1", addrs: globalAddresses(t, pods[0])}
	apply(t, l, web)
	flows, connections := map[bool]net.Conn{}, map[bool]net.Conn{}
	for _, ipv6 := range []bool{false, true} {
		await.That(t, "the service is there", func() error {
			_, err := labtest.AskName(pods[2].Netns, "tcp", web.clusterIP(ipv6))
			return err
		})
		for network, list := range map[string]map[bool]net.Conn{"udp": flows, "tcp": connections} {
			c, err := labtest.Dial(pods[2].Netns, network, web.clusterIP(ipv6))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			list[ipv6] = c
		}
	}
	require := func(when, name string) {
		t.Helper()
		for ipv6, c := range flows {
			if h, err := labtest.Say(c); err != nil || h.Name != name {
				t.Errorf("%s, IPv6 %v: %q answers (%v), want %q", when, ipv6, h.Name, err, name)
			}
		}
	}
	require("at first", "a")
	web.addrs = globalAddresses(t, pods[1])
	apply(t, l, web)
	for _, ipv6 := range []bool{false, true} {
		await.That(t, "the other endpoint is used", func() error {
			if h, err := labtest.AskName(pods[2].Netns, "tcp", web.clusterIP(ipv6)); err != nil || h.Name != "b" {
				return fmt.Errorf("%q answers: %v", h.Name, err)
			}
			return nil
		})
	}
	for ipv6, c := range connections {
		if h, err := labtest.Say(c); err != nil || h.Name != "a" {
			t.Errorf("a connection of TCP, IPv6 %v: %q answers (%v), want a", ipv6, h.Name, err)
		}
	}
	begun := time.Now()
	await.That(t, "VPP forgets all connections", func() error {
		if n := natSessions(t, l); n > 0 {
			return fmt.Errorf("it knows %d", n)
		}
		return nil
	})
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("flows were forgotten after %v: without the options, it is 30 s, and 1 h for TCP", took)
	}
	for ipv6, c := range flows {
		await.That(t, fmt.Sprintf("the flow moves, IPv6 %v", ipv6), func() error {
			h, err := labtest.Say(c)
			if err == nil && h.Name != "b" {
				t.Fatalf("after a silence, IPv6 %v: %q answers", ipv6, h.Name)
			}
			return err
		})
	}
	for ipv6, c := range connections {
		if h, err := labtest.Say(c); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection of TCP after a silence, IPv6 %v: %q answers (%v), want it reset", ipv6, h.Name, err)
		}
	}
}

// A UDP flow that never pauses moves when its endpoint is removed, although each packet extends its
// session in VPP. Other flows of the client and TCP connections continue.
func TestFlowsMoveWithoutAPause(t *testing.T) {
	l, pods := upEndpoints(t, "otherNATSessionTimeout: 4\n")
	a, b := globalAddresses(t, pods[0]), globalAddresses(t, pods[1])
	moves := served{name: "moves", number: 10, policy: "Cluster", port: endpointPort, node: "node1", addrs: a}
	stays := served{name: "stays", number: 11, policy: "Cluster", port: endpointPort, node: "node1", addrs: a}
	apply(t, l, moves, stays)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	host, err := st.Node("node1")
	if err != nil {
		t.Fatal(err)
	}
	open := func(network string, s served) (list []net.Conn) {
		t.Helper()
		for _, node := range labtest.NodeAddresses(t, l, "node1") {
			for netns, to := range map[string]netip.AddrPort{pods[2].Netns: s.clusterIP(node.Is6()), host.Netns: s.clusterIP(node.Is6()), st.Underlay(): s.nodePort(node)} {
				await.That(t, "the service is there", func() error {
					_, err := labtest.AskName(netns, "tcp", to)
					return err
				})
				c, err := labtest.Dial(netns, network, to)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				list = append(list, c)
			}
		}
		return list
	}
	moving, staying, connections := open("udp", moves), open("udp", stays), open("tcp", moves)
	require := func(what string, list []net.Conn, name string) {
		t.Helper()
		for _, c := range list {
			if h, err := labtest.Say(c); err != nil || h.Name != name {
				t.Errorf("%s to %v: %q answers (%v), want %q", what, c.RemoteAddr(), h.Name, err, name)
			}
		}
	}
	require("a flow", moving, "a")
	moves.addrs = b
	apply(t, l, moves)
	for _, c := range moving {
		await.That(t, fmt.Sprintf("the flow to %v moves", c.RemoteAddr()), func() error {
			require("a flow to a remaining endpoint", staying, "a")
			h, err := labtest.Say(c)
			if err == nil && h.Name != "b" {
				err = fmt.Errorf("%s answers", h.Name)
			}
			return err
		})
	}
	require("a flow that has moved", moving, "b")
	require("a connection of TCP", connections, "a")
	for _, version := range []string{"-4", "-6"} {
		await.That(t, "the host's routing is as before", func() error {
			rules, err := l.Exec(t.Context(), "node1", "ip", version, "rule", "show", "priority", "127")
			if err == nil && rules != "" {
				err = errors.New(rules)
			}
			return err
		})
	}
	labtest.RequireQuietRestart(t, l, "node1")
	require("after a restart of the agent, a flow", moving, "b")
}

// natSessions returns the NAT session metric of node 1's agent.
func natSessions(t *testing.T, l *lab.Lab) (n int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", l.AgentSocket("node1"))
	}}}
	answer, err := client.Get("http://agent/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	const metric = `natSessions{node="node1"} `
	_, value, _ := strings.Cut(string(text), metric)
	if _, err := fmt.Sscan(value, &n); err != nil {
		t.Errorf("metrics without %s: %v", metric, err)
	}
	return n
}

// TCP connections to a removed endpoint are reset only if service.conf enables it. The next
// connection from the same port reaches a current endpoint.
func TestConnectionsToRemovedEndpointsAreReset(t *testing.T) {
	if err := sockets.Supported(); err != nil {
		t.Skipf("%v: run the test on a kernel that has it, such as a distribution's", err)
	}
	l, pods := upEndpoints(t, "resetRemovedEndpoints: true\n")
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	host, err := st.Node("node1")
	if err != nil {
		t.Fatal(err)
	}
	removed := served{name: "removed", number: 10, policy: "Cluster", port: endpointPort, node: "node1", addrs: globalAddresses(t, pods[0])}
	local, stays := removed, removed
	local.name, local.number, local.policy = "local", 11, "Local"
	stays.name, stays.number = "stays", 12
	apply(t, l, removed, local, stays)
	type client struct {
		who, netns string
		mapped     bool
		to         func(s served, node netip.Addr) netip.AddrPort
	}
	clusterIP := func(s served, node netip.Addr) netip.AddrPort { return s.clusterIP(node.Is6()) }
	nodePort := func(s served, node netip.Addr) netip.AddrPort { return s.nodePort(node) }
	type open struct {
		client
		s    served
		conn net.Conn
	}
	var going, staying []open
	for _, node := range labtest.NodeAddresses(t, l, "node1") {
		for _, c := range []client{
			{"a pod", pods[2].Netns, false, clusterIP}, {"a pod with sockets of both IP versions", pods[2].Netns, true, clusterIP}, {"a pod by a node port", pods[2].Netns, false, nodePort},
			{"the endpoint itself", pods[0].Netns, false, clusterIP}, {"a process of the host", host.Netns, false, clusterIP}, {"a client outside", st.Underlay(), false, nodePort},
		} {
			for _, s := range []served{removed, local, stays} {
				to := c.to(s, node)
				await.That(t, c.who+" reaches the service", func() error {
					_, err := labtest.AskName(c.netns, "tcp", to)
					return err
				})
				conn, err := connect(c.netns, to, 0, c.mapped)
				if err != nil {
					t.Fatalf("%s to %v: %v", c.who, to, err)
				}
				t.Cleanup(func() { conn.Close() })
				if h, err := labtest.Say(conn); err != nil || h.Name != "a" {
					t.Fatalf("%s to %v: %q answers (%v)", c.who, to, h.Name, err)
				}
				if s.name == stays.name {
					staying = append(staying, open{c, s, conn})
				} else {
					going = append(going, open{c, s, conn})
				}
			}
		}
	}
	b := globalAddresses(t, pods[1])
	removed.addrs, local.addrs = b, b
	apply(t, l, removed, local)
	for _, o := range going {
		what := fmt.Sprintf("the connection of %s to %v", o.who, o.conn.RemoteAddr())
		await.That(t, what+" ends", func() error {
			h, err := labtest.Say(o.conn)
			switch {
			case errors.Is(err, syscall.ECONNABORTED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
				return nil
			case err != nil:
				t.Fatalf("%s: %v", what, err)
			}
			return fmt.Errorf("%s answers", h.Name)
		})
	}
	for _, o := range going {
		from := netip.MustParseAddrPort(o.conn.LocalAddr().String()).Port()
		o.conn.Close()
		to := netip.MustParseAddrPort(o.conn.RemoteAddr().String())
		await.That(t, fmt.Sprintf("%s reaches the other endpoint at %v from port %d", o.who, to, from), func() error {
			conn, err := connect(o.netns, to, from, o.mapped)
			if err != nil {
				return err
			}
			defer conn.Close()
			h, err := labtest.Say(conn)
			if err == nil && h.Name != "b" {
				err = fmt.Errorf("%q answers", h.Name)
			}
			return err
		})
	}
	for _, o := range staying {
		if h, err := labtest.Say(o.conn); err != nil || h.Name != "a" {
			t.Errorf("%s, with a remaining endpoint: %q answers (%v)", o.who, h.Name, err)
		}
	}
}

// connect opens a TCP connection from a port that is free again right after the close. mapped uses
// an IPv6 socket with an IPv4-mapped address.
func connect(netnsName string, to netip.AddrPort, port uint16, mapped bool) (conn net.Conn, err error) {
	if mapped {
		to = netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port())
	}
	err = lab.InNetns(lab.NetnsPath(netnsName), func() error {
		family, local, remote := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: int(port)}), unix.Sockaddr(nil)
		if to.Addr().Is6() {
			family, local, remote = unix.AF_INET6, &unix.SockaddrInet6{Port: int(port)}, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
		} else {
			remote = &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
		}
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		file := os.NewFile(uintptr(fd), "connection")
		defer file.Close()
		patience := unix.NsecToTimeval(int64(2 * time.Second))
		for _, step := range []func() error{
			func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) },
			func() error {
				return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
			}, // no TIME_WAIT
			func() error { return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &patience) }, // timeout of connect
			func() error { return unix.Bind(fd, local) },
			func() error { return unix.Connect(fd, remote) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		conn, err = net.FileConn(file)
		return err
	})
	return conn, err
}
