package podmanager_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/contiv/contiv/api/contiv/cniwire"
	"github.com/contiv/contiv/internal/plugins/plugintest"
)

// A DEL comes while no agent runs, and the network namespace still exists at the next start.
func TestMissedDelIsMadeUpFor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), cniwire.MissedDelsDir)
	n := plugintest.StartNode(t, plugintest.NodeOptions{MissedDels: dir})
	add(t, n, request("gone", "c1"))
	add(t, n, request("stays", "c2"))
	n.Stop()
	note := func(name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	made := []string{note(cniwire.MissedDel("c1", "eth0")), note(cniwire.MissedDel("c2", "eth1")), note(cniwire.MissedDel("unknown", "eth0"))}
	foreign := note("README")
	n = n.Restart()
	if got := wired(n); got != "stays:c2" {
		t.Errorf("wired: %s", got)
	}
	for key := range n.Scheduler.Values() {
		if key == "config/vpp/v2/interfaces/vpp-tap-c1" {
			t.Error("the interface of the pod is left")
		}
	}
	for _, path := range made {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left (%v)", filepath.Base(path), err)
		}
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}

// A note that came after the resync does not affect a container that is added again.
func TestAddMakesAMissedDelObsolete(t *testing.T) {
	dir := t.TempDir()
	n := plugintest.StartNode(t, plugintest.NodeOptions{MissedDels: dir})
	if err := os.WriteFile(filepath.Join(dir, cniwire.MissedDel("c1", "eth0")), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	add(t, n, request("web", "c1"))
	if got := wired(n.Restart()); got != "web:c1" {
		t.Errorf("wired: %q", got)
	}
}
