package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestMain makes the test binary act as contiv-etcd in child processes.
func TestMain(m *testing.M) {
	if os.Getenv("CONTIV_ETCD_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

type process struct {
	*exec.Cmd
	endpoint string
	stderr   *strings.Builder
}

func start(t *testing.T, dir string) *process {
	t.Helper()
	return startWith(t, dir, "--listen-client", "http://127.0.0.1:0")
}

func startWith(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], append([]string{"--data-dir", dir}, args...)...), stderr: &strings.Builder{}}
	p.Env = append(os.Environ(), "CONTIV_ETCD_TEST_MAIN=1")
	p.Stderr = p.stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.Wait()
		t.Fatalf("contiv-etcd was not ready: %v\n%s", err, p.stderr)
	}
	if _, err := fmt.Sscanf(line, "contiv-etcd is ready: endpoints=%s data-dir="+dir, &p.endpoint); err != nil {
		t.Fatalf("unexpected line %q: %v", line, err)
	}
	return p
}

func (p *process) client(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{p.endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAcknowledgedWritesSurviveSIGKILL(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, dir)
	c := p.client(t)
	for i := range 20 {
		if _, err := c.Put(t.Context(), fmt.Sprintf("/k/%02d", i), "v"); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.Wait()

	p = start(t, dir)
	r, err := p.client(t).Get(t.Context(), "/k/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Kvs) != 20 {
		t.Errorf("%d of 20 keys survived", len(r.Kvs))
	}
}

func TestSIGTERMStopsQuietlyWithSuccess(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"))
	if _, err := p.client(t).Put(t.Context(), "/k", "v"); err != nil {
		t.Fatal(err)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("exit after SIGTERM: %v", err)
	}
	if p.stderr.Len() > 0 {
		t.Errorf("unexpected log:\n%s", p.stderr)
	}
}

func TestErrorIsOneLine(t *testing.T) {
	cmd := exec.Command(os.Args[0], "--data-dir", "/dev/null/x")
	cmd.Env = append(os.Environ(), "CONTIV_ETCD_TEST_MAIN=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("started below /dev/null")
	}
	if s := string(out); strings.Count(s, "\n") != 1 || !strings.HasPrefix(s, "contiv-etcd: data directory is not writable: /dev/null/x") {
		t.Errorf("unexpected error output:\n%s", s)
	}
}
