package vpptest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVPPThatEndsAtOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run the test as root")
	}
	for _, test := range []struct{ program, want string }{
		{"kill -ILL $$", "illegal instruction: it was built for another CPU"},
		{"exit 3", "exit status 3"},
	} {
		t.Run(test.program, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "vpp")
			if err := os.WriteFile(binary, []byte("#!/bin/sh\n"+test.program+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := newProcess(t, "/proc/self/ns/net", binary).start(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
