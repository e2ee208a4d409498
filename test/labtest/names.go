package labtest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
)

// TellName serves TCP and UDP in a namespace until the test ends. It answers with the name and the
// client's address.
func TellName(t testing.TB, netns, name string, port int) {
	t.Helper()
	stop, err := ServeName(netns, name, port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

// ServeName is TellName until stop is called, which also closes all connections.
func ServeName(netns, name string, port int) (stop func(), err error) {
	var l net.Listener
	var packets *net.UDPConn
	err = lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		if l, err = net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			packets, err = net.ListenUDP("udp", &net.UDPAddr{Port: port})
		}
		return err
	})
	if err != nil {
		if l != nil {
			l.Close()
		}
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer context.AfterFunc(ctx, func() { c.Close() })()
				defer c.Close()
				for {
					if _, err := c.Read(make([]byte, 1)); err != nil {
						return
					}
					fmt.Fprintf(c, "%s %s", name, c.RemoteAddr())
				}
			}()
		}
	}()
	go func() {
		for {
			_, peer, err := packets.ReadFromUDPAddrPort(make([]byte, 1))
			if err != nil {
				return
			}
			packets.WriteToUDPAddrPort(fmt.Appendf(nil, "%s %s", name, peer), peer)
		}
	}()
	return func() { cancel(); l.Close(); packets.Close() }, nil
}

// Told is an answer of TellName.
type Told struct {
	// Name is the name of the server.
	Name string
	// Own is the client's address, Seen is that address as seen by the server.
	Own, Seen netip.Addr
}

// Patience is the timeout of clients.
const Patience = 2 * time.Second

// Dial connects from a network namespace.
func Dial(netns, network string, to netip.AddrPort) (c net.Conn, err error) {
	return dialWithin(netns, network, to, Patience)
}

func dialWithin(netns, network string, to netip.AddrPort, patience time.Duration) (c net.Conn, err error) {
	err = lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		c, err = net.DialTimeout(network, to.String(), patience)
		return err
	})
	return c, err
}

// Say sends a request to a server of TellName on an open connection.
func Say(c net.Conn) (h Told, err error) {
	return sayWithin(c, Patience)
}

func sayWithin(c net.Conn, patience time.Duration) (h Told, err error) {
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte{0}); err != nil {
		return h, err
	}
	data := make([]byte, 100)
	n, err := c.Read(data)
	if err != nil {
		return h, err
	}
	name, peer, _ := strings.Cut(string(data[:n]), " ")
	seen, err := netip.ParseAddrPort(peer)
	return Told{name, netip.MustParseAddrPort(c.LocalAddr().String()).Addr().Unmap(), seen.Addr().Unmap()}, err
}

// AskName connects to a server of TellName and sends a request.
func AskName(netns, network string, to netip.AddrPort) (Told, error) {
	return AskNameWithin(netns, network, to, Patience)
}

// AskNameWithin is AskName with another timeout for connecting and for the answer.
func AskNameWithin(netns, network string, to netip.AddrPort, patience time.Duration) (Told, error) {
	c, err := dialWithin(netns, network, to, patience)
	if err != nil {
		return Told{}, err
	}
	defer c.Close()
	return sayWithin(c, patience)
}
