package labtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
)

// SCTP of RFC 9260 over raw sockets, because the kernel of a lab may not support SCTP. Translation
// needs only the first two packets of an association.

const (
	sctpInit    = 1
	sctpInitAck = 2
)

// SCTPInit returns a packet that opens an association (sections 3 and 3.3.2).
func SCTPInit(src, dst uint16, tag uint32) []byte { return sctpPacket(src, dst, 0, sctpInit, tag, "") }

// sctpPacket returns a packet with one chunk. An empty cookie is omitted.
func sctpPacket(src, dst uint16, verification uint32, chunk byte, tag uint32, cookie string) []byte {
	const header, fixed = 12, 20
	length := fixed
	if cookie != "" {
		length += 4 + len(cookie)
	}
	p := make([]byte, header, header+length+3)
	binary.BigEndian.PutUint16(p, src)
	binary.BigEndian.PutUint16(p[2:], dst)
	binary.BigEndian.PutUint32(p[4:], verification)
	p = binary.BigEndian.AppendUint16(append(p, chunk, 0), uint16(length))
	p = binary.BigEndian.AppendUint32(p, tag)
	p = binary.BigEndian.AppendUint32(p, 1<<16) // window
	p = append(p, 0, 1, 0, 1)                   // streams
	p = binary.BigEndian.AppendUint32(p, 1)     // initial sequence number
	if cookie != "" {
		p = append(p, 0, 7) // state cookie
		p = append(binary.BigEndian.AppendUint16(p, uint16(4+len(cookie))), cookie...)
		p = append(p, make([]byte, -len(p)&3)...)
	}
	binary.LittleEndian.PutUint32(p[8:], crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)))
	return p
}

// TellNameBySCTP is TellName for clients of AskNameBySCTP on a port.
func TellNameBySCTP(t testing.TB, netns, name string, port uint16) {
	t.Helper()
	for _, network := range []string{"ip4:132", "ip6:132"} {
		var c net.PacketConn
		err := lab.InNetns(lab.NetnsPath(netns), func() (err error) {
			c, err = net.ListenPacket(network, "")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		go func() {
			for buffer := make([]byte, 200); ; {
				n, from, err := c.ReadFrom(buffer)
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err != nil || n < 20 || buffer[12] != sctpInit || binary.BigEndian.Uint16(buffer[2:]) != port {
					continue
				}
				tag := binary.BigEndian.Uint32(buffer[16:])
				_, _ = c.WriteTo(sctpPacket(port, binary.BigEndian.Uint16(buffer), tag, sctpInitAck, tag, name+" "+from.String()), from)
			}
		}()
	}
}

// AskNameBySCTP is AskName over SCTP. The port from must have no other association with the
// address. It retransmits without an answer as in RFC 9260, section 5.1.
func AskNameBySCTP(netns string, to netip.AddrPort, from uint16) (h Told, err error) {
	network := "ip4:132"
	if to.Addr().Is6() {
		network = "ip6:132"
	}
	var c net.Conn
	err = lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		c, err = net.Dial(network, to.Addr().String()) // connected, so that it receives only from there
		return err
	})
	if err != nil {
		return h, err
	}
	defer c.Close()
	tag := uint32(from)<<8 | 1
	var answer []byte
	for range 3 {
		c.SetDeadline(time.Now().Add(time.Second))
		if _, err = c.Write(SCTPInit(from, to.Port(), tag)); err != nil {
			return h, err
		}
		answer, err = awaitInitAck(c, to, from, tag)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	if err != nil {
		return h, err
	}
	name, seen, _ := strings.Cut(string(answer), " ")
	h.Name = name
	h.Own = netip.MustParseAddr(c.LocalAddr().String()).WithZone("")
	h.Seen, err = netip.ParseAddr(seen)
	return h, err
}

// awaitInitAck returns the state cookie of an INIT ACK.
func awaitInitAck(c net.Conn, of netip.AddrPort, port uint16, tag uint32) (cookie []byte, err error) {
	for buffer := make([]byte, 200); ; {
		n, err := c.Read(buffer)
		if err != nil {
			return nil, err
		}
		p := buffer[:n]
		if of.Addr().Is4() && n >= 20 && p[0]>>4 == 4 {
			p = p[int(p[0]&15)*4:] // a connected raw IPv4 socket may return the IP header
		}
		if len(p) < 36 || p[12] != sctpInitAck || binary.BigEndian.Uint32(p[4:]) != tag || binary.BigEndian.Uint16(p) != of.Port() || binary.BigEndian.Uint16(p[2:]) != port {
			continue
		}
		end := 32 + int(binary.BigEndian.Uint16(p[34:]))
		if end > len(p) {
			return nil, fmt.Errorf("the answer %x is cut", p)
		}
		return p[36:end], nil
	}
}
