package vpp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/contiv/contiv/test/lab"
	"golang.org/x/sys/unix"
)

type overlayPacket struct {
	src, dst           string // of the nodes
	port               uint16
	vni                uint32
	srcMAC, dstMAC     string // of their BVIs
	innerSrc, innerDst string // of the pods
}

// sniff counts the distinct packets on a device while fn runs.
func sniff(t *testing.T, netns, device string, fn func()) map[overlayPacket]int {
	t.Helper()
	var socket int
	err := lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		link, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in network byte order
		if socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, all); err != nil {
			return err
		}
		return unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	fn()
	found, frame := map[overlayPacket]int{}, make([]byte, 2048)
	for {
		n, err := unix.Read(socket, frame)
		if err != nil {
			return found // all received packets have been read
		}
		if p, ok := decode(frame[:n]); ok {
			found[p]++
		}
	}
}

func decode(frame []byte) (p overlayPacket, ok bool) {
	const ethernet, ip, udp, vxlan = 14, 20, 8, 8
	if len(frame) < ethernet+ip+udp+vxlan+ethernet+ip || binary.BigEndian.Uint16(frame[12:]) != unix.ETH_P_IP || frame[ethernet] != 0x45 || frame[ethernet+9] != unix.IPPROTO_UDP {
		return p, false
	}
	outer := frame[ethernet:]
	p.src, p.dst = address(outer[12:]), address(outer[16:])
	p.port = binary.BigEndian.Uint16(outer[ip+2:])
	header := outer[ip+udp:]
	p.vni = binary.BigEndian.Uint32(header[4:]) >> 8
	inner := header[vxlan:]
	p.dstMAC, p.srcMAC = net.HardwareAddr(inner[:6]).String(), net.HardwareAddr(inner[6:12]).String()
	p.innerSrc, p.innerDst = address(inner[ethernet+12:]), address(inner[ethernet+16:])
	return p, true
}

func address(b []byte) string { return netip.AddrFrom4([4]byte(b[:4])).String() }
