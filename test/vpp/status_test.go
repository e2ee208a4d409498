package vpp

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// Agents probe each other through VPP. They are healthy while the tunnels work and report it when
// tunnels fail.
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
	sh("nft 'table bridge tunnels { chain forward { type filter hook forward priority 0; udp dport 4789 drop; }; }'")
	labtest.AwaitStatus(t, l, binaries, "node1", "degraded", "peers", "node node2 does not answer over the overlay")
	labtest.AwaitStatus(t, l, binaries, "node2", "degraded", "peers", "node node1 does not answer over the overlay")
	sh("nft delete table bridge tunnels")
	for _, node := range nodes {
		labtest.AwaitStatus(t, l, binaries, node, "healthy", "", "")
	}
}

// The status names a missing VPP plugin that services need.
func TestStatusTellsOfPlugins(t *testing.T) {
	l := upServices(t, servicesConfig, "services: vswitch\n", "vpp", "kernel")
	apply(t, l, served{name: "web", number: 10, policy: "Cluster", port: 8080, node: "node2", addrs: []netip.Addr{netip.MustParseAddr("192.168.16.2")}})
	labtest.AwaitStatus(t, l, binaries, "node1", "healthy", "", "")
	restart := func(plugins string) {
		t.Helper()
		if err := os.WriteFile(l.Path("nodes", "node1", "vpp.conf"), []byte(lab.VPPOptions()+plugins), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, do := range []func(context.Context, string) error{l.StopAgent, l.StartAgent} { // contiv-init reads the file
			if err := do(t.Context(), "node1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	restart("plugins: {urpf: false}\n")
	labtest.AwaitStatus(t, l, binaries, "node1", "degraded", "values", "VPP has not loaded its plugin urpf_plugin.so; enable it")
	restart("")
	labtest.AwaitStatus(t, l, binaries, "node1", "healthy", "", "")
}
