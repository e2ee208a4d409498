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
	p := Places{Cache: cache}
	none := func(string) (string, error) { return "", errors.New("not found") }
	err := p.missingTools(none)
	for _, want := range []string{"nft (install nftables)", "iptables (install iptables)", "go (install https://go.dev/dl)", "dpkg-deb (install dpkg)"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	// Existing built and unpacked files need no tools.
	for _, file := range []string{"debian/usr/bin/containerd", "kubernetes/stamp"} {
		if err := os.MkdirAll(filepath.Join(cache, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(cache, file), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.missingTools(none); err == nil || strings.Contains(err.Error(), "go (") || strings.Contains(err.Error(), "dpkg") {
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
