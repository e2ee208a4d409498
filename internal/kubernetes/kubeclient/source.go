package kubeclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"github.com/contiv/contiv/internal/kubernetes/kubeapi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// Options of a Source.
type Options struct {
	Client *kubeapi.Client
	// Dynamic reads resources that a cluster may not have.
	Dynamic dynamic.Interface
	// Patience is how long kinds that cannot be listed delay the others. Default 15 s.
	Patience time.Duration
	// Probe checks the API server every ProbeInterval, with the same timeout. nil: rely on lists
	// and watches. Default interval 2 s.
	Probe         func(context.Context) error
	ProbeInterval time.Duration
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Source is a ksr.ReachingSource. It is disconnected while the API server does not answer or some
// kind cannot be read.
type Source struct {
	opts  Options
	log   *slog.Logger
	all   []resource
	reach ksr.Reach

	mu       sync.Mutex
	problems map[ksr.Kind]error
	silent   error
}

var _ ksr.ReachingSource = (*Source)(nil)

// New returns a source. Run starts it.
func New(opts Options) *Source {
	if opts.Patience == 0 {
		opts.Patience = 15 * time.Second
	}
	if opts.ProbeInterval == 0 {
		opts.ProbeInterval = 2 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	return &Source{opts: opts, log: opts.Logger, all: resources(opts.Client, opts.Dynamic), problems: make(map[ksr.Kind]error)}
}

// Reach reports whether all kinds can be read.
func (s *Source) Reach() *ksr.Reach { return &s.reach }

// Problems returns the reasons why kinds cannot be read.
func (s *Source) Problems() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent != nil {
		out = append(out, s.silent.Error())
	}
	for _, r := range s.all {
		if err := s.problems[r.kind]; err != nil {
			out = append(out, err.Error())
		}
	}
	return out
}

// Run reports all objects, and then changes, until ctx ends.
func (s *Source) Run(ctx context.Context, report func(ksr.Changes)) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	changes := newPending()
	var listed []cache.InformerSynced
	for _, r := range s.all {
		informer, delivered, err := s.informer(r, changes)
		if err != nil {
			return fmt.Errorf("watch %s: %w", r.name, err)
		}
		listed = append(listed, delivered)
		wg.Go(func() { informer.RunWithContext(ctx) })
	}
	complete := make(chan struct{})
	wg.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), listed...) {
			close(complete)
		}
	})
	if s.opts.Probe != nil {
		wg.Go(func() { s.probe(ctx) })
	}
	s.pass(ctx, changes, complete, listed, report)
	return nil
}

// probe detects an unresponsive API server. Watches only detect broken connections.
func (s *Source) probe(ctx context.Context) {
	ticker := time.NewTicker(s.opts.ProbeInterval)
	defer ticker.Stop()
	for {
		call, cancel := context.WithTimeout(ctx, s.opts.ProbeInterval)
		err := s.opts.Probe(call)
		cancel()
		if ctx.Err() != nil {
			return
		}
		s.noteProbe(err)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Source) noteProbe(err error) {
	if err != nil {
		err = fmt.Errorf("the API server does not respond: %w", err)
	}
	s.mu.Lock()
	before := s.silent
	s.silent = err
	s.noteReach()
	s.mu.Unlock()
	switch {
	case err == nil && before != nil:
		s.log.Info("API server reachable again")
	case err != nil && before == nil:
		s.log.Warn("connection to the API server lost: keeping the last known state", "error", err)
	}
}

// The caller holds the mutex.
func (s *Source) noteReach() {
	lost := s.silent
	for _, r := range s.all {
		if lost == nil {
			lost = s.problems[r.kind]
		}
	}
	s.reach.Note(lost)
}

// pass reports the pending changes, once all kinds are complete, or some are after Patience.
func (s *Source) pass(ctx context.Context, p *pending, complete <-chan struct{}, listed []cache.InformerSynced, report func(ksr.Changes)) {
	patience := time.NewTicker(s.opts.Patience)
	defer patience.Stop()
	var wake <-chan struct{}
	isComplete := false
	for {
		started, due := wake != nil, false
		select {
		case <-ctx.Done():
			return
		case <-complete:
			complete, isComplete, due = nil, true, true
			patience.Stop()
		case <-patience.C:
			if started || !anyOf(listed) {
				continue
			}
			due = true
			s.log.Warn("reading some kinds failed: reflecting the other kinds, deleting nothing", "problems", s.Problems())
		case <-wake:
		}
		wake = p.wake
		c := p.take()
		if c.Complete = isComplete; due || len(c.Set)+len(c.Deleted) > 0 {
			report(c)
		}
	}
}

func anyOf(conditions []cache.InformerSynced) bool {
	for _, c := range conditions {
		if c() {
			return true
		}
	}
	return false
}

// informer returns an informer that adds its events to changes. delivered reports whether the first
// list's events have arrived.
func (s *Source) informer(r resource, changes *pending) (informer cache.SharedIndexInformer, delivered cache.InformerSynced, err error) {
	informer = cache.NewSharedIndexInformer(r.listWatch(func(err error) { s.note(r, err) }), r.example, 0, nil)
	err = informer.SetTransform(func(object any) (any, error) {
		if o, ok := object.(runtime.Object); ok {
			return trim(o), nil
		}
		return object, nil
	})
	if err != nil {
		return nil, nil, err
	}
	// note logs the errors instead of the informer.
	err = informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	if err != nil {
		return nil, nil, err
	}
	registration, err := informer.AddEventHandler(changes.handler(r.kind))
	if err != nil {
		return nil, nil, err
	}
	return informer, registration.HasSynced, nil
}

func (s *Source) note(r resource, err error) {
	switch {
	case errors.Is(err, context.Canceled):
		return
	case apierrors.IsForbidden(err):
		err = fmt.Errorf("%s cannot be read: %w: give the service account of KSR the permissions of deploy/contiv-ksr-rbac.yaml", r.name, err)
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		err = nil // after long outages: a list follows
	case err != nil:
		err = fmt.Errorf("%s cannot be read: %w", r.name, err)
	}
	s.mu.Lock()
	before := s.problems[r.kind]
	s.problems[r.kind] = err
	s.noteReach()
	s.mu.Unlock()
	switch {
	case err == nil && before != nil:
		s.log.Info("reading objects succeeded again", "kind", r.kind)
	case err != nil && (before == nil || before.Error() != err.Error()):
		s.log.Warn("reading objects failed: keeping the last known state", "kind", r.kind, "error", err)
	}
}
