package standalone

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestWalkthroughs runs testdata/*.txtar, which follow docs/user/northbound.md and the scheduler's
// control flows with operators' commands. Each script has an agent on its own node, and an etcd:
//
//	etcdctl, contivctl   lead to them without further options; contivctl config over
//	                     gRPC, or with --via etcd --node alone
//	$NETNS               is the network namespace of the node
//	$KV                  is /vnf-agent/alone
func TestWalkthroughs(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	if _, err := exec.LookPath("etcdctl"); err != nil {
		t.Skip("etcdctl is missing: install Debian's etcd-client, as make packages does")
	}
	for _, script := range scripts {
		name := filepath.Base(script)
		t.Run(name[:len(name)-len(".txtar")], func(t *testing.T) { walk(t, script) })
	}
}

func walk(t *testing.T, script string) {
	s := newSite(t, "--etcd-endpoints", "http://127.0.0.1:32379")
	s.startEtcd()
	s.start()
	t.Cleanup(func() { s.conn.Close() })
	config := s.path("contivctl.yaml")
	agents := fmt.Sprintf("agents: {alone: 'unix://%s'}\netcdEndpoints: ['unix://%s']\n", s.path("run/agent.sock"), s.path("etcd.sock"))
	if err := os.WriteFile(config, []byte(agents), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Files: []string{script},
		Setup: func(env *testscript.Env) error {
			for name, value := range map[string]string{
				"PATH":              binaries + string(filepath.ListSeparator) + env.Getenv("PATH"),
				"NETNS":             s.netns,
				"KV":                "/vnf-agent/alone",
				"CONTIVCTL_CONFIG":  config,
				"ETCDCTL_API":       "3",
				"ETCDCTL_ENDPOINTS": "unix://" + s.path("etcd.sock"),
			} {
				env.Setenv(name, value)
			}
			return nil
		},
	})
}
