package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/labtest"
)

// A client with a node's certificate writes as much as etcd accepts. The other node and KSR keep
// working, and the status names the user.
func TestStolenNodeCannotFillEtcd(t *testing.T) {
	require(t)
	l := labtest.Up(t, options("fill"))
	first := pod(t, l, "first", "node1")
	evil, err := l.EtcdAs("node:node2")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { evil.Close() })
	value := strings.Repeat("x", 1<<20)
	for i := 0; ; i++ {
		key := "/vnf-agent/node2/fill/" + fmt.Sprint(i)
		if i%2 > 0 {
			key = "/vnf-agent/node2/fill/same"
		}
		if _, err := evil.Put(t.Context(), key, value); err != nil {
			if !strings.Contains(err.Error(), "node:node2 reached its limit") {
				t.Fatalf("write %d: %v", i, err)
			}
			break
		}
		if i > 500 {
			t.Fatalf("%d MiB were written", i)
		}
	}
	requireConnected(t, l, first, pod(t, l, "second", "node1")) // needs KSR and the other node
	await.That(t, "status names the user", func() error {
		out, _ := exec.Command(filepath.Join(binaries, "contivctl"), "--config", l.CtlConfig(), "status").CombinedOutput() // the exit code reports problems, too
		if !strings.Contains(string(out), "node:node2 reached its limit in etcd") {
			return fmt.Errorf("status is\n%s", out)
		}
		return nil
	})
}
