package vswitchtest

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"golang.org/x/sys/unix"
)

// errorKind is a type of ICMP error. info is the second word of its header.
type errorKind struct {
	name       string
	kind, code byte
	info       uint32
	// obsolete is set if a vswitch may always drop the error.
	obsolete bool
}

// errorsByVersion lists ICMP errors that abort or slow down connections, by IPv6. The first two
// report a path MTU.
var errorsByVersion = map[bool][]errorKind{
	false: {
		{name: "fragmentation needed", kind: 3, code: 4, info: 1300},
		{name: "fragmentation needed, tiny", kind: 3, code: 4, info: 68},
		{name: "net unreachable", kind: 3},
		{name: "port unreachable", kind: 3, code: 3},
		{name: "source quench", kind: 4, obsolete: true},
		{name: "redirect", kind: 5, code: 1, info: 0x0a010102},
		{name: "time exceeded", kind: 11},
		{name: "parameter problem", kind: 12},
	},
	true: {
		{name: "packet too big", kind: 2, info: 1300},
		{name: "packet too big, tiny", kind: 2, info: 68},
		{name: "no route", kind: 1},
		{name: "port unreachable", kind: 1, code: 4},
		{name: "time exceeded", kind: 3},
		{name: "parameter problem", kind: 4},
		{name: "unknown error", kind: 100, obsolete: true},
	},
}

// testErrors: an ICMP error passes only if it quotes a packet that the pod received.
func (lab *guardLab) testErrors(t *testing.T) {
	for version, addrs := range map[string][2]string{"IPv4": {"10.1.1.2", "10.1.1.3"}, "IPv6": {"fd10:1::2", "fd10:1::3"}} {
		t.Run(version, func(t *testing.T) { lab.testErrorsOf(t, addr(addrs[0]), addr(addrs[1])) })
	}
}

