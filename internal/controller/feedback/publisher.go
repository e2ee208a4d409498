package feedback

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	feedbackpb "github.com/contiv/contiv/api/contiv/feedback"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/dbwatcher"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"
)

// Options configure a Publisher.
type Options struct {
	Node string
	// Store is etcd.
	Store store.Broker
	// Scheduler provides the states of values.
	Scheduler *kvscheduler.Scheduler
	// Config: FeedbackRate, and RemoteDBProbingInterval as the longest delay between retries.
	Config controller.Config
	// Reserved lists the key prefixes of statuses from Replace.
	Reserved []string
	// Log defaults to slog.Default().
	Log *slog.Logger
}

// Publisher publishes statuses. From Start to Close, one goroutine reads states from the scheduler
// and one writes to etcd. The dbwatcher.Feedback methods do not block.
type Publisher struct {
	Options
	prefix  string
	limiter *rate.Limiter
	cancel  context.CancelFunc
	running sync.WaitGroup
	// news has a token when a write may be necessary.
	news chan struct{}
	// used is closed when the first value is known.
	used  chan struct{}
	first sync.Once

	mu      sync.Mutex
	entries map[string]*entry
	// dirty holds the keys of statuses that may have changed, in order; queued is the same set.
	dirty  []string
	queued map[string]bool
	// ticket numbers the calls of Replaced and Changed.
	ticket uint64
	// reported holds the prefixes that Replace was called with.
	reported map[string]bool
	// complete: all values are known. unsure: the statuses in etcd are not known.
	complete, unsure bool
}

var (
	_ dbwatcher.Feedback          = (*Publisher)(nil)
	_ controller.ExternalObserver = (*Publisher)(nil).GivenOutside
)

// Start starts publishing.
func Start(o Options) *Publisher {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Publisher{
		Options:  o,
		prefix:   models.NodePrefix(o.Node) + models.StatusPrefix,
		limiter:  rate.NewLimiter(rate.Limit(o.Config.FeedbackRate), max(maxBatch, o.Config.FeedbackRate)),
		cancel:   cancel,
		news:     make(chan struct{}, 1),
		used:     make(chan struct{}),
		entries:  make(map[string]*entry),
		queued:   make(map[string]bool),
		reported: make(map[string]bool),
	}
	if o.Config.FeedbackRate > 0 {
		p.running.Go(func() { p.followStates(ctx) })
		p.running.Go(func() { p.write(ctx) })
	}
	return p
}

// Close stops publishing; the statuses stay in etcd.
func (p *Publisher) Close() {
	p.cancel()
	p.running.Wait()
}

// Replaced implements dbwatcher.Feedback.
func (p *Publisher) Replaced(values map[string]dbwatcher.Value, requests []string) func(*controller.EventRecord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ticket++
	ticket := p.ticket
	p.complete, p.unsure = true, true
	live := make(map[string]bool, len(requests))
	for _, name := range requests {
		key := models.ResyncPrefix + name
		live[key] = true
		p.entry(key).deleted = false
	}
	var awaiting []string
	for key, e := range p.entries {
		if _, ok := values[key]; ok || live[key] || p.reservedPrefix(key) != "" {
			continue
		}
		e.update(dbwatcher.Value{Deleted: true})
		if isRequest(key) {
			p.touch(key)
		} else {
			e.awaits = ticket
			awaiting = append(awaiting, key)
		}
	}
	for key, v := range values {
		e := p.entry(key)
		if e.revision == v.Revision && e.awaits == 0 && !e.deleted {
			continue // unchanged
		}
		e.update(v)
		e.awaits = 0
		if v.Err == nil {
			e.awaits = ticket
			awaiting = append(awaiting, key)
		} else {
			p.touch(key)
		}
	}
	p.wake()
	return p.processed(ticket, awaiting)
}

// Changed implements dbwatcher.Feedback.
func (p *Publisher) Changed(values map[string]dbwatcher.Value) func(*controller.EventRecord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ticket++
	ticket := p.ticket
	var awaiting []string
	for key, v := range values {
		e := p.entry(key)
		e.update(v)
		switch {
		case v.Err == nil && !v.Same:
			e.awaits = ticket
			awaiting = append(awaiting, key)
		case v.Err != nil || e.awaits == 0:
			p.touch(key)
		}
	}
	return p.processed(ticket, awaiting)
}

