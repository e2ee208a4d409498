package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/contiv/contiv/ksr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Options of a Source.
type Options struct {
	Client kubernetes.Interface
	// Patience is how long kinds that cannot be listed keep the others from being
	// reported. Default 15 s.
	Patience time.Duration
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Source is a ksr.Source.
type Source struct {
	opts Options
	log  *slog.Logger
	all  []resource

	mu       sync.Mutex
	problems map[ksr.Kind]error
}

// New returns a source, which Run sets to work.
func New(opts Options) *Source {
	if opts.Patience == 0 {
		opts.Patience = 15 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	return &Source{opts: opts, log: opts.Logger, all: resources(opts.Client), problems: make(map[ksr.Kind]error)}
}

// Problems returns why kinds cannot be read now.
func (s *Source) Problems() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		if err := s.problems[r.kind]; err != nil {
			out = append(out, err.Error())
		}
	}
	return out
}

// Run reports all objects, and then their changes, until ctx ends.
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
	s.pass(ctx, changes, complete, listed, report)
	return nil
}

// pass reports what is pending: nothing before it is complete, or at least some
// kinds are and the patience with the others has ended.
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
			s.log.Warn("some kinds cannot be read: the others are reflected, nothing is swept", "problems", s.Problems())
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

// informer returns one whose events go to changes; delivered tells if those of the
// first list have.
func (s *Source) informer(r resource, changes *pending) (informer cache.SharedIndexInformer, delivered cache.InformerSynced, err error) {
	informer = cache.NewSharedIndexInformer(r.listWatch(func(err error) { s.note(r, err) }), r.example, 0, nil)
	err = informer.SetTransform(func(object any) (any, error) {
		if o, ok := object.(runtime.Object); ok {
			return trim(o), nil
		}
		return object, nil // a tombstone
	})
	if err != nil {
		return nil, nil, err
	}
	// What is logged by default is logged by note.
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

// note keeps the outcome of the last call for a kind, and logs what is new.
func (s *Source) note(r resource, err error) {
	switch {
	case errors.Is(err, context.Canceled):
		return
	case apierrors.IsForbidden(err):
		err = fmt.Errorf("%s cannot be read: %w: give the service account of KSR the permissions of deploy/contiv-ksr-rbac.yaml", r.name, err)
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		err = nil // happens after long outages: a list follows
	case err != nil:
		err = fmt.Errorf("%s cannot be read: %w", r.name, err)
	}
	s.mu.Lock()
	before := s.problems[r.kind]
	s.problems[r.kind] = err
	s.mu.Unlock()
	switch {
	case err == nil && before != nil:
		s.log.Info("objects can be read again", "kind", r.kind)
	case err != nil && (before == nil || before.Error() != err.Error()):
		s.log.Warn("objects cannot be read: what is known of them is kept", "kind", r.kind, "error", err)
	}
}
