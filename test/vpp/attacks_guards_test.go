package vpp

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/statscollector"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/labtest"
	"golang.org/x/sys/unix"
)

// testErrors: a pod cannot lower the path MTU between others. An ICMP error passes only if it quotes
// a packet to the pod.
func (l *attackLab) testErrors(t *testing.T) {
	before := l.drops(t)
	for _, victim := range []*labtest.WiredPod{l.near, l.far} {
		forged, sound := map[string][]byte{}, map[string][]byte{}
		for _, dst := range victim.Addrs {
			me, other := l.evil.Of(dst.Is6()), l.far.Of(dst.Is6())
			if victim == l.far {
				other = l.near.Of(dst.Is6())
			}
			tooBig, code, redirect := byte(3), byte(4), byte(5)
			if dst.Is6() {
				tooBig, code, redirect = 2, 0, frames.Redirect
			}
			about := func(list map[string][]byte, what string, kind, code byte, info uint32, to netip.Addr, headers ...byte) {
				name := fmt.Sprintf("[%s to %v about %v]", what, dst, to)
				quoted := frames.Datagram(l.evil.MAC, l.evil.Gateway, dst, to, fmt.Sprintf("%-64s", name), false)
				list[name] = frames.ICMPError(l.evil.MAC, l.evil.Gateway, me, kind, code, info, quoted)
				if len(headers) > 0 {
					list[name] = frames.WithHeaders(list[name], headers...)
				}
			}
			about(forged, "path MTU", tooBig, code, 1300, other)
			about(forged, "path MTU to nobody", tooBig, code, 1300, other.Next().Next().Next())
			about(forged, "tiny path MTU", tooBig, code, 68, me)
			about(forged, "redirect", redirect, 1, 0, other)
			if dst.Is6() {
				about(forged, "path MTU behind options", tooBig, code, 1300, other, unix.IPPROTO_DSTOPTS)
				about(forged, "path MTU in a fragment", tooBig, code, 1300, other, unix.IPPROTO_FRAGMENT)
			}
			about(sound, "path MTU", tooBig, code, 1400, me)
		}
		if names := l.arrived(t, forged, victim); len(names) > 0 {
			t.Errorf("arrived at %s: %q", victim.Name, names)
		}
		if victim == l.near { // the kernel of the other node drops errors about no connection
			if names := l.arrived(t, sound, victim); len(names) != len(sound) {
				t.Errorf("arrived at %s: %q, want errors about packets to the sender", victim.Name, names)
			}
		}
		for _, peer := range []*labtest.WiredPod{l.near, l.far} {
			for _, addr := range peer.Addrs {
				if route := command.In(t, victim.Netns, "ip route get "+addr.String()); peer != victim && strings.Contains(route, "mtu 1300") {
					t.Errorf("%s has learned a path MTU from a pod that is not on the path: %s", victim.Name, route)
				}
			}
		}
	}
	l.wantCounted(t, before, vswitch.DropICMP, 2*(4+5)) // redirects of IPv6 are neighbour discovery
	l.wantService(t)
}

// nodeDrops returns the number of packets that interfaces without a pod have dropped.
func (l *attackLab) nodeDrops(t *testing.T, reason vswitch.DropReason) (n uint64) {
	t.Helper()
	var report statscollector.DropsReport
	if err := l.Agent("node1").Get(t.Context(), statscollector.DropsURL, &report); err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Drops {
		if d.Pod == "" && d.Reason == string(reason) {
			n += d.Packets
		}
	}
	return n
}

func (l *attackLab) awaitNodeDrops(t *testing.T, reason vswitch.DropReason, want uint64) {
	t.Helper()
	await.That(t, fmt.Sprintf("%d drops because of %s", want, reason), func() error {
		if now := l.nodeDrops(t, reason); now < want {
			return fmt.Errorf("%d", now)
		}
		return nil
	})
}

