package ksr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"golang.org/x/sync/errgroup"
)

// Options of a Reflector.
type Options struct {
	// Source of the objects. Required.
	Source Source
	// Store for the objects or, with several instances, the Elector that selects the writer. One is
	// required. The caller closes it.
	Store   store.Broker
	Elector Elector
	// Alongside is further work of the writing instance, until ctx ends. The store is that term's;
	// see Elector. May be nil.
	Alongside func(ctx context.Context, s store.Broker) error
	// Instance and Version are the names of this instance and of its version, for display.
	Instance, Version string
	// Problems returns the problems of the source. May be nil.
	Problems func() []string
	// Logger; nil: slog.Default().
	Logger *slog.Logger
	// RetryMin is the delay after the first failed resync. It doubles up to RetryMax. Default 100
	// ms and 1 s.
	RetryMin, RetryMax time.Duration
	// CheckInterval is the interval of checks that the store still contains our data. Default 1 s.
	CheckInterval time.Duration
	// CallTimeout bounds each call of the store. Default 5 s.
	CallTimeout time.Duration
	// LateAfter is how long the store may still execute a failed call. Then everything is compared
	// again: a write executed after its retry has read the store would stay even if the object has
	// changed back. Default 15 s.
	LateAfter time.Duration
	// ResignAfter is how long the leader's source may be unreachable before the leader resigns in
	// favour of another instance. Default 15 s.
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

// Reflector copies the objects of a source to a store.
type Reflector struct {
	opts   Options
	log    *slog.Logger
	wanted *wanted
	synced chan struct{}

	mu      sync.Mutex
	stats   map[Kind]*Stats
	status  StoreStatus
	started time.Time
	// refused maps objects that cannot be reflected to reasons. doubtful maps reflected objects to
	// their unreadable fields.
	refused, doubtful map[Ref]string
}

// StoreStatus compares the store with the source.
type StoreStatus struct {
	// Synced means that the store contains the reported objects.
	Synced bool `json:"synced"`
	// EverSynced means that it was synced at least once.
	EverSynced bool `json:"everSynced"`
	// LastSync is the time of the last completed resync.
	LastSync time.Time `json:"lastSync,omitzero"`
	// Error is the reason why it is not synced.
	Error string `json:"error,omitempty"`
	// Role of this instance. EverStandby means that it was a standby with objects at least once.
	Role        Role `json:"role"`
	EverStandby bool `json:"everStandby,omitempty"`
}

// New returns a reflector. Run starts it.
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

// Synced returns a channel that is closed after the first resync.
func (r *Reflector) Synced() <-chan struct{} { return r.synced }

// Status returns the status of the store.
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

func (r *Reflector) count(k Kind, change func(*Stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r.stats[k])
}

func (r *Reflector) report(c Changes) {
	set := make(map[string][]byte, len(c.Set))
	var deleted []string
	for _, o := range c.Set {
		ref, ok := RefOf(o)
		if !ok {
			r.log.Warn("object of an unsupported kind ignored", "object", o.GetName())
			continue
		}
		value, err := convert(o)
		r.refuse(ref, err)
		r.doubt(ref, o, value != nil)
		switch {
		case err != nil:
			r.count(ref.Kind, func(s *Stats) { s.ArgErrors++ })
			r.log.Error("reflecting an object failed: keeping its previous state", "object", ref.String(), "error", err)
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

func convert(o Object) ([]byte, error) {
	msg := kindOf(o).convert(o)
	if msg == nil {
		return nil, nil
	}
	data, err := encode(msg)
	if err == nil && len(data) > maxValue {
		err = fmt.Errorf("it has %d bytes, but at most %d are allowed: split it", len(data), maxValue)
	}
	return data, err
}

// setSynced records the result of a write. nil: the store contains the reported objects.
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
