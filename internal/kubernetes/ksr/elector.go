package ksr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"golang.org/x/sync/errgroup"
)

// ErrNotLeader is wrapped by errors of writes after the loss of leadership. The writes had no
// effect.
var ErrNotLeader = errors.New("another instance writes to the store")

// Elector selects the instance that writes to the store.
type Elector interface {
	// Lead waits until this instance leads, runs work, and resigns. It calls waiting if another
	// instance leads.
	//
	// The store passed to work rejects writes with ErrNotLeader once the instance no longer leads.
	// The context of work ends when the loss is noticed. Lead then returns an error that wraps
	// ErrNotLeader. It returns nil only when ctx ends.
	Lead(ctx context.Context, waiting func(), work func(context.Context, store.Broker) error) error
	// Others reports whether another instance leads or waits in Lead.
	Others(ctx context.Context) (bool, error)
}

// Role of an instance.
type Role string

const (
	// Candidate neither leads nor knows the leader.
	Candidate Role = "candidate"
	// Standby waits for the leadership. It has the objects and can take over at once.
	Standby Role = "standby"
	// Leader writes to the store. A single instance always leads.
	Leader Role = "leader"
)

// campaign tries to lead until ctx ends. It starts after the first report of the source, because a
// leader without objects would block others.
//
//	source reaches what it reads, or there are no others ──> stand ──> lead
//	          ▲                                                │        │ cut off, for ResignAfter,
//	          │                             cut off, and others│        ▼ and there are others
//	          └────────────────────────────────────────────────┴────────┘
//
// A disconnected instance only leads if it is the only one. It can still repair a store that lost
// data.
func (r *Reflector) campaign(ctx context.Context) {
	select {
	case <-r.wanted.reported:
	case <-ctx.Done():
		return
	}
	backoff := r.opts.RetryMin
	for ctx.Err() == nil {
		r.awaitReach(ctx)
		led, err := r.lead(ctx)
		r.setRole(Candidate)
		if ctx.Err() != nil {
			return
		}
		if led || backoff == r.opts.RetryMin {
			r.log.Warn("this instance is not the leader, retrying", "reason", err)
		}
		if led {
			backoff = r.opts.RetryMin
		}
		if err != nil {
			r.setSynced(err, false)
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
		}
		backoff = min(2*backoff, r.opts.RetryMax)
	}
}

func (r *Reflector) lead(ctx context.Context) (led bool, err error) {
	term, end := context.WithCancelCause(ctx)
	leads, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		if err := r.awaitCutOff(term, leads); err != nil {
			end(err)
		}
	}()
	err = r.opts.Elector.Lead(term, func() { r.setRole(Standby) }, func(ctx context.Context, s store.Broker) error {
		led = true
		close(leads)
		return r.write(ctx, s)
	})
	end(nil)
	<-watched
	if err == nil && ctx.Err() == nil {
		err = context.Cause(term)
	}
	return led, err
}

func (r *Reflector) reach() *Reach {
	if s, ok := r.opts.Source.(ReachingSource); ok {
		return s.Reach()
	}
	return new(Reach)
}

// awaitReach waits until the source is reachable or no other instance can lead.
func (r *Reflector) awaitReach(ctx context.Context) {
	reach := r.reach()
	for ctx.Err() == nil {
		_, changed, lost := reach.Lost()
		if lost == nil || !r.hasOthers(ctx, true) {
			return
		}
		r.setSynced(fmt.Errorf("lost the exclusive right to write to the store: %w", lost), false)
		select {
		case <-changed:
		case <-time.After(r.opts.CheckInterval): // instances come and go
		case <-ctx.Done():
		}
	}
}

// awaitCutOff returns an error once another instance should lead: one exists, and our source is
// disconnected, in the case of a leader for some time. It returns nil when ctx ends.
func (r *Reflector) awaitCutOff(ctx context.Context, leads <-chan struct{}) error {
	reach := r.reach()
	var patience time.Duration
	for {
		since, changed, lost := reach.Lost()
		var again <-chan time.Time
		if lost != nil {
			wait := time.Until(since.Add(patience))
			if wait <= 0 && r.hasOthers(ctx, false) {
				return fmt.Errorf("another instance takes over the leadership: %w", lost)
			}
			again = time.After(max(wait, r.opts.CheckInterval))
		}
		select {
		case <-changed:
		case <-again:
		case <-leads:
			leads, patience = nil, r.opts.ResignAfter
		case <-ctx.Done():
			return nil
		}
	}
}

// hasOthers reports whether other instances exist, or returns unknown if the elector fails.
func (r *Reflector) hasOthers(ctx context.Context, unknown bool) bool {
	ctx, cancel := context.WithTimeout(ctx, r.opts.CallTimeout)
	defer cancel()
	others, err := r.opts.Elector.Others(ctx)
	if err != nil {
		return unknown
	}
	return others
}

func (r *Reflector) write(ctx context.Context, s store.Broker) error {
	r.setRole(Leader)
	if r.opts.Alongside == nil {
		return newWriter(r, s).run(ctx)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return newWriter(r, s).run(ctx) })
	g.Go(func() error { return r.opts.Alongside(ctx, s) })
	return g.Wait()
}

func (r *Reflector) setRole(role Role) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Role = role
	if role == Standby {
		r.status.Error, r.status.EverStandby = "", true // errors of its term no longer matter
	}
}
