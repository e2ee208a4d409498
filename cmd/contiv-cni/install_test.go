package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/test/locked"
)

// starting is an agent that becomes ready when the test closes ready.
type starting struct {
	agent
	asked chan struct{} // receives a value for each STATUS while not ready
	ready chan struct{} // closed when ready
}

func newStarting() *starting {
	return &starting{agent: agent{reply: podReply()}, asked: make(chan struct{}, 100), ready: make(chan struct{})}
}

func (s *starting) Status(context.Context, *cni.StatusRequest) (*cni.StatusReply, error) {
	select {
	case <-s.ready:
		return &cni.StatusReply{Ready: true}, nil
	default:
		s.asked <- struct{}{}
		return &cni.StatusReply{Reason: "startup resync"}, nil
	}
}

type node struct{ bin, net, socket string }

func newNode(t *testing.T, agent cni.RemoteCNIServer) node {
	dir := t.TempDir()
	return node{bin: filepath.Join(dir, "bin"), net: filepath.Join(dir, "net.d"), socket: listen(t, agent)}
}

func (n node) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = []string{"CNI_BIN_DIR=" + n.bin, "CNI_NET_DIR=" + n.net}
	return cmd
}

func (n node) conflist() string { return filepath.Join(n.net, "10-contiv-vpp.conflist") }

func (n node) list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestInstallWaitsForTheAgentAndStays(t *testing.T) {
	agent := newStarting()
	n := newNode(t, agent)
	cmd := n.command("install", "--socket", n.socket, "--log-file", filepath.Join(t.TempDir(), "log"))
	installed := make(chan struct{})
	log := &watchedLog{line: "configuration installed", seen: installed}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	await := func(c <-chan struct{}, what string) {
		t.Helper()
		select {
		case <-c:
		case err := <-ended:
			t.Fatalf("%s: ended: %v\n%s", what, err, log)
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: not in time\n%s", what, log)
		}
	}
	await(agent.asked, "asks the agent")
	await(agent.asked, "asks the agent again")
	if files := n.list(t, n.net); len(files) > 0 {
		t.Errorf("before the agent is ready: %v", files)
	}
	if files := n.list(t, n.bin); !slices.Equal(files, []string{"contiv-cni"}) {
		t.Errorf("programs: %v", files)
	}
	close(agent.ready)
	await(installed, "installs the configuration")

	// The installed plugin works for a runtime.
	list, err := libcni.LoadConfList(n.net, "k8s-pod-network")
	if err != nil {
		t.Fatal(err)
	}
	runtime := libcni.NewCNIConfigWithCacheDir([]string{n.bin}, t.TempDir(), nil)
	if err := runtime.GetStatusNetworkList(t.Context(), list); err != nil {
		t.Errorf("STATUS: %v", err)
	}
	result, err := runtime.AddNetworkList(t.Context(), list, &libcni.RuntimeConf{ContainerID: "c1", NetNS: "/nonexistent", IfName: "eth0"})
	if err != nil || result.Version() != "1.1.0" {
		t.Errorf("ADD: %v, %v", result, err)
	}

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("ended with %v\n%s", err, log)
	}
	if files := n.list(t, n.net); len(files) != 1 {
		t.Errorf("after SIGTERM: %v", files)
	}
	if out, err := n.command("uninstall").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if files := append(n.list(t, n.net), n.list(t, n.bin)...); len(files) > 0 {
		t.Errorf("after uninstall: %v", files)
	}
}

