package pathexplain

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/contiv/contiv/internal/lib/ping"
	"github.com/contiv/contiv/internal/netlink/namespace"
)

// Ends that ignore echo requests are reached, and the probe names the method.
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

// Of a pod's several addresses, probes use the one in question: only that passes the rule.
func TestProbesHaveTheSource(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root: run the test as root")
	}
	name := fmt.Sprintf("probe%d", os.Getpid())
	t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	shell(t, "ip netns add "+name)
	for _, line := range []string{
		"ip link set lo up; ip addr add 10.1.1.2/32 dev lo; ip addr add 10.1.2.2/32 dev lo",
		"nft add table inet some; nft 'add chain inet some c { type filter hook input priority 0; policy drop; }'; nft add rule inet some c ip saddr 10.1.1.2 accept; nft add rule inet some c ip daddr 10.1.1.2 accept",
	} {
		shell(t, "ip netns exec "+name+` sh -ec "`+line+`"`)
	}
	pod := &Pod{Name: "default/web", NetNS: "/var/run/netns/" + name}
	ns, err := namespace.Open(pod.NetNS)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	from, to := end{addr: netip.MustParseAddr("10.1.1.2"), pod: pod, here: true}, end{addr: netip.MustParseAddr("10.1.2.2")}
	var listener net.Listener
	if err := ns.Run(func() (err error) { listener, err = net.Listen("tcp", "10.1.2.2:80"); return err }); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	e := New(Options{MTU: func() int { return 1450 }, Nodes: func() []Node { return nil }})
	r := &Report{}
	e.probe(t.Context(), r, Question{From: from.addr, To: to.addr, Protocol: "tcp", Port: 80}, from, to)
	if len(r.Probes) != 2 || !r.Probes[0].Answered || !r.Probes[1].Answered {
		t.Errorf("%+v", r.Probes)
	}
}

// An unanswered connection is reported as such, whether the socket or the context times out first.
func TestConnectionsWithoutAnswer(t *testing.T) {
	for _, err := range []error{os.ErrDeadlineExceeded, context.DeadlineExceeded} {
		if got := failure(&net.OpError{Op: "dial", Net: "tcp", Err: err}); got != "no answer" {
			t.Errorf("%v: %s", err, got)
		}
	}
}
