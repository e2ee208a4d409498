package lab_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
)

func leftovers(t testing.TB, opts lab.Options) []string {
	t.Helper()
	left, err := lab.Leftovers(opts)
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func processesOf(t testing.TB, opts lab.Options) []string {
	t.Helper()
	return slices.DeleteFunc(leftovers(t, opts), func(what string) bool { return !strings.HasPrefix(what, "process ") })
}

func requireNothingLeft(t testing.TB, opts lab.Options) {
	t.Helper()
	for _, what := range leftovers(t, opts) {
		t.Errorf("left behind: %s", what)
	}
}

func TestNodesReachEachOtherAndTheOutside(t *testing.T) {
	for name, ipv6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) {
			opts := options(t)
			opts.Nodes, opts.IPv6 = 3, ipv6
			l := up(t, opts)
			m, err := l.Matrix(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Err(); err != nil {
				t.Error(err)
			}
			if got, want := len(m.Cells), 3*2+3; got != want {
				t.Errorf("got %d cells, want %d", got, want)
			}
			for _, c := range m.Cells {
				if c.From.Address.Is6() != ipv6 || c.To.Address.Is6() != ipv6 {
					t.Errorf("%s at %v → %s at %v", c.From.Name, c.From.Address, c.To.Name, c.To.Address)
				}
			}
			requireNoOtherFamily(t, l, ipv6)
		})
	}
}

// requireNoOtherFamily checks that the lab has no addresses of the other IP version except loopback
// and link-local ones.
func requireNoOtherFamily(t *testing.T, l *lab.Lab, ipv6 bool) {
	t.Helper()
	other := "-6"
	if ipv6 {
		other = "-4"
	}
	for _, where := range []string{"node1", "node3", lab.OutsideName} {
		if out, err := l.Exec(t.Context(), where, "ip", other, "-o", "address", "show", "scope", "global"); err != nil || out != "" {
			t.Errorf("%s has %s, %v", where, out, err)
		}
	}
}

func TestIPv6LabRefusesOptions(t *testing.T) {
	opts := options(t)
	opts.IPv6, opts.VSwitches, opts.VPPBin = true, []string{lab.VPPVSwitch}, "/bin/true"
	_, err := lab.Up(t.Context(), opts)
	requireError(t, err, "--ipv6: nodes with VPP have IPv4 addresses: leave out --vswitch vpp, or give networks of IPv6 in --config")
	opts.VSwitches, opts.Calico = nil, true
	_, err = lab.Up(t.Context(), opts)
	requireError(t, err, "drop --ipv6")
}

func TestDownLeavesNothing(t *testing.T) {
	opts := options(t)
	l := up(t, opts)
	if len(processesOf(t, opts)) < 4 {
		t.Error("etcd, KSR and two agents should run")
	}
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	// A process that the lab did not start, such as a user's shell in a node.
	shell := exec.Command("sleep", "100")
	if err := lab.InNetns(lab.NetnsPath(st.Nodes[0].Netns), shell.Start); err != nil {
		t.Fatal(err)
	}
	if err := l.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	requireNothingLeft(t, opts)
	if err := shell.Wait(); err == nil {
		t.Error("the process inside of the node was not ended")
	}
	if err := l.Down(t.Context()); err != nil {
		t.Errorf("Down again: %v", err)
	}
}

