package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"golang.org/x/sys/unix"
)

const (
	memberDir    = "member"
	restoringDir = "restoring"
	// ReplacedDir holds the data replaced by the last restoration.
	ReplacedDir = "before-restore"
)

// revisionBump is added to the revision by a restoration. It exceeds the revisions that clients may
// have seen since the snapshot. Watchers must list again.
const revisionBump = 1_000_000_000

// Restore atomically replaces the data in opts.DataDir, which must not be in use, by a snapshot
// file. The previous data stay in ReplacedDir until the next restoration. The cluster ID changes,
// from which agents and KSR conclude that etcd lost data. All members must restore the same file.
func Restore(file string, opts Options) error {
	opts = opts.withDefaults()
	urls, err := opts.resolve()
	if err != nil {
		return err
	}
	sum, err := checkedSum(file)
	if err != nil {
		return fmt.Errorf("restore %s: %w", file, err)
	}
	lock, err := lockDir(opts.DataDir)
	if err != nil {
		return err
	}
	defer lock.release()
	restoring := filepath.Join(opts.DataDir, restoringDir)
	if err := os.RemoveAll(restoring); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	var quiet atomic.Bool
	quiet.Store(true)
	c := (&Server{log: opts.Logger}).config(opts, urls, "")
	err = snapshot.NewV3(newZap(opts.Logger, &quiet)).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, OutputDataDir: restoring,
		Name: c.Name, PeerURLs: []string{urls.peer.String()},
		InitialCluster: c.InitialCluster, InitialClusterToken: c.InitialClusterToken + "-" + sum,
		RevisionBump: revisionBump, MarkCompacted: true,
	})
	if err != nil {
		return fmt.Errorf("restore %s: %w", file, err)
	}
	if err := exchange(opts.DataDir); err != nil {
		return fmt.Errorf("restore: put the data in place: %w", err)
	}
	return nil
}

func checkedSum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := checkSnapshot(f); err != nil {
		return "", err
	}
	sum := make([]byte, sha256.Size)
	if _, err := f.Seek(-sha256.Size, io.SeekEnd); err != nil {
		return "", err
	}
	_, err = io.ReadFull(f, sum)
	return hex.EncodeToString(sum[:8]), err
}

// exchange atomically replaces the data by the contents of restoringDir.
func exchange(dir string) error {
	member, restored := filepath.Join(dir, memberDir), filepath.Join(dir, restoringDir, memberDir)
	replaced := filepath.Join(dir, ReplacedDir)
	err := unix.Renameat2(unix.AT_FDCWD, restored, unix.AT_FDCWD, member, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) {
		err = os.Rename(restored, member)
	}
	if err != nil {
		return err
	}
	if err := os.RemoveAll(replaced); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, restoringDir), replaced)
}
