package integration

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
)

// Pods must not reach programs that listen on loopback, such as agents, KSR and etcd members, even
// if route_localnet is set, as portmap does for pods with host ports.
func (l *attackLab) testLoopback(t *testing.T) {
	command.In(t, l.node1.Netns, "for f in /proc/sys/net/ipv4/conf/*/route_localnet; do echo 1 >$f; done")
	t.Cleanup(func() {
		command.In(t, l.node1.Netns, "for f in /proc/sys/net/ipv4/conf/*/route_localnet; do echo 0 >$f; done")
	})
	var listener *net.UDPConn
	err := lab.InNetns(lab.NetnsPath(l.node1.Netns), func() (err error) {
		listener, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 4001}) // the destination port of frames.Datagram
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()

	before := l.drops(t, "node1")
	targets := []string{"127.0.0.1", "127.0.0.2", "127.255.255.254"}
	for _, target := range targets {
		for _, fragment := range []bool{false, true} {
			l.evil.Wire.Send(t, frames.Datagram(l.evil.MAC, l.evil.Gateway, l.evil.Of(false), netip.MustParseAddr(target), "to "+target, fragment))
		}
	}
	// An allowed packet marks the end.
	const last = "to the gateway"
	l.evil.Wire.Send(t, frames.Datagram(l.evil.MAC, l.evil.Gateway, l.evil.Of(false), netip.MustParseAddr("10.1.1.1"), last, false))
	if err := listener.SetReadDeadline(time.Now().Add(await.Patience)); err != nil {
		t.Fatal(err)
	}
	for data := make([]byte, 2000); ; {
		n, from, err := listener.ReadFromUDPAddrPort(data)
		if err != nil {
			t.Fatalf("the pod's packet to the gateway does not arrive: %v", err)
		}
		text := string(data[:n])
		if strings.HasPrefix(text, last) {
			break
		}
		t.Errorf("%q arrived from %s", text, from)
	}
	// Incomplete fragments are never reassembled and so not counted.
	l.wantCounted(t, before, "evil", vswitch.DropLoopback, len(targets))
}
