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
	// Store for the objects, or, if there are several instances, the Elector that decides which one
	// writes. One of them is required; the caller closes it.
	Store   store.Broker
	Elector Elector
	// Alongside is further work of the instance that writes, until ctx ends; nil: none. The store is that
	// of its term, see Elector.
	Alongside func(ctx context.Context, s store.Broker) error
	// Instance is the name of this instance, and Version that of the program, for people.
	Instance, Version string
	// Problems returns what is wrong with the source; nil: it never has problems.
	Problems func() []string
	// Logger; nil: slog.Default().
	Logger *slog.Logger
	// RetryMin is the pause after the first failed resync; it doubles up to RetryMax. Default 100 ms and 1
	// s.
	RetryMin, RetryMax time.Duration
	// CheckInterval is the time between two checks that the store still has our data. Default 1 s.
	CheckInterval time.Duration
	// CallTimeout bounds each call of the store. Default 5 s.
	CallTimeout time.Duration
	// LateAfter is how long after a failed call the store may still carry it out: all is compared once more
	// then. A write that came after its retry had read the store would stay, even if the object has changed
	// back since. Default 15 s.
	LateAfter time.Duration
	// ResignAfter is how long the leader's source may be cut off, see Reach, before the leader makes way
	// for another instance. Default 15 s.
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
		{&o.LateAfter, 15 * time.Second},
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
	// refused maps the objects that cannot be reflected to the reasons, and doubtful the reflected objects to the fields that
	// cannot be read.
	refused, doubtful map[Ref]string
}

// StoreStatus is the state of the store compared with the source.
type StoreStatus struct {
	// Synced: the store holds the objects that the source reported.
	Synced bool `json:"synced"`
	// EverSynced: it has been synced at least once.
	EverSynced bool `json:"everSynced"`
	// LastSync is the time of the last completed resync.
	LastSync time.Time `json:"lastSync,omitzero"`
	// Error is the reason why it is not synced.
	Error string `json:"error,omitempty"`
	// Role of this instance. EverStandby: it has been a standby that knew the objects at least once.
	Role        Role `json:"role"`
	EverStandby bool `json:"everStandby,omitempty"`
}

// New returns a reflector, which does nothing before Run.
func New(opts Options) *Reflector {
	r := &Reflector{
		opts: opts.withDefaults(), wanted: newWanted(), synced: make(chan struct{}),
		stats: make(map[Kind]*Stats), started: time.Now(), refused: make(map[Ref]string), doubtful: make(map[Ref]string),
	}
	r.log = r.opts.Logger
	for _, k := range kinds {
		r.stats[k.kind] = new(Stats)
	}
	r.status.Role = Candidate
	return r
}

// Run reflects until ctx ends, and then returns nil, or until the source fails. It retries after
// failures of the store.
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

// Synced is closed when the store holds the objects of the source for the first time.
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

// report handles changes that the source reports.
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
		r.doubt(ref, o, value != nil)
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
		r.doubt(ref, nil, false)
		deleted = append(deleted, ref.Key())
	}
	r.wanted.change(set, deleted, c.Complete)
}

// convert returns the value that the store should hold; nil if it should hold none.
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

// setSynced records the result of the reflector's work; nil: the store holds the objects that the
// source reported.
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
