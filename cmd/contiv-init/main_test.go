package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/startup"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/test/await"
	"sigs.k8s.io/yaml"
)

// The tests run this test binary as contiv-init.
const asInit = "CONTIV_INIT_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asInit) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// timeout bounds each wait of a test.
const timeout = 20 * time.Second

// initProcess is a running contiv-init.
type initProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan error

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed when lines arrive or the output ends
	eof   bool
}

func command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{"--vpp-runtime-dir", filepath.Join(dir, "run")}, args...)...)
	cmd.Env = append(os.Environ(), asInit+"=1")
	return cmd
}

func start(t *testing.T, dir string, args ...string) *initProcess {
	t.Helper()
	p := &initProcess{t: t, cmd: command(dir, args...), ended: make(chan error, 1), more: make(chan struct{})}
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			close(p.more)
			p.more = make(chan struct{})
			p.mu.Unlock()
		}
		p.mu.Lock()
		p.eof = true
		close(p.more)
		p.mu.Unlock()
		p.ended <- p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		if t.Failed() {
			p.mu.Lock()
			t.Logf("contiv-init said:\n%s", strings.Join(p.lines, "\n"))
			p.mu.Unlock()
		}
	})
	return p
}

// await returns the pattern's group in its n-th matching line, from 1.
func (p *initProcess) await(pattern string, n int) string {
	p.t.Helper()
	re, deadline := regexp.MustCompile(pattern), time.After(timeout)
	for {
		p.mu.Lock()
		more, found := p.more, 0
		for _, line := range p.lines {
			if match := re.FindStringSubmatch(line); match != nil {
				if found++; found == n {
					p.mu.Unlock()
					return match[len(match)-1]
				}
			}
		}
		eof := p.eof
		p.mu.Unlock()
		if eof {
			p.t.Fatalf("it ended with %d lines of %d like %q", found, n, pattern)
		}
		select {
		case <-more:
		case <-deadline:
			p.t.Fatalf("%d of %d lines like %q", found, n, pattern)
		}
	}
}

