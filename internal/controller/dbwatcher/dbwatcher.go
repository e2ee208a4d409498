package dbwatcher

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
)

const (
	// probeKey, below a prefix that the node may read, is never written.
	probeKey = "probe-etcd-connection"
	// firstRetry is the delay before the second attempt to connect. It doubles up to the probing
	// interval.
	firstRetry = 100 * time.Millisecond
	// maxRequests limits the pending requests for a resync.
	maxRequests = 10
)

var ErrTooManyRequests = errors.New("too many requests for a resync wait: try again later")

// Options configure a Watcher.
type Options struct {
	Node string
	// Remote is etcd.
	Remote store.Watchable
	// Local holds the mirror; may be nil.
	Local store.Broker
	// Loop receives the events.
	Loop controller.EventLoop
	// Standalone runs without Kubernetes: only the node's configuration is read, and the node
	// starts empty if neither the database nor the mirror is available.
	Standalone bool
	// Feedback receives the node's values in the database; may be nil.
	Feedback Feedback
	// Config: DelayLocalResync, RemoteDBProbingInterval and LostDatabaseTimeout.
	Config controller.Config
	// Log defaults to slog.Default().
	Log *slog.Logger
}

// Watcher is the source of DBResync, KubeStateChange and, for the database, ExternalConfigChange
// events. One goroutine does all work from Start to Close.
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

	// The goroutine owns the fields below.

	// answered holds, by name, the revisions of the last requests for a resync that were or are
	// being carried out.
	answered map[string]int64
	// resynced: a DBResync was sent
	resynced bool
	// localDue fires when the startup resync stops waiting for etcd.
	localDue     *time.Timer
	lastRevision int64
	// snapshotRevision is the revision of the last snapshot in use; 0: none.
	snapshotRevision int64
	// origin of the known values; the mirror stores its revision.
	origin origin
	// lostAt is when the connection was lost; zero while connected or before the first connection.
	lostAt time.Time
	// recovery of a database that lost its data, or nil.
	recovery *recovery
}

// Start creates and starts a Watcher, for callers with a running event loop, such as
// client/clienttest. Agents call New, and Start together with the loop.
func Start(o Options) *Watcher {
	w := New(o)
	w.Start()
	return w
}

// New returns a Watcher that waits for Start. DelayLocalResync begins now.
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

// Start starts the Watcher. It does nothing after Close.
func (w *Watcher) Start() { w.start.Do(func() { go w.run(w.ctx) }) }

// Close stops the Watcher and waits for its goroutine.
func (w *Watcher) Close() {
	w.cancel()
	w.start.Do(func() { close(w.done) })
	<-w.done
}

// RequestResync requests a DBResync with a new snapshot of the database and returns at once. The
// request is kept while the database is unreachable. It returns ErrTooManyRequests.
func (w *Watcher) RequestResync() error {
	select {
	case w.requests <- struct{}{}:
		return nil
	default:
		return ErrTooManyRequests
	}
}

// Connected returns nil while the Watcher follows the database, otherwise the reason. The node
// works in both cases.
func (w *Watcher) Connected() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.connected
}

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
			err = w.deniedError(ctx, err)
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

// pause waits before the next attempt, and sends the local DBResync when it is due. It returns
// false when ctx ends.
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

// setConnected records the state of the connection and logs changes of it.
func (w *Watcher) setConnected(err error) {
	w.mu.Lock()
	before := w.connected
	w.connected = err
	w.mu.Unlock()
	switch {
	case err == nil && before != nil:
		w.lostAt = time.Time{}
		w.log.Info("Connected to the database")
	case errors.Is(err, kubestate.ErrNewer) && !errors.Is(before, kubestate.ErrNewer):
		if before == nil {
			w.reportLost(err)
		}
		w.log.Error("Reading the database failed; the node keeps its state", "error", err)
	case err != nil && before == nil:
		w.reportLost(err)
		w.log.Warn("Connection to the database lost; the node keeps its state", "error", err)
	case err != nil:
		w.log.Debug("Database unavailable", "error", err)
	}
}

// reportLost sends a DBLost event, so that the history shows the outage.
func (w *Watcher) reportLost(reason error) {
	if errors.Is(reason, store.ErrCompacted) { // the database is up and read again at once
		return
	}
	if lost := dataLost(""); errors.As(reason, &lost) {
		reason = errors.New(lost.what())
	}
	w.lostAt = time.Now()
	if err := w.Loop.PushEvent(w.ctx, &controller.DBLost{Reason: reason}); err != nil {
		w.log.Debug("Reporting the loss of the database to the event loop failed", "error", err)
	}
}

// outage returns how long the database was unreachable, or 0.
func (w *Watcher) outage() time.Duration {
	if w.lostAt.IsZero() {
		return 0
	}
	return time.Since(w.lostAt)
}

// localResync sends a DBResync from the mirror, unless a DBResync was sent before.
func (w *Watcher) localResync(ctx context.Context) {
	if w.resynced {
		return
	}
	kvs, err := w.mirror.load(ctx, w.known.prefixes())
	if err != nil {
		w.log.Error("Reading the local mirror failed; waiting for the database", "error", err)
		return
	}
	if len(kvs) == 0 && !w.Standalone {
		w.log.Warn("Database unavailable and the local mirror is empty; waiting for the database")
		return
	}
	resync := w.known.replace(kvs).resync
	resync.Local = true
	if err := w.Loop.PushEvent(ctx, resync); err != nil {
		w.log.Error("Local resync refused", "error", err)
		return
	}
	w.resynced = true
	w.log.Warn("Database unavailable or incomplete; the node starts from the local mirror", "values", len(kvs))
}
