package manifests

import (
	"context"
	"log/slog"
	"sync"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"github.com/contiv/contiv/internal/lib/dirwatch"
)

// Options of a Directory; see dirwatch.Options.
type Options = dirwatch.Options

// Directory is a ksr.Source.
type Directory struct {
	files  *dirwatch.Directory[parsed]
	merger *merger

	mu       sync.Mutex
	problems []Problem
}

// New returns an error if the directory does not exist.
func New(opts Options) (*Directory, error) {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	d := &Directory{merger: newMerger(opts.Logger.With("dir", opts.Dir))}
	var err error
	if d.files, err = dirwatch.New(opts, d.merger.parse); err != nil {
		return nil, err
	}
	return d, nil
}

// Problems returns the current mistakes in the files.
func (d *Directory) Problems() []Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Problem(nil), d.problems...)
}

// Run reports the objects of all files, and then changes, until ctx ends.
func (d *Directory) Run(ctx context.Context, report func(ksr.Changes)) error {
	d.files.Run(ctx, func(s dirwatch.Snapshot[parsed]) {
		changes, changed := d.merger.changes(s)
		d.mu.Lock()
		d.problems = d.merger.problems(s)
		d.mu.Unlock()
		if changed {
			report(changes)
		}
	})
	return nil
}
