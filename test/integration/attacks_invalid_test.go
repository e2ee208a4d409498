package integration

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/labtest"
	"golang.org/x/sys/unix"
)

const tcpRST = 0x04

func segment(from, to frames.MAC, src, dst netip.AddrPort, seq, ack uint32, flags byte, text string) []byte {
	s := binary.BigEndian.AppendUint16(nil, src.Port())
	s = binary.BigEndian.AppendUint16(s, dst.Port())
	s = binary.BigEndian.AppendUint32(s, seq)
	s = binary.BigEndian.AppendUint32(s, ack)
	s = append(s, 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	return frames.Packet(from, to, src.Addr(), dst.Addr(), unix.IPPROTO_TCP, 64, 16, append(s, text...), false)
}

// testInvalid: nodes drop packets of pods that belong to no connection, even FIN and RST.
func (l *attackLab) testInvalid(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		before := l.drops(t, "node1")
		outside := wireIn(t, l.state.Underlay(), "nodes")
		ears := map[netip.Addr]*frames.Wire{l.near.Of(ipv6): l.near.Wire, l.far.Of(ipv6): l.far.Wire, outsideOf(ipv6): outside}
		forged := map[string][]byte{}
		port := uint16(7900)
		for dst := range ears {
			for what, flags := range map[string]byte{"RST": tcpRST, "FIN and ACK": frames.FIN | frames.ACK, "RST and ACK": tcpRST | frames.ACK, "SYN and ACK": frames.SYN | frames.ACK} {
				port++
				name := fmt.Sprintf("[%s to %v]", what, dst)
				forged[name] = segment(l.evil.MAC, l.evil.Gateway, netip.AddrPortFrom(l.evil.Of(ipv6), port), netip.AddrPortFrom(dst, 80), 1, 1, flags, name)
			}
		}
		for _, name := range l.arrived(t, forged, ears) {
			t.Errorf("arrived: %s", name)
		}
		l.wantCounted(t, before, "evil", vswitch.DropInvalid, len(forged))
	}
	l.wantService(t)
}

const endpointsOfWeb = `apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec: {clusterIP: %[2]s, clusterIPs: [%[2]s], ports: [{protocol: TCP, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, namespace: default, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{protocol: TCP, port: %[3]d}]
endpoints: [{addresses: [%[4]v], conditions: {ready: true}}]
`

// testOutsideOfTheWindow: an endpoint sends a segment outside of the TCP window. If it reached the
// client untranslated, the client would reset the connection.
func (l *attackLab) testOutsideOfTheWindow(t *testing.T) {
	for i, c := range []struct {
		client   string
		netns    string
		addr     netip.Addr
		endpoint *labtest.WiredPod
	}{
		{"pod, endpoint on its node", l.near.Netns, l.near.Of(false), l.evil},
		{"pod, endpoint on another node", l.near.Netns, l.near.Of(false), l.far},
		{"node", l.node1.Netns, netip.Addr{}, l.evil},
		{"node, endpoint on another node", l.node1.Netns, netip.Addr{}, l.far},
	} {
		t.Run(c.client, func(t *testing.T) {
			port := uint16(7950 + i)
			name, clusterIP := fmt.Sprint("window", i), netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 7, byte(i + 1)}), 80)
			objects := fmt.Sprintf(endpointsOfWeb, name, clusterIP.Addr(), port, c.endpoint.Of(false))
			labtest.Apply(t, l.Lab, objects)
			t.Cleanup(func() { labtest.Delete(t, l.Lab, objects) })
			var listener net.Listener
			if err := labtest.Inside(c.endpoint.Netns, func() (err error) {
				listener, err = net.Listen("tcp", netip.AddrPortFrom(c.endpoint.Of(false), port).String())
				return err
			}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { listener.Close() })
			c.endpoint.Wire.Drain()
			var client net.Conn
			await.That(t, "the service answers", func() (err error) {
				client, err = dialTCP(c.netns, clusterIP)
				return err
			})
			t.Cleanup(func() { client.Close() })
			server, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { server.Close() })

			// Read the client's initial sequence number from the SYN that the endpoint received.
			const header = 14 + 20
			isSYN := func(f []byte) bool {
				return len(f) >= header+20 && f[12] == 8 && f[13] == 0 && f[23] == unix.IPPROTO_TCP && binary.BigEndian.Uint16(f[header+2:]) == port && f[header+13]&frames.SYN != 0
			}
			seen := c.endpoint.Wire.Receive(await.Patience, isSYN)
			if seen == nil {
				t.Fatal("the endpoint saw no SYN")
			}
			syn := seen[len(seen)-1]
			from := netip.AddrPortFrom(netip.AddrFrom4([4]byte(syn[26:30])), binary.BigEndian.Uint16(syn[header:]))
			next := binary.BigEndian.Uint32(syn[header+4:]) + 1
			forged := segment(c.endpoint.MAC, c.endpoint.Gateway, netip.AddrPortFrom(c.endpoint.Of(false), port), from, 0x40000000, next, frames.ACK, "outside of the window")
			for range 3 {
				c.endpoint.Wire.Send(t, forged)
			}
			// If the client is a pod, send a datagram in each direction: a reset would arrive
			// before it.
			if c.addr.IsValid() {
				l.barriers++
				last := fmt.Sprintf("barrier-%d-", l.barriers)
				l.near.Wire.Drain()
				c.endpoint.Wire.Send(t, frames.Datagram(c.endpoint.MAC, c.endpoint.Gateway, c.endpoint.Of(false), c.addr, last, false))
				if l.near.Wire.Receive(await.Patience, frames.Containing(last)) == nil {
					t.Fatal("a datagram of the endpoint does not arrive")
				}
				c.endpoint.Wire.Drain()
				l.near.Wire.Send(t, frames.Datagram(l.near.MAC, l.near.Gateway, c.addr, c.endpoint.Of(false), last, false))
				c.endpoint.Wire.Receive(await.Patience, frames.Containing(last))
			} else if err := pingIn(t.Context(), c.endpoint.Netns, l.near.Of(false), 100); err != nil {
				t.Fatal(err)
			}
			for _, side := range [][2]net.Conn{{server, client}, {client, server}} {
				_ = side[1].SetReadDeadline(time.Now().Add(await.Patience))
				if _, err := side[0].Write([]byte("x")); err != nil {
					t.Errorf("write: %v", err)
				}
				if _, err := io.ReadFull(side[1], make([]byte, 1)); err != nil {
					t.Errorf("read: %v", err)
				}
			}
		})
	}
}
