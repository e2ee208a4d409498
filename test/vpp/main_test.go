package vpp

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

var binaries string

func TestMain(m *testing.M) {
	if os.Getenv(lab.BinaryVariable) == "" || os.Geteuid() != 0 {
		os.Exit(m.Run()) // each test skips itself and reports the reason
	}
	labtest.Main(func(dir string) (int, error) {
		binaries = dir
		return m.Run(), nil
	})
}

func up(t *testing.T, vswitches ...string) *lab.Lab {
	t.Helper()
	return upWith(t, "", vswitches...)
}

func upWith(t *testing.T, config string, vswitches ...string) *lab.Lab {
	t.Helper()
	opts := options(t, vswitches...)
	opts.ContivConfig = config
	return labtest.Up(t, opts)
}

func options(t testing.TB, vswitches ...string) lab.Options {
	t.Helper()
	if os.Getenv(lab.BinaryVariable) == "" {
		t.Skip("needs VPP 25.10: make test-vpp " + lab.BinaryVariable + "=/usr/bin/vpp")
	}
	if os.Geteuid() != 0 {
		t.Skip("the lab makes network namespaces; run the tests as root")
	}
	return lab.Options{Name: fmt.Sprintf("vp%d", os.Getpid()), BinDir: binaries, VSwitches: vswitches}
}

func addPods(t testing.TB, l *lab.Lab, specs ...lab.PodSpec) []lab.Pod {
	t.Helper()
	pods, err := l.AddPods(t.Context(), 4, specs...)
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

func requireConnected(t *testing.T, l *lab.Lab) {
	t.Helper()
	m, err := l.Matrix(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := m.Write(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
	if err := m.Err(); err != nil {
		t.Error(err)
	}
}
