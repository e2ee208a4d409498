// Package ping measures whether an address answers, how fast, and the largest packet size that
// reaches it. It sends ICMP echo requests or, to hosts that ignore them, UDP to an unused port.
//
// Packets carry "don't fragment", and the kernel's cached path MTU is ignored, so that each probe
// measures the path itself.
package ping

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// Packet sizes in bytes, with the IP header.
const (
	// Small is the size of a packet that every link carries.
	Small = 64
	// Sizes of the IP header plus the ICMP header.
	header4, header6 = 20 + 8, 40 + 8
)

// ErrNoAnswer is returned if no answer arrives before the deadline.
var ErrNoAnswer = errors.New("no answer")

// ErrTooLarge is wrapped if the packet exceeds the MTU of the first device.
var ErrTooLarge = errors.New("larger than the MTU of the first device on the way")

// Pinger sends from one network namespace. It is safe for concurrent use. The caller closes it.
type Pinger struct {
	in     func(func() error) error
	source netip.Addr
	id     uint16
	v4, v6 *socket // nil if the namespace lacks the IP version, or errors has the reason

	mu      sync.Mutex
	seq     uint16
	waiting map[uint16]chan time.Time
}

type socket struct {
	net.PacketConn
	ipv6 bool
	done chan struct{}
}

// Open opens sockets in the network namespace where in runs functions; nil means the namespace of
// the process. It needs CAP_NET_RAW there. Packets of its IP version use source if it is valid and
// exists in the namespace.
func Open(in func(func() error) error, source netip.Addr) (*Pinger, error) {
	if in == nil {
		in = func(fn func() error) error { return fn() }
	}
	p := &Pinger{in: in, source: source, id: uint16(rand.Uint32()), seq: uint16(rand.Uint32()), waiting: map[uint16]chan time.Time{}}
	var err4, err6 error
	if err := in(func() error { p.v4, err4 = p.open(false); p.v6, err6 = p.open(true); return nil }); err != nil {
		return nil, err
	}
	if p.v4 == nil && p.v6 == nil {
		return nil, fmt.Errorf("opening a socket for ICMP: %w", errors.Join(err4, err6))
	}
	for _, s := range []*socket{p.v4, p.v6} {
		if s != nil {
			go p.receive(s)
		}
	}
	return p, nil
}

// open returns a raw socket that receives only echo replies.
func (p *Pinger) open(isIPv6 bool) (*socket, error) {
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	if isIPv6 {
		family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "icmp")
	defer file.Close()
	if isIPv6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
	} else {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE),
			unix.SetsockoptInt(fd, unix.SOL_RAW, unix.ICMP_FILTER, ^(1<<uint(ipv4.ICMPTypeEchoReply))))
	}
	if err == nil && p.source.IsValid() && p.source.Is6() == isIPv6 {
		if err = unix.Bind(fd, address(p.source)); errors.Is(err, unix.EADDRNOTAVAIL) {
			err, p.source = nil, netip.Addr{}
		}
	}
	if err != nil {
		return nil, err
	}
	conn, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	if isIPv6 {
		var filter ipv6.ICMPFilter
		filter.SetAll(true)
		filter.Accept(ipv6.ICMPTypeEchoReply)
		if err := ipv6.NewPacketConn(conn).SetICMPFilter(&filter); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return &socket{PacketConn: conn, ipv6: isIPv6, done: make(chan struct{})}, nil
}

// Source returns the source address of packets; invalid if the kernel selects it.
func (p *Pinger) Source() netip.Addr { return p.source }

func address(a netip.Addr) unix.Sockaddr {
	if a.Is6() {
		return &unix.SockaddrInet6{Addr: a.As16()}
	}
	return &unix.SockaddrInet4{Addr: a.As4()}
}

func (p *Pinger) Close() {
	for _, s := range []*socket{p.v4, p.v6} {
		if s != nil {
			s.Close()
			<-s.done
		}
	}
}

