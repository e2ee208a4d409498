package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/contiv/contiv/store/backup"
	"github.com/contiv/contiv/store/bolt"
)

const (
	// localPrefix starts the keys of data that only this node has: its pods and their addresses.
	localPrefix = "/local/"
	// localLock is how long the next agent waits for an ending one.
	localLock = 5 * time.Second
)

// openLocal opens the node's local file. It moves a damaged file aside. The mirror of etcd can be
// read from etcd again, but the pods cannot: their runtime does not ask for their network twice. So
// a copy is kept in the run directory, which lives until a reboot, like the pods.
func openLocal(ctx context.Context, o options, log *slog.Logger) (*backup.Store, error) {
	first, err := openFile(o.bolt, log)
	if err != nil {
		return nil, err
	}
	second, err := openFile(filepath.Join(o.runDir, "pods.db"), log)
	if err != nil {
		return nil, errors.Join(err, first.Close())
	}
	second.SkipSync() // the pods do not survive a crash of the machine either
	local, restored, err := backup.New(ctx, first, second, localPrefix, log)
	if err != nil {
		return nil, errors.Join(err, first.Close(), second.Close())
	}
	if restored > 0 {
		log.Warn("Pods missing in the local store, restored from the copy in the run directory", "values", restored)
	}
	return local, nil
}

func openFile(path string, log *slog.Logger) (*bolt.Store, error) {
	s, movedTo, err := bolt.OpenOrReplace(path, localLock)
	if movedTo != "" {
		log.Error("Local store damaged, using a new one", "damaged", movedTo)
	}
	return s, err
}
