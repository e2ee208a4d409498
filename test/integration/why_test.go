package integration

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/contiv/contiv/ctl/why"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// sh runs a line of a shell in a network namespace.
func sh(t *testing.T, netns, line string) {
	t.Helper()
	if out, err := exec.Command("ip", "netns", "exec", netns, "sh", "-ec", line).CombinedOutput(); err != nil {
		t.Fatalf("%s in %s: %v: %s", line, netns, err, out)
	}
}

// askWhy runs contivctl why.
func askWhy(t *testing.T, l *lab.Lab, args ...string) (why.Answer, int) {
	t.Helper()
	return labtest.AskWhy(t, l, binaries, args...)
}

// One command names each of these faults, and nothing while there is none.
func TestWhy(t *testing.T) {
	l := require(t)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	web, db := pod(t, l, "why-web", "node1"), pod(t, l, "why-db", "node2")
	node1, err := st.Endpoint("node1")
	if err != nil {
		t.Fatal(err)
	}
	healthy := func() {
		t.Helper()
		await.That(t, "packets arrive and nothing is wrong", func() error {
			if a, code := askWhy(t, l, web.Name, db.Name); code != 0 || a.Verdict != why.Reached {
				return fmt.Errorf("exit code %d: %+v", code, a)
			}
			return nil
		})
	}
	healthy()
	for _, args := range [][]string{{"node1", "node2"}, {"why-web", "node2"}, {"why-web", "why-web"}, {"default/why-db", "203.0.113.10"}, {web.Address.String(), db.Address.String()}, {"node2", "why-web"}} {
		if a, code := askWhy(t, l, args...); code != 0 || a.Verdict != why.Reached {
			t.Errorf("why %v: exit code %d, %+v", args, code, a)
		}
	}
	if a, code := askWhy(t, l, "why-web", "why-db", "81"); code != 1 || a.Verdict != why.NotReached || !strings.Contains(fmt.Sprint(a.Probes), "refused") {
		t.Errorf("a port that nobody listens on: %d, %+v", code, a)
	}

	for name, fault := range map[string]struct{ netns, fault, undo, verdict, where, want string }{
		"ip_forward": {node1.Netns, "sysctl -qw net.ipv4.ip_forward=0", "sysctl -qw net.ipv4.ip_forward=1",
			why.NotReached, "node node1", "net/ipv4/ip_forward is 0"},
		"rule of somebody": {node1.Netns, "nft add table inet somebody; nft 'add chain inet somebody theirs { type filter hook forward priority 0; }'; " +
			"nft add rule inet somebody theirs ip daddr 10.1.2.0/24 drop comment mine", "nft delete table inet somebody",
			why.NotReached, "node node1", `a rule of chain theirs in table inet somebody drops the packet (comment "mine")`},
		"policy of somebody": {node1.Netns, "nft add table ip somebody; nft 'add chain ip somebody FORWARD { type filter hook forward priority 0; policy drop; }'; " +
			"nft add rule ip somebody FORWARD ct state established,related accept", "nft delete table ip somebody",
			why.NotReached, "node node1", "the policy of chain FORWARD in table ip somebody is drop"},
		"port of the switch": {st.Underlay(), "ip link set port2 down", "ip link set port2 up",
			why.NotReached, "node node2", "its device eth0 has no carrier"},
		"path MTU": {st.Underlay(), "ip link set port2 mtu 1400", "ip link set port2 mtu 1500",
			why.Narrow, "path", "bytes are lost, and pods send up to 1450: raise the MTU"},
		"route of somebody": {node1.Netns, "ip route add 10.1.2.0/25 via 192.168.16.254", "ip route del 10.1.2.0/25 via 192.168.16.254",
			why.NotReached, "node node1", "route 10.1.2.0/25 dev eth0 via 192.168.16.254 is somebody else's"},
		"wrong neighbour": {node1.Netns, "ip neigh replace 192.168.16.2 lladdr 02:00:00:00:00:99 dev eth0 nud permanent", "ip neigh del 192.168.16.2 dev eth0",
			why.NotReached, "node node1", "it sends to 192.168.16.2 of node node2 at 02:00:00:00:00:99 (a permanent neighbour, which somebody made on eth0)"},
	} {
		t.Run(name, func(t *testing.T) {
			sh(t, fault.netns, fault.fault)
			undone := false
			undo := func() {
				if !undone {
					undone = true
					sh(t, fault.netns, fault.undo)
				}
			}
			t.Cleanup(undo)
			await.That(t, "why says "+fault.want, func() error {
				a, code := askWhy(t, l, web.Name, db.Name)
				for _, f := range a.Findings {
					if f.Where == fault.where && strings.Contains(f.Text, fault.want) && a.Verdict == fault.verdict && code == 1 {
						return nil
					}
				}
				return fmt.Errorf("exit code %d: %+v", code, a)
			})
			undo()
			healthy()
		})
	}

	// What somebody takes out of a pod comes back at once, and the pod's timeline says that it was gone; what is said of
	// a namespace while something is missing, health/path tests.
	t.Run("namespace emptied", func(t *testing.T) {
		sh(t, web.Netns, "ip addr flush dev eth0")
		healthy()
		mustMatch(t, ctl(t, l, "timeline", web.Name), `because of .*address `+web.Address.String()+`/32 of \S+ was deleted`)
	})

	t.Run("agent gone", func(t *testing.T) {
		if err := l.KillAgent(t.Context(), "node2"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.StartAgent(context.WithoutCancel(t.Context()), "node2"); err != nil {
				t.Error(err)
			}
		})
		a, code := askWhy(t, l, web.Name, db.Address.String())
		if code != 1 || a.Verdict != why.Reached || len(a.Findings) != 1 || a.Findings[0].Where != "node node2" || !strings.Contains(a.Findings[0].Text, "its agent does not answer") {
			t.Errorf("%d, %+v", code, a)
		}
		if _, code := askWhy(t, l, "node1", "node2"); code != 1 {
			t.Errorf("between the nodes: %d", code)
		}
	})
}
