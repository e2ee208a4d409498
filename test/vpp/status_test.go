package vpp

import (
	"os/exec"
	"testing"

	"github.com/contiv/contiv/test/labtest"
)

// Agents probe each other through VPP: they are healthy while its tunnels work, and say so when they do not.
func TestStatusTellsOfTunnels(t *testing.T) {
	l := up(t, "vpp", "vpp")
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	nodes := []string{"node1", "node2"}
	for _, node := range nodes {
		labtest.AwaitStatus(t, l, binaries, node, "healthy", "", "")
	}
	sh := func(line string) {
		t.Helper()
		if out, err := exec.Command("ip", "netns", "exec", st.Underlay(), "sh", "-ec", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	// The tunnels alone: everything else between the nodes goes on.
	sh("nft 'table bridge tunnels { chain forward { type filter hook forward priority 0; udp dport 4789 drop; }; }'")
	labtest.AwaitStatus(t, l, binaries, "node1", "degraded", "peers", "node node2 does not answer over the overlay")
	labtest.AwaitStatus(t, l, binaries, "node2", "degraded", "peers", "node node1 does not answer over the overlay")
	sh("nft delete table bridge tunnels")
	for _, node := range nodes {
		labtest.AwaitStatus(t, l, binaries, node, "healthy", "", "")
	}
}
