package vpp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
)

// binaries is the directory with what was built; "" if tests are skipped.
var binaries string

func TestMain(m *testing.M) {
	if os.Getenv(lab.BinaryVariable) == "" || os.Geteuid() != 0 {
		os.Exit(m.Run()) // each test skips itself and says why
	}
	code, err := runWithBinaries(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func runWithBinaries(m *testing.M) (code int, err error) {
	if binaries, err = os.MkdirTemp("", "contiv-vpp-bin"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(binaries)
	build := exec.Command("go", "build", "-o", binaries+"/", "./cmd/...")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building the binaries: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// up makes a lab that ends with the test, or skips the test.
func up(t *testing.T, vswitches ...string) *lab.Lab {
	t.Helper()
	if os.Getenv(lab.BinaryVariable) == "" {
		t.Skip("needs VPP 25.10: make test-vpp " + lab.BinaryVariable + "=/usr/bin/vpp")
	}
	if os.Geteuid() != 0 {
		t.Skip("the lab makes network namespaces; run the tests as root")
	}
	opts := lab.Options{Name: fmt.Sprintf("vp%d", os.Getpid()), BinDir: binaries, VSwitches: vswitches}
	guard, err := lab.NewGuard(filepath.Join(binaries, "contiv-lab"), opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.Up(t.Context(), opts)
	if err != nil {
		t.Fatal(errors.Join(err, guard.Release()))
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs(t, l)
		}
		err := lab.Down(context.Background(), opts)
		left, leftErr := lab.Leftovers(opts)
		if len(left) > 0 {
			t.Errorf("the lab left behind: %s", strings.Join(left, ", "))
		}
		if err := errors.Join(err, leftErr, guard.Release()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// logs shows the ends of the logs.
func logs(t *testing.T, l *lab.Lab) {
	files, err := l.Logs()
	if err != nil {
		t.Log(err)
	}
	for _, file := range files {
		const size = 6 << 10
		data, err := os.ReadFile(file)
		t.Logf("===== the end of %s %v\n%s", file, errors.Join(err), data[max(len(data)-size, 0):])
	}
}

func addPods(t *testing.T, l *lab.Lab, specs ...lab.PodSpec) []lab.Pod {
	t.Helper()
	pods, err := l.AddPods(t.Context(), 4, specs...)
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

// requireConnected measures between all pods, all nodes and the outside.
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

// requireQuiet demands that all agents have nothing left to do.
func requireQuiet(t *testing.T, l *lab.Lab) {
	t.Helper()
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		await.That(t, n.Name+" has configured all values", func() error {
			unsettled, err := l.Agent(n.Name).NotConfigured(t.Context())
			if err == nil && len(unsettled) > 0 {
				err = errors.New(strings.Join(unsettled, "\n"))
			}
			return err
		})
		ops, err := l.Agent(n.Name).Drift(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(ops) > 0 {
			t.Errorf("%s: a resync had to do something: %v", n.Name, ops)
		}
	}
}
