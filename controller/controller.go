package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
)

// historyTrimInterval is how often old records are removed.
const historyTrimInterval = time.Minute

// Options of a Controller.
type Options struct {
	Config    Config
	Scheduler Scheduler
	// Sources of external configuration other than the database.
	Sources []ExternalConfigSource
	// Log; nil: slog.Default().
	Log *slog.Logger
	// Observer, if not nil, is told of all external configuration.
	Observer ExternalObserver
	// Recorder, if not nil, is told of every record of the history, in order. It must not wait.
	Recorder func(*EventRecord)
	// EventLog, if not nil, gets the framed event log as well.
	EventLog io.Writer
}

// Controller is the event loop. Use: New, then Register the handlers, then Start.
//
// One goroutine, from Start to Close, processes events; it alone touches the
// handlers, the caches and the fields below "loop". Everything else only queues
// events and reads status and history.
type Controller struct {
	cfg       Config
	scheduler Scheduler
	sources   []ExternalConfigSource
	log       *slog.Logger
	frames    frames
	handlers  []EventHandler
	observer  ExternalObserver // nil: none
	recorder  func(*EventRecord)

	queue   *queue
	caches  *caches
	history *history
	health  health
	pace    pace
	// synced says that a FullResync was committed.
	synced atomic.Bool

	ctx      context.Context
	cancel   context.CancelFunc
	loopDone chan struct{}
	fatal    chan error
	start    sync.Once
	// changed has a token after a change that may help a healing resync that waits.
	changed chan struct{}

	loop struct {
		nextSeq     uint64
		resyncCount int
		healing     bool // a HealingResync after an error is on its way
		// failedHealings, one after the other, each doubling the time to the next.
		failedHealings int
		// periodic says that a periodic HealingResync is queued.
		periodic     bool
		verification bool
		// untold are the Processed of events that were aborted.
		untold   []func(*EventRecord)
		shutdown bool
	}
	timers timers
}

var (
	_ EventLoop       = (*Controller)(nil)
	_ ConfigRetriever = (*Controller)(nil)
)

// New returns a controller that accepts events but does not process any yet.
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
		frames:    frames{o.EventLog},
		queue:     newQueue(),
		caches:    newCaches(o.Sources),
		loopDone:  make(chan struct{}),
		fatal:     make(chan error, 1),
		changed:   make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Register appends handlers, in the order in which events visit them. Call it
// before Start.
func (c *Controller) Register(handlers ...EventHandler) {
	c.handlers = append(c.handlers, handlers...)
}

// Start begins to process events. The first one will be a DBResync.
func (c *Controller) Start() {
	c.start.Do(func() {
		c.history = newHistory(c.cfg, time.Now(), c.recorder)
		go c.run()
	})
}

// PushEvent implements EventLoop. Errors: ErrQueueFull, ErrClosed, ErrAborting,
// ErrBlockingFollowUp; the event's Done is then not called.
func (c *Controller) PushEvent(ctx context.Context, event Event) error {
	if _, isUpdate := event.(UpdateEvent); event.Method() == Update && !isUpdate {
		return fmt.Errorf("%s has the method Update, but is no UpdateEvent: give it TransactionType and Direction", event.Name())
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

// GetConfig implements ConfigRetriever.
func (c *Controller) GetConfig(key string) proto.Message { return c.caches.getConfig(key) }

// Fatal receives the error after which the agent must end. There is at most one. It is not logged.
func (c *Controller) Fatal() <-chan error { return c.fatal }

// Close lets the handlers process Shutdown, after the events that wait, and ends
// the loop. Changes in the database that wait are left to the next start. When ctx ends, it does not wait for that any longer.
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

// end refuses all events, those that wait included.
func (c *Controller) end(reason error) {
	for _, q := range c.queue.close(reason) {
		q.event.Done(reason)
	}
}

// abort ends the loop because of a fatal error.
func (c *Controller) abort(err error) {
	c.health.fail(err)
	c.end(fmt.Errorf("%w: %w", ErrAborting, err))
	select {
	case c.fatal <- err:
	default:
	}
}
