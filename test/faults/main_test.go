package faults

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/lab"
	"go.uber.org/goleak"
)

var (
	writeReport = flag.Bool("write", false, "write the report to docs/faults.md")
	jumpClock   = flag.Bool("clock", false, "test jumps of the clock: builds an agent whose clock can be moved, which takes a minute when it is not cached")
)

// binaries is the directory with what was built; "" when the tests are skipped.
var binaries string

func TestMain(m *testing.M) {
	flag.Parse()
	// The labs mostly wait.
	flag.Set("test.parallel", "4")
	if os.Geteuid() != 0 {
		m.Run() // each test skips itself and says why
		return
	}
	code, err := build(m)
	if err == nil && code == 0 {
		err = errors.Join(goleak.Find(), report.finish())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// build builds the binaries once for all tests.
func build(m *testing.M) (code int, err error) {
	if binaries, err = os.MkdirTemp("", "contiv-bin"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(binaries)
	if err := goBuild("-o", binaries+"/", "./cmd/..."); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func goBuild(args ...string) error {
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the binaries: %w\n%s", err, out)
	}
	return nil
}

// repository is the root of the repository, from here.
var repository = filepath.Join("..", "..")

// printLogs prints the ends of the logs of a lab in which a test failed.
func printLogs(t *testing.T, l *lab.Lab) {
	logs, err := l.Logs()
	if err != nil {
		t.Log(err)
	}
	for _, file := range logs {
		const size = 12 << 10
		data, err := os.ReadFile(file)
		t.Logf("===== %s (last %d bytes) %v\n%s", file, size, err, strings.ToValidUTF8(string(data[max(len(data)-size, 0):]), ""))
	}
}
