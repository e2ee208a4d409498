package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// With only a kubeconfig, a user reaches all agents over REST and gRPC.
func TestLaptopReachesAgents(t *testing.T) {
	needCluster(t)
	contivctl := func(args ...string) string {
		t.Helper()
		out, err := cluster.Contivctl(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	nodes := contivctl("nodes")
	for _, n := range cluster.Nodes() {
		if line := lineWith(nodes, n.Name); !strings.HasSuffix(line, " ready") {
			t.Errorf("node %s: %q", n.Name, line)
		}
	}
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("model: vpp.interfaces\nvalue: {name: laptop, type: SOFTWARE_LOOPBACK, enabled: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const key = "config/vpp/v2/interfaces/laptop"
	if out := contivctl("config", "apply", "-f", values, "--node", "node1", "--wait"); !strings.HasSuffix(lineWith(out, key), "CONFIGURED") {
		t.Errorf("config apply: %s", out)
	}
	if out := contivctl("values", key, "--node", "node1", "-o", "name"); !strings.HasPrefix(out, key+"\n") {
		t.Errorf("values: %s", out)
	}
	contivctl("config", "delete", key, "--node", "node1")
	if out, err := cluster.Contivctl(t.Context(), "--context", "none", "nodes"); err == nil || !strings.Contains(out, `context "none" does not exist`) {
		t.Errorf("without such a context: %v, %s", err, out)
	}
}

// lineWith returns the first line with the word.
func lineWith(text, word string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
