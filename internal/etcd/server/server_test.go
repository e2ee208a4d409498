package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/locked"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testOptions(t testing.TB) Options {
	return Options{
		DataDir:      filepath.Join(t.TempDir(), "data"),
		ClientURLs:   []string{"http://127.0.0.1:0"},
		UnsafeNoSync: true,
		Logger:       slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	}
}

func start(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func client(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func put(t testing.TB, endpoint, key, value string) {
	t.Helper()
	if _, err := client(t, endpoint).Put(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, endpoint, key string) string {
	t.Helper()
	r, err := client(t, endpoint).Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Kvs) == 0 {
		return ""
	}
	return string(r.Kvs[0].Value)
}

func TestDataSurvivesARestart(t *testing.T) {
	opts := testOptions(t)
	s := start(t, opts)
	put(t, s.Endpoint(), "/k", "v")
	s.Close()

	s = start(t, opts)
	if got := get(t, s.Endpoint(), "/k"); got != "v" {
		t.Errorf("after the restart the key is %q, want %q", got, "v")
	}
}

func TestCloseDoesNotWaitForWatches(t *testing.T) {
	s := start(t, testOptions(t))
	c := client(t, s.Endpoint())
	watch := c.Watch(t.Context(), "/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-watch
	begin := time.Now()
	s.Close()
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("Close took %v with a watch open", took)
	}
	for range s.Done() {
	}
}

func TestUnixSocketServesItsOwnerOnly(t *testing.T) {
	opts := testOptions(t)
	dir, err := os.MkdirTemp("", "etcd") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "etcd.sock")
	opts.ClientURLs = []string{"unix://" + socket}
	s := start(t, opts)
	put(t, s.Endpoint(), "/k", "v")
	if got := get(t, s.Endpoint(), "/k"); got != "v" {
		t.Errorf("got %q", got)
	}
	info, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	if perm := info.Mode().Perm(); perm != 0o600 {
		t.Errorf("socket mode is %o, want 600", perm)
	}
}

func TestErrorsSayWhatToChange(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	running := testOptions(t)
	start(t, running)

	for _, c := range []struct {
		name   string
		change func(*Options)
		is     error
		text   string
	}{
		{"client port taken", func(o *Options) {
			// The default peer port is the next one, which may be taken.
			o.ClientURLs, o.PeerURL = []string{"http://" + taken.Addr().String()}, "http://127.0.0.1:0"
		}, ErrAddressTaken, "give another client URL"},
		{"peer port taken", func(o *Options) { o.PeerURL = "http://" + taken.Addr().String() }, ErrAddressTaken, "give another peer URL"},
		{"health port taken", func(o *Options) { o.HealthURL = "http://" + taken.Addr().String() }, ErrAddressTaken, "give another health URL"},
		{"health with TLS", func(o *Options) { o.HealthURL = "https://127.0.0.1:0" }, nil, "must be http"},
		{"directory in use", func(o *Options) { o.DataDir = running.DataDir }, ErrDirInUse, "use another directory"},
		{"directory below a file", func(o *Options) { o.DataDir = "/dev/null/data" }, ErrDirNotWritable, "writable file system"},
		{"directory on a read-only file system", func(o *Options) { o.DataDir = "/proc/contiv-data" }, ErrDirNotWritable, "writable file system"},
		{"https without certificate", func(o *Options) { o.ClientURLs = []string{"https://127.0.0.1:0"} }, nil, "requires a certificate"},
		{"certificate without key", func(o *Options) { o.CertFile = "x" }, nil, "both"},
		{"name instead of address", func(o *Options) { o.ClientURLs = []string{"http://example.org:1"} }, nil, "no IP address"},
		{"no port", func(o *Options) { o.ClientURLs = []string{"http://127.0.0.1"} }, nil, "IP:PORT"},
		{"relative socket", func(o *Options) { o.ClientURLs = []string{"unix://etcd.sock"} }, nil, "unix:///PATH"},
		{"unknown scheme", func(o *Options) { o.ClientURLs = []string{"tcp://127.0.0.1:1"} }, nil, "http, https or unix"},
		{"peer off loopback", func(o *Options) { o.PeerURL = "http://0.0.0.0:0" }, nil, "loopback address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts := testOptions(t)
			c.change(&opts)
			s, err := Start(t.Context(), opts)
			if err == nil {
				s.Close()
				t.Fatal("started")
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error is not %q: %v", c.is, err)
			}
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("error does not contain %q: %v", c.text, err)
			}
		})
	}
}

func TestStartGivesUpWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	opts := testOptions(t)
	if s, err := Start(ctx, opts); err == nil {
		s.Close()
	} else if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	start(t, opts)
}

func TestLogOfEtcdGoesToSlog(t *testing.T) {
	var out locked.Buffer
	opts := testOptions(t)
	opts.Logger = slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))
	start(t, opts)
	for _, want := range []string{`"msg":"now serving peer/client/metrics"`, `"data-dir":"` + opts.DataDir, `"initial-advertise-peer-urls":["http://127.0.0.1:`, `"advertise-client-urls":["http://`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log lacks %s", want)
		}
	}
}

func TestPlainTextIsForLoopbackUnlessAllowed(t *testing.T) {
	opts := testOptions(t)
	if _, err := opts.withDefaults().resolve(); err != nil {
		t.Errorf("loopback: %v", err)
	}
	opts.ClientURLs = []string{"http://192.0.2.1:2379"}
	if _, err := opts.withDefaults().resolve(); err == nil || !strings.Contains(err.Error(), "anyone who can reach this address") {
		t.Errorf("other address: %v", err)
	}
	opts.PlainText = true
	if _, err := opts.withDefaults().resolve(); err != nil {
		t.Errorf("allowed: %v", err)
	}
}

func TestUsersNeedCertificates(t *testing.T) {
	opts := testOptions(t)
	opts.Users = true
	if _, err := opts.withDefaults().resolve(); err == nil || !strings.Contains(err.Error(), "requires client certificates") {
		t.Errorf("%v", err)
	}
}
