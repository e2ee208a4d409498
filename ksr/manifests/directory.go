package manifests

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/contiv/contiv/ksr"
	"github.com/fsnotify/fsnotify"
)

// Options of a Directory.
type Options struct {
	// Dir holds the manifests. Its subdirectories are not visited.
	Dir string
	// Settle is the time without changes after which changes are looked at; it
	// gives editors time to finish. Default 50 ms; ten times that at most.
	Settle time.Duration
	// Rescan is the interval of the scans that find what notifications miss,
	// such as changes behind symbolic links. Default 5 s.
	Rescan time.Duration
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Directory is a ksr.Source.
type Directory struct {
	opts Options
	log  *slog.Logger

	mu       sync.Mutex
	problems []Problem
}

// New checks that the directory exists.
func New(opts Options) (*Directory, error) {
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
		return nil, fmt.Errorf("no directory of manifests is given")
	case os.IsNotExist(err):
		return nil, fmt.Errorf("directory of manifests %s does not exist: create it, or name another one", opts.Dir)
	case err != nil:
		return nil, fmt.Errorf("directory of manifests: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is a file: name the directory that holds it", opts.Dir)
	}
	return &Directory{opts: opts, log: opts.Logger.With("dir", opts.Dir)}, nil
}

// Problems returns what is wrong with the files now.
func (d *Directory) Problems() []Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Problem(nil), d.problems...)
}

func (d *Directory) setProblems(p []Problem) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.problems = p
}

// Run reports the objects of all files, and then their changes, until ctx ends.
func (d *Directory) Run(ctx context.Context, report func(ksr.Changes)) error {
	w := newNotifier(d.opts.Dir, d.log)
	defer w.close()
	files := newFiles(d.opts.Dir, d.log)

	scan := func(touched map[string]bool) {
		w.renew()
		changes, changed := files.scan(touched)
		d.setProblems(files.problems())
		if changed {
			report(changes)
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
			return nil
		case e := <-w.events():
			w.notice(e)
			touched[filepath.Base(e.Name)] = true
			settle.touch()
		case err := <-w.errors():
			// Most likely an overflow: anything may have changed.
			d.log.Warn("notifications of changed manifests were lost: reading all", "error", err)
			files.forget()
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

// settler fires when it has not been touched for a while, and at the latest ten
// times that while after it was first touched.
type settler struct {
	timer  *time.Timer
	quiet  time.Duration
	latest time.Time
}

func newSettler(quiet time.Duration) *settler {
	s := &settler{timer: time.NewTimer(time.Hour), quiet: quiet}
	s.timer.Stop()
	return s
}

func (s *settler) touch() {
	now := time.Now()
	if s.latest.IsZero() {
		s.latest = now.Add(10 * s.quiet)
	}
	s.timer.Reset(min(s.quiet, s.latest.Sub(now)))
}

func (s *settler) C() <-chan time.Time { return s.timer.C }
func (s *settler) done()               { s.latest = time.Time{} }
func (s *settler) stop()               { s.timer.Stop() }

// notifier watches the directory. Where that is not possible, or no longer, only
// scans find changes.
type notifier struct {
	dir     string
	log     *slog.Logger
	watcher *fsnotify.Watcher
	// watched is the directory that the watcher is set on: a directory that was
	// replaced has the same path, and is another one.
	watched os.FileInfo
}

func newNotifier(dir string, log *slog.Logger) *notifier {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("changed manifests are found by scanning only", "error", err)
	}
	return &notifier{dir: dir, log: log, watcher: watcher}
}

// renew sets the watch on the directory that is at the path now. Called before a
// scan, so that no change is missed.
func (n *notifier) renew() {
	if n.watcher == nil {
		return
	}
	info, err := os.Stat(n.dir)
	if err != nil || (n.watched != nil && os.SameFile(info, n.watched)) {
		return
	}
	if n.watched != nil {
		_ = n.watcher.Remove(n.dir) // it is usually gone with the directory
	}
	if err := n.watcher.Add(n.dir); err != nil {
		n.log.Warn("changed manifests are found by scanning only", "error", err)
		return
	}
	n.watched = info
}

// notice sees events of the directory itself: the watch ends with it.
func (n *notifier) notice(e fsnotify.Event) {
	if filepath.Clean(e.Name) == filepath.Clean(n.dir) && e.Has(fsnotify.Remove|fsnotify.Rename) {
		_ = n.watcher.Remove(n.dir) // most likely it is gone already
		n.watched = nil
	}
}

func (n *notifier) events() <-chan fsnotify.Event {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Events
}

func (n *notifier) errors() <-chan error {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Errors
}

func (n *notifier) close() {
	if n.watcher != nil {
		n.watcher.Close()
	}
}
