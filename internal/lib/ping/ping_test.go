package ping

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLoopback(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs CAP_NET_RAW: run it as root")
	}
	p, err := Open(nil, netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for name, send := range map[string]func(context.Context, netip.Addr, int) (time.Duration, error){"Ping": p.Ping, "Knock": p.Knock} {
		for _, to := range []string{"127.0.0.1", "127.0.0.2"} {
			for _, size := range []int{Small, 1500} {
				if took, err := send(ctx, netip.MustParseAddr(to), size); err != nil || took <= 0 {
					t.Errorf("%s %s, %d bytes: %v, %v", name, to, size, took, err)
				}
			}
		}
		if _, err := send(ctx, netip.MustParseAddr("127.0.0.1"), 65600); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s, more than fits: %v", name, err)
		}
		done, stop := context.WithCancel(ctx)
		stop()
		if _, err := send(done, netip.MustParseAddr("192.0.2.1"), Small); err == nil {
			t.Errorf("%s: an answer without a host", name)
		}
	}
}

// Packets have the requested source, unless the namespace lacks it.
func TestSource(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("raw sockets take root: run the test as root")
	}
	listener, err := net.ListenPacket("udp4", fmt.Sprintf("127.0.0.1:%d", KnockPort))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for source, want := range map[string]string{"127.0.0.9": "127.0.0.9", "192.0.2.9": "127.0.0.1"} {
		p, err := Open(nil, netip.MustParseAddr(source))
		if err != nil {
			t.Fatal(err)
		}
		if at := p.v4.LocalAddr().String(); p.Source().IsValid() && at != want || !p.Source().IsValid() && at != "0.0.0.0" {
			t.Errorf("%s: echo requests are sent from %s", source, at)
		}
		if _, err := p.Ping(t.Context(), netip.MustParseAddr("127.0.0.1"), Small); err != nil {
			t.Errorf("%s: %v", source, err)
		}
		sent := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { p.Knock(ctx, netip.MustParseAddr("127.0.0.1"), Small); close(sent) }()
		_, from, err := listener.ReadFrom(make([]byte, Small))
		cancel()
		<-sent
		if err != nil || from.(*net.UDPAddr).IP.String() != want {
			t.Errorf("%s: a datagram from %v: %v", source, from, err)
		}
		p.Close()
	}
}

func TestLargest(t *testing.T) {
	for passes, want := range map[int]int{0: 0, 63: 0, 64: 64, 1399: 1399, 1449: 1449, 1450: 1450, 9000: 1450} {
		tries := 0
		if got := Largest(1450, func(size int) bool { tries++; return size <= passes }); got != want || tries > 13 {
			t.Errorf("%d: %d after %d tries", passes, got, tries)
		}
	}
}
