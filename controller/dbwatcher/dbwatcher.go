package dbwatcher

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/store"
)

const (
	// probeKey, below a prefix that the node may read, is never written.
	probeKey = "probe-etcd-connection"
	// firstRetry is the delay before the second attempt to connect; it doubles up
	// to the probing interval.
	firstRetry = 100 * time.Millisecond
	// maxRequests is how many requests for a resync may wait.
	maxRequests = 10
)

// ErrTooManyRequests is returned when too many requests for a resync wait.
var ErrTooManyRequests = errors.New("too many requests for a resync wait: try again later")

// Options of a Watcher.
type Options struct {
	// Node is the name of this node.
	Node string
	// Remote is the database of the cluster.
	Remote store.Watchable
	// Local holds the mirror; nil: there is none.
	Local store.Broker
	// Loop gets the events.
	Loop controller.EventLoop
	// Standalone: without Kubernetes. Only the node's configuration is read, and if neither the
	// database nor its mirror is available, the node starts without.
	Standalone bool
	// Feedback is told the node's values in the database; may be nil.
	Feedback Feedback
	// Config: DelayLocalResync, RemoteDBProbingInterval and LostDatabaseTimeout.
	Config controller.Config
	// Log; nil: slog.Default().
	Log *slog.Logger
}

// Watcher is the source of DBResync, KubeStateChange and, from the database,
// ExternalConfigChange events. One goroutine, from Start to Close, does it all.
type Watcher struct {
	Options
	log    *slog.Logger
	mirror *mirror
	known  *known

	requests chan struct{}
	ctx      context.Context
	cancel   context.CancelFunc
	start    sync.Once
	done     chan struct{}

	mu        sync.Mutex
	connected error // nil: connected

	// The following belong to the goroutine.

	// answered are the revisions of the last requests for a resync, by name, that were
	// carried out, or are being.
	answered map[string]int64
	// resynced is set when a DBResync was sent.
	resynced bool
	// localDue fires when the startup resync shall no longer wait for etcd.
	localDue *time.Timer
	// lastRevision that the database told.
	lastRevision int64
	// snapshotRevision is that of the last snapshot that was used; 0: none.
	snapshotRevision int64
	// origin of the known values; its revision is kept by the mirror.
	origin origin
	// lostAt is when the database was lost; zero: it is there, or was not yet.
	lostAt time.Time
	// recovery of a database that lost its data; nil: it did not.
	recovery *recovery
}

// Start returns a Watcher that watches, for users whose event loop runs already, such as
// client/clienttest. Agents call New, and start it with the loop.
func Start(o Options) *Watcher {
	w := New(o)
	w.Start()
	return w
}

// New returns a Watcher that does nothing before Start; DelayLocalResync passes from now
// on.
func New(o Options) *Watcher {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Feedback == nil {
		o.Feedback = noFeedback{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watcher{
		Options:   o,
		log:       o.Log,
		known:     newKnown(o.Node, o.Log),
		mirror:    &mirror{local: o.Local, log: o.Log},
		requests:  make(chan struct{}, maxRequests),
		ctx:       ctx,
		cancel:    cancel,
		done:      make(chan struct{}),
		answered:  make(map[string]int64),
		connected: errors.New("not connected to the database yet"),
		localDue:  time.NewTimer(o.Config.DelayLocalResync.Std()),
	}
	w.known.standalone = o.Standalone
	w.known.mirrored = func(key string) []byte { return w.mirror.get(ctx, key) }
	return w
}

// Start begins to watch, unless Close was first.
func (w *Watcher) Start() { w.start.Do(func() { go w.run(w.ctx) }) }

// Close stops watching.
func (w *Watcher) Close() {
	w.cancel()
	w.start.Do(func() { close(w.done) })
	<-w.done
}

// RequestResync asks for a DBResync with a new snapshot of the database. It does not
// wait for it. While the database is out of reach, the request waits as well.
func (w *Watcher) RequestResync() error {
	select {
	case w.requests <- struct{}{}:
		return nil
	default:
		return ErrTooManyRequests
	}
}

// Connected returns nil while changes in the database are followed, else why not.
// The node works in both cases.
func (w *Watcher) Connected() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.connected
}

// run makes one session after the other.
func (w *Watcher) run(ctx context.Context) {
	defer close(w.done)
	defer w.localDue.Stop()
	delay := firstRetry
	for first := true; ctx.Err() == nil; first = false {
		established, err := w.session(ctx, first)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, store.ErrDenied) {
			err = w.denied(ctx, err)
		}
		w.setConnected(err)
		if established {
			delay = firstRetry
		}
		if errors.Is(err, store.ErrCompacted) || errors.Is(err, errRevisionWentBack) {
			continue
		}
		if !w.pause(ctx, delay) {
			return
		}
		delay = min(2*delay, w.Config.RemoteDBProbingInterval.Std())
	}
}

// pause waits before the next attempt, and sends the local DBResync if it is due.
func (w *Watcher) pause(ctx context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case <-w.localDue.C:
			w.localResync(ctx)
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// setConnected logs transitions, not every attempt.
func (w *Watcher) setConnected(err error) {
	w.mu.Lock()
	before := w.connected
	w.connected = err
	w.mu.Unlock()
	switch {
	case err == nil && before != nil:
		w.lostAt = time.Time{}
		w.log.Info("Connected to the database")
	case errors.Is(err, dbresources.ErrNewer) && !errors.Is(before, dbresources.ErrNewer):
		if before == nil {
			w.tellLost(err)
		}
		w.log.Error("The database cannot be read, the node goes on with what it knows", "error", err)
	case err != nil && before == nil:
		w.tellLost(err)
		w.log.Warn("Lost the database, the node goes on with what it knows", "error", err)
	case err != nil:
		w.log.Debug("The database is not available", "error", err)
	}
}

// tellLost has the history of the node say that the database was lost, which nothing depends on.
func (w *Watcher) tellLost(reason error) {
	if errors.Is(reason, store.ErrCompacted) { // it is there, and is read again at once
		return
	}
	if lost := dataLost(""); errors.As(reason, &lost) {
		reason = errors.New(lost.what())
	}
	w.lostAt = time.Now()
	if err := w.Loop.PushEvent(w.ctx, &controller.DBLost{Reason: reason}); err != nil {
		w.log.Debug("The event loop does not take that the database was lost", "error", err)
	}
}

// outage returns how long the database was lost; 0: it was not.
func (w *Watcher) outage() time.Duration {
	if w.lostAt.IsZero() {
		return 0
	}
	return time.Since(w.lostAt)
}

// localResync sends a DBResync from the mirror, if none was sent yet.
func (w *Watcher) localResync(ctx context.Context) {
	if w.resynced {
		return
	}
	kvs, err := w.mirror.load(ctx, w.known.prefixes())
	if err != nil {
		w.log.Error("The local mirror cannot be read, waiting for the database", "error", err)
		return
	}
	if len(kvs) == 0 && !w.Standalone {
		w.log.Warn("The database is not available and the local mirror is empty: waiting for the database")
		return
	}
	resync := w.known.replace(kvs).resync
	resync.Local = true
	if err := w.Loop.PushEvent(ctx, resync); err != nil {
		w.log.Error("Local resync was refused", "error", err)
		return
	}
	w.resynced = true
	w.log.Warn("The database is not available, or not to be believed: the node starts from the local mirror", "values", len(kvs))
}
