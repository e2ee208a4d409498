package path

import (
	"context"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/contiv/contiv/health/ping"
)

// Ends that ignore echo requests are reached nevertheless, and the probe says how.
func TestEndsThatIgnoreEchoRequests(t *testing.T) {
	inNetNS(t)
	shell(t, "ip link set lo up")
	e := New(Options{MTU: func() int { return 1450 }})
	probe := func() (p Probe) {
		pinger, err := ping.Open(nil, netip.Addr{})
		if err != nil {
			t.Fatal(err)
		}
		defer pinger.Close()
		p.Kind = "icmp"
		e.send(t.Context(), pinger, netip.MustParseAddr("127.0.0.1"), &p)
		return p
	}
	if p := probe(); !p.Answered || p.Kind != "icmp" || p.Size != 1450 {
		t.Errorf("at first: %+v", p)
	}
	shell(t, "sysctl -q net.ipv4.icmp_echo_ignore_all=1")
	if p := probe(); !p.Answered || p.Kind != "udp" || p.Size != 1450 {
		t.Errorf("echo requests are ignored: %+v", p)
	}
	shell(t, "ip link set lo mtu 1400")
	if p := probe(); !p.Answered || p.Kind != "udp" || p.Size != ping.Small || p.Wanted != 1450 {
		t.Errorf("and large packets do not pass: %+v", p)
	}
}

// A connection that nobody answers is said to have no answer, whether the socket or the context notices first.
func TestConnectionsWithoutAnswer(t *testing.T) {
	for _, err := range []error{os.ErrDeadlineExceeded, context.DeadlineExceeded} {
		if got := failure(&net.OpError{Op: "dial", Net: "tcp", Err: err}); got != "no answer" {
			t.Errorf("%v: %s", err, got)
		}
	}
}
