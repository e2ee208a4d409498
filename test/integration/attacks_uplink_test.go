package integration

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"golang.org/x/sys/unix"
)

func deviceMAC(t *testing.T, netns, device string) frames.MAC {
	t.Helper()
	mac, err := net.ParseMAC(strings.TrimSpace(command.In(t, netns, "cat /sys/class/net/"+device+"/address")))
	if err != nil {
		t.Fatal(err)
	}
	return frames.MAC(mac)
}

// testUplink: hosts on the node's network spoof pod addresses while reverse path filtering is off.
func (l *attackLab) testUplink(t *testing.T) {
	command.In(t, l.node1.Netns, "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.conf.eth0.rp_filter=0")
	router := wireIn(t, l.state.Underlay(), "nodes")
	from, to := deviceMAC(t, l.state.Underlay(), "nodes"), deviceMAC(t, l.node1.Netns, "eth0")
	for _, ipv6 := range []bool{false, true} {
		tunnel := netip.MustParseAddr(map[bool]string{false: "192.168.30.2", true: "fd30::2"}[ipv6])
		sources := map[string]netip.Addr{"pod of the node": l.evil.Of(ipv6), "pod of another node": l.far.Of(ipv6), "nobody there": l.far.Of(ipv6).Next().Next().Next(), "tunnel's end": tunnel}
		before := l.drops(t, "node1")
		l.near.Wire.Drain()
		sent := 0
		for kind, src := range sources {
			for _, fragment := range []bool{false, true} {
				router.Send(t, frames.Datagram(from, to, src, l.near.Of(ipv6), fmt.Sprintf("%-64s", "by the uplink from "+kind), fragment))
				sent++
			}
			router.Send(t, frames.TCP(from, to, netip.AddrPortFrom(src, 5000), netip.AddrPortFrom(l.near.Of(ipv6), 80), frames.ACK))
			sent++
		}
		router.Send(t, frames.Datagram(from, to, l.evil.Of(ipv6), underlayAddress(t, l.node1, ipv6), "to the node", false))
		l.wantCounted(t, before, "", vswitch.DropUplink, sent+1)
		l.evil.Wire.Send(t, frames.Datagram(l.evil.MAC, l.evil.Gateway, l.evil.Of(ipv6), l.near.Of(ipv6), "the last one", false))
		seen := l.near.Wire.Receive(await.Patience, frames.Containing("the last one"))
		if seen == nil {
			t.Error("packets of a pod do not arrive")
		}
		if slices.ContainsFunc(seen, frames.Containing("by the uplink")) {
			t.Errorf("IPv6 %v: packets with the source of a pod arrive by the uplink", ipv6)
		}
	}
	l.wantService(t)
}

