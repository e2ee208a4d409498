package house

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestLayout keeps the number of folders small enough for a newcomer: the public packages are at the
// top, and everything else that is not a program, a test or a document is under internal.
func TestLayout(t *testing.T) {
	for _, c := range []struct {
		folder string
		want   []string
	}{
		{".", []string{"api", "client", "cmd", "deploy", "docs", "hack", "internal", "kvscheduler", "models", "test"}},
		{"internal", []string{"agent", "calico", "cni", "controller", "ctl", "etcd", "kubernetes", "lib", "netlink", "plugins", "stn", "vswitch"}},
		{"docs", []string{"design", "operator", "reference", "user"}},
	} {
		entries, err := os.ReadDir(filepath.Join("..", "..", c.folder))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			if e.IsDir() && e.Name()[0] != '.' && e.Name() != "bin" {
				got = append(got, e.Name())
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("folders in %s: %v, want %v. A new one needs a place in docs/design/architecture.md", c.folder, got, c.want)
		}
	}
}
