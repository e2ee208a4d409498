package integration

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/labtest"
)

// testUnusedClusterIPs: nodes drop packets to unassigned cluster IPs, even if an endpoint has the
// address.
func (l *objectsLab) testUnusedClusterIPs(t *testing.T) {
	state, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	manifest := func(name, ip, family, endpoint string) string {
		return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec:
  clusterIP: "%[2]s"
  clusterIPs: ["%[2]s"]
  ports: [{name: t, protocol: TCP, port: 80}, {name: u, protocol: UDP, port: 4001}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, namespace: default, labels: {kubernetes.io/service-name: %[1]s}}
addressType: %[3]s
ports: [{name: t, protocol: TCP, port: 80}, {name: u, protocol: UDP, port: 4001}]
endpoints: [{addresses: ["%[4]s"], conditions: {ready: true}}]
---
`, name, ip, family, endpoint)
	}
	l.keep(t, "unused", manifest("unused4", "10.96.0.60", "IPv4", "10.96.77.77")+manifest("unused6", "fd96::60", "IPv6", "fd96::7777"))
	node := state.Nodes[0].Netns
	for _, to := range []string{"10.96.0.60", "fd96::60", "10.96.77.78", "fd96::7778"} {
		l.refused(t, "a pod connects to "+to, l.near.Netns, to, 80)
		l.refused(t, "the node connects to "+to, node, to, 80)
	}
	pod := labtest.Wire(t, l.near)
	// The gateway of policylab.Config. Without it, IPv6 packets to the outside would not leave the node.
	command.In(t, state.Underlay(), "ip address add fd16::fe/112 dev nodes nodad")
	outside := wireIn(t, state.Underlay(), "nodes")
	outside.Drain()
	for _, text := range []string{"10.96.0.60", "fd96::60", "10.96.77.78", "fd96::7778", "10.96.77.77", "fd96::7777"} {
		to := netip.MustParseAddr(text)
		from := pod.Of(to.Is6())
		for n := range 3 { // the first packet of a flow, and later ones
			pod.Wire.Send(t, frames.Datagram(pod.MAC, pod.Gateway, from, to, fmt.Sprint("datagram", n), false))
		}
		for port, flags := range []byte{frames.SYN, frames.ACK} {
			for _, number := range []uint16{80, 81} {
				pod.Wire.Send(t, frames.TCP(pod.MAC, pod.Gateway, netip.AddrPortFrom(from, uint16(5000+port)), netip.AddrPortFrom(to, number), flags))
			}
		}
		command.In(t, node, fmt.Sprintf(`ping -c 1 -W 0.1 %[1]s || true; bash -c 'echo x > /dev/udp/%[1]s/4001' || true; bash -c 'echo x > /dev/udp/%[1]s/4002' || true`, to))
	}
	// Segments of no connection: conntrack calls some of them invalid, and others open a connection.
	nodeMAC, routerMAC := deviceMAC(t, node, "eth0"), deviceMAC(t, state.Underlay(), "nodes")
	for _, text := range []string{"10.96.0.60", "10.96.77.78", "fd96::60", "fd96::7778", "10.96.77.77", "fd96::7777"} {
		to := netip.MustParseAddr(text)
		own := underlayAddress(t, state.Nodes[0], to.Is6())
		for i, flags := range []byte{frames.ACK, frames.FIN | frames.ACK, tcpRST, tcpRST | frames.ACK, frames.SYN | frames.ACK, frames.FIN} {
			src := netip.AddrPortFrom(outsideOf(to.Is6()), uint16(6000+i))
			outside.Send(t, frames.TCP(routerMAC, nodeMAC, src, netip.AddrPortFrom(to, 80), flags))
			sendRaw(t, node, netip.AddrPortFrom(own, uint16(6100+i)), netip.AddrPortFrom(to, 80), flags)
		}
	}
	var seen [][]byte
	for _, ipv6 := range []bool{true, false} {
		last := fmt.Sprint("the last one, IPv6: ", ipv6)
		pod.Wire.Send(t, frames.Datagram(pod.MAC, pod.Gateway, pod.Of(ipv6), outsideOf(ipv6), last, false))
		until := outside.Receive(await.Patience, frames.Containing(last))
		if until == nil {
			t.Fatalf("packets of the pod to %v do not leave the node", outsideOf(ipv6))
		}
		seen = append(seen, until...)
	}
	for _, frame := range seen {
		if frames.MAC(frame[6:12]) == routerMAC {
			continue
		}
		for _, prefix := range []string{"10.96.0.0/16", "fd96::/16"} {
			p := netip.MustParsePrefix(prefix)
			network := p.Addr().AsSlice()[:2]
			at := map[bool]int{false: 14 + 16, true: 14 + 24}[p.Addr().Is6()]
			if len(frame) > at+2 && slices.Equal(frame[12:14], map[bool][]byte{false: {8, 0}, true: {0x86, 0xdd}}[p.Addr().Is6()]) && bytes.Equal(frame[at:at+2], network) {
				t.Errorf("a packet to %x left the node: %x", frame[at:at+map[bool]int{false: 4, true: 16}[p.Addr().Is6()]], frame)
			}
		}
	}
}

// sendRaw sends a TCP segment without a connection from a process of the network namespace.
func sendRaw(t *testing.T, netns string, from, to netip.AddrPort, flags byte) {
	t.Helper()
	header := map[bool]int{false: 14 + 20, true: 14 + 40}[to.Addr().Is6()]
	segment := frames.TCP(frames.MAC{}, frames.MAC{}, from, to, flags)[header:]
	if err := labtest.Inside(netns, func() error {
		conn, err := net.Dial(map[bool]string{false: "ip4:tcp", true: "ip6:tcp"}[to.Addr().Is6()], to.Addr().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err = conn.Write(segment); errors.Is(err, syscall.EPERM) { // dropped at once
			return nil
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