// wireIn opens a packet socket on a device until the test ends.
func wireIn(t *testing.T, netns, device string) (w *frames.Wire) {
	t.Helper()
	if err := labtest.Inside(netns, func() (err error) {
		w, err = frames.NewWire(device)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func deviceMAC(t *testing.T, netns, device string) frames.MAC {
	t.Helper()
	return frames.ParseMAC(t, strings.TrimSpace(command.In(t, netns, "cat /sys/class/net/"+device+"/address")))
}

// neighbourMAC returns the hardware address of a neighbour, after a ping.
func neighbourMAC(t *testing.T, netns, device string, addr netip.Addr) frames.MAC {
	t.Helper()
	var mac net.HardwareAddr
	await.That(t, fmt.Sprintf("the neighbour %v answers", addr), func() (err error) {
		words := strings.Fields(command.In(t, netns, fmt.Sprintf("ping -n -q -c1 -W2 %v >/dev/null || true; ip neigh show %v dev %s", addr, addr, device)))
		n := slices.Index(words, "lladdr")
		if n < 0 || n+1 == len(words) {
			return fmt.Errorf("it has no hardware address: %q", words)
		}
		mac, err = net.ParseMAC(words[n+1])
		return err
	})
	return frames.MAC(mac)
}

// testVXLANOfTheHost: VXLAN that the host's interface receives is dropped, even from the address of a
// peer, and to a peer.
func (l *attackLab) testVXLANOfTheHost(t *testing.T) {
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node1, node2, host := labtest.NodeAddresses(t, l.Lab, "node1")[0], st.Nodes[1].Address.Addr(), st.Nodes[0].Netns
	vpp := frames.MAC{0x34, 0x3c, 0, 0, 0, 1} // VPP's end of the interconnect, see docs/design/vpp.md
	wire, mac := wireIn(t, host, "vpp1"), deviceMAC(t, host, "vpp1")
	foreign, unknown, translated := l.nodeDrops(t, vswitch.DropVXLANInterface), l.nodeDrops(t, vswitch.DropVXLAN), l.nodeDrops(t, vswitch.DropVXLANTranslated)
	var sent []string
	send := func(what string, src, dst netip.Addr, node byte, to *labtest.WiredPod) {
		for _, addr := range to.Addrs {
			sent = append(sent, what)
			inner := frames.Datagram(frames.MAC{2, 0, 0, 0, 0, 1}, frames.MAC{0x12, 0x2b, 0, 0, 0, node}, l.far.Of(addr.Is6()), addr, what+"        ", false)
			wire.Send(t, frames.Between(mac, vpp, netip.AddrPortFrom(src, 4001), netip.AddrPortFrom(dst, 4789), string(frames.VXLAN(10, inner))))
		}
	}
	l.near.Wire.Drain()
	l.far.Wire.Drain()
	send("host with the address of a peer", node2, node1, 1, l.near)
	send("host with its own address", netip.MustParseAddr("172.30.1.2"), node1, 1, l.near)
	send("host to a peer", netip.MustParseAddr("172.30.1.2"), node2, 2, l.far)
	l.awaitNodeDrops(t, vswitch.DropVXLANInterface, foreign+2)
	l.awaitNodeDrops(t, vswitch.DropVXLAN, unknown+2)
	l.awaitNodeDrops(t, vswitch.DropVXLANTranslated, translated+2)
	l.nothingArrived(t, sent)
	l.wantService(t)
}

// nothingArrived requires that none of the texts has arrived at a pod before a last datagram.
func (l *attackLab) nothingArrived(t *testing.T, texts []string) {
	t.Helper()
	for _, p := range []*labtest.WiredPod{l.near, l.far} {
		l.barriers++
		last := fmt.Sprintf("the last one %d-", l.barriers)
		l.evil.Wire.Send(t, frames.Datagram(l.evil.MAC, l.evil.Gateway, l.evil.Of(false), p.Of(false), last, false))
		seen := p.Wire.Receive(await.Patience, frames.Containing(last))
		if seen == nil {
			t.Errorf("packets of a pod do not arrive at %s", p.Name)
		}
		for _, text := range texts {
			if slices.ContainsFunc(seen, frames.Containing(text)) {
				t.Errorf("arrived at %s: %s", p.Name, text)
			}
		}
	}
}

// testUplink: hosts on the node's network send to pods with the addresses of pods.
func (l *attackLab) testUplink(t *testing.T) {
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	underlay, node1 := st.Underlay(), labtest.NodeAddresses(t, l.Lab, "node1")[0]
	router, from := wireIn(t, underlay, "nodes"), deviceMAC(t, underlay, "nodes")
	to := neighbourMAC(t, underlay, "nodes", node1)
	before := l.nodeDrops(t, vswitch.DropUplink)
	var texts []string
	sent := uint64(0)
	l.near.Wire.Drain()
	l.far.Wire.Drain()
	for _, ipv6 := range []bool{false, true} {
		tunnel := netip.MustParseAddr(map[bool]string{false: "192.168.30.2", true: "fd30::2"}[ipv6])
		for who, src := range map[string]netip.Addr{"pod of the node": l.evil.Of(ipv6), "pod of another node": l.far.Of(ipv6), "tunnel's end": tunnel} {
			text := fmt.Sprintf("by the uplink from the %s, IPv6 %v", who, ipv6)
			texts = append(texts, text)
			for _, fragment := range []bool{false, true} {
				router.Send(t, frames.Datagram(from, to, src, l.near.Of(ipv6), fmt.Sprintf("%-64s", text), fragment))
				sent++
			}
			router.Send(t, frames.TCP(from, to, netip.AddrPortFrom(src, 5000), netip.AddrPortFrom(l.near.Of(ipv6), 80), frames.ACK))
			sent++
		}
		router.Send(t, frames.Datagram(from, to, l.evil.Of(ipv6), l.far.Of(ipv6), fmt.Sprintf("%-64s", "by the uplink to the other node"), false))
		sent++
	}
	l.awaitNodeDrops(t, vswitch.DropUplink, before+sent)
	l.nothingArrived(t, append(texts, "by the uplink to the other node"))
	l.wantService(t)
}
