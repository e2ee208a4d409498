package vswitchtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

const (
	longWait  = 4 * time.Second
	shortWait = 250 * time.Millisecond
)

// Echo echoes the data sent to the address and port. network is tcp or udp.
func (h *Host) Echo(t testing.TB, network, addr string, port int) {
	t.Helper()
	at := net.JoinHostPort(addr, fmt.Sprint(port))
	var l net.Listener
	var p net.PacketConn
	err := h.in(func() (err error) {
		if network == "tcp" {
			l, err = net.Listen("tcp", at)
		} else {
			p, err = net.ListenPacket("udp", at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	if network == "udp" {
		t.Cleanup(func() { p.Close() })
		running.Go(func() {
			buffer := make([]byte, 2048)
			for {
				n, from, err := p.ReadFrom(buffer)
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err == nil {
					_, _ = p.WriteTo(buffer[:n], from)
				}
			}
		})
		return
	}
	var mu sync.Mutex
	clients := []io.Closer{l}
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range clients {
			c.Close()
		}
	})
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			clients = append(clients, c) // some clients disappear without closing
			mu.Unlock()
			running.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
}

// Probe sends a packet (tcp, udp, ping) to an Echo or a host and returns an error unless the result
// is as expected. If it expects an answer, it repeats lost packets until a long timeout.
func (h *Host) Probe(network, addr string, port int, answered bool) error {
	wait := shortWait
	if answered {
		wait = longWait
	}
	if network == "ping" {
		repeat := ""
		if answered {
			repeat = fmt.Sprintf("-i 0.2 -w %.0f", wait.Seconds())
		}
		_, err := h.Try(fmt.Sprintf("ping -n -q -c 1 -W %.2f %s %s", wait.Seconds(), repeat, addr))
		return err
	}
	deadline := time.Now().Add(wait)
	c, err := h.dial(network, addr, port, wait)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		err := exchange(c, 100*time.Millisecond)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (h *Host) dial(network, addr string, port int, wait time.Duration) (c net.Conn, err error) {
	err = h.in(func() (err error) {
		c, err = net.DialTimeout(network, net.JoinHostPort(addr, fmt.Sprint(port)), wait)
		return err
	})
	return c, err
}

func exchange(c net.Conn, wait time.Duration) error {
	if _, err := c.Write([]byte("ping")); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	_, err := io.ReadAtLeast(c, make([]byte, 64), 4)
	return err
}

// connectionCheck returns a function that checks whether the connection works.
func connectionCheck(t *testing.T, c net.Conn) func(when string, want bool) {
	return func(when string, want bool) {
		t.Helper()
		wait := time.Minute // TCP's retransmission timeout doubles during silence
		if !want {
			wait = shortWait
		}
		if err := exchange(c, wait); (err == nil) != want {
			t.Errorf("%s: the connection works %v, want %v: %v", when, err == nil, want, err)
		}
	}
}
