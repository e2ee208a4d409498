// Package frames builds well-formed and forged Ethernet frames, and sends and receives them on a
// device.
package frames

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// MAC is a MAC address.
type MAC [6]byte

// ParseMAC parses a MAC address or fails the test.
func ParseMAC(t testing.TB, text string) (m MAC) {
	t.Helper()
	hw, err := net.ParseMAC(text)
	if err != nil {
		t.Fatal(err)
	}
	return MAC(hw)
}

func ethernet(dst, src MAC, etherType uint16, payload []byte) []byte {
	frame := append(append([]byte{}, dst[:]...), src[:]...)
	return append(binary.BigEndian.AppendUint16(frame, etherType), payload...)
}

// Datagram returns a UDP packet with the text. If fragment is set, an IPv4 packet is a first
// fragment.
func Datagram(from, to MAC, src, dst netip.Addr, text string, fragment bool) []byte {
	return Packet(from, to, src, dst, unix.IPPROTO_UDP, 64, 6, udp(4000, 4001, text), fragment)
}

// Between returns a UDP packet with the text between two ports.
func Between(from, to MAC, src, dst netip.AddrPort, text string) []byte {
	return Packet(from, to, src.Addr(), dst.Addr(), unix.IPPROTO_UDP, 64, 6, udp(src.Port(), dst.Port(), text), false)
}

func udp(src, dst uint16, text string) []byte {
	header := binary.BigEndian.AppendUint16(nil, src)
	header = binary.BigEndian.AppendUint16(header, dst)
	header = binary.BigEndian.AppendUint16(header, uint16(8+len(text)))
	return append(append(header, 0, 0), text...)
}

// Packet returns an IP packet. checksumAt is the offset of the checksum in the payload.
func Packet(from, to MAC, src, dst netip.Addr, protocol, ttl byte, checksumAt int, payload []byte, fragment bool) []byte {
	payload = bytes.Clone(payload)
	pseudo := append(src.AsSlice(), dst.AsSlice()...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(payload)))
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(protocol))
	binary.BigEndian.PutUint16(payload[checksumAt:], checksum(append(pseudo, payload...)))
	if src.Is4() {
		header := []byte{0x45, 0, 0, 0, 0, 1, 0, 0, ttl, protocol, 0, 0}
		binary.BigEndian.PutUint16(header[2:], uint16(20+len(payload)))
		if fragment {
			header[6] = 0x20 // more fragments
		}
		header = append(append(header, src.AsSlice()...), dst.AsSlice()...)
		binary.BigEndian.PutUint16(header[10:], checksum(header))
		return ethernet(to, from, unix.ETH_P_IP, append(header, payload...))
	}
	header := []byte{0x60, 0, 0, 0, 0, 0, protocol, ttl}
	if fragment {
		payload = append([]byte{protocol, 0, 0, 1, 0, 0, 0, 1}, payload...)
		header[6] = unix.IPPROTO_FRAGMENT
	}
	binary.BigEndian.PutUint16(header[4:], uint16(len(payload)))
	header = append(append(header, src.AsSlice()...), dst.AsSlice()...)
	return ethernet(to, from, unix.ETH_P_IPV6, append(header, payload...))
}

func checksum(data []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(data); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	if len(data)%2 == 1 {
		sum += uint32(data[len(data)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// Broadcast is the broadcast MAC address.
var Broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// ARP returns an ARP request or reply of the sender for the target.
func ARP(from MAC, answer bool, senderMAC MAC, sender, target netip.Addr) []byte {
	op := byte(1)
	if answer {
		op = 2
	}
	body := append([]byte{0, 1, 8, 0, 6, 4, 0, op}, senderMAC[:]...)
	body = append(append(body, sender.AsSlice()...), 0, 0, 0, 0, 0, 0)
	return ethernet(Broadcast, from, unix.ETH_P_ARP, append(body, target.AsSlice()...))
}

const (
	RouterAdvertisement   = 134
	NeighborSolicitation  = 135
	NeighborAdvertisement = 136
	Redirect              = 137
	SourceLink            = 1
	TargetLink            = 2
)

// Discovery returns a neighbour discovery message about the target. Option 0 means no option.
func Discovery(from, to MAC, src, dst netip.Addr, kind byte, target netip.Addr, option byte, value MAC) []byte {
	flags := byte(0)
	if kind == NeighborAdvertisement {
		flags = 0x60 // solicited, override
	}
	body := append([]byte{kind, 0, 0, 0, flags, 0, 0, 0}, target.AsSlice()...)
	switch kind {
	case RouterAdvertisement: // lifetime of 1800 s
		body = []byte{kind, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0}
	case Redirect:
		body = append(body, target.AsSlice()...)
	}
	if option != 0 {
		body = append(append(body, option, 1), value[:]...)
	}
	return Packet(from, to, src, dst, unix.IPPROTO_ICMPV6, 255, 2, body, false)
}

// Wire is a packet socket on a device.
type Wire struct{ fd int }

// NewWire opens a packet socket in the network namespace of the calling thread. It also receives
// outgoing frames.
func NewWire(device string) (*Wire, error) {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return nil, err
	}
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all))
	if err != nil {
		return nil, err
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50000})
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: dev.Index}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Wire{fd}, nil
}

