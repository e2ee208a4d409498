package dirwatch

import (
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settler fires after a quiet period since the last touch, at the latest ten periods after the
// first.
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

// notifier watches the directory. If it fails, only scans find changes.
type notifier struct {
	dir     string
	log     *slog.Logger
	watcher *fsnotify.Watcher
	// watched is the directory that the watch is on. A replaced directory has the same path but is
	// another one.
	watched os.FileInfo
}

func newNotifier(dir string, log *slog.Logger) *notifier {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("File notifications unavailable; scanning for changes", "error", err)
	}
	return &notifier{dir: dir, log: log, watcher: watcher}
}

// renew sets the watch on the directory now at the path. It is called before a scan, so that no
// change is missed.
func (n *notifier) renew() {
	if n.watcher == nil {
		return
	}
	info, err := os.Stat(n.dir)
	if err != nil || (n.watched != nil && os.SameFile(info, n.watched)) {
		return
	}
	if n.watched != nil {
		_ = n.watcher.Remove(n.dir) // usually removed with the directory
	}
	if err := n.watcher.Add(n.dir); err != nil {
		n.log.Warn("File notifications unavailable; scanning for changes", "error", err)
		return
	}
	n.watched = info
}

// notice handles events of the directory itself, which end the watch.
func (n *notifier) notice(e fsnotify.Event) {
	if filepath.Clean(e.Name) == filepath.Clean(n.dir) && e.Has(fsnotify.Remove|fsnotify.Rename) {
		_ = n.watcher.Remove(n.dir) // usually removed already
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