// receive passes answers to the waiting requests until the socket is closed.
func (p *Pinger) receive(s *socket) {
	defer close(s.done)
	buffer := make([]byte, 128) // the rest of an answer is our padding
	for {
		n, _, err := s.ReadFrom(buffer)
		now := time.Now()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		message := buffer[:n]
		if !s.ipv6 && n > 0 && n >= int(message[0]&15)*4 {
			message = message[int(message[0]&15)*4:] // the IP header
		}
		if len(message) < 8 || binary.BigEndian.Uint16(message[4:]) != p.id {
			continue
		}
		p.mu.Lock()
		if waiting, ok := p.waiting[binary.BigEndian.Uint16(message[6:])]; ok {
			select {
			case waiting <- now:
			default: // a duplicate
			}
		}
		p.mu.Unlock()
	}
}

// Ping sends a packet of size bytes, with its IP header, and returns the round-trip time, or
// ErrNoAnswer if ctx ends first.
func (p *Pinger) Ping(ctx context.Context, to netip.Addr, size int) (time.Duration, error) {
	s, kind, overhead := p.v4, icmp.Type(ipv4.ICMPTypeEcho), header4
	if to.Is6() {
		s, kind, overhead = p.v6, ipv6.ICMPTypeEchoRequest, header6
	}
	if s == nil {
		return 0, errors.New("this IP version is not available here")
	}
	answered := make(chan time.Time, 1)
	p.mu.Lock()
	p.seq++
	seq := p.seq
	p.waiting[seq] = answered
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waiting, seq)
		p.mu.Unlock()
	}()
	message := icmp.Message{Type: kind, Body: &icmp.Echo{ID: int(p.id), Seq: int(seq), Data: make([]byte, max(0, size-overhead))}}
	packet, err := message.Marshal(nil) // the kernel computes the IPv6 checksum
	if err != nil {
		return 0, err
	}
	start := time.Now()
	_, err = s.WriteTo(packet, &net.IPAddr{IP: to.AsSlice(), Zone: to.Zone()})
	switch {
	case errors.Is(err, unix.EMSGSIZE):
		return 0, fmt.Errorf("%d bytes to %v: %w", size, to, ErrTooLarge)
	case err != nil:
		var operation *net.OpError
		if errors.As(err, &operation) {
			err = operation.Err
		}
		return 0, fmt.Errorf("sending to %v: %w", to, err)
	}
	select {
	case at := <-answered:
		return at.Sub(start), nil
	case <-ctx.Done():
		return 0, ErrNoAnswer
	}
}

// KnockPort is an unused port: the first one of traceroute(8).
const KnockPort = 33434

// Knock is Ping with UDP. Hosts that ignore echo requests still answer with a port-unreachable
// error. They limit such errors: Linux to one per second, with bursts of six.
func (p *Pinger) Knock(ctx context.Context, to netip.Addr, size int) (took time.Duration, err error) {
	level, option, mode, overhead := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE, header4
	if to.Is6() {
		level, option, mode, overhead = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE, header6 // a UDP header is as long as an ICMP header
	}
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var refused error
		err := c.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), level, option, mode) })
		return errors.Join(err, refused)
	}}
	if p.source.IsValid() && p.source.Is6() == to.Is6() {
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.source, 0))
	}
	var conn net.Conn
	err = p.in(func() error {
		conn, err = d.DialContext(ctx, "udp", netip.AddrPortFrom(to, KnockPort).String())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("sending to %v: %w", to, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })()
	start := time.Now()
	if _, err = conn.Write(make([]byte, max(0, size-overhead))); errors.Is(err, unix.EMSGSIZE) {
		return 0, fmt.Errorf("%d bytes to %v: %w", size, to, ErrTooLarge)
	} else if err != nil {
		return 0, fmt.Errorf("sending to %v: %w", to, err)
	}
	if _, err = conn.Read(make([]byte, 1)); err == nil || errors.Is(err, unix.ECONNREFUSED) {
		return time.Since(start), nil
	}
	return 0, ErrNoAnswer // or a router's
}

// Largest returns the largest packet size, at most most, that is answered; 0 if none is.
func Largest(most int, passes func(size int) bool) int {
	if passes(most) {
		return most
	}
	if !passes(Small) {
		return 0
	}
	low, high := Small, most
	for high-low > 1 {
		if middle := (low + high) / 2; passes(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
