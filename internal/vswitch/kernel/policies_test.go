package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// Of subjects with the same address, the one set last applies, but all exist: a resync does not
// alternate between them. A subject that was found missing does not return.
func TestSubjectsWithOneAddress(t *testing.T) {
	site := newNode(t)
	v := site.Open(t).(*VSwitch)
	defer v.Close()
	one := &contiv_filter.Subject{Name: "one", Addresses: []string{"10.1.1.2"}, Ingress: []*contiv_filter.Subject_Stage{{Deny: true}}}
	two := &contiv_filter.Subject{Name: "two", Addresses: []string{"10.1.1.2"}, Egress: []*contiv_filter.Subject_Stage{{Deny: true}}}
	all := []proto.Message{one, two}
	check(t, v.Filter().Set(t.Context(), one))
	check(t, v.Filter().Set(t.Context(), two))
	for range 2 {
		if found, err := v.Filter().List(t.Context(), all); err != nil || len(found) != 2 {
			t.Fatalf("found %v, %v", found, err)
		}
	}
	restarted := site.Open(t).(*VSwitch)
	defer restarted.Close()
	found, err := restarted.Filter().List(t.Context(), all)
	if err != nil || len(found) != 1 || found[0] != two {
		t.Fatalf("after a restart: found %v, %v", found, err)
	}
	check(t, restarted.Filter().Set(t.Context(), one))
	if found, err := restarted.Filter().List(t.Context(), all); err != nil || len(found) != 2 {
		t.Errorf("found %v, %v", found, err)
	}
	site.Self().Exec(t, "nft delete element inet contiv-policy in4 { 10.1.1.2 }")
	if found, err := restarted.Filter().List(t.Context(), all); err != nil || len(found) != 0 {
		t.Errorf("damaged, but found %v, %v", found, err)
	}
	check(t, restarted.Filter().Set(t.Context(), two))
	check(t, restarted.Filter().Remove(t.Context(), two))
	if rules := site.Self().Exec(t, "nft list ruleset"); strings.Contains(rules, "10.1.1.2") {
		t.Errorf("left: %s", rules)
	}
}

// Packets that the node sends from foreign addresses, as IPVS and transparent proxies do, are
// subject to policies. The node's own packets are not.
func TestPacketsThatTheNodeSendsForOthersAreJudged(t *testing.T) {
	site := newNode(t)
	site.Self().Exec(t, "ip addr add 10.1.1.1/24 dev "+nic)
	site.Self().Exec(t, "ip link set dev "+nic+" up")
	site.peer.Exec(t, "ip addr add 10.1.1.2/24 dev "+uplink)
	site.peer.Exec(t, "ip route add default via 10.1.1.1")
	v := site.Open(t).(*VSwitch)
	defer v.Close()
	check(t, v.Filter().Set(t.Context(),
		&contiv_filter.AccessList{Name: "allowed", Rules: []*contiv_filter.AccessList_Rule{{Networks: []string{"10.9.0.2/32"}}}},
		&contiv_filter.Subject{Name: "server", Addresses: []string{"10.1.1.2"}, Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{"allowed"}, Deny: true}}}))

	server := inHost(t, site.peer, func() (net.PacketConn, error) { return net.ListenPacket("udp", "10.1.1.2:8080") })
	defer server.Close()
	transparent := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if controlErr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1) }); controlErr != nil {
			return controlErr
		}
		return err
	}}
	for _, from := range []struct {
		addr   string
		passes bool
	}{{"10.9.0.1", false}, {"10.9.0.2", true}, {"10.1.1.1", true}} {
		client := inHost(t, site.Self(), func() (net.PacketConn, error) {
			return transparent.ListenPacket(context.Background(), "udp", from.addr+":0")
		})
		defer client.Close()
		_, err := client.WriteTo([]byte(from.addr), server.LocalAddr())
		if err != nil && !errors.Is(err, syscall.EPERM) { // the kernel reports the drop to a local sender
			t.Fatal(err)
		}
		wait := 5 * time.Second
		if !from.passes {
			wait = 100 * time.Millisecond
		}
		check(t, server.SetReadDeadline(time.Now().Add(wait)))
		buffer := make([]byte, 64)
		n, _, err := server.ReadFrom(buffer)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if passed := string(buffer[:n]) == from.addr; passed != from.passes {
			t.Errorf("from %s: passed %v, want %v", from.addr, passed, from.passes)
		}
	}
}

