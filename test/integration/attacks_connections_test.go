package integration

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/vishvananda/netlink"
)

func dialTCP(netns string, to netip.AddrPort) (c net.Conn, err error) {
	err = labtest.Inside(netns, func() (err error) {
		c, err = net.DialTimeout("tcp", to.String(), await.Patience)
		return err
	})
	return c, err
}

func listen(t *testing.T, netns string, at netip.AddrPort) {
	t.Helper()
	err := labtest.Inside(netns, func() error {
		listener, err := net.Listen("tcp", at.String())
		if err != nil {
			return err
		}
		t.Cleanup(func() { listener.Close() })
		go func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				t.Cleanup(func() { c.Close() })
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func connections(t *testing.T, node lab.Node, ipv6 bool) (flows []*netlink.ConntrackFlow) {
	t.Helper()
	family := netlink.InetFamily(netlink.FAMILY_V4)
	if ipv6 {
		family = netlink.FAMILY_V6
	}
	if err := labtest.Inside(node.Netns, func() (err error) {
		flows, err = netlink.ConntrackTableList(netlink.ConntrackTable, family)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return flows
}

// testTimeouts: connections opened by pods have short timeouts; the timeouts of all others follow
// service.conf.
func (l *attackLab) testTimeouts(t *testing.T) {
	const port = 7100
	for _, ipv6 := range []bool{false, true} {
		near, evil := l.near.Of(ipv6), l.evil.Of(ipv6)
		silent := netip.MustParseAddr("203.0.113.77")
		if ipv6 {
			silent = netip.MustParseAddr("fd16::77")
		}
		listen(t, l.near.Netns, netip.AddrPortFrom(near, port))
		established, err := dialTCP(l.evil.Netns, netip.AddrPortFrom(near, port))
		if err != nil {
			t.Fatal(err)
		}
		defer established.Close()
		ofNode, err := dialTCP(l.node1.Netns, netip.AddrPortFrom(near, port))
		if err != nil {
			t.Fatal(err)
		}
		defer ofNode.Close()
		from := func(c net.Conn) uint16 { return netip.MustParseAddrPort(c.LocalAddr().String()).Port() }
		tcp := func(srcPort uint16, dst netip.Addr, flags byte) {
			l.evil.Wire.Send(t, frames.TCP(l.evil.MAC, l.evil.Gateway, netip.AddrPortFrom(evil, srcPort), netip.AddrPortFrom(dst, port), flags))
		}
		tcp(1, silent, frames.SYN)
		tcp(2, silent, frames.ACK)
		l.arrived(t, nil, map[netip.Addr]*frames.Wire{near: l.near.Wire})
		remaining := map[uint16]uint32{}
		for _, flow := range connections(t, l.node1, ipv6) {
			if flow.Forward.DstPort == port {
				remaining[flow.Forward.SrcPort] = flow.TimeOut
			}
		}
		for what, want := range map[string]struct {
			port     uint16
			min, max uint32 // seconds
		}{
			"half-open":                {1, 1, 60},
			"no handshake":             {2, 1, 300},
			"established":              {from(established), 23 * 3600, 24 * 3600},
			"established, of the node": {from(ofNode), 23 * 3600, 24 * 3600},
		} {
			if got := remaining[want.port]; got < want.min || got > want.max {
				t.Errorf("IPv6 %v: %s: forgotten after %d s, want %d to %d", ipv6, what, got, want.min, want.max)
			}
		}
	}
}

// testHandshakes replays handshakes with foreign sources that once filled the conntrack table, and
// more handshakes with the pod's own source than its limit. Other clients connect meanwhile.
func (l *attackLab) testHandshakes(t *testing.T) {
	const spoofed, port = 264_000, 7200
	for _, ipv6 := range []bool{false, true} {
		near, far := l.near.Of(ipv6), l.far.Of(ipv6)
		listen(t, l.near.Netns, netip.AddrPortFrom(near, port))
		before := l.drops(t, "node1")
		count := spoofed
		if ipv6 {
			count /= 4
		}
		list := make([][]byte, 0, count)
		for i := range count / 2 { // SYN, and ACK of the accomplice's reply
			src := netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)})
			if ipv6 {
				src = netip.AddrFrom16([16]byte{0xfd, 0x11, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)})
			}
			for _, flags := range []byte{frames.SYN, frames.ACK} {
				list = append(list, frames.TCP(l.evil.MAC, l.evil.Gateway, netip.AddrPortFrom(src, 4000), netip.AddrPortFrom(far, 80), flags))
			}
		}
		l.sendInTurn(t, list)
		reason := map[bool]vswitch.DropReason{false: vswitch.DropIPv4, true: vswitch.DropIPv6}[ipv6]
		l.wantCounted(t, before, "evil", reason, count)

		// With its own source, neither handshakes nor mid-stream segments exceed the limit.
		list = list[:0]
		silent := netip.MustParseAddr("203.0.113.77")
		if ipv6 {
			silent = netip.MustParseAddr("fd16::77")
		}
		const attempts = 20 * podLimit
		for i := range attempts {
			flags := []byte{frames.SYN, frames.ACK}[i%2]
			list = append(list, frames.TCP(l.evil.MAC, l.evil.Gateway, netip.AddrPortFrom(l.evil.Of(ipv6), uint16(10000+i)), netip.AddrPortFrom(silent, 81), flags))
		}
		for _, frame := range list {
			l.evil.Wire.Send(t, frame)
		}
		l.wantCounted(t, before, "evil", vswitch.DropConnections, attempts-podLimit)
		own := 0
		for _, flow := range connections(t, l.node1, ipv6) {
			src, _ := netip.AddrFromSlice(flow.Forward.SrcIP)
			if src = src.Unmap(); strings.HasPrefix(src.String(), "11.") || strings.HasPrefix(src.String(), "fd11:") {
				t.Fatalf("a spoofed connection is tracked: %v", flow)
			}
			if src == l.evil.Of(ipv6) {
				own++
			}
		}
		if own > podLimit || own == 0 {
			t.Errorf("IPv6 %v: %d connections of the pod are tracked, want some, and %d at most", ipv6, own, podLimit)
		}
		for _, from := range []string{l.node1.Netns, l.far.Netns, l.node2.Netns} {
			c, err := dialTCP(from, netip.AddrPortFrom(near, port))
			if err != nil {
				t.Errorf("IPv6 %v: TCP from %s fails: %v", ipv6, from, err)
				continue
			}
			c.Close()
		}
	}
	for _, addr := range l.far.Addrs {
		if err := pingIn(t.Context(), l.near.Netns, addr, 1280); err != nil {
			t.Error(err)
		}
	}
}
