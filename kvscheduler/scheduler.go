package kvscheduler

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contiv/contiv/kvscheduler/graph"
	"github.com/prometheus/client_golang/prometheus"
)

// Options of a Scheduler. The zero value is valid.
type Options struct {
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Metrics registers the metrics of the scheduler. nil: the metrics are not exported.
	Metrics prometheus.Registerer
	// CallTimeout is the deadline of each callback. Default: 30 s.
	CallTimeout time.Duration
	// History limits the history of transactions.
	History HistoryLimits
	// Recorder, if not nil, is called after every recorded transaction, in order. The worker calls
	// it, so it must not block. It is not called if the history is disabled.
	Recorder func(Committed)
}

// HistoryLimits limit the history of transactions. A record is dropped when it exceeds one of them.
type HistoryLimits struct {
	// Disabled turns the history off.
	Disabled bool
	// Age is the maximum age of a record. Default: 24 h.
	Age time.Duration
	// Count is the maximum number of records. Default: 10,000.
	Count int
	// Bytes is the maximum of the estimated size of all records. Default: 64 MiB.
	Bytes int
	// InitPeriod protects the records of the first period after the start from the limits on age and
	// count. Default: 1 h.
	InitPeriod time.Duration
}

// Scheduler is the transaction engine. All methods are safe for concurrent use.
//
// The worker owns the graph and processes one transaction after the other. It is a goroutine of the
// scheduler or, while the queue is empty, the goroutine of the committer. It calls descriptors through
// caller. Readers use the last published view of the graph, and never wait for the worker.
type Scheduler struct {
	log      *slog.Logger
	queue    *queue
	registry atomic.Pointer[registry]
	// registerMu serialises registrations.
	registerMu sync.Mutex
	statuses   statusLog
	history    *history
	recorder   func(Committed) // may be nil
	drift      drift
	timers     timers
	metrics    *metrics
	stopped    chan struct{} // closed when the worker has ended
	heartbeat  *heartbeat
	// jobPool holds finished jobs for reuse.
	jobPool sync.Pool

	// The worker owns the fields below, except for views of the graph.
	graph      *graph.Graph[*node]
	epoch      uint64
	nextSeq    uint64
	caller     *caller
	formerKeys *formerKeys
	sets       *keySets
	exec       exec // the last execution
}

// New starts a scheduler. The caller must Close it.
func New(opts Options) *Scheduler {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.CallTimeout <= 0 {
		opts.CallTimeout = 30 * time.Second
	}
	s := &Scheduler{
		log:        opts.Logger,
		queue:      newQueue(),
		recorder:   opts.Recorder,
		stopped:    make(chan struct{}),
		graph:      graph.New[*node](),
		caller:     newCaller(opts.CallTimeout),
		formerKeys: newFormerKeys(),
	}
	s.history = newHistory(opts.History, s.view)
	s.heartbeat = s.caller.heartbeat
	s.registry.Store(&registry{byName: map[string]*handler{}})
	s.graph.Publish()
	s.metrics = newMetrics(s, opts.Metrics)
	go s.work()
	return s
}

// Close stops the scheduler after the transaction in progress. Queued transactions fail with
// ErrClosed. Close may be called repeatedly.
func (s *Scheduler) Close() error {
	s.timers.stop()
	s.queue.close()
	<-s.stopped
	s.metrics.unregister()
	return nil
}

// view returns the last published graph. It must be neither changed nor copied.
func (s *Scheduler) view() *graph.Graph[*node] { return s.graph.View() }

// onWorker runs fn between two transactions and waits for it.
func (s *Scheduler) onWorker(ctx context.Context, fn func()) error {
	j := &job{fn: fn, result: make(chan jobResult, 1)}
	if !s.queue.push(j) {
		return ErrClosed
	}
	_, err := s.await(ctx, j)
	return err
}

// await returns the result of a queued job. If ctx ends before the job has started, the job is
// withdrawn.
func (s *Scheduler) await(ctx context.Context, j *job) (uint64, error) {
	select {
	case r := <-j.result:
		return r.seq, r.err
	case <-ctx.Done():
		if s.queue.withdraw(j) {
			return NoSeqNum, ctx.Err()
		}
		r := <-j.result
		return r.seq, r.err
	}
}

// Barrier waits until all transactions that were queued before it have been processed.
func (s *Scheduler) Barrier(ctx context.Context) error { return s.onWorker(ctx, func() {}) }

type timers struct {
	mu      sync.Mutex
	stopped bool
	pending map[*time.Timer]struct{}
}

// after calls fn after the delay, unless stop is called first.
func (t *timers) after(delay time.Duration, fn func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	if t.pending == nil {
		t.pending = map[*time.Timer]struct{}{}
	}
	var timer *time.Timer
	timer = time.AfterFunc(delay, func() {
		t.mu.Lock()
		delete(t.pending, timer)
		stopped := t.stopped
		t.mu.Unlock()
		if !stopped {
			fn()
		}
	})
	t.pending[timer] = struct{}{}
}

func (t *timers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	for timer := range t.pending {
		timer.Stop()
	}
	t.pending = nil
}
