package labtest

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/contiv/contiv/internal/ctl/why"
	"github.com/contiv/contiv/test/lab"
)

// AskWhy runs contivctl why and returns its exit code. binaries is the directory of contivctl.
func AskWhy(t testing.TB, l *lab.Lab, binaries string, args ...string) (a why.Answer, code int) {
	t.Helper()
	out, err := exec.Command(filepath.Join(binaries, "contivctl"), append([]string{"--config", l.CtlConfig(), "why", "-o", "json"}, args...)...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatalf("why %v: %v: %s", args, err, out)
	}
	return a, code
}
