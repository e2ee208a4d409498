package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
)

// shared is the lab that the tests use; nil when they are skipped.
var shared *lab.Lab

// binaries is the directory with what was built.
var binaries string

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		m.Run() // each test skips itself and says why
		return
	}
	code, err := runWithLab(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func runWithLab(m *testing.M) (code int, err error) {
	binaries, err = os.MkdirTemp("", "contiv-bin")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(binaries)
	build := exec.Command("go", "build", "-o", binaries+"/", "./cmd/...")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building the binaries: %w\n%s", err, out)
	}
	opts := options("it")
	guard, err := lab.NewGuard(filepath.Join(binaries, "contiv-lab"), opts)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, guard.Release()) }()
	began := time.Now()
	if shared, err = lab.Up(context.Background(), opts); err != nil {
		return 1, err
	}
	fmt.Printf("lab %s is up after %s\n", opts.Name, time.Since(began).Round(time.Millisecond))
	code = m.Run()
	if code != 0 {
		printLogs(shared)
	}
	return code, down(opts)
}

// down removes a lab and returns an error if anything of it is left.
func down(opts lab.Options) error {
	if err := lab.Down(context.Background(), opts); err != nil {
		return err
	}
	left, err := lab.Leftovers(opts)
	if len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("the lab left behind: %s", strings.Join(left, ", ")))
	}
	return err
}

// options of a lab that no other run on this machine uses.
func options(prefix string) lab.Options {
	return lab.Options{Name: fmt.Sprintf("%s%d", prefix, os.Getpid()), BinDir: binaries}
}

func printLogs(l *lab.Lab) {
	logs, err := l.Logs()
	if err != nil {
		fmt.Println(err)
	}
	for _, file := range logs {
		const size = 8 << 10
		data, err := os.ReadFile(file)
		fmt.Printf("\n===== %s (last %d bytes) %v\n%s\n", file, size, errors.Join(err), data[max(len(data)-size, 0):])
	}
}

// require returns the shared lab, or skips the test.
func require(t *testing.T) *lab.Lab {
	t.Helper()
	if shared == nil {
		t.Skip("the lab makes network namespaces; run the tests as root")
	}
	return shared
}

// pod adds a pod that is removed when the test ends.
func pod(t *testing.T, l *lab.Lab, name, node string) lab.Pod {
	t.Helper()
	return pods(t, l, lab.PodSpec{Name: name, Node: node})[0]
}

func pods(t *testing.T, l *lab.Lab, specs ...lab.PodSpec) []lab.Pod {
	t.Helper()
	added, err := l.AddPods(t.Context(), 4, specs...)
	t.Cleanup(func() {
		st, err := l.State()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range added {
			if _, err := st.Pod(p.ID()); err != nil {
				continue // the test removed it
			}
			if err := l.DelPod(context.Background(), p.ID()); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return added
}

// requireConnected measures between the pods, all nodes and the outside.
func requireConnected(t *testing.T, l *lab.Lab, pods ...lab.Pod) {
	t.Helper()
	if err := connected(t, l, pods...); err != nil {
		t.Error(err)
	}
}

func connected(t *testing.T, l *lab.Lab, pods ...lab.Pod) error {
	t.Helper()
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{lab.OutsideName}
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	for _, p := range pods {
		names = append(names, p.ID())
	}
	m, err := l.Matrix(t.Context(), names...)
	if err != nil {
		t.Fatal(err)
	}
	return m.Err()
}

// ping sends packets in both directions.
func ping(t *testing.T, a, b lab.Pod) error {
	t.Helper()
	_, there := lab.Ping(t.Context(), a.Endpoint(), b.Endpoint())
	_, back := lab.Ping(t.Context(), b.Endpoint(), a.Endpoint())
	return errors.Join(there, back)
}

// requireQuiet demands that all agents have nothing left to do.
func requireQuiet(t *testing.T, l *lab.Lab) {
	t.Helper()
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		agent := l.Agent(n.Name)
		var unsettled []string
		await.That(t, n.Name+" has configured all values", func() error {
			if unsettled, err = agent.NotConfigured(t.Context()); err != nil {
				return err
			}
			if len(unsettled) > 0 {
				return errors.New(strings.Join(unsettled, "\n"))
			}
			return nil
		})
		ops, err := agent.Drift(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range ops {
			t.Errorf("%s: a resync with the kernel, where nothing had changed, executed %v %s: %v → %v, error %v", n.Name, op.Operation, op.Key, op.PrevValue, op.NewValue, op.NewErr)
		}
	}
}
