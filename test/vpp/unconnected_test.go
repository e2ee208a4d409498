package vpp

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

const tcpRST = 0x04

// segmentsOfNoConnection are the flags of segments that open no connection.
var segmentsOfNoConnection = []byte{frames.ACK, frames.FIN | frames.ACK, tcpRST, tcpRST | frames.ACK, frames.SYN | frames.ACK, frames.FIN}

// Packets to cluster IPs that no service has, or not at this port, do not leave the node. Neither do
// segments of no connection with the address of a pod, over IPv4.
func TestPacketsOfNoConnection(t *testing.T) {
	l := upServices(t, servicesConfig, "services: vswitch\n", "vpp")
	pods := addPods(t, l, lab.PodSpec{Name: "client", Node: "node1"}, lab.PodSpec{Name: "server", Node: "node1"})
	client, server := labtest.Wire(t, pods[0]), labtest.Wire(t, pods[1])
	const port = 8080
	labtest.TellPeers(t, server.Netns, port)
	apply(t, l, served{name: "used", number: 10, policy: "Cluster", port: port, node: "node1", addrs: globalAddresses(t, pods[1])})
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node, underlay := st.Nodes[0].Netns, st.Underlay()
	for _, cluster := range []string{"10.96.0.10", "fd96::10"} {
		await.That(t, "a pod reaches "+cluster, func() error {
			return askFrom(client.Netns, netip.Addr{}, "tcp", netip.AddrPortFrom(netip.MustParseAddr(cluster), 80))
		})
	}
	outside, router := wireIn(t, underlay, "nodes"), deviceMAC(t, underlay, "nodes")
	outside.Drain()
	send := func(pod *labtest.WiredPod, from, to netip.AddrPort) {
		for _, flags := range append([]byte{frames.SYN}, segmentsOfNoConnection...) {
			pod.Wire.Send(t, frames.TCP(pod.MAC, pod.Gateway, from, to, flags))
		}
	}
	for _, text := range []string{"10.96.0.10", "10.96.77.77", "10.111.255.254", "fd96::10", "fd96::7777"} {
		to := netip.MustParseAddr(text)
		from := client.Of(to.Is6())
		for number, at := range map[uint16]uint16{5000: 80, 5100: 81} { // the service has port 80
			if at == 80 && (text == "10.96.0.10" || text == "fd96::10") {
				for i, flags := range segmentsOfNoConnection {
					client.Wire.Send(t, frames.TCP(client.MAC, client.Gateway, netip.AddrPortFrom(from, 5200+uint16(i)), netip.AddrPortFrom(to, at), flags))
				}
				continue
			}
			send(client, netip.AddrPortFrom(from, number), netip.AddrPortFrom(to, at))
		}
		for n := range 3 {
			client.Wire.Send(t, frames.Datagram(client.MAC, client.Gateway, from, to, fmt.Sprint("datagram", n), false))
		}
		command.In(t, node, fmt.Sprintf(`ping -n -q -c 1 -W 0.2 %[1]s || true; bash -c 'echo x > /dev/udp/%[1]s/4002' || true`, to))
	}
	// The connection of a segment may be forgotten: those of a server to a client outside, and those
	// of a client to a server outside.
	for i, flags := range segmentsOfNoConnection {
		for _, pod := range []*labtest.WiredPod{client, server} {
			pod.Wire.Send(t, frames.TCP(pod.MAC, pod.Gateway, netip.AddrPortFrom(pod.Of(false), port), netip.AddrPortFrom(lab.OutsideAddress.Addr(), 6000+uint16(i)), flags))
		}
	}
	client.Wire.Send(t, frames.Datagram(client.MAC, client.Gateway, client.Of(false), lab.OutsideAddress.Addr(), "the last one", false))
	seen := outside.Receive(await.Patience, frames.Containing("the last one"))
	if seen == nil {
		t.Fatal("packets of the pod to the outside do not arrive")
	}
	services := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd96::/108")}
	podsOf4 := netip.MustParsePrefix("10.1.0.0/16")
	for _, frame := range seen {
		src, dst, ok := addressesOf(frame)
		if !ok || frames.MAC(frame[6:12]) == router {
			continue
		}
		for _, p := range services {
			if p.Contains(dst) {
				t.Errorf("a packet to %v left the node: %x", dst, frame)
			}
		}
		if podsOf4.Contains(src) {
			t.Errorf("a packet from %v to %v left the node with the pod's address: %x", src, dst, frame)
		}
	}
}

// addressesOf returns the addresses of an IP packet.
func addressesOf(frame []byte) (src, dst netip.Addr, ok bool) {
	at, size := 14+12, 4
	switch {
	case len(frame) >= 54 && frame[12] == 0x86 && frame[13] == 0xdd:
		at, size = 14+8, 16
	case len(frame) < 34 || frame[12] != 8 || frame[13] != 0:
		return src, dst, false
	}
	src, _ = netip.AddrFromSlice(frame[at : at+size])
	dst, ok = netip.AddrFromSlice(frame[at+size : at+2*size])
	return src, dst, ok
}
