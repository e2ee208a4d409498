package kube

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSeveralUnusableFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for kubeconfig, want := range map[string]string{
		file:              "no context",
		file + ":" + file: "no context",
		file + "x":        "no such file or directory",
	} {
		if err := Unusable(kubeconfig, errors.New("no context")); !strings.HasPrefix(err.Error(), "--kubeconfig: ") || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", kubeconfig, err, want)
		}
	}
}