func (lab *guardLab) testErrorsOf(t *testing.T, own, ear netip.Addr) {
	const port = 7300
	lab.pods[0].Echo(t, "udp", own.String(), port)
	var open net.Conn
	err := lab.pods[1].in(func() (err error) {
		open, err = net.Dial("udp", net.JoinHostPort(own.String(), fmt.Sprint(port)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := exchange(open, longWait); err != nil {
		t.Fatalf("the connection that errors are about: %v", err)
	}
	ours := open.LocalAddr().(*net.UDPAddr).AddrPort()
	theirs := netip.AddrPortFrom(own, port)
	stranger := map[bool]string{true: "10.1.2.9", false: "fd10:2::9"}[own.Is4()]

	sent := map[string][]byte{}
	var wanted []string
	forgeries := 0
	send := func(kind errorKind, about string, quoted []byte, passes bool) {
		name := fmt.Sprintf("[%s about %s]", kind.name, about)
		quoted = append(slices.Clone(quoted), name...)
		sent[name] = frames.ICMPError(lab.own, lab.gateway, own, kind.kind, kind.code, kind.info, quoted)
		if passes {
			wanted = append(wanted, name)
		} else {
			forgeries++
		}
	}
	quote := func(src, dst netip.AddrPort) []byte { return frames.Between(lab.own, lab.gateway, src, dst, "") }
	for i, kind := range errorsByVersion[own.Is6()] {
		pathMTU := i < 2
		passes := !pathMTU && kind.name != "redirect" || i == 0
		if !kind.obsolete {
			send(kind, "a packet that it received", quote(ours, theirs), passes)
		}
		send(kind, "a packet to a stranger", quote(ours, netip.AddrPortFrom(addr(stranger), port)), false)
		send(kind, "a packet of the ear to itself", quote(ours, netip.AddrPortFrom(ear, port)), false)
		if pathMTU && !lab.noConnections {
			send(kind, "a packet of no connection", quote(netip.AddrPortFrom(ear, 9), theirs), false)
		}
	}
	before := lab.drops(t)
	arrived := lab.arrive(t, sent)
	for name := range sent {
		if got, want := slices.Contains(arrived, name), slices.Contains(wanted, name); got != want {
			t.Errorf("%s: arrived: %v, want %v", name, got, want)
		}
	}
	lab.wantCounted(t, before, vswitch.DropICMP, forgeries)

	// Extension headers must not hide the ICMP header.
	hidden := map[string][]byte{}
	hide := func(name string, headers ...byte) {
		kind := errorsByVersion[own.Is6()][0]
		quoted := append(quote(ours, netip.AddrPortFrom(addr(stranger), port)), name...)
		hidden[name] = frames.WithHeaders(frames.ICMPError(lab.own, lab.gateway, own, kind.kind, kind.code, kind.info, quoted), headers...)
	}
	hide("[behind options]", unix.IPPROTO_DSTOPTS)
	if own.Is6() {
		hide("[behind hop-by-hop options]", unix.IPPROTO_HOPOPTS)
		hide("[behind two headers]", unix.IPPROTO_DSTOPTS, unix.IPPROTO_DSTOPTS)
		hide("[in a fragment]", unix.IPPROTO_FRAGMENT)
		hide("[behind options in a fragment]", unix.IPPROTO_FRAGMENT, unix.IPPROTO_DSTOPTS)
		hide("[in a fragment behind options]", unix.IPPROTO_DSTOPTS, unix.IPPROTO_FRAGMENT)
	}
	for _, name := range lab.arrive(t, hidden) {
		t.Errorf("arrived: an error about a packet to a stranger %s", name)
	}
	wantPing(t, "afterwards", lab.pods[0], ear.String())
}

// pathMTU returns the learned path MTU of a host to an address, "" if it has none.
func (h *Host) pathMTU(t testing.TB, dst string) string {
	t.Helper()
	_, after, _ := strings.Cut(h.Exec(t, "ip route get "+dst), " mtu ")
	mtu, _, _ := strings.Cut(after, " ")
	return strings.TrimSpace(mtu)
}

func echo(from, to frames.MAC, src, dst netip.Addr, answer bool, id uint16) []byte {
	kind := byte(8)
	if answer {
		kind = 0
	}
	return frames.ICMP(from, to, src, dst, []byte{kind, 0, 0, 0, byte(id >> 8), byte(id), 0, 1, 'e', 'c', 'h', 'o'})
}

// testPathMTU: pods of node 1 try to lower the path MTU between nodes. The first pod has a guard,
// the second one forwards.
func testPathMTU(t *testing.T, c Config) {
	one, two := c.NewSite(t).(PacketSite), c.NewSite(t).(PacketSite)
	one.Connect(t, two)
	n1 := newNode(t, one, Topology{Node: 1, NIC: one.NIC(), Pods: 2})
	if !n1.agent.vs.Capabilities().HostStackShared {
		t.Skip("no packet between nodes comes from a stack that learns a path MTU")
	}
	n2 := newNode(t, two, Topology{Node: 2, NIC: two.NIC(), Pods: 1})
	n1.agent.put(guardOf(n1.topo, 1, n1.topo.PodIP(1)))
	node1, node2 := addr(n1.topo.NodeIP()), addr(n2.topo.NodeIP())
	wantPing(t, "between nodes", one.Self(), node2.String())
	wantPing(t, "between pods", n1.pods[0], n2.topo.PodIP(1))

	type sender struct {
		wire     *frames.Wire
		own, via frames.MAC
		addr     netip.Addr
	}
	var senders []sender
	for pod := 1; pod <= 2; pod++ {
		senders = append(senders, sender{
			n1.pods[pod-1].wire(t, "eth0"), frames.ParseMAC(t, n1.topo.PodMAC(pod)), frames.ParseMAC(t, n1.topo.GatewayMAC(pod)), addr(n1.topo.PodIP(pod)),
		})
	}
	tell := func(s sender, quoted []byte) {
		t.Helper()
		s.wire.Send(t, frames.ICMPError(s.own, s.via, s.addr, 3, 4, 1300, quoted))
	}
	// After a ping reply, the pod's earlier packets have been processed.
	arrived := func(pod int, dst netip.Addr) {
		t.Helper()
		wantPing(t, fmt.Sprintf("pod %d", pod), n1.pods[pod-1], dst.String())
	}
	want := func(t *testing.T) {
		t.Helper()
		for _, path := range []struct {
			from *Host
			to   string
		}{{one.Self(), node2.String()}, {one.Self(), nodeIP(3)}, {two.Self(), node1.String()}, {two.Self(), nodeIP(3)}} {
			if mtu := path.from.pathMTU(t, path.to); mtu != "" {
				t.Errorf("the path to %s has the MTU %s", path.to, mtu)
			}
		}
		if err := n1.pods[0].Ping(n2.topo.PodIP(1), MTU-28, longWait); err != nil {
			t.Errorf("a packet of the size of the MTU: %v", err)
		}
	}
	for i, s := range senders {
		name := []string{"a pod with a guard", "a pod that forwards"}[i]
		t.Run(name+", about packets that it did not receive", func(t *testing.T) {
			for _, nodes := range [][2]netip.Addr{{node1, node2}, {node2, node1}, {node1, addr(nodeIP(3))}, {node2, addr(nodeIP(3))}} {
				tell(s, echo(s.own, s.via, nodes[0], nodes[1], true, 7))
				tell(s, echo(s.own, s.via, nodes[0], nodes[1], false, 7))
				src, dst := netip.AddrPortFrom(nodes[0], 4789), netip.AddrPortFrom(nodes[1], 4789)
				tell(s, frames.Between(s.own, s.via, src, dst, string(frames.VXLAN(10, make([]byte, 64)))))
			}
			arrived(i+1, node1)
			arrived(i+1, node2)
			want(t)
		})
		t.Run(name+", about translated answers", func(t *testing.T) {
			s.wire.Drain()
			s.wire.Send(t, echo(s.own, s.via, s.addr, node2, false, 77))
			if s.wire.Receive(longWait, frames.Containing("echo")) == nil {
				t.Fatal("no answer")
			}
			tell(s, echo(s.own, s.via, node2, s.addr, true, 77))
			arrived(i+1, node2)
			want(t)
		})
		t.Run(name+", about a connection of nodes", func(t *testing.T) {
			two.Self().Echo(t, "udp", node2.String(), 7400+i)
			open, err := one.Self().dial("udp", node2.String(), 7400+i, longWait)
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			if err := exchange(open, longWait); err != nil {
				t.Fatal(err)
			}
			src, dst := open.LocalAddr().(*net.UDPAddr).AddrPort(), open.RemoteAddr().(*net.UDPAddr).AddrPort()
			tell(s, frames.Between(s.own, s.via, src, dst, "ping"))
			tell(s, frames.Between(s.own, s.via, dst, src, "ping"))
			arrived(i+1, node1)
			arrived(i+1, node2)
			want(t)
		})
	}
	t.Run("a forwarding pod, about forwarded packets", func(t *testing.T) {
		const behind = "172.20.0.9"
		s := senders[1]
		n1.agent.put(&vpp_l3.Route{DstNetwork: behind + "/32", NextHopAddr: s.addr.String(), OutgoingInterface: n1.topo.Tap(2)})
		s.wire.Drain()
		open, err := one.Self().dial("udp", behind, 7500, longWait)
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		if _, err := open.Write([]byte("to be forwarded")); err != nil {
			t.Fatal(err)
		}
		seen := s.wire.Receive(longWait, frames.Containing("to be forwarded"))
		if seen == nil {
			t.Fatal("the packet did not come to the pod")
		}
		tell(s, seen[len(seen)-1])
		arrived(2, node1)
		if mtu := one.Self().pathMTU(t, behind); mtu != "1300" {
			t.Errorf("the path MTU is %q, want 1300", mtu)
		}
	})
}
