package labtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
)

type nodeStatus struct {
	Node   string
	Result struct {
		Verdict  string
		Problems []struct{ Check, Text string }
		Notes    []string
	}
}

func statuses(t testing.TB, l *lab.Lab, binaries string) (list []nodeStatus, code int) {
	t.Helper()
	out, err := exec.Command(filepath.Join(binaries, "contivctl"), "--config", l.CtlConfig(), "status", "-o", "json").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return list, code
}

// AwaitStatus waits for contivctl's verdict on a node and, unless it is healthy, for a problem of a
// check.
func AwaitStatus(t testing.TB, l *lab.Lab, binaries, node, verdict, check, text string) {
	t.Helper()
	await.That(t, fmt.Sprintf("status says that %s is %s: %s", node, verdict, text), func() error {
		list, code := statuses(t, l, binaries)
		for _, s := range list {
			if s.Node != node || s.Result.Verdict != verdict {
				continue
			}
			if verdict == "healthy" {
				return nil
			}
			for _, p := range s.Result.Problems {
				if p.Check == check && strings.Contains(p.Text, text) && code == 1 {
					return nil
				}
			}
		}
		return fmt.Errorf("exit code %d: %+v", code, list)
	})
}

// AwaitNote waits for a note of contivctl status about a healthy node.
func AwaitNote(t testing.TB, l *lab.Lab, binaries, node, text string) {
	t.Helper()
	await.That(t, fmt.Sprintf("status says that %s is healthy, and notes: %s", node, text), func() error {
		list, code := statuses(t, l, binaries)
		for _, s := range list {
			if s.Node == node && s.Result.Verdict == "healthy" && slices.ContainsFunc(s.Result.Notes, func(note string) bool { return strings.Contains(note, text) }) {
				return nil
			}
		}
		return fmt.Errorf("exit code %d: %+v", code, list)
	})
}
