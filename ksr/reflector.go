package ksr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/contiv/contiv/store"
	"golang.org/x/sync/errgroup"
)

// Options of a Reflector.
type Options struct {
	// Source of the objects. Required.
	Source Source
	// Store that gets them, or the Elector of the one of several instances that
	// writes. One of them is required; the caller closes it.
	Store   store.Broker
	Elector Elector
	// Alongside is what else the instance that writes has to do, until ctx ends; nil:
	// nothing. The store is that of its term, see Elector.
	Alongside func(ctx context.Context, s store.Broker) error
	// Instance is the name of this one, and Version that of the program: for people.
	Instance, Version string
	// Problems says what is wrong with the source; nil: nothing ever is.
	Problems func() []string
	// Logger; nil: slog.Default().
	Logger *slog.Logger
	// RetryMin is the wait after the first failed resync; it doubles up to
	// RetryMax. Default 100 ms and 1 s.
	RetryMin, RetryMax time.Duration
	// CheckInterval is how often the store is asked if it still has our data.
	// Default 1 s.
	CheckInterval time.Duration
	// CallTimeout bounds each call of the store. Default 5 s.
	CallTimeout time.Duration
	// ResignAfter is how long the source of the leader may be cut off, see Reach,
	// before another instance is let lead. Default 15 s.
	ResignAfter time.Duration
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.RetryMin, 100 * time.Millisecond},
		{&o.RetryMax, time.Second},
		{&o.CheckInterval, time.Second},
		{&o.CallTimeout, 5 * time.Second},
		{&o.ResignAfter, 15 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return o
}

// Reflector reflects the objects of a source into a store.
type Reflector struct {
	opts   Options
	log    *slog.Logger
	wanted *wanted
	synced chan struct{} // closed after the first resync

	mu      sync.Mutex
	stats   map[Kind]*Stats
	status  StoreStatus
	started time.Time
	// refused are the objects that cannot be reflected, with the reasons.
	refused map[Ref]string
}

// StoreStatus tells how the store relates to the source.
type StoreStatus struct {
	// Synced: the store holds what the source reported.
	Synced bool `json:"synced"`
	// EverSynced: it did so at least once.
	EverSynced bool `json:"everSynced"`
	// LastSync is the time of the last completed resync.
	LastSync time.Time `json:"lastSync,omitzero"`
	// Error is why it is not synced.
	Error string `json:"error,omitempty"`
	// Role of this instance. EverStandby: it stood by for another one at least
	// once, knowing the objects.
	Role        Role `json:"role"`
	EverStandby bool `json:"everStandby,omitempty"`
}

// New returns a reflector, which Run sets to work.
func New(opts Options) *Reflector {
	r := &Reflector{
		opts: opts.withDefaults(), wanted: newWanted(), synced: make(chan struct{}),
		stats: make(map[Kind]*Stats), started: time.Now(), refused: make(map[Ref]string),
	}
	r.log = r.opts.Logger
	for _, k := range kinds {
		r.stats[k.kind] = new(Stats)
	}
	r.status.Role = Candidate
	return r
}

// Run reflects until ctx ends, and then returns nil, or until the source fails.
// Failures of the store are survived.
func (r *Reflector) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.opts.Source.Run(ctx, r.report) })
	g.Go(func() error {
		if r.opts.Elector == nil {
			return r.write(ctx, r.opts.Store)
		}
		r.campaign(ctx)
		return nil
	})
	err := g.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Synced is closed when the store has held, for the first time, what the source
// reported.
func (r *Reflector) Synced() <-chan struct{} { return r.synced }

// Status of the store.
func (r *Reflector) Status() StoreStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Stats returns the counters of each kind.
func (r *Reflector) Stats() map[Kind]Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[Kind]Stats, len(r.stats))
	for k, s := range r.stats {
		out[k] = *s
	}
	return out
}

// count changes the counters of a kind.
func (r *Reflector) count(k Kind, change func(*Stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r.stats[k])
}

// report takes what the source reports.
func (r *Reflector) report(c Changes) {
	set := make(map[string][]byte, len(c.Set))
	var deleted []string
	for _, o := range c.Set {
		ref, ok := RefOf(o)
		if !ok {
			r.log.Warn("object of a kind that is not reflected", "object", o.GetName())
			continue
		}
		value, err := convert(o)
		r.refuse(ref, err)
		switch {
		case err != nil:
			r.count(ref.Kind, func(s *Stats) { s.ArgErrors++ })
			r.log.Error("object cannot be reflected: its former state is kept", "object", ref.String(), "error", err)
		case value == nil:
			deleted = append(deleted, ref.Key())
		default:
			set[ref.Key()] = value
		}
	}
	for _, ref := range c.Deleted {
		r.refuse(ref, nil)
		deleted = append(deleted, ref.Key())
	}
	r.wanted.change(set, deleted, c.Complete)
}

// convert returns what the store should hold; nil if that is nothing.
func convert(o Object) ([]byte, error) {
	msg := kindOf(o).convert(o)
	if msg == nil {
		return nil, nil
	}
	data, err := encode(msg)
	if err == nil && len(data) > maxValue {
		err = fmt.Errorf("it has %d bytes, more than the %d that fit: split it", len(data), maxValue)
	}
	return data, err
}

// setSynced records the outcome of the reflector's work: nil for "the store
// holds what the source reported".
func (r *Reflector) setSynced(err error, resynced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.status.Synced, r.status.Error = false, err.Error()
		return
	}
	first := !r.status.EverSynced
	r.status.Synced, r.status.EverSynced, r.status.Error = true, true, ""
	if resynced {
		r.status.LastSync = time.Now()
	}
	if first {
		close(r.synced)
	}
}
