// Package agent programs the routes of a host that follow from Calico's data.
//
//	follow.Follower ──State──> Direct ──Calculation──> Agent ──Table──> program.Programmer
//	                                        (the latest one counts)
package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/calico/datastore"
	"github.com/contiv/contiv/internal/calico/program"
	"github.com/contiv/contiv/internal/calico/routes"
)

// Source reads a datastore.
type Source interface {
	// Run calls update with the state at first and after changes until ctx ends. update must not
	// keep the state.
	Run(ctx context.Context, update func(*datastore.State))
	// Err returns why the state may be outdated, or nil.
	Err() error
}

// Tables provides the routes that a host should have.
type Tables interface {
	Run(ctx context.Context, update func(routes.Calculation))
	Err() error
}

// Direct calculates the routes of a host from a source.
type Direct struct {
	Source
	Host routes.Host
}

func (d Direct) Run(ctx context.Context, update func(routes.Calculation)) {
	d.Source.Run(ctx, func(s *datastore.State) { update(d.Host.Calculate(s)) })
}

// Agent programs the routes that Tables provides.
type Agent struct {
	Tables     Tables
	Programmer *program.Programmer
	// Retry is the delay after a failure. Default 1 s.
	Retry time.Duration
	Log   *slog.Logger

	mu         sync.Mutex
	latest     routes.Calculation
	err        error
	programmed int // number of updates of the vswitch
}

// Status is the state of the agent.
type Status struct {
	routes.Calculation
	// Err is the reason why the vswitch may lack routes or have outdated ones, or nil.
	Err error
	// Programmed counts updates of the vswitch.
	Programmed int
}

// Status returns the last calculation and the result of programming it.
func (a *Agent) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Status{Calculation: a.latest, Err: cmp.Or(a.err, a.Tables.Err()), Programmed: a.programmed}
}

// Run programs routes until ctx ends. The routes stay.
func (a *Agent) Run(ctx context.Context) {
	a.Retry = cmp.Or(a.Retry, time.Second)
	a.setErr(errors.New("no routes have been programmed yet"))
	changed := make(chan struct{}, 1)
	var running sync.WaitGroup
	running.Go(func() {
		a.Tables.Run(ctx, func(c routes.Calculation) {
			a.note(c)
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	})
	defer running.Wait()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-again:
		}
		again = nil
		if err := a.program(ctx); err != nil {
			again = time.After(a.Retry)
		}
	}
}

func (a *Agent) program(ctx context.Context) error {
	a.mu.Lock()
	table := a.latest.Table
	a.mu.Unlock()
	err := a.Programmer.Apply(ctx, table)
	if ctx.Err() != nil {
		return nil
	}
	a.setErr(err)
	return err
}

// note records a calculation, and logs new problems.
func (a *Agent) note(c routes.Calculation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range c.Problems {
		if _, known := slices.BinarySearch(a.latest.Problems, p); !known {
			a.Log.Warn("Datastore entry without a route", "problem", p)
		}
	}
	a.latest = c
}

func (a *Agent) setErr(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && a.err != nil && a.err.Error() != err.Error() {
		a.Log.Error("Programming routes failed", "error", err)
	}
	if err == nil {
		a.programmed++
	}
	a.err = err
}
