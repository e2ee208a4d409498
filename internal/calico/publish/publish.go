// Package publish publishes the addresses of this host to other hosts' route agents: in etcd, or in
// annotations of the Node in Kubernetes.
package publish

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Place is where addresses are published.
type Place interface {
	// Put writes the addresses. It is called repeatedly, in case they were removed.
	Put(context.Context) error
}

// Publisher publishes the addresses of one host.
type Publisher struct {
	Place Place
	// Period is the time between two calls of Put.
	Period time.Duration
	Log    *slog.Logger

	mu  sync.Mutex
	err error
}

// Err returns why the addresses may not be published, or nil.
func (p *Publisher) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Run publishes until ctx ends. The addresses stay as long as the place keeps them, so that no
// route is lost during a restart.
func (p *Publisher) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := p.Place.Put(ctx); ctx.Err() == nil {
			p.note(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(p.Period):
		}
	}
}

func (p *Publisher) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && (p.err == nil || p.err.Error() != err.Error()) {
		p.Log.Error("Publishing the address of this node failed; other nodes have no route to its pods", "error", err)
	}
	p.err = err
}
