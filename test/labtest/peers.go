package labtest

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/test/lab"
)

// TellPeers serves TCP and UDP in a namespace until the test ends. It answers with the client's
// address.
func TellPeers(t testing.TB, netns string, port int) {
	t.Helper()
	var l *net.TCPListener
	var packets *net.UDPConn
	err := lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		if l, err = net.ListenTCP("tcp", &net.TCPAddr{Port: port}); err == nil {
			packets, err = net.ListenUDP("udp", &net.UDPAddr{Port: port})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			c.Write([]byte(c.RemoteAddr().String()))
			c.Close()
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		for {
			_, peer, err := packets.ReadFromUDPAddrPort(make([]byte, 1))
			if err != nil {
				return
			}
			packets.WriteToUDPAddrPort([]byte(peer.String()), peer)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		packets.Close()
		<-done
		<-done
	})
}

var askedFrom atomic.Uint32

// AskPeer returns the client's own address and the address that a server of TellPeers sees. It rotates
// source ports, because VPP cannot return the answers of a connection if its client has another one
// from the same port to the same endpoint at another address of a service, see docs/user/vpp-limits.md.
func AskPeer(netns, network string, to netip.AddrPort) (own, seen netip.Addr, err error) {
	var c net.Conn
	err = lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		for {
			const first, ports = 32768, 28000
			port := first + int(askedFrom.Add(1)%ports)
			dialer := net.Dialer{Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{Port: port}}
			if network == "udp" {
				dialer.LocalAddr = &net.UDPAddr{Port: port}
			}
			if c, err = dialer.Dial(network, to.String()); !errors.Is(err, syscall.EADDRINUSE) {
				return err
			}
		}
	})
	if err != nil {
		return own, seen, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	if network == "udp" {
		if _, err := c.Write([]byte{0}); err != nil {
			return own, seen, err
		}
	}
	data := make([]byte, 100)
	n, err := c.Read(data)
	if err != nil {
		return own, seen, err
	}
	peer, err := netip.ParseAddrPort(string(bytes.TrimSpace(data[:n])))
	return netip.MustParseAddrPort(c.LocalAddr().String()).Addr().Unmap(), peer.Addr().Unmap(), err
}

// NodeAddresses returns the addresses of the node, one per IP version.
func NodeAddresses(t testing.TB, l *lab.Lab, node string) (list []netip.Addr) {
	t.Helper()
	var report ipnet.IPAMReport
	if err := l.Agent(node).Get(t.Context(), ipnet.IPAMURL, &report); err != nil {
		t.Fatal(err)
	}
	texts := []string{report.NodeIP}
	if report.Second != nil {
		texts = append(texts, report.Second.NodeIP)
	}
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p.Addr())
		}
	}
	return list
}