// processed returns the function to call when the event loop has processed the values.
func (p *Publisher) processed(ticket uint64, keys []string) func(*controller.EventRecord) {
	return func(record *controller.EventRecord) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, key := range keys {
			e := p.entries[key]
			if e == nil || e.awaits != ticket {
				continue // a newer event is pending
			}
			e.awaits, e.failure = 0, record.ErrorStr
			if record.Txn != nil {
				e.sawTxn(record.Txn.SeqNum)
			}
			p.touch(key)
		}
	}
}

// GivenOutside implements controller.ExternalObserver.
func (p *Publisher) GivenOutside(given map[string][]string, all bool, record *controller.EventRecord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if all {
		for key, e := range p.entries {
			if len(e.sources) > 0 && given[key] == nil {
				e.sources = nil
				p.touch(key)
			}
		}
	}
	for key, sources := range given {
		e := p.entries[key]
		if e == nil && len(sources) == 0 {
			continue
		}
		e = p.entry(key)
		e.sources, e.failure = sources, record.ErrorStr
		if record.Txn != nil {
			e.sawTxn(record.Txn.SeqNum)
		}
		if e.awaits == 0 {
			p.touch(key)
		}
	}
}

// Requested implements dbwatcher.Feedback.
func (p *Publisher) Requested(name string, deleted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := models.ResyncPrefix + name
	p.entry(key).deleted = deleted
	if deleted {
		p.touch(key)
	}
}

// Answer implements dbwatcher.Feedback.
func (p *Publisher) Answer(name string, outcome *feedbackpb.ResyncStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := models.ResyncPrefix + name
	if e := p.entries[key]; e != nil { // nil: the request was deleted
		e.answer = outcome
		p.touch(key)
	}
}

// Replace publishes the statuses of another part of the agent: they replace all statuses under the
// prefix, which is one of Options.Reserved. Statuses of an earlier run stay until the first call. Keys
// include the prefix.
func (p *Publisher) Replace(prefix string, statuses map[string]proto.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, e := range p.entries {
		if p.reservedPrefix(key) == prefix && statuses[key] == nil && (e.report != nil || !p.reported[prefix]) {
			e.report = nil
			p.touch(key)
		}
	}
	p.reported[prefix] = true
	for key, status := range statuses {
		if e := p.entry(key); e.report == nil || !proto.Equal(e.report, status) {
			e.report = status
			p.touch(key)
		}
	}
}

// reservedPrefix returns the prefix in Reserved of a key, or "".
func (p *Publisher) reservedPrefix(key string) string {
	for _, prefix := range p.Reserved {
		if strings.HasPrefix(key, prefix) {
			return prefix
		}
	}
	return ""
}

// followStates marks values when their states change.
func (p *Publisher) followStates(ctx context.Context) {
	select {
	case <-p.used:
	case <-ctx.Done():
		return
	}
	watcher, _ := p.Scheduler.Watch("")
	for {
		events, err := watcher.Next(ctx)
		switch {
		case errors.Is(err, kvscheduler.ErrLostPlace):
			watcher, _ = p.Scheduler.Watch("")
			p.touchAll()
			continue
		case err != nil:
			return
		}
		p.noteStates(events)
	}
}

func (p *Publisher) noteStates(events []kvscheduler.StatusEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, event := range events {
		key := event.Status.GetValue().GetKey()
		if e := p.entries[key]; e != nil && !e.gone() {
			e.sawTxn(event.Txn)
			if e.awaits == 0 {
				p.touch(key)
			}
		}
	}
}

func (p *Publisher) touchAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, e := range p.entries {
		if e.awaits == 0 {
			p.touch(key)
		}
	}
}

// entry returns the entry of a key, which it creates if necessary. The caller holds mu.
func (p *Publisher) entry(key string) *entry {
	p.first.Do(func() { close(p.used) })
	e := p.entries[key]
	if e == nil {
		e = &entry{deleted: true}
		p.entries[key] = e
	}
	return e
}

// touch marks a key as dirty. The caller holds mu.
func (p *Publisher) touch(key string) {
	if !p.queued[key] {
		p.queued[key] = true
		p.dirty = append(p.dirty, key)
	}
	p.wake()
}

func (p *Publisher) wake() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}
