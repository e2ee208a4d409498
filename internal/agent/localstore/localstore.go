// Package localstore opens the files in which a node keeps data that it needs without etcd.
package localstore

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/contiv/contiv/internal/etcd/backup"
	"github.com/contiv/contiv/internal/etcd/store/bolt"
)

const (
	// podsPrefix starts the keys of data that only this node has: its pods and their addresses.
	podsPrefix = "/local/"
	// lockTimeout is how long the next agent waits for an ending one.
	lockTimeout = 5 * time.Second
)

// Open opens the node's local file. It moves a damaged file aside. The mirror of etcd can be
// read from etcd again, but the pods cannot: their runtime does not ask for their network twice. So
// a copy is kept in the run directory, which lives until a reboot, like the pods.
func Open(ctx context.Context, path, runDir string, log *slog.Logger) (*backup.Store, error) {
	first, err := OpenFile(path, log)
	if err != nil {
		return nil, err
	}
	second, err := OpenFile(filepath.Join(runDir, "pods.db"), log)
	if err != nil {
		return nil, errors.Join(err, first.Close())
	}
	second.SkipSync() // the pods do not survive a crash of the machine either
	local, restored, err := backup.New(ctx, first, second, podsPrefix, log)
	if err != nil {
		return nil, errors.Join(err, first.Close(), second.Close())
	}
	if restored > 0 {
		log.Warn("Pods missing in the local store, restored from the copy in the run directory", "values", restored)
	}
	return local, nil
}

// OpenFile opens a file of key-value pairs. It moves a damaged file aside.
func OpenFile(path string, log *slog.Logger) (*bolt.Store, error) {
	s, movedTo, err := bolt.OpenOrReplace(path, lockTimeout)
	if movedTo != "" {
		log.Error("Local store damaged, using a new one", "damaged", movedTo)
	}
	return s, err
}
