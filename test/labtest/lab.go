package labtest

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

// Up makes a lab and removes it at the end of the test or process. The test fails if anything
// remains. Failed tests print the lab's logs.
func Up(t testing.TB, opts lab.Options) *lab.Lab {
	t.Helper()
	guard, err := lab.NewGuard(filepath.Join(opts.BinDir, "contiv-lab"), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(Down(opts), guard.Release()); err != nil {
			t.Error(err)
		}
	})
	l, err := lab.Up(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(Logs(l))
		}
	})
	return l
}

// Down removes a lab. It returns an error if anything remains.
func Down(opts lab.Options) error {
	if err := lab.Down(context.Background(), opts); err != nil {
		return err
	}
	left, err := lab.Leftovers(opts)
	if len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("the lab left behind: %s", strings.Join(left, ", ")))
	}
	return err
}

// Logs returns the ends of all logs of a lab.
func Logs(l *lab.Lab) string {
	const size = 12 << 10 // bytes
	var text strings.Builder
	files, err := l.Logs()
	if err != nil {
		fmt.Fprintln(&text, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(&text, err)
		}
		fmt.Fprintf(&text, "\n===== %s (last %d bytes)\n%s\n", file, size, strings.ToValidUTF8(string(data[max(len(data)-size, 0):]), ""))
	}
	return text.String()
}

// AddPods adds pods and removes them at the end of the test, unless the test has removed them.
func AddPods(t testing.TB, l *lab.Lab, specs ...lab.PodSpec) []lab.Pod {
	t.Helper()
	added, err := l.AddPods(t.Context(), 4, specs...)
	t.Cleanup(func() {
		st, err := l.State()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range added {
			if _, err := st.Pod(p.ID()); err != nil {
				continue // removed by the test
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

// RequireQuiet checks that all scheduler values of all agents are configured and that a resync
// finds no drift.
func RequireQuiet(t testing.TB, l *lab.Lab) {
	t.Helper()
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		agent := l.Agent(n.Name)
		await.That(t, n.Name+" has configured all values", func() error {
			unsettled, err := agent.NotConfigured(t.Context())
			if err == nil && len(unsettled) > 0 {
				err = errors.New(strings.Join(unsettled, "\n"))
			}
			return err
		})
		ops, err := agent.Drift(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range ops {
			t.Errorf("%s: a resync with the vswitch, where nothing had changed, executed %v %s: %v → %v, error %v", n.Name, op.Operation, op.Key, op.PrevValue, op.NewValue, op.NewErr)
		}
	}
}

// AwaitAddresses waits for the end of duplicate address detection. Until then a node uses another
// IPv6 source address.
func AwaitAddresses(t testing.TB, l *lab.Lab) {
	t.Helper()
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		await.That(t, n.Name+" uses its addresses", func() error {
			out, err := exec.Command("ip", "-n", n.Netns, "-6", "address", "show", "tentative").Output()
			if err == nil && len(out) > 0 {
				err = fmt.Errorf("tentative: %s", out)
			}
			return err
		})
	}
}
