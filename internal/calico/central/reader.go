package central

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/calico/agent"
	"github.com/contiv/contiv/internal/calico/datastore"
	"github.com/contiv/contiv/internal/calico/routes"
)

// Reader provides the routes that the centre calculates for a host.
type Reader struct {
	Host routes.Host
	// Given follows the keys of Prefixes.
	Given agent.Source
	// NewDirect returns the source of routes without a centre.
	NewDirect func() agent.Tables
	// Patience is how long the centre may be absent before the host calculates its own routes.
	// Default 10 s.
	Patience time.Duration
	Log      *slog.Logger

	mu     sync.Mutex
	direct agent.Tables // nil while the centre's routes are used
}

// Prefixes returns the prefixes of the keys that Given must follow.
func Prefixes(host string) []string {
	return []string{datastore.GivenPrefix(host), datastore.CentrePrefix + "/"}
}

var _ agent.Tables = (*Reader)(nil)

// Err returns the reason why the routes may be outdated.
func (r *Reader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.direct != nil {
		return r.direct.Err()
	}
	return r.Given.Err()
}

// Direct reports whether the host calculates by itself.
func (r *Reader) Direct() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.direct != nil
}

// Run implements agent.Tables.
func (r *Reader) Run(ctx context.Context, update func(routes.Calculation)) {
	latest := make(chan *routes.Calculation, 1) // nil: no centre
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		r.Given.Run(ctx, func(s *datastore.State) {
			select {
			case <-latest:
			default:
			}
			latest <- r.calculation(s)
		})
	})
	end := func() {}
	defer func() { end() }()
	var lost <-chan time.Time
	lost = time.After(cmp.Or(r.Patience, 10*time.Second))
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-latest:
			switch {
			case c != nil:
				end()
				end, lost = func() {}, nil
				r.setDirect(nil)
				update(*c)
			case lost == nil && !r.Direct():
				lost = time.After(cmp.Or(r.Patience, 10*time.Second))
			}
		case <-lost:
			lost = nil
			if err := r.Given.Err(); err != nil {
				lost = time.After(time.Second) // etcd is unreachable, so the host has no data to calculate routes from
				continue
			}
			end = r.startDirect(ctx, update)
		}
	}
}

// startDirect makes the host calculate its own routes until end is called; end waits for it.
func (r *Reader) startDirect(ctx context.Context, update func(routes.Calculation)) (end func()) {
	r.Log.Warn("No centre available; calculating the routes of this node locally", "because", errNoCentre)
	direct := r.NewDirect()
	r.setDirect(direct)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		direct.Run(ctx, update)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (r *Reader) setDirect(t agent.Tables) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t == nil && r.direct != nil {
		r.Log.Info("Using the routes of the centre again")
	}
	r.direct = t
}

// calculation returns the centre's calculation, or nil.
func (r *Reader) calculation(s *datastore.State) *routes.Calculation {
	if !s.HasCentre(r.Host.Name) {
		return nil
	}
	c := &routes.Calculation{Table: make(routes.Table, len(s.Given))}
	for _, g := range s.Given {
		c.Table[g.Destination] = routes.Route{Via: g.Via, Host: g.Host}
	}
	for key, err := range s.Problems {
		c.Problems = append(c.Problems, key+": "+err.Error())
	}
	for _, err := range r.Host.Refuse(c.Table) {
		c.Problems = append(c.Problems, err.Error())
	}
	slices.Sort(c.Problems)
	return c
}