// An ICMP error about a connection passes the policies only if it comes from the connection's path.
func TestErrorsAboutConnectionsComeByTheirPath(t *testing.T) {
	for version, addrs := range map[string][3]string{"IPv4": {"10.1.1.2", "10.1.1.3", "192.168.16.77"}, "IPv6": {"fd10:1::2", "fd10:1::3", "fd16::77"}} {
		t.Run(version, func(t *testing.T) {
			site := newNode(t)
			v := openKernel(t, site)
			node := map[bool]string{true: "192.168.16.1/24", false: "fd16::1/64"}[version == "IPv4"]
			site.Exec(t, "ip addr add "+node+" dev "+nic+" nodad")
			site.Exec(t, "ip link set dev "+nic+" up")
			outside := site.peer
			outside.Exec(t, fmt.Sprintf("ip addr add %s/%s dev %s nodad", addrs[2], node[strings.Index(node, "/")+1:], uplink))
			outside.Exec(t, fmt.Sprintf("ip route add %s via %s", addrs[0], node[:strings.Index(node, "/")]))
			pod, friend := guardedPod(t, site, v, "pod", addrs[0]), guardedPod(t, site, v, "friend", addrs[1])
			site.Exec(t, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
			bits := mustAddr(addrs[0]).BitLen()
			check(t, v.Filter().Set(t.Context(),
				&contiv_filter.AccessList{Name: "friends", Rules: []*contiv_filter.AccessList_Rule{{Networks: []string{netip.PrefixFrom(mustAddr(addrs[1]), bits).String()}}}},
				&contiv_filter.Subject{Name: "pod", Addresses: []string{addrs[0]}, Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{"friends"}, Deny: true}}}))

			device := inHost(t, outside, func() (*frames.Wire, error) { return frames.NewWire(uplink) })
			t.Cleanup(device.Close)
			ear := inHost(t, pod.Host, func() (*frames.Wire, error) { return frames.NewWire("eth0") })
			t.Cleanup(ear.Close)
			macOf := func(h *vswitchtest.Host, dev string) frames.MAC {
				return frames.ParseMAC(t, strings.Fields(h.Exec(t, "ip -br link show dev "+dev))[2])
			}
			from, to := macOf(outside, uplink), macOf(site.Host, nic)
			unreachable := func(src, dst netip.AddrPort, text string) {
				kind, code := byte(3), byte(3)
				if src.Addr().Is6() {
					kind, code = 1, 4
				}
				device.Send(t, frames.ICMPError(from, to, mustAddr(addrs[2]), kind, code, 0, frames.Between(from, to, src, dst, text)))
			}

			with := func(peer *net.UDPConn) (own, other netip.AddrPort) {
				t.Helper()
				other = peer.LocalAddr().(*net.UDPAddr).AddrPort()
				open := inHost(t, pod.Host, func() (net.Conn, error) { return net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(other)) })
				t.Cleanup(func() { open.Close() })
				_, err := open.Write([]byte("question"))
				check(t, err)
				check(t, peer.SetReadDeadline(time.Now().Add(5*time.Second)))
				_, _, err = peer.ReadFromUDPAddrPort(make([]byte, 64))
				check(t, err)
				return open.LocalAddr().(*net.UDPAddr).AddrPort(), other
			}
			own, other := with(friend.listen(t, 9999))
			far := inHost(t, outside, func() (*net.UDPConn, error) {
				return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(mustAddr(addrs[2]), 9999)))
			})
			t.Cleanup(func() { far.Close() })
			ownFar, otherFar := with(far)
			unreachable(own, other, "about the friend")
			unreachable(ownFar, otherFar, "about the outside")
			seen := ear.Receive(5*time.Second, frames.Containing("about the outside"))
			if seen == nil {
				t.Fatal("an error about a connection to the outside does not arrive")
			}
			if slices.ContainsFunc(seen, frames.Containing("about the friend")) {
				t.Error("the outside ended a connection between two pods of the node")
			}
		})
	}
}
