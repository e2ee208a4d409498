package labtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Root is the root of the repository, from a package's folder in test/.
var Root = filepath.Join("..", "..")

// Main builds all programs of the repository into a directory that exists while run runs,
// and ends this process with the code that run returns, or 1 after an error.
func Main(run func(binaries string) (code int, err error)) {
	code, err := runWithPrograms(run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func runWithPrograms(run func(binaries string) (int, error)) (code int, err error) {
	binaries, err := os.MkdirTemp("", "contiv-bin")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(binaries)
	if err := Build("-o", binaries+"/", "./cmd/..."); err != nil {
		return 1, err
	}
	return run(binaries)
}

// Build runs go build at the root of the repository; the programs are static.
func Build(args ...string) error {
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Dir = Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the binaries: %w\n%s", err, out)
	}
	return nil
}