// The node has no network while its configuration is missing.
func TestInstallerPutsBackWhatIsRemovedOrChanged(t *testing.T) {
	agent := newStarting()
	close(agent.ready)
	n := newNode(t, agent)
	cmd := n.command("install", "--socket", n.socket)
	log := &watchedLog{seen: make(chan struct{})}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	program := filepath.Join(n.bin, "contiv-cni")
	built, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	intact := func() bool {
		list, err := libcni.LoadConfList(n.net, "k8s-pod-network")
		installed, readErr := os.ReadFile(program)
		return err == nil && list.Plugins[0].Network.Type == "contiv-cni" && readErr == nil && bytes.Equal(installed, built)
	}
	await := func(what string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !intact(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not in time\n%s", what, log)
			}
		}
	}
	await("installs")
	for what, damage := range map[string]func() error{
		"configuration removed": func() error { return os.Remove(n.conflist()) },
		"configuration changed": func() error { return os.WriteFile(n.conflist(), []byte("{"), 0o600) },
		"program removed":       func() error { return os.Remove(program) },
		"program changed": func() error {
			return errors.Join(os.Remove(program), os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
		},
		"all removed": func() error { return errors.Join(os.Remove(program), os.Remove(n.conflist())) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if intact() {
			t.Fatalf("%s: the test sees no damage", what)
		}
		await(what)
	}

	// The installer does not restore uninstalled files.
	if out, err := n.command("uninstall").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(log.String(), "Stopping") {
		t.Errorf("the installer has not let go:\n%s", log)
	}
	if files := append(n.list(t, n.net), n.list(t, n.bin)...); len(files) > 0 {
		t.Errorf("after uninstall: %v", files)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("ended with %v\n%s", err, log)
	}
}

// watchedLog reports when a line is written.
type watchedLog struct {
	locked.Buffer
	line string
	seen chan struct{}
	once sync.Once
}

func (l *watchedLog) Write(p []byte) (int, error) {
	n, err := l.Buffer.Write(p)
	if strings.Contains(l.String(), l.line) {
		l.once.Do(func() { close(l.seen) })
	}
	return n, err
}

func TestInstallInterruptedWhileItWaits(t *testing.T) {
	agent := newStarting()
	n := newNode(t, agent)
	cmd := n.command("install", "--socket", n.socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-agent.asked
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if files := n.list(t, n.net); len(files) > 0 {
		t.Errorf("configuration: %v", files)
	}
}

// If an installation is killed at any moment, either the old or the new configuration is in place.
func TestInstallKilledAtAnyMoment(t *testing.T) {
	agent := newStarting()
	close(agent.ready)
	n := newNode(t, agent)
	before := `{"cniVersion":"1.0.0","name":"before","plugins":[{"type":"contiv-cni"}]}`
	var took time.Duration
	install := func() *exec.Cmd {
		cmd := n.command("install", "--once", "--socket", n.socket)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	began := time.Now()
	if err := install().Wait(); err != nil {
		t.Fatal(err)
	}
	took = time.Since(began)
	const moments = 40
	changed := 0
	for i := range moments {
		if err := os.WriteFile(n.conflist(), []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(n.bin, "contiv-cni")); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		cmd := install()
		time.Sleep(took * time.Duration(i) / moments * 3 / 2) // the moment is the subject of the test
		cmd.Process.Kill()
		cmd.Wait()
		var list struct{ Name string }
		data, err := os.ReadFile(n.conflist())
		if err == nil {
			err = json.Unmarshal(data, &list)
		}
		if err != nil || list.Name == "" {
			t.Fatalf("killed after %d/%d: %q, %v", i, moments, data, err)
		}
		if list.Name != "before" {
			changed++
		}
		if program, err := os.ReadFile(filepath.Join(n.bin, "contiv-cni")); err == nil {
			if built, err := os.ReadFile(binary); err != nil || !bytes.Equal(program, built) {
				t.Fatalf("killed after %d/%d: half a program of %d bytes", i, moments, len(program))
			}
		}
		for _, file := range n.list(t, n.net) {
			if file != filepath.Base(n.conflist()) && slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(file)) {
				t.Fatalf("killed after %d/%d: a runtime would read %s", i, moments, file)
			}
		}
	}
	t.Logf("%d of %d got to the end", changed, moments)
	if err := install().Wait(); err != nil {
		t.Fatal(err)
	}
	if files := append(n.list(t, n.net), n.list(t, n.bin)...); len(files) != 2 {
		t.Errorf("in the end: %v", files)
	}
}

func TestManagementErrors(t *testing.T) {
	n := newNode(t, newStarting())
	for _, args := range [][]string{{"instal"}, {"install", "--no-such-flag"}, {"install", "surplus"}, {"uninstall", "--once"}, {"install", "--conflist", "/nonexistent"}} {
		out, err := n.command(args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || len(out) == 0 {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
	for _, args := range [][]string{{"help"}, {"version"}, {"install", "-h"}} {
		if out, err := n.command(args...).CombinedOutput(); err != nil || !strings.Contains(string(out), "contiv-cni") {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
}
