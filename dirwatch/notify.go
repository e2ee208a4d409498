package dirwatch

import (
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

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
		log.Warn("Changed files are found by scanning only", "error", err)
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
		n.log.Warn("Changed files are found by scanning only", "error", err)
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
