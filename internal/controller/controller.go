package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const historyTrimInterval = time.Minute

// Options configure a Controller.
type Options struct {
	Config    Config
	Scheduler Scheduler
	Sources   []ExternalConfigSource
	// Log defaults to slog.Default().
	Log *slog.Logger
	// Observer, if not nil, receives all changes of the external configuration.
	Observer ExternalObserver
	// Recorder, if not nil, receives every record of the history, in order. It must not block.
	Recorder func(*EventRecord)
}

// Controller is the event loop. Call New, then Register, then Start.
//
// One goroutine processes events from Start to Close. Only it uses the handlers, the fields of loop
// and, for writing, the caches. Other goroutines queue events and read status and history.
type Controller struct {
	cfg       Config
	scheduler Scheduler
	sources   []ExternalConfigSource
	log       *slog.Logger
	handlers  []EventHandler
	observer  ExternalObserver // may be nil
	recorder  func(*EventRecord)

	queue    *queue
	caches   *caches
	history  *history
	health   health
	progress progress
	// synced is true once a FullResync was committed.
	synced atomic.Bool

	ctx      context.Context
	cancel   context.CancelFunc
	loopDone chan struct{}
	fatal    chan error
	start    sync.Once
	// changed has a token after a change that may let a pending healing resync succeed.
	changed chan struct{}

	loop struct {
		nextSeq     uint64
		resyncCount int
		healing     bool // a HealingResync after an error is pending
		// failedHealings counts consecutive failures; each doubles the delay.
		failedHealings int
		// periodic: a periodic HealingResync is queued
		periodic     bool
		verification bool
		// incomplete holds aborted events that the next resync completes.
		incomplete []Event
		shutdown   bool
	}
	timers timers
}

var _ EventLoop = (*Controller)(nil)

// New returns a controller that queues events. Start processes them.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &Controller{
		cfg:       o.Config,
		scheduler: o.Scheduler,
		sources:   o.Sources,
		observer:  o.Observer,
		recorder:  o.Recorder,
		log:       o.Log,
		queue:     newQueue(),
		caches:    newCaches(o.Sources),
		loopDone:  make(chan struct{}),
		fatal:     make(chan error, 1),
		changed:   make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Register appends handlers; forward events visit them in this order. Call it before Start.
func (c *Controller) Register(handlers ...EventHandler) {
	c.handlers = append(c.handlers, handlers...)
}

// Start begins to process events. The first one is a DBResync.
func (c *Controller) Start() {
	c.start.Do(func() {
		c.history = newHistory(c.cfg, time.Now(), c.recorder)
		go c.run()
	})
}

// PushEvent implements EventLoop. It returns ErrQueueFull, ErrClosed, ErrAborting or
// ErrBlockingFollowUp; the event's Done is not called then.
func (c *Controller) PushEvent(ctx context.Context, event Event) error {
	if _, isUpdate := event.(UpdateEvent); event.Method() == Update && !isUpdate {
		return fmt.Errorf("event %s has the method Update but no TransactionType and Direction", event.Name())
	}
	q := queued{event: event, enqueued: time.Now()}
	if s := currentScope(ctx); s != nil && s.controller == c {
		if isBlocking(event) {
			return fmt.Errorf("%s sent while event #%d is processed: %w", event.Name(), s.seq, ErrBlockingFollowUp)
		}
		q.followUp, q.followUpTo = true, s.seq
	}
	if err := c.queue.push(q, true); err != nil {
		return fmt.Errorf("%s: %w", event.Name(), err)
	}
	return nil
}

// Fatal receives at most one error, after which the agent must exit. The controller does not log
// it.
func (c *Controller) Fatal() <-chan error { return c.fatal }

// Close processes a Shutdown event after the queued events and ends the loop. Queued changes of the
// database are dropped: the next start reads them again. If ctx ends first, Close returns its
// error.
func (c *Controller) Close(ctx context.Context) error {
	defer c.cancel()
	started := true
	c.start.Do(func() { started = false })
	if !started || !c.health.started() {
		c.end(ErrClosed)
		if started {
			c.cancel()
			<-c.loopDone
		}
		return nil
	}
	shutdown := &Shutdown{Blocking: NewBlocking()}
	err := c.queue.push(queued{event: shutdown, enqueued: time.Now()}, false)
	if err == nil {
		err = shutdown.Wait(ctx)
	}
	c.cancel()
	<-c.loopDone
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrAborting) {
		return nil
	}
	return err
}

// end closes the queue and completes all queued events with the reason.
func (c *Controller) end(reason error) {
	for _, q := range c.queue.close(reason) {
		q.event.Done(Outcome{Err: reason})
	}
}

func (c *Controller) abort(err error) {
	c.health.fail(err)
	c.end(fmt.Errorf("%w: %w", ErrAborting, err))
	select {
	case c.fatal <- err:
	default:
	}
}
