package vpptest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/startup"
)

// BinaryVariable is the environment variable with the path of the VPP binary.
const BinaryVariable = "VPP_BIN"

// Process is a real VPP in a network namespace.
type Process struct {
	t      testing.TB
	netns  string
	binary string
	config startup.Config
	file   string
	cmd    *exec.Cmd
	ended  chan struct{} // closed when cmd has ended,
	ending error         // in this way
	output bytes.Buffer
	begun  func() // called when VPP has started
}

// Need returns the path of the VPP binary, and skips the test if none is available.
func Need(t testing.TB) string {
	t.Helper()
	binary := os.Getenv(BinaryVariable)
	if binary == "" {
		t.Skip("needs VPP 25.10: make test-vpp " + BinaryVariable + "=/usr/bin/vpp")
	}
	return binary
}

// ProcessBuffers is the number of buffers of a Process.
const ProcessBuffers = 8192

// NewProcess starts a real VPP in a network namespace (a path) until the test ends, and skips the
// test if no VPP is available.
func NewProcess(t testing.TB, netns string) *Process {
	t.Helper()
	p := newProcess(t, netns, Need(t))
	p.Start()
	return p
}

// newProcess prepares a VPP, which ends with the test.
func newProcess(t testing.TB, netns, binary string) *Process {
	t.Helper()
	dir, err := os.MkdirTemp("", "vpptest")
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{
		t: t, netns: netns, binary: binary, file: filepath.Join(dir, "startup.conf"),
		config: startup.New(dir, startup.ThisMachine()), begun: func() {},
	}
	p.config.PluginPath, p.config.HeapMiB, p.config.Buffers = startup.PluginPath(binary), 512, ProcessBuffers
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("VPP said:\n%s", p.output.String())
		}
		os.RemoveAll(dir)
	})
	return p
}

// Socket is the path of the API socket.
func (p *Process) Socket() string { return p.config.APISocket() }

// StatsSocket is the path of the statistics socket.
func (p *Process) StatsSocket() string { return p.config.StatsSocket() }

// Start starts VPP again after Stop, without configuration.
func (p *Process) Start() {
	p.t.Helper()
	if err := p.start(); err != nil {
		p.t.Fatalf("VPP does not start: %v", err)
	}
	p.begun()
}

func (p *Process) start() error {
	if err := os.WriteFile(p.file, []byte(p.config.String()), 0o600); err != nil {
		return err
	}
	cmd, ended := exec.Command("nsenter", "--net="+p.netns, p.binary, "-c", p.file), make(chan struct{})
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { // until VPP ends, by itself or by Stop
		defer close(ended)
		_ = cmd.Wait()
		p.ending = ending(cmd.ProcessState)
	}()
	p.cmd, p.ended = cmd, ended
	_, err := p.TryCLI("show version")
	return err
}

// ending says how VPP ended.
func ending(state *os.ProcessState) error {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGILL {
		return fmt.Errorf("VPP ended: %v: it was built for another CPU than this machine's", state)
	}
	return fmt.Errorf("VPP ended: %v", state)
}

// Stop kills VPP.
func (p *Process) Stop() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	p.cmd = nil
	os.Remove(p.config.CLISocket())
	os.Remove(p.config.APISocket())
	for _, file := range p.config.SharedMemory() {
		os.RemoveAll(file)
	}
}

// PID returns VPP's process ID, which nsenter's process has become.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Restart is Stop and Start.
func (p *Process) Restart() {
	p.t.Helper()
	p.Stop()
	p.Start()
}

// Without restarts VPP without plugins, such as "acl" or "nat44_ed".
func (p *Process) Without(plugins ...string) {
	p.t.Helper()
	p.Stop()
	p.config.Plugins = map[string]bool{}
	for _, name := range plugins {
		p.config.Plugins[name] = false
	}
	p.Start()
}

// CLI runs a VPP CLI command and returns its output.
func (p *Process) CLI(command string) string {
	p.t.Helper()
	out, err := p.TryCLI(command)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// TryCLI is CLI that returns errors. It waits until VPP listens, unless VPP ends.
func (p *Process) TryCLI(command string) (string, error) {
	vppctl := filepath.Join(filepath.Dir(p.binary), "vppctl")
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if _, err = os.Stat(p.config.CLISocket()); err == nil {
			var out []byte
			if out, err = exec.Command(vppctl, "-s", p.config.CLISocket(), command).CombinedOutput(); err == nil {
				return string(out), nil
			}
		}
		select {
		case <-p.ended:
			return "", fmt.Errorf("vppctl %s: %w", command, p.ending)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return "", fmt.Errorf("vppctl %s: %w", command, err)
}

// VPP is a Server or a Process.
type VPP interface {
	Socket() string
	Start()
	Stop()
	Restart()
	Without(plugins ...string)
}

var _, _ VPP = (*Server)(nil), (*Process)(nil)
