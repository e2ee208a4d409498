package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func serve(t *testing.T, opts Options) *Server {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan *Server, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, opts, func(s *Server) { ready <- s }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	select {
	case s := <-ready:
		return s
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
		return nil
	}
}

func takeSnapshot(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "snapshot.db")
	err := WriteSnapshotFile(file, func(w io.Writer) error { return AskSnapshot(t.Context(), dir, w) })
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func restoreFrom(t *testing.T, dir, file string) error {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return AskRestore(t.Context(), dir, f)
}

func TestRestoringWhileClientsWatch(t *testing.T) {
	opts := testOptions(t)
	s := serve(t, opts)
	c := client(t, s.Endpoint())
	put(t, s.Endpoint(), "/kept", "old")
	file := takeSnapshot(t, opts.DataDir)
	put(t, s.Endpoint(), "/kept", "new")
	put(t, s.Endpoint(), "/later", "v")
	before, err := c.Get(t.Context(), "/kept")
	if err != nil {
		t.Fatal(err)
	}

	if err := restoreFrom(t, opts.DataDir, file); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s.Endpoint(), "/kept"); got != "old" {
		t.Errorf("after the restoration /kept is %q", got)
	}
	if got := get(t, s.Endpoint(), "/later"); got != "" {
		t.Errorf("/later, which the snapshot lacks, is %q", got)
	}
	after, err := c.Get(t.Context(), "/kept")
	if err != nil {
		t.Fatal(err)
	}
	if after.Header.Revision <= before.Header.Revision {
		t.Errorf("the revision went from %d to %d", before.Header.Revision, after.Header.Revision)
	}
	if after.Header.ClusterId == before.Header.ClusterId {
		t.Error("clients cannot detect that the data were restored")
	}
	r := <-c.Watch(t.Context(), "/", clientv3.WithPrefix(), clientv3.WithRev(before.Header.Revision+1))
	if !errors.Is(r.Err(), rpctypes.ErrCompacted) {
		t.Errorf("an older watch gets %v, want %v", r.Err(), rpctypes.ErrCompacted)
	}
	if _, err := os.Stat(filepath.Join(opts.DataDir, ReplacedDir, memberDir)); err != nil {
		t.Errorf("the previous data: %v", err)
	}
	put(t, s.Endpoint(), "/later", "again")
}

func TestRestoringWhatNobodyServes(t *testing.T) {
	opts := testOptions(t)
	served := opts
	served.DataDir = filepath.Join(t.TempDir(), strings.Repeat("a-name-longer-than-that-of-a-socket-may-be", 3))
	s := serve(t, served)
	put(t, s.Endpoint(), "/k", "v")
	file := takeSnapshot(t, served.DataDir)

	if err := restoreFrom(t, opts.DataDir, file); !errors.Is(err, ErrNotServed) {
		t.Fatalf("request to a directory without a server: %v", err)
	}
	for range 2 { // into an empty directory, and over data
		if err := Restore(file, opts); err != nil {
			t.Fatal(err)
		}
		restored := start(t, opts)
		if got := get(t, restored.Endpoint(), "/k"); got != "v" {
			t.Errorf("restored: %q", got)
		}
		if err := Restore(file, opts); !errors.Is(err, ErrDirInUse) {
			t.Errorf("restoring a served directory: %v", err)
		}
		restored.Close()
	}
}

func TestFilesThatAreNoSnapshots(t *testing.T) {
	opts := testOptions(t)
	s := serve(t, opts)
	put(t, s.Endpoint(), "/k", "v")
	good, err := os.ReadFile(takeSnapshot(t, opts.DataDir))
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(good)
	changed[len(changed)/2] ^= 1
	for name, data := range map[string][]byte{
		"empty": nil, "text": []byte("no snapshot"), "cut": good[:len(good)-512], "without checksum": good[:len(good)-32], "changed": changed,
	} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := restoreFrom(t, opts.DataDir, file); err == nil || !strings.Contains(err.Error(), ErrBadSnapshot.Error()) {
			t.Errorf("%s: %v", name, err)
		}
		if got := get(t, s.Endpoint(), "/k"); got != "v" {
			t.Errorf("%s: the data are gone", name)
		}
	}
}

func TestScheduledSnapshots(t *testing.T) {
	opts := testOptions(t).withDefaults()
	opts.SnapshotEvery, opts.SnapshotDir, opts.SnapshotKeep = time.Hour, filepath.Join(t.TempDir(), "snapshots"), 2
	s := start(t, testOptions(t))
	put(t, s.Endpoint(), "/k", "v")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		after time.Duration
		want  string // hours of the snapshots
	}{
		{0, "00"}, {59 * time.Minute, "00"}, {time.Hour, "00 01"}, {3 * time.Hour, "01 03"}, {-time.Hour, "01 03"},
	} {
		if _, err := s.scheduled(opts, now.Add(step.after)); err != nil {
			t.Fatal(err)
		}
		files, err := snapshots(opts.SnapshotDir)
		if err != nil {
			t.Fatal(err)
		}
		var hours []string
		for _, f := range files {
			hours = append(hours, f.made.Format("15"))
		}
		if got := strings.Join(hours, " "); got != step.want {
			t.Errorf("step %d: snapshots of %s, want %s", i, got, step.want)
		}
	}
	files, _ := snapshots(opts.SnapshotDir)
	restored := testOptions(t)
	if err := Restore(files[0].path, restored); err != nil {
		t.Fatal(err)
	}
	if got := get(t, start(t, restored).Endpoint(), "/k"); got != "v" {
		t.Errorf("restored: %q", got)
	}
}

func TestStartSchedulesSnapshots(t *testing.T) {
	opts := testOptions(t)
	opts.SnapshotEvery, opts.SnapshotDir = time.Hour, t.TempDir()
	start(t, opts)
	for files := []snapshotFile(nil); len(files) == 0; time.Sleep(10 * time.Millisecond) {
		files, _ = snapshots(opts.SnapshotDir)
	}
}
