package policylab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/test/labtest"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// policyPorts are the TCP and UDP ports of all pods. Port 80 has the name "web".
var policyPorts = []string{"tcp/80", "tcp/81", "udp/80"}

const (
	shortWait = 400 * time.Millisecond
	longWait  = 2 * time.Second
)

func waitFor(answer bool) time.Duration {
	if answer {
		return longWait
	}
	return shortWait
}

// probesAtOnce bounds the parallel probes, each of which needs a thread.
const probesAtOnce = 64

func serve(t *testing.T, netns string, ports ...string) {
	t.Helper()
	for _, port := range ports {
		network, number, _ := strings.Cut(port, "/")
		err := labtest.Inside(netns, func() error {
			if network == "udp" {
				c, err := net.ListenPacket(network, ":"+number)
				if err == nil {
					t.Cleanup(func() { c.Close() })
					go echo(c)
				}
				return err
			}
			l, err := net.Listen(network, ":"+number)
			if err == nil {
				t.Cleanup(func() { l.Close() })
				go greet(l)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func echo(c net.PacketConn) {
	buffer := make([]byte, 100)
	for {
		n, from, err := c.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = c.WriteTo(buffer[:n], from)
	}
}

func greet(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		c.Close()
	}
}

// reaches reports whether an address answers within the timeout on a port such as "tcp/80", or to
// "icmp".
func reaches(netns string, address netip.Addr, port string, wait time.Duration) bool {
	network, number, _ := strings.Cut(port, "/")
	return labtest.Inside(netns, func() error {
		if network == "icmp" {
			return ping(address, wait)
		}
		c, err := net.DialTimeout(network, net.JoinHostPort(address.String(), number), wait)
		if err != nil {
			return err
		}
		defer c.Close()
		if network == "tcp" {
			return nil
		}
		return exchange(c, wait)
	}) == nil
}

func exchange(c net.Conn, wait time.Duration) error {
	if _, err := c.Write([]byte("?")); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	_, err := c.Read(make([]byte, 10))
	return err
}

func ping(address netip.Addr, wait time.Duration) error {
	network, request, reply := "ip4:icmp", icmp.Type(ipv4.ICMPTypeEcho), icmp.Type(ipv4.ICMPTypeEchoReply)
	if address.Is6() {
		network, request, reply = "ip6:ipv6-icmp", ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	c, err := net.DialIP(network, nil, &net.IPAddr{IP: address.AsSlice()})
	if err != nil {
		return err
	}
	defer c.Close()
	id := int(uint16(time.Now().UnixNano() / 100))
	message, err := (&icmp.Message{Type: request, Body: &icmp.Echo{ID: id, Seq: 1}}).Marshal(nil)
	if err != nil {
		return err
	}
	if _, err := c.Write(message); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	protocol, buffer := request.Protocol(), make([]byte, 100)
	for {
		n, _, err := c.ReadFrom(buffer) // without the IP header, unlike Read
		if err != nil {
			return err
		}
		got, err := icmp.ParseMessage(protocol, buffer[:n])
		if err != nil {
			continue
		}
		if answer, ok := got.Body.(*icmp.Echo); ok && got.Type == reply && answer.ID == id {
			return nil
		}
	}
}

// associations tracks SCTP INIT chunks to pods. It uses raw sockets, because the kernels may not
// support SCTP.
type associations struct {
	mu      sync.Mutex
	awaited map[uint32]chan struct{} // by verification tag
	last    uint32
}

// serve records the chunks that reach a pod until the end of the test.
func (a *associations) serve(t *testing.T, netns string) {
	t.Helper()
	for _, network := range []string{"ip4:132", "ip6:132"} {
		err := labtest.Inside(netns, func() error {
			c, err := net.ListenPacket(network, "")
			if err != nil {
				return err
			}
			t.Cleanup(func() { c.Close() })
			go a.note(c)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (a *associations) note(c net.PacketConn) {
	buffer := make([]byte, 100)
	for {
		n, _, err := c.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && n >= 20 {
			a.arrived(binary.BigEndian.Uint32(buffer[16:]))
		}
	}
}

func (a *associations) arrived(tag uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if seen := a.awaited[tag]; seen != nil {
		close(seen)
		delete(a.awaited, tag)
	}
}

// reach reports whether an INIT chunk reaches a port of an address.
func (a *associations) reach(netns string, address netip.Addr, port string, wait time.Duration) bool {
	_, text, _ := strings.Cut(port, "/")
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return false
	}
	a.mu.Lock()
	a.last++
	tag, seen := a.last, make(chan struct{})
	a.awaited[tag] = seen
	a.mu.Unlock()
	err = labtest.Inside(netns, func() error {
		network := "ip4:132"
		if address.Is6() {
			network = "ip6:132"
		}
		c, err := net.Dial(network, address.String())
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write(labtest.SCTPInit(uint16(30000+tag%30000), uint16(number), tag))
		return err
	})
	if err != nil {
		return false
	}
	select {
	case <-seen:
		return true
	case <-time.After(wait):
		return false
	}
}

// allows is the expected connectivity of one pod to another on a port.
type allows func(from, to, port string) bool

// differences returns the cells of the table that differ from the measurement in any IP version.
func (p *policyLab) differences(want allows, ports ...string) error {
	if len(ports) == 0 {
		ports = policyPorts
	}
	return p.differencesAt(func(from, to string, _ netip.Addr, port string) bool { return want(from, to, port) }, ports...)
}

// differencesAt is differences with expectations per address of a pod.
func (p *policyLab) differencesAt(want func(from, to string, at netip.Addr, port string) bool, ports ...string) error {
	var mu sync.Mutex
	var wrong []string
	var all sync.WaitGroup
	slots := make(chan struct{}, probesAtOnce)
	for from, client := range p.pods {
		for to, server := range p.pods {
			for _, port := range ports {
				if in("sctp", port) && len(p.vpp) > 0 && from < to {
					continue // VPP does not support SCTP ports and would treat the reverse direction as replies
				}
				for _, address := range server.Addresses() {
					slots <- struct{}{}
					all.Go(func() {
						defer func() { <-slots }()
						expected := from == to || want(from, to, address, port)
						got := p.reached(client.Netns, address, port, waitFor(expected))
						if got != expected {
							mu.Lock()
							defer mu.Unlock()
							wrong = append(wrong, fmt.Sprintf("%s to %s (%v) at %s: %v, want %v", from, to, address, port, got, expected))
						}
					})
				}
			}
		}
	}
	all.Wait()
	if len(wrong) > 0 {
		return fmt.Errorf("%d cells are wrong: %s", len(wrong), strings.Join(wrong, "; "))
	}
	return nil
}

func (p *policyLab) reached(netns string, address netip.Addr, port string, wait time.Duration) bool {
	if strings.HasPrefix(port, "sctp/") {
		return p.sctp.reach(netns, address, port, wait)
	}
	return reaches(netns, address, port, wait)
}
