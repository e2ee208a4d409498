package ksr

import (
	"context"
	"errors"
	"time"

	"github.com/contiv/contiv/store"
)

// ErrNotLeader is wrapped by the writes of a store that belongs to an instance
// which leads no longer. They changed nothing.
var ErrNotLeader = errors.New("another instance writes to the store")

// Elector decides which of several instances writes to the store.
type Elector interface {
	// Lead waits until this instance leads, does the work of a leader, and gives
	// the leadership up. It calls waiting when it finds another instance leading.
	//
	// The store that work gets refuses to write, with ErrNotLeader, from the
	// moment on at which the instance does not lead any more; its context ends as
	// soon as that is noticed. Lead then returns an error that wraps ErrNotLeader;
	// nil only when ctx ended.
	Lead(ctx context.Context, waiting func(), work func(context.Context, store.Broker) error) error
}

// Role of an instance.
type Role string

const (
	// Candidate is an instance that neither leads nor knows who does.
	Candidate Role = "candidate"
	// Standby waits for the leadership. It knows the objects, so that it can take
	// over at once.
	Standby Role = "standby"
	// Leader writes to the store. An instance without others always leads.
	Leader Role = "leader"
)

// campaign leads again and again until ctx ends. It starts when the source has
// reported: a leader that knows nothing would keep others from their work.
func (r *Reflector) campaign(ctx context.Context) {
	select {
	case <-r.wanted.reported:
	case <-ctx.Done():
		return
	}
	backoff := r.opts.RetryMin
	for ctx.Err() == nil {
		led := false
		err := r.opts.Elector.Lead(ctx, func() { r.setRole(Standby) }, func(ctx context.Context, s store.Broker) error {
			led = true
			return r.write(ctx, s)
		})
		r.setRole(Candidate)
		if ctx.Err() != nil {
			return
		}
		if led || backoff == r.opts.RetryMin {
			r.log.Warn("this instance does not lead: it tries again", "reason", err)
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

// write keeps the store as it should be until ctx ends.
func (r *Reflector) write(ctx context.Context, s store.Broker) error {
	r.setRole(Leader)
	return newWriter(r, s).run(ctx)
}

func (r *Reflector) setRole(role Role) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Role = role
	if role == Standby {
		r.status.Error, r.status.EverStandby = "", true // what happened when it led is over
	}
}
