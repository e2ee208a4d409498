package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/test/await"
)

// readyTimeout also suffices for the benchmark.
const readyTimeout = 2 * time.Minute

// process is a contiv-ksr that serves HTTP on a unix socket.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	socket string
	stdout *bufio.Reader
	stderr strings.Builder
}

func startProcess(t testing.TB, etcd *etcdtest.Server, args ...string) *process {
	t.Helper()
	p := &process{t: t, socket: filepath.Join(t.TempDir(), "ksr.sock")}
	p.cmd = ksrCommand(append(args, "--etcd-endpoints", etcd.Endpoint(), "--http", "unix://"+p.socket)...)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() })
	return p
}

// awaitReady waits for the log line of readiness.
func (p *process) awaitReady(want string) {
	p.t.Helper()
	late := time.AfterFunc(readyTimeout, func() { p.cmd.Process.Kill() })
	defer late.Stop()
	line, _ := p.stdout.ReadString('\n')
	if !strings.HasPrefix(line, want) {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		p.t.Fatalf("first line is %q, want %q…\n%s", line, want, p.stderr.String())
	}
}

// terminate ends the process and requires success.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("after SIGTERM: %v\n%s", err, p.stderr.String())
	}
}

// awaitReflected waits until etcd has all objects.
func (p *process) awaitReflected() {
	p.t.Helper()
	await.That(p.t, "all objects are in etcd", func() error {
		code, body, err := p.try("/readiness")
		if err == nil && code != http.StatusOK {
			err = errors.New(body)
		}
		return err
	})
}

// awaitRole polls, because no event announces the role.
func (p *process) awaitRole(role string) {
	p.t.Helper()
	await.That(p.t, "the role is "+role, func() error {
		_, body, err := p.try("/readiness")
		if err == nil && strings.Contains(body, `"role": "`+role+`"`) {
			return nil
		}
		return fmt.Errorf("%s %v\n%s", body, err, p.stderr.String())
	})
}

func (p *process) get(path string) (status int, body string) {
	p.t.Helper()
	status, body, err := p.try(path)
	if err != nil {
		p.t.Fatal(err)
	}
	return status, body
}

func (p *process) try(path string) (status int, body string, err error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", p.socket) }}
	response, err := (&http.Client{Transport: transport}).Get("http://ksr" + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

func (p *process) metric(name string) float64 {
	p.t.Helper()
	_, body := p.get("/stats")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return v
		}
	}
	p.t.Fatalf("/stats lacks %s", name)
	return 0
}

// peakMemory returns the peak memory of the process, in bytes.
func (p *process) peakMemory() float64 {
	p.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		p.t.Fatal("no VmHWM")
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return kib * 1024
}
