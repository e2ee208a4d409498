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

// Options of a Scheduler. The zero value is usable.
type Options struct {
	// Logger; nil: slog.Default().
	Logger *slog.Logger
	// Metrics is where the scheduler registers its metrics; nil: nowhere.
	Metrics prometheus.Registerer
	// CallTimeout is the deadline of each callback. Default 30 s.
	CallTimeout time.Duration
	// History bounds the remembered transactions.
	History HistoryLimits
	// Recorder, if not nil, is told of every recorded transaction, in order. The worker calls
	// it: it must not wait. With the history disabled it is not called.
	Recorder func(Committed)
}

// HistoryLimits bound the history of transactions. Zero fields have defaults.
type HistoryLimits struct {
	// Disabled turns the history off.
	Disabled bool
	// Age of the oldest record. Default 24 h.
	Age time.Duration
	// Count of records. Default 10 000.
	Count int
	// Bytes of all records, estimated. Default 64 MiB.
	Bytes int
	// InitPeriod after the start whose records are kept in any case,
	// as long as Bytes allows. Default 1 h.
	InitPeriod time.Duration
}

// Scheduler is the transaction engine. See the package documentation.
//
// The worker owns the graph and processes transactions one after the other: a goroutine of the
// scheduler's own or, if nothing waits, that of whoever commits. It calls descriptors through another one (see caller).
// Everybody else reads views of the graph as it was published last, and never waits for either.
type Scheduler struct {
	log      *slog.Logger
	queue    *queue
	registry atomic.Pointer[registry]
	// registerMu serialises registrations.
	registerMu sync.Mutex
	statuses   statusLog
	history    *history
	recorder   func(Committed) // nil: none
	drift      drift
	timers     timers
	metrics    *metrics
	stopped    chan struct{} // the worker has ended
	heartbeat  *heartbeat
	// spareJobs were committed, and their results taken.
	jobPool sync.Pool

	// The worker owns these, but for views of the graph:
	graph      *graph.Graph[*node]
	epoch      uint64
	nextSeq    uint64
	caller     *caller
	formerKeys *formerKeys
	sets       *keySets
	exec       exec // the last one
}

// New returns a running scheduler; Close it.
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

// Close ends the scheduler after the transaction in progress. Queued ones fail
// with ErrClosed.
func (s *Scheduler) Close() error {
	s.timers.stop()
	s.queue.close()
	<-s.stopped
	s.metrics.unregister()
	return nil
}

// view returns the graph as the last transaction left it. It must not be
// changed, nor copied.
func (s *Scheduler) view() *graph.Graph[*node] { return s.graph.View() }

// onWorker runs fn between transactions, and waits for it.
func (s *Scheduler) onWorker(ctx context.Context, fn func()) error {
	j := &job{fn: fn, result: make(chan jobResult, 1)}
	if !s.queue.push(j) {
		return ErrClosed
	}
	_, err := s.await(ctx, j)
	return err
}

// await returns the result of a queued job. When ctx ends before the job was
// started, it is withdrawn.
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

// Barrier returns when all transactions queued before it have been processed.
func (s *Scheduler) Barrier(ctx context.Context) error { return s.onWorker(ctx, func() {}) }

// timers that were started and have not fired.
type timers struct {
	mu      sync.Mutex
	stopped bool
	pending map[*time.Timer]struct{}
}

// after calls fn once the delay is over, unless stop is called before.
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
