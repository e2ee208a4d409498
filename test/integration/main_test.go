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

	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

var shared *lab.Lab

var binaries string

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		m.Run() // each test skips itself and reports the reason
		return
	}
	labtest.Main(func(dir string) (int, error) {
		binaries = dir
		return runWithLab(m)
	})
}

func runWithLab(m *testing.M) (code int, err error) {
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
		fmt.Println(labtest.Logs(shared))
	}
	return code, labtest.Down(opts)
}

func options(prefix string) lab.Options {
	return lab.Options{Name: fmt.Sprintf("%s%d", prefix, os.Getpid()), BinDir: binaries}
}

func require(t *testing.T) *lab.Lab {
	t.Helper()
	if shared == nil {
		t.Skip("the lab makes network namespaces; run the tests as root")
	}
	return shared
}

func pod(t *testing.T, l *lab.Lab, name, node string) lab.Pod {
	t.Helper()
	return labtest.AddPods(t, l, lab.PodSpec{Name: name, Node: node})[0]
}

// statusOf returns the output of contivctl status in one line.
func statusOf(l *lab.Lab) string {
	out, _ := exec.Command(filepath.Join(binaries, "contivctl"), "--config", l.CtlConfig(), "status").CombinedOutput() // the exit code reports problems, too
	return strings.Join(strings.Fields(string(out)), " ")
}

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

func ping(t *testing.T, a, b lab.Pod) error {
	t.Helper()
	_, there := lab.Ping(t.Context(), a.Endpoint(), b.Endpoint())
	_, back := lab.Ping(t.Context(), b.Endpoint(), a.Endpoint())
	return errors.Join(there, back)
}
