package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestReusedProcessNumber(t *testing.T) {
	bystander := exec.Command("sleep", "100")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer bystander.Wait()
	defer bystander.Process.Kill()
	p, ok := processOf(bystander.Process.Pid)
	if !ok || !p.Alive() {
		t.Fatalf("process %+v should be alive", p)
	}
	earlier := p
	earlier.StartTime--
	if earlier.Alive() {
		t.Error("a process with another start time counts as alive")
	}
	if err := earlier.kill(); err != nil || !p.Alive() {
		t.Errorf("error %v, bystander alive: %v", err, p.Alive())
	}
	// A zombie is dead although it still has its process number.
	if err := p.kill(); err != nil || p.Alive() {
		t.Errorf("error %v, killed process alive: %v", err, p.Alive())
	}
}

func TestHostPortsHaveAProtocol(t *testing.T) {
	ports := []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}, {ContainerPort: 53, HostPort: 53, Protocol: corev1.ProtocolUDP}, {ContainerPort: 81}}
	got := hostPorts(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: ports}}}})
	if want := []HostPort{{8080, 80, "tcp", ""}, {53, 53, "udp", ""}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLockExcludesAndCanBeGivenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	never := func(pid string) { t.Errorf("waited for %s", pid) }
	first, err := acquire(t.Context(), path, never)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = acquire(ctx, path, func(string) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	second := make(chan *fileLock, 1)
	waiting := make(chan struct{})
	go func() {
		lock, _ := acquire(t.Context(), path, func(string) { close(waiting) })
		second <- lock
	}()
	<-waiting
	// The second lock must not be on the removed file.
	first.remove()
	first.release()
	lock := <-second
	if lock == nil || !isFileAt(lock.file, path) {
		t.Error("the second lock is on a file that is not there")
	}
	lock.release()
}

func TestEndedVPPIsFoundInTheLog(t *testing.T) {
	const end = `init: time=2026-11-27T00:12:12.561Z level=ERROR msg="Process exited, restarting it" process=vpp error="signal: aborted (core dumped)" lived=3ms in=100ms` + "\n"
	file := filepath.Join(t.TempDir(), "log")
	for text, want := range map[string]string{
		"":                            "",
		end:                           "signal: aborted (core dumped)",
		"vpp: no such plugin\n" + end: "signal: aborted (core dumped)",
		end + "--- 2026 " + startMark + ": contiv-init\n":                          "",
		strings.ReplaceAll(end, "process=vpp", "process=agent"):                    "",
		strings.ReplaceAll(end, `"signal: aborted (core dumped)"`, "killed") + "x": "killed",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := vppEnded(Process{Log: file}); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestPercentile(t *testing.T) {
	d := []time.Duration{4, 1, 3, 2}
	for p, want := range map[int]time.Duration{0: 1, 50: 2, 75: 3, 99: 4, 100: 4} {
		if got := Percentile(d, p); got != want {
			t.Errorf("p%d: got %d, want %d", p, got, want)
		}
	}
}

func TestHangingPluginSaysWhereItIs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("plugins are run in a network namespace, which needs root")
	}
	dir := t.TempDir()
	plugin, log := filepath.Join(dir, "plugin"), filepath.Join(dir, "log")
	script := "#!/bin/sh\ntrap 'echo waiting for nothing >&2; exit 2' QUIT\nwhile :; do sleep 0.02; done\n"
	if err := os.WriteFile(plugin, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // enough for the script to start
	defer cancel()
	e := &nodeExec{node: "node7", netns: "/proc/self/ns/net", timing: filepath.Join(dir, "timing"), log: log}
	_, err := e.ExecPlugin(ctx, plugin, nil, nil)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the agent of node node7 has not answered") {
		t.Errorf("error %v", err)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Error("contiv-lab would end with the plugin's exit code, without a word")
	}
	if said, err := os.ReadFile(log); !strings.Contains(string(said), "waiting for nothing") {
		t.Errorf("log %q: %v", said, err)
	}
}

func TestWaitingForAnAgentIsSaid(t *testing.T) {
	said := make(chan string, 1)
	l := &Lab{opts: Options{Progress: func(line string) { said <- line }}}
	c := l.cni(Pod{Namespace: "default", Name: "web"}, Node{Name: "node7"})
	c.patiently(func() {
		if line := <-said; !strings.Contains(line, "node7") || !strings.Contains(line, "pod web") {
			t.Errorf("%q", line)
		}
	})
	c.patiently(func() {})
	if len(said) > 0 {
		t.Errorf("no caller waited: %q", <-said)
	}
}
