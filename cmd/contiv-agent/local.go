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
	// localPrefix starts the keys of what only this node knows: its pods, and
	// their addresses.
	localPrefix = "/local/"
	// localLock is how long an agent may take to end when the next one starts.
	localLock = 5 * time.Second
)

// openLocal opens the node's own file. A damaged one is put aside. Of what is
// in the file, the mirror of etcd can be had again from etcd, the pods cannot:
// their runtime would not ask for their network a second time. So there is a copy
// in the run directory, which lives as long as the pods do, until the machine
// is started again.
func openLocal(ctx context.Context, o options, log *slog.Logger) (*backup.Store, error) {
	first, err := openFile(o.bolt, log)
	if err != nil {
		return nil, err
	}
	second, err := openFile(filepath.Join(o.runDir, "pods.db"), log)
	if err != nil {
		return nil, errors.Join(err, first.Close())
	}
	second.SkipSync() // when the machine ends, so do the pods
	local, restored, err := backup.New(ctx, first, second, localPrefix, log)
	if err != nil {
		return nil, errors.Join(err, first.Close(), second.Close())
	}
	if restored > 0 {
		log.Warn("The local store had lost this node's pods: they were restored from the copy in the run directory", "values", restored)
	}
	return local, nil
}

func openFile(path string, log *slog.Logger) (*bolt.Store, error) {
	s, movedTo, err := bolt.OpenOrReplace(path, localLock)
	if movedTo != "" {
		log.Error("The local store was damaged; a new one is used", "damaged", movedTo)
	}
	return s, err
}
