package dirwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// Options configure a Directory.
type Options struct {
	// Dir holds the files. Subdirectories are ignored.
	Dir string
	// Settle is the time without changes before files are read; it gives editors time to finish.
	// Default 50 ms; ten times that at most.
	Settle time.Duration
	// Rescan is the interval of scans for changes without notifications, such as behind symbolic
	// links. Default 5 s.
	Rescan time.Duration
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Directory is a directory of files with content of type T.
type Directory[T any] struct {
	opts  Options
	log   *slog.Logger
	files *files[T]
}

// New returns an error if the directory does not exist. parse decodes the text of a file; its error
// may join several.
func New[T any](opts Options, parse func(name string, text []byte) (T, error)) (*Directory[T], error) {
	if opts.Settle == 0 {
		opts.Settle = 50 * time.Millisecond
	}
	if opts.Rescan == 0 {
		opts.Rescan = 5 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	info, err := os.Stat(opts.Dir)
	switch {
	case opts.Dir == "":
		return nil, errors.New("no directory is given")
	case os.IsNotExist(err):
		return nil, fmt.Errorf("directory %s does not exist: create it, or name another one", opts.Dir)
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is a file: name the directory that holds it", opts.Dir)
	}
	log := opts.Logger.With("dir", opts.Dir)
	return &Directory[T]{opts: opts, log: log, files: newFiles(opts.Dir, parse, log)}, nil
}

// Scan reads the files changed since the last scan. Do not call it during Run.
func (d *Directory[T]) Scan() Snapshot[T] {
	d.files.scan(nil)
	return d.files.snapshot()
}

// Run reports the directory, and then every change of the content or error of a file, until ctx
// ends. The result of an earlier Scan is not reported again.
func (d *Directory[T]) Run(ctx context.Context, report func(Snapshot[T])) {
	w := newNotifier(d.opts.Dir, d.log)
	defer w.close()
	scan := func(touched map[string]bool) {
		w.renew()
		if d.files.scan(touched) {
			report(d.files.snapshot())
		}
	}
	scan(nil)

	rescan := time.NewTicker(d.opts.Rescan)
	defer rescan.Stop()
	settle := newSettler(d.opts.Settle)
	defer settle.stop()
	touched := make(map[string]bool)
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.events():
			w.notice(e)
			touched[filepath.Base(e.Name)] = true
			settle.touch()
		case err := <-w.errors():
			// Probably an overflow: any file may have changed.
			d.log.Warn("Notifications of changed files were lost; reading all files", "error", err)
			d.files.forget()
			settle.touch()
		case <-settle.C():
			settle.done()
			scan(touched)
			clear(touched)
		case <-rescan.C:
			scan(nil)
		}
	}
}
