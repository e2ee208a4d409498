package integration

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

func contivLab(t *testing.T, l *lab.Lab, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "contiv-lab"), append([]string{"--quiet", "--name", l.Name()}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestCommands(t *testing.T) {
	l := require(t)
	manifest := filepath.Join(t.TempDir(), "app.yaml")
	if err := os.WriteFile(manifest, []byte("{kind: Pod, apiVersion: v1, metadata: {name: applied}, spec: {nodeName: node2, containers: [{name: c}]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		contivLab(t, l, "pod", "del", "shop/cli")
		contivLab(t, l, "delete", "-f", manifest)
	})
	for _, test := range []struct{ command, want string }{
		{"pod add cli --node node1 -n shop", "pod shop/cli: address 10.1."},
		{"apply -f " + manifest, "Pod default/applied runs on node2 with address 10.1."},
		{"status", "shop/cli"},
		{"exec shop/cli -- ip -br addr show eth0", "/32"},
		{"exec applied -- ping -c1 -W2 203.0.113.10", "1 received"},
		{"matrix shop/cli applied outside", "pod → outside"},
		{"ctl nodes", "node2"},
		{"ctl pods", "applied"},
		{"ctl ipam", "10.1."},
		{"ctl events --last 0", "Add Pod"},
		{"ctl txns --last 0", "Add Pod"},
		{"ctl txns 1 --node node1", "config/vpp/v2/interfaces/podGwLoop"},
		{"ctl dump config/vpp/v2/interfaces --node node1", "vxlanBVI"},
		{"ctl values --node node1", "CONFIGURED"},
		{"ctl status", "node2"},
		{"node restart node1", ""},
		{"matrix shop/cli applied node1", "pod → pod, across nodes"},
		{"delete -f " + manifest, "Pod default/applied deleted"},
		{"pod del shop/cli", ""},
	} {
		out, err := contivLab(t, l, strings.Fields(test.command)...)
		if err != nil || !strings.Contains(out, test.want) {
			t.Errorf("contiv-lab %s: error %v, no %q in:\n%s", test.command, err, test.want, out)
		}
	}
	if out, err := exec.Command(filepath.Join(binaries, "contiv-lab"), "list").CombinedOutput(); err != nil || !strings.Contains(string(out), l.Name()) {
		t.Errorf("contiv-lab list: error %v, no %q in:\n%s", err, l.Name(), out)
	}
	labtest.RequireQuiet(t, l)
}

func TestFailuresOfCommandsAreSeen(t *testing.T) {
	l := require(t)
	for _, test := range []struct{ command, want string }{
		{"pod del absent", `no pod "default/absent"`},
		{"exec absent -- true", "no pod and no node"},
		{"node kill absent", "it has: node1 node2"},
		{"--name absent status", "no such lab"},
		{"up", "is already up"},
	} {
		out, err := contivLab(t, l, strings.Fields(test.command)...)
		if err == nil || !strings.Contains(out, test.want) {
			t.Errorf("contiv-lab %s: error %v, no %q in:\n%s", test.command, err, test.want, out)
		}
	}
	_, err := contivLab(t, l, "exec", "node1", "--", "sh", "-c", "exit 7")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("exec of a command that exits with 7: %v", err)
	}
}

func demo(t *testing.T, opts lab.Options, text string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "contiv-lab"), "demo", "--name", opts.Name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := labtest.Down(opts); err != nil {
			t.Error(err)
		}
	})
	var seen bytes.Buffer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		seen.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), text) {
			go seen.ReadFrom(out) // ends with the process
			return cmd
		}
	}
	cmd.Wait()
	t.Fatalf("the demo ended without %q:\n%s", text, &seen)
	return nil
}

func TestDemoShowsThatAllIsAsPromised(t *testing.T) {
	require(t)
	cmd := demo(t, options("demo"), "All items are as promised")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestDemoThatIsInterruptedLeavesNothing(t *testing.T) {
	require(t)
	for _, test := range []struct {
		name   string
		signal syscall.Signal
		during string
	}{
		{"Ctrl-C while the lab comes up", syscall.SIGINT, "node node1"},
		{"Ctrl-C between packets", syscall.SIGINT, "Connectivity, measured"},
		{"SIGTERM", syscall.SIGTERM, "Pods, wired"},
		{"SIGKILL", syscall.SIGKILL, "Pods, wired"},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := options("demo")
			cmd := demo(t, opts, test.during)
			cmd.Process.Signal(test.signal)
			if err := cmd.Wait(); err == nil {
				t.Error("the demo reports success")
			}
			await.That(t, "nothing is left of the lab", func() error {
				left, err := lab.Leftovers(opts)
				if err == nil && len(left) > 0 {
					err = errors.New(strings.Join(left, ", "))
				}
				return err
			})
		})
	}
}
