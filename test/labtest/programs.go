package labtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Root is the path of the repository's root from a package in test/.
var Root = filepath.Join("..", "..")

// Main builds all programs into a directory that exists while run runs. It exits with the code that
// run returns, or with 1 after an error.
func Main(run func(binaries string) (code int, err error)) {
	code, err := runWithPrograms(run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// runWithPrograms gives run a separate directory, because the shared one may change meanwhile.
func runWithPrograms(run func(binaries string) (int, error)) (code int, err error) {
	shared, unlock, err := buildShared()
	if err != nil {
		return 1, err
	}
	binaries, err := linkPrograms(shared)
	unlock()
	defer os.RemoveAll(binaries)
	if err != nil {
		return 1, fmt.Errorf("taking the binaries from %s: %w", shared, err)
	}
	return run(binaries)
}

// buildShared builds all programs into a directory shared by all test packages. go build skips
// programs that are up to date; linking all of them takes half a minute. No other process builds
// there until unlock.
func buildShared() (dir string, unlock func(), err error) {
	dir, err = filepath.Abs(filepath.Join(Root, "bin", "test"))
	if err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", nil, err
	}
	err = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		err = Build("-o", dir+"/", "./cmd/...")
	}
	if err != nil {
		lock.Close()
		return "", nil, err
	}
	return dir, func() { lock.Close() }, nil
}

// linkPrograms returns a new directory next to the programs with hard links to them.
func linkPrograms(shared string) (dir string, err error) {
	programs, err := filepath.Glob(filepath.Join(shared, "contiv*"))
	if err != nil {
		return "", err
	}
	if dir, err = os.MkdirTemp(shared, "run"); err != nil {
		return "", err
	}
	for _, program := range programs {
		if err := os.Link(program, filepath.Join(dir, filepath.Base(program))); err != nil {
			return dir, err
		}
	}
	return dir, nil
}

// Build runs go build at the root of the repository with the flags of the Makefile. The programs
// are static.
func Build(args ...string) error {
	const ldflags = "-s -w"
	cmd := exec.Command("go", append([]string{"build", "-ldflags", ldflags}, args...)...)
	cmd.Dir = Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the binaries: %w\n%s", err, out)
	}
	return nil
}
