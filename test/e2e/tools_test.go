package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingToolsAreNamedWithWhatToInstall(t *testing.T) {
	cache := t.TempDir()
	p := Places{Cache: cache, Kubernetes: "1.37"}
	none := func(string) (string, error) { return "", errors.New("not found") }
	err := p.missingTools(none)
	for _, want := range []string{"nft (install nftables)", "iptables (install iptables)", "go (install https://go.dev/dl)", "dpkg-deb (install dpkg)", "gcc (install build-essential)"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	// Existing built and unpacked files need no tools.
	for _, file := range []string{"debian/bin/busybox", "containerd/runc", "kubernetes/1.37/stamp"} {
		if err := os.MkdirAll(filepath.Join(cache, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(cache, file), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.missingTools(none); err == nil || strings.Contains(err.Error(), "go (") || strings.Contains(err.Error(), "gcc") || strings.Contains(err.Error(), "dpkg") {
		t.Errorf("with a full cache: %v", err)
	}
	if err := p.missingTools(func(string) (string, error) { return "", nil }); err != nil {
		t.Error(err)
	}
}

func TestSourceIsFoundUpwards(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{here, "../../deploy"} {
		source, err := FindSource(t.TempDir(), from)
		if err != nil || source != filepath.Dir(filepath.Dir(here)) {
			t.Errorf("from %s: %s, %v", from, source, err)
		}
	}
	if _, err := FindSource(t.TempDir()); err == nil || !strings.Contains(err.Error(), "--source") {
		t.Error(err)
	}
}

// The newest version is a number, not the last name: 1.9 is older than 1.37.
func TestNewestKubernetesIsTheDefault(t *testing.T) {
	source := t.TempDir()
	for _, version := range []string{"1.9", "1.34", "1.37"} {
		dir := filepath.Join(source, "hack/kubernetes", version)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, p := range map[string]Places{"c/kubernetes/1.37": {Source: source, Cache: "c"}, "c/kubernetes/1.34": {Source: source, Cache: "c", Kubernetes: "1.34"}} {
		if got := p.KubernetesDir(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