// testForgedIPv6: hosts on the node's network send from IPv4 addresses written as IPv6, and from the
// node's own addresses, to pods and to the node's sockets for both IP versions.
func (l *attackLab) testForgedIPv6(t *testing.T) {
	const port = 7777
	subnet := netip.PrefixFrom(l.near.Of(true), 64).Masked().Addr()
	node := underlayAddress(t, l.node1, true)
	mapped := func(addr netip.Addr) netip.Addr { return netip.AddrFrom16(addr.As16()) }
	compatible := func(addr netip.Addr) netip.Addr {
		four := addr.As4()
		return netip.AddrFrom16([16]byte(append(make([]byte, 12), four[:]...)))
	}
	sources := map[string]netip.Addr{
		"loopback": mapped(netip.MustParseAddr("127.0.0.1")), "pod": mapped(l.evil.Of(false)), "outside": mapped(lab.OutsideAddress.Addr()),
		"compatible pod": compatible(l.evil.Of(false)), "compatible loopback": compatible(netip.MustParseAddr("127.0.0.1")),
		"node": node, "pods' gateway": subnet.Next(), "pods' routers": subnet, "tunnel's end": netip.MustParseAddr("fd30::1"),
	}
	router := wireIn(t, l.state.Underlay(), "nodes")
	from, to := deviceMAC(t, l.state.Underlay(), "nodes"), deviceMAC(t, l.node1.Netns, "eth0")
	var socket *net.UDPConn
	if err := labtest.Inside(l.node1.Netns, func() (err error) {
		socket, err = net.ListenUDP("udp", &net.UDPAddr{Port: port})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	before := l.drops(t, "node1")
	l.near.Wire.Drain()
	for kind, src := range sources {
		router.Send(t, frames.Datagram(from, to, src, l.near.Of(true), fmt.Sprintf("%-64s", "forged from "+kind), false))
		router.Send(t, frames.Datagram(from, to, src, l.near.Of(true), fmt.Sprintf("%-64s", "forged from "+kind), true))
		router.Send(t, frames.Between(from, to, netip.AddrPortFrom(src, 4000), netip.AddrPortFrom(node, port), "forged from "+kind))
	}
	l.wantCounted(t, before, "", vswitch.DropUplink, 3*len(sources))
	honest := netip.MustParseAddr("fd16::fe")
	router.Send(t, frames.Datagram(from, to, honest, l.near.Of(true), "from the router", false))
	router.Send(t, frames.Between(from, to, netip.AddrPortFrom(honest, 4000), netip.AddrPortFrom(node, port), "from the router"))
	seen := l.near.Wire.Receive(await.Patience, frames.Containing("from the router"))
	if seen == nil {
		t.Error("what the router sends to the pod does not arrive")
	}
	for _, frame := range seen {
		if frames.Containing("forged")(frame) {
			t.Errorf("the pod gets %q", frame)
		}
	}
	text := make([]byte, 100)
	if err := socket.SetReadDeadline(time.Now().Add(await.Patience)); err != nil {
		t.Fatal(err)
	}
	if n, source, err := socket.ReadFromUDP(text); err != nil || string(text[:n]) != "from the router" {
		t.Errorf("the node gets %q from %v: %v", text[:n], source, err)
	}

	t.Run("the node gets what it sends to groups", func(t *testing.T) {
		var group, sender *net.UDPConn
		if err := labtest.Inside(l.node1.Netns, func() error {
			eth0, err := net.InterfaceByName("eth0")
			if err != nil {
				return err
			}
			to := &net.UDPAddr{IP: net.ParseIP("ff02::4242"), Port: port + 1, Zone: "eth0"}
			if group, err = net.ListenMulticastUDP("udp6", eth0, to); err != nil {
				return err
			}
			sender, err = net.DialUDP("udp6", &net.UDPAddr{IP: node.AsSlice()}, to)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer group.Close()
		defer sender.Close()
		control, err := sender.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := control.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 1)
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := sender.Write([]byte("to the group")); err != nil {
			t.Fatal(err)
		}
		if err := group.SetReadDeadline(time.Now().Add(await.Patience)); err != nil {
			t.Fatal(err)
		}
		if n, _, err := group.ReadFromUDP(text); err != nil || string(text[:n]) != "to the group" {
			t.Errorf("got %q, %v", text[:n], err)
		}
	})
	t.Run("duplicate addresses are found", func(t *testing.T) {
		command.In(t, l.node1.Netns, "ip address add fd16::fe/112 dev eth0")
		defer command.In(t, l.node1.Netns, "ip address delete fd16::fe/112 dev eth0")
		await.That(t, "the router's address is a duplicate", func() error {
			if out := command.In(t, l.node1.Netns, "ip address show dev eth0"); !strings.Contains(out, "dadfailed") {
				return errors.New(out)
			}
			return nil
		})
	})
	l.wantService(t)
}

// Without tunnels, for example with a routing daemon, packets from pods of other nodes arrive
// through the uplink. Packets with addresses of local pods must still be dropped there.
func TestUplinkWithoutTunnels(t *testing.T) {
	l := newAttackLab(t, "nodeToNodeTransport: nooverlay\n"+attackIPv4)
	command.In(t, l.node1.Netns, "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0.rp_filter=0")
	router := wireIn(t, l.state.Underlay(), "nodes")
	from, to := deviceMAC(t, l.state.Underlay(), "nodes"), deviceMAC(t, l.node1.Netns, "eth0")
	before := l.drops(t, "node1")
	l.near.Wire.Drain()
	router.Send(t, frames.Datagram(from, to, l.evil.Of(false), l.near.Of(false), "forged", false))
	l.wantCounted(t, before, "", vswitch.DropUplink, 1)
	command.In(t, l.node1.Netns, "ip route add 10.1.77.0/24 via "+lab.RouterAddress.Addr().String()+" proto bird")
	routed := netip.MustParseAddr("10.1.77.5")
	router.Send(t, frames.Datagram(from, to, routed, l.near.Of(false), "by a route of another program", false))
	seen := l.near.Wire.Receive(await.Patience, frames.Containing("by a route of another program"))
	if seen == nil {
		t.Error("packets of a network that a route leads to by the uplink do not arrive")
	}
	if slices.ContainsFunc(seen, frames.Containing("forged")) {
		t.Error("a packet with the source of a pod of the node arrives by the uplink")
	}
	l.wantService(t)
	l.testNeighbour(t, router, from)
	labtest.RequireQuiet(t, l.Lab)
}

// testNeighbour: only the node of a pod may send with its address, by whatever network card it has.
func (l *attackLab) testNeighbour(t *testing.T, router *frames.Wire, stranger frames.MAC) {
	to, peer := deviceMAC(t, l.node1.Netns, "eth0"), deviceMAC(t, l.node2.Netns, "eth0")
	forged := func(t *testing.T, mac frames.MAC) {
		t.Helper()
		before := l.drops(t, "node1")
		l.near.Wire.Drain()
		for _, ipv6 := range []bool{false, true} {
			router.Send(t, frames.Datagram(mac, to, l.far.Of(ipv6), l.near.Of(ipv6), "in the name of a pod elsewhere", false))
			router.Send(t, frames.Datagram(mac, to, l.far.Of(ipv6), underlayAddress(t, l.node1, ipv6), "to the node", false))
		}
		l.wantCounted(t, before, "", vswitch.DropUplink, 4)
		l.evil.Wire.Send(t, frames.Datagram(l.evil.MAC, l.evil.Gateway, l.evil.Of(false), l.near.Of(false), "the last one", false))
		seen := l.near.Wire.Receive(await.Patience, frames.Containing("the last one"))
		if seen == nil {
			t.Error("packets of a pod do not arrive")
		}
		if slices.ContainsFunc(seen, frames.Containing("in the name of a pod elsewhere")) {
			t.Error("a host on the nodes' network sends in the name of a pod on another node")
		}
	}
	forged(t, stranger)
	command.In(t, l.node2.Netns, "ip link set dev eth0 address 02:00:00:00:0e:02")
	for _, addr := range l.near.Addrs {
		await.That(t, "a node with another network card reaches pods", func() error { return pingIn(t.Context(), l.far.Netns, addr, 1280) })
	}
	l.wantService(t)
	forged(t, peer)
	forged(t, stranger)
	if err := l.StopAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	command.In(t, l.node1.Netns, "ip neigh flush dev eth0; ip -6 neigh flush dev eth0")
	l.wantService(t)
	if err := l.StartAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	l.wantService(t)
	forged(t, stranger)
}
