package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const catchUpTimeout = 5 * time.Second

// Snapshot writes all data to w in the format of "etcdctl snapshot save": the database and its
// SHA-256. It includes all acknowledged writes. Without a quorum, it contains this member's data.
func (s *Server) Snapshot(w io.Writer) error {
	// A write may be acknowledged by two of three members before the third has it.
	ctx, cancel := context.WithTimeout(context.Background(), catchUpTimeout)
	defer cancel()
	if err := s.etcd.Server.LinearizableReadNotify(ctx); err != nil {
		s.log.Warn("Snapshot may lack the newest data: most members do not answer", "error", err)
	}
	s.etcd.Server.KV().Commit()
	snapshot := s.etcd.Server.Backend().Snapshot()
	defer snapshot.Close()
	sum := sha256.New()
	if _, err := snapshot.WriteTo(io.MultiWriter(w, sum)); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	if _, err := w.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("write checksum of snapshot: %w", err)
	}
	return nil
}

// WriteSnapshotFile creates a file with the output of write. The file appears under its name once
// it is complete, verified and synced.
func WriteSnapshotFile(file string, write func(io.Writer) error) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".tmp*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	defer temporary.Close()
	if err := write(temporary); err != nil {
		return err
	}
	if err := checkSnapshot(temporary); err != nil {
		return err
	}
	if err := temporary.Sync(); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), file)
}

func checkSnapshot(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size() - sha256.Size
	if size <= 0 || size%512 != 0 {
		return fmt.Errorf("%w: %d bytes cannot be a database and its checksum", ErrBadSnapshot, info.Size())
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size)); err != nil {
		return err
	}
	want := make([]byte, sha256.Size)
	if _, err := f.ReadAt(want, size); err != nil {
		return err
	}
	if !slices.Equal(sum.Sum(nil), want) {
		return fmt.Errorf("%w: its checksum is wrong", ErrBadSnapshot)
	}
	return nil
}

const (
	snapshotPrefix = "contiv-etcd-"
	snapshotSuffix = ".db"
	snapshotTime   = "20060102T150405Z"
	snapshotRetry  = time.Minute
)

var lastSnapshot = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "contiv_etcd_last_snapshot_timestamp_seconds",
	Help: "Time of the newest scheduled snapshot; 0 if none exists.",
})

// registerMetrics uses the default registry, as etcd does.
var registerMetrics = sync.OnceFunc(func() {
	prometheus.MustRegister(lastSnapshot, pendingConnections, establishedConnections, refusedConnections, refusedRequests)
})

func (s *Server) schedule(ctx context.Context, opts Options) {
	for {
		wait := snapshotRetry
		newest, err := s.scheduled(opts, time.Now())
		if err == nil {
			lastSnapshot.Set(float64(newest.Unix()))
			wait = max(time.Until(newest.Add(opts.SnapshotEvery)), 0)
		} else {
			s.log.Error("Scheduled snapshot failed", "directory", opts.SnapshotDir, "error", err, "again", wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (s *Server) scheduled(opts Options, now time.Time) (time.Time, error) {
	if err := os.MkdirAll(opts.SnapshotDir, 0o700); err != nil {
		return now, err
	}
	files, err := snapshots(opts.SnapshotDir)
	if err != nil {
		return now, err
	}
	if len(files) > 0 {
		newest := files[len(files)-1].made
		if age := now.Sub(newest); age >= 0 && age < opts.SnapshotEvery {
			return newest, nil
		}
	}
	now = now.UTC().Truncate(time.Second)
	file := filepath.Join(opts.SnapshotDir, snapshotPrefix+now.Format(snapshotTime)+snapshotSuffix)
	if err := WriteSnapshotFile(file, s.Snapshot); err != nil {
		return now, err
	}
	s.log.Info("Snapshot written", "file", file)
	if files, err = snapshots(opts.SnapshotDir); err != nil {
		return now, err
	}
	var errs []error
	for _, old := range files[:max(len(files)-opts.SnapshotKeep, 0)] {
		errs = append(errs, os.Remove(old.path))
	}
	return now, errors.Join(errs...)
}

type snapshotFile struct {
	path string
	made time.Time
}

func snapshots(dir string) (list []snapshotFile, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		name, ours := strings.CutPrefix(entry.Name(), snapshotPrefix)
		name, complete := strings.CutSuffix(name, snapshotSuffix)
		if made, err := time.Parse(snapshotTime, name); err == nil && ours && complete {
			list = append(list, snapshotFile{filepath.Join(dir, entry.Name()), made})
		}
	}
	slices.SortFunc(list, func(a, b snapshotFile) int { return a.made.Compare(b.made) })
	return list, err
}