func TestTwoLabsSideBySide(t *testing.T) {
	first, second := options(t), options(t)
	l := up(t, first)
	up(t, second)
	if err := lab.Down(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	m, err := l.Matrix(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Err(); err != nil {
		t.Error(err)
	}
}

func TestUpRefusesALabThatRuns(t *testing.T) {
	opts := options(t)
	up(t, opts)
	_, err := lab.Up(t.Context(), opts)
	requireError(t, err, "is already up")
	if _, err := lab.Open(opts); err != nil {
		t.Errorf("the lab that ran is gone: %v", err)
	}
}

func TestUpAfterACrash(t *testing.T) {
	opts := options(t, "contiv-agent.unready")
	maker := exec.Command(filepath.Join(opts.BinDir, "contiv-lab"), "up", "--name", opts.Name, "--root", opts.Root)
	if err := maker.Start(); err != nil {
		t.Fatal(err)
	}
	await.That(t, "an agent runs", func() error {
		if n := len(processesOf(t, opts)); n < 3 {
			return fmt.Errorf("%d processes run", n)
		}
		return nil
	})
	maker.Process.Kill()
	maker.Wait()
	os.Remove(filepath.Join(opts.BinDir, "contiv-agent.unready"))

	l := up(t, opts)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(processesOf(t, opts)), len(st.Processes); got != want {
		t.Errorf("%d processes of the lab run, want %d", got, want)
	}
}

func TestUpThatFailsSaysWhyAndLeavesNothing(t *testing.T) {
	for _, test := range []struct{ behaviour, want string }{
		{"contiv-agent.dies", "flux capacitor"},
		{"contiv-agent.unready", "the warp core is cold"},
		{"contiv-ksr.dies", "flux capacitor"},
		{"contiv-etcd.unready", "the warp core is cold"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			opts := options(t, test.behaviour)
			opts.StartTimeout = 3 * time.Second
			_, err := lab.Up(t.Context(), opts)
			requireError(t, err, test.want)
			requireNothingLeft(t, opts)
		})
	}
}

func TestUpThatIsInterruptedLeavesNothing(t *testing.T) {
	opts := options(t, "contiv-agent.unready")
	ctx, cancel := context.WithCancel(t.Context())
	opts.Progress = func(line string) {
		if strings.HasPrefix(line, "node node2") {
			cancel()
		}
	}
	_, err := lab.Up(ctx, opts)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	requireNothingLeft(t, opts)
}

func TestUpNeedsBinaries(t *testing.T) {
	opts := options(t)
	os.Remove(filepath.Join(opts.BinDir, "contiv-ksr"))
	_, err := lab.Up(t.Context(), opts)
	requireError(t, err, "lacks the programs contiv-ksr")
}

func TestForeignNamespaceIsLeftAlone(t *testing.T) {
	opts := options(t)
	foreign := opts.Name + "-node2"
	if out, err := exec.Command("ip", "netns", "add", foreign).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	defer exec.Command("ip", "netns", "del", foreign).Run()
	_, err := lab.Up(t.Context(), opts)
	requireError(t, err, "exists already and is not this lab's")
	if _, err := os.Stat(lab.NetnsPath(foreign)); err != nil {
		t.Error("the foreign namespace was removed")
	}
}

func TestGuardRemovesTheLabOfAKilledProgram(t *testing.T) {
	opts := options(t)
	program := exec.Command(filepath.Join(opts.BinDir, "contiv-lab"), "guarded-up", "--name", opts.Name, "--root", opts.Root)
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		t.Fatalf("the program says %q", line)
	}
	program.Process.Signal(syscall.SIGKILL)
	program.Wait()
	await.That(t, "the guard removes the lab", func() error {
		if left := leftovers(t, opts); len(left) > 0 {
			return fmt.Errorf("left are %q", left)
		}
		return nil
	})
}

func TestReleasedGuardLeavesTheLab(t *testing.T) {
	opts := options(t)
	guard, err := lab.NewGuard(filepath.Join(opts.BinDir, "contiv-lab"), opts)
	if err != nil {
		t.Fatal(err)
	}
	up(t, opts)
	if err := guard.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Open(opts); err != nil {
		t.Error(err)
	}
}

func TestNamesAreChecked(t *testing.T) {
	for _, name := range []string{"a-b", "A", "../x", "averylongname"} {
		if _, err := lab.Open(lab.Options{Name: name}); err == nil || !strings.Contains(err.Error(), "cannot be the name of a lab") {
			t.Errorf("%q: %v", name, err)
		}
	}
	_, err := lab.Open(lab.Options{Name: "absent", Root: t.TempDir()})
	if !errors.Is(err, lab.ErrNoLab) {
		t.Errorf("got %v, want ErrNoLab", err)
	}
}

func requireError(t testing.TB, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got error %v, want one with %q", err, want)
	}
}