// end sends the signal and returns the exit code.
func (p *initProcess) end(s os.Signal) int {
	p.t.Helper()
	p.cmd.Process.Signal(s)
	select {
	case <-p.ended:
	case <-time.After(timeout):
		p.t.Fatal("it does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *initProcess) index(pattern string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, line := range p.lines {
		if regexp.MustCompile(pattern).MatchString(line) {
			return i
		}
	}
	return -1
}

// standIn writes a program that prints its number and arguments and ends on request.
func standIn(t *testing.T, dir, name, onTerm string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	script := fmt.Sprintf("#!/bin/sh\ntrap %q TERM\necho up $$ args \"$@\"\nwhile :; do sleep 0.05; done\n", onTerm)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// unitOf creates stand-ins for VPP and the agent, and returns the flags that name them.
func unitOf(t *testing.T) (dir string, flags []string) {
	t.Helper()
	dir = t.TempDir()
	return dir, []string{"--vpp-bin", standIn(t, dir, "vpp", "echo bye; exit 0"), "--agent-bin", standIn(t, dir, "agent", "echo bye; exit 0")}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestTheAgentEndsBeforeVPP(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		dir, flags := unitOf(t)
		p := start(t, dir, append(flags, "--", "--node-name", "n1")...)
		p.await(`^vpp: up (\d+) args -c `+filepath.Join(dir, "run", "startup.conf")+`$`, 1)
		p.await(`^agent: up (\d+) args --vswitch vpp --vpp-socket `+filepath.Join(dir, "run", "api.sock")+` --node-name n1$`, 1)
		if code := p.end(s); code != 0 {
			t.Errorf("%v: exit code %d", s, code)
		}
		if agent, vpp := p.index(`^agent: bye$`), p.index(`^vpp: bye$`); agent < 0 || vpp < agent {
			t.Errorf("%v: the agent ended in line %d, VPP in line %d", s, agent, vpp)
		}
	}
}

func TestEitherComesBackAlone(t *testing.T) {
	dir, flags := unitOf(t)
	p := start(t, dir, flags...)
	vpp, agent := number(t, p.await(`^vpp: up (\d+)`, 1)), number(t, p.await(`^agent: up (\d+)`, 1))
	syscall.Kill(vpp, syscall.SIGKILL)
	p.await(`^init: .*"signal: killed".* in=(\S+)`, 1)
	vpp = number(t, p.await(`^vpp: up (\d+)`, 2))
	if !alive(agent) {
		t.Error("the agent ended with VPP")
	}
	syscall.Kill(agent, syscall.SIGKILL)
	agent = number(t, p.await(`^agent: up (\d+)`, 2))
	if !alive(vpp) {
		t.Error("VPP ended with the agent")
	}
	p.cmd.Process.Signal(syscall.SIGUSR1)
	p.await(`^agent: bye`, 1)
	p.await(`^agent: up (\d+)`, 3)
	if !alive(vpp) || alive(agent) {
		t.Errorf("after SIGUSR1: VPP runs: %v, the agent of before runs: %v", alive(vpp), alive(agent))
	}
	p.cmd.Process.Signal(syscall.SIGUSR2)
	p.await(`^vpp: bye`, 1)
	p.await(`^vpp: up (\d+)`, 3)
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestWhatEndsAgainAndAgainIsStartedLessOften(t *testing.T) {
	dir, flags := unitOf(t)
	if err := os.WriteFile(filepath.Join(dir, "vpp"+"-broken"), []byte("#!/bin/sh\nprintf 'unknown input'\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	flags[1] += "-broken"
	p := start(t, dir, flags...)
	for i, want := range []string{"100ms", "200ms", "400ms"} {
		if got := p.await(`^init: .*process=vpp error="exit status 1".* in=(\S+)`, i+1); got != want {
			t.Errorf("attempt %d follows after %s, want %s", i+1, got, want)
		}
	}
	p.await(`^vpp: unknown input$`, 3)
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestWhoDoesNotEndIsKilled(t *testing.T) {
	dir, flags := unitOf(t)
	flags[3] = standIn(t, dir, "stubborn", "echo no")
	p := start(t, dir, append(flags, "--agent-grace", "200ms")...)
	p.await(`^agent: up`, 1)
	p.await(`^vpp: up`, 1)
	if code := p.end(syscall.SIGTERM); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	p.await(`agent did not stop within 200ms and was killed`, 1)
	p.await(`^vpp: bye`, 1)
}

func TestNobodyIsLeftOfAUnitThatWasKilled(t *testing.T) {
	dir, flags := unitOf(t)
	p := start(t, dir, flags...)
	p.await(`^agent: up`, 1)
	p.await(`^vpp: up`, 1)
	p.end(syscall.SIGKILL)
	for _, name := range []string{"vpp", "agent"} {
		pid := number(t, p.await(`^`+name+`: up (\d+)`, 1))
		await.That(t, name+" has ended", func() error {
			if alive(pid) {
				return errors.New("it runs")
			}
			return nil
		})
	}
}

func TestMistakesAreToldBeforeAnythingIsStarted(t *testing.T) {
	dir, flags := unitOf(t)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for want, extra := range map[string][]string{
		"--vpp-bin: ":           {"--vpp-bin", "/nowhere/vpp"},
		"--agent-bin: ":         {"--agent-bin", "/nowhere/agent"},
		"add socksvr":           {"--vpp-config", file("startup.conf", "unix { nodaemon }\n")},
		"--vpp-config: ":        {"--vpp-config", "/nowhere/startup.conf"},
		"heapMiB is 1":          {"--vpp-options", file("a.yaml", "heapMiB: 1\n")},
		"heapMiB":               {"--vpp-options", file("b.yaml", "heapMib: 512\n")},
		"unknown flag: --bogus": {"--bogus"},
		"70000 seconds":         {"--", "--service-config", file("service.conf", "tcpNATSessionTimeout: 70000\n")},
	} {
		cmd := command(dir, append(append([]string{}, flags...), extra...)...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitUsage || !strings.Contains(string(out), want) || strings.Contains(string(out), "up ") {
			t.Errorf("%v: %v, %s, want %q", extra, err, out, want)
		}
	}
}

// VPP takes session timeouts only at its start, so contiv-init must pass them.
func TestSessionsLastAsServiceConfSays(t *testing.T) {
	dir, flags := unitOf(t)
	file, runtimeDir := filepath.Join(dir, "service.conf"), filepath.Join(dir, "vpp-run")
	if err := os.WriteFile(file, []byte("tcpNATSessionTimeout: 7200\notherNATSessionTimeout: 60\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, dir, append(flags, "--vpp-runtime-dir", runtimeDir, "--", "--service-config", file)...)
	p.await(`^agent: up `, 1)
	text, err := os.ReadFile(filepath.Join(runtimeDir, "startup.conf"))
	if want := "cnat {\n  session-max-age 60\n  tcp-max-age 7200\n}\n"; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("VPP's configuration: %v, is without %s:\n%s", err, want, text)
	}
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestAnotherConfigurationIsPassedAsItIs(t *testing.T) {
	dir, flags := unitOf(t)
	path, text := filepath.Join(dir, "my.conf"), "unix { nodaemon }\nsocksvr { socket-name /tmp/x.sock }\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, dir, append(flags, "--vpp-config", path)...)
	p.await(`^vpp: up \d+ args -c `+path+`$`, 1)
	p.await(`^agent: up \d+ args --vswitch vpp --vpp-socket /tmp/x.sock$`, 1)
	if after, err := os.ReadFile(path); err != nil || string(after) != text {
		t.Errorf("%s, %v", after, err)
	}
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// VPP's DPDK plugin accepts the generated options.
func TestOptionsOfDPDK(t *testing.T) {
	binary := vpptest.NeedDPDK(t)
	dir, flags := unitOf(t)
	file := filepath.Join(dir, "vpp.yaml")
	// No machine has this device, so VPP starts without it. If a device is named, VPP leaves others
	// alone.
	text, err := yaml.Marshal(map[string]any{"heapMiB": 256, "dpdkDevices": []string{"0000:ff:1f.7"}, "dpdkOptions": vpptest.DPDKTap("contivdpdk0").Options()[1:]})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	runtimeDir := filepath.Join(dir, "vpp-run")
	flags[1] = binary
	p := start(t, dir, append(flags, "--vpp-options", file, "--vpp-runtime-dir", runtimeDir)...)
	p.await(`^vpp: .*EAL init args: .*-a 0000:ff:1f.7`, 1)
	found := ""
	for deadline := time.Now().Add(timeout); !strings.Contains(found, vpptest.DPDKName) && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		out, _ := exec.Command(filepath.Join(filepath.Dir(binary), "vppctl"), "-s", filepath.Join(runtimeDir, "cli.sock"), "show interface").CombinedOutput()
		found = string(out)
	}
	if !strings.Contains(found, vpptest.DPDKName) {
		t.Errorf("VPP has no %s:\n%s", vpptest.DPDKName, found)
	}
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, file := range (startup.Config{RuntimeDir: runtimeDir, DPDKOptions: []string{"no-pci"}}).SharedMemory() {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is left", file)
		}
	}
}

func TestRealVPPComesBack(t *testing.T) {
	binary := os.Getenv(vpptest.BinaryVariable)
	if binary == "" {
		t.Skip("needs VPP 25.10: make test-vpp " + vpptest.BinaryVariable + "=/usr/bin/vpp")
	}
	dir, flags := unitOf(t)
	options := filepath.Join(dir, "vpp.yaml")
	if err := os.WriteFile(options, []byte("heapMiB: 256\nstatsMiB: 32\nbuffers: 8192\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runtimeDir := filepath.Join(dir, "vpp-run")
	flags[1] = binary
	p := start(t, dir, append(flags, "--vpp-options", options, "--vpp-runtime-dir", runtimeDir)...)
	answers := func() {
		t.Helper()
		await.That(t, "VPP answers", func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			conn, err := vppapi.Dial(ctx, filepath.Join(runtimeDir, "api.sock"), "test")
			if err == nil {
				conn.Close()
			}
			return err
		})
	}
	answers()
	agent := number(t, p.await(`^agent: up (\d+)`, 1))
	vpp := number(t, p.await(`^init: .*process=vpp pid=(\d+)`, 1))
	begun := time.Now()
	syscall.Kill(vpp, syscall.SIGKILL)
	p.await(`^init: .*process=vpp pid=(\d+)`, 2)
	answers()
	t.Logf("VPP answers again %v after it was killed", time.Since(begun).Round(time.Millisecond))
	if !alive(agent) {
		t.Error("the agent ended with VPP")
	}
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, file := range append((startup.Config{RuntimeDir: runtimeDir}).SharedMemory(), filepath.Join(runtimeDir, "api.sock")) {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is left", file)
		}
	}
}