// Close closes the socket.
func (w *Wire) Close() { unix.Close(w.fd) }

// Send sends a frame or fails the test.
func (w *Wire) Send(t testing.TB, frame []byte) {
	t.Helper()
	if _, err := unix.Write(w.fd, frame); err != nil {
		t.Fatal(err)
	}
}

// Receive returns the received frames up to and including the first match. It returns nil after the
// timeout.
func (w *Wire) Receive(wait time.Duration, match func(frame []byte) bool) (seen [][]byte) {
	buffer := make([]byte, 65536)
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); {
		n, from, err := unix.Recvfrom(w.fd, buffer, 0)
		if ll, ok := from.(*unix.SockaddrLinklayer); err != nil || !ok || ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		frame := bytes.Clone(buffer[:n])
		seen = append(seen, frame)
		if match(frame) {
			return seen
		}
	}
	return nil
}

// Drain discards received frames.
func (w *Wire) Drain() {
	for {
		if _, _, err := unix.Recvfrom(w.fd, make([]byte, 65536), unix.MSG_DONTWAIT); err != nil {
			return
		}
	}
}

// Containing matches frames that contain the text.
func Containing(text string) func([]byte) bool {
	return func(frame []byte) bool { return bytes.Contains(frame, []byte(text)) }
}

const (
	FIN = 0x01
	SYN = 0x02
	ACK = 0x10
)

// TCP returns a segment without data.
func TCP(from, to MAC, src, dst netip.AddrPort, flags byte) []byte {
	segment := binary.BigEndian.AppendUint16(nil, src.Port())
	segment = binary.BigEndian.AppendUint16(segment, dst.Port())
	segment = append(segment, 0, 0, 0, 1, 0, 0, 0, 1, 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	return Packet(from, to, src.Addr(), dst.Addr(), unix.IPPROTO_TCP, 64, 16, segment, false)
}

// ICMPError returns an ICMP error about the packet in quoted, addressed to its sender. info is the
// second word of the ICMP header.
func ICMPError(from, to MAC, src netip.Addr, kind, code byte, info uint32, quoted []byte) []byte {
	at, length := 14+12, 4
	if src.Is6() {
		at, length = 14+8, 16
	}
	dst, _ := netip.AddrFromSlice(quoted[at : at+length])
	return ICMP(from, to, src, dst, append(binary.BigEndian.AppendUint32([]byte{kind, code, 0, 0}, info), quoted[14:]...))
}

// ICMP returns an ICMP or ICMPv6 packet and fills in the checksum of the message, which must be
// zero.
func ICMP(from, to MAC, src, dst netip.Addr, message []byte) []byte {
	if src.Is6() {
		return Packet(from, to, src, dst, unix.IPPROTO_ICMPV6, 64, 2, message, false)
	}
	header := Packet(from, to, src, dst, unix.IPPROTO_ICMP, 64, 2, message, false)[:34:34]
	message = bytes.Clone(message)
	binary.BigEndian.PutUint16(message[2:], checksum(message)) // IPv4 has no pseudo-header
	return append(header, message...)
}

// WithHeaders adds extension headers of these kinds to an IPv6 packet, or options to an IPv4
// packet.
func WithHeaders(frame []byte, kinds ...byte) []byte {
	if frame[12] == 8 {
		header := append(bytes.Clone(frame[14:34]), 1, 1, 1, 0) // no operation, end of options
		header[0]++
		binary.BigEndian.PutUint16(header[2:], binary.BigEndian.Uint16(header[2:])+4)
		header[10], header[11] = 0, 0
		binary.BigEndian.PutUint16(header[10:], checksum(header))
		return slices.Concat(frame[:14], header, frame[34:])
	}
	header, headers := bytes.Clone(frame[:54]), []byte(nil)
	next := &header[20]
	for _, kind := range kinds {
		h := []byte{*next, 0, 1, 4, 0, 0, 0, 0} // padding
		if kind == unix.IPPROTO_FRAGMENT {
			h = []byte{*next, 0, 0, 0, 0, 0, 0, 1} // the only fragment
		}
		*next = kind
		headers = append(headers, h...)
		next = &headers[len(headers)-8]
	}
	binary.BigEndian.PutUint16(header[18:], binary.BigEndian.Uint16(header[18:])+uint16(len(headers)))
	return slices.Concat(header, headers, frame[54:])
}

// VXLAN returns a UDP payload with an encapsulated frame.
func VXLAN(vni uint32, frame []byte) []byte {
	return append([]byte{8, 0, 0, 0, byte(vni >> 16), byte(vni >> 8), byte(vni), 0}, frame...)
}
