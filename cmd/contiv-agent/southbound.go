package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/linux"
	"github.com/contiv/contiv/netalloc"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/kernel"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// southbound is the scheduler with what it configures.
type southbound struct {
	vs        *kernel.VSwitch
	lin       *linux.Plugin
	scheduler *kvscheduler.Scheduler
	log       *slog.Logger
}

// openSouthbound opens the network namespace given; "": that of the process.
func openSouthbound(netns string, metrics prometheus.Registerer, log *slog.Logger) (*southbound, error) {
	vs, err := kernel.New(kernel.Options{NetNS: netns, Logger: log})
	if err != nil {
		return nil, err
	}
	lin, err := linux.New(linux.Options{NetNS: netns, Logger: log})
	if err != nil {
		return nil, errors.Join(err, vs.Close())
	}
	s := &southbound{vs: vs, lin: lin, scheduler: kvscheduler.New(kvscheduler.Options{Logger: log, Metrics: metrics}), log: log}
	if err := errors.Join(netalloc.Register(s.scheduler), vswitch.Register(s.scheduler, vs), linux.Register(s.scheduler, lin)); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the scheduler before what it works on.
func (s *southbound) Close() {
	s.scheduler.Close()
	s.lin.Close()
	s.vs.Close()
}

// watch tells the scheduler of drift until ctx ends.
func (s *southbound) watch(ctx context.Context, group *errgroup.Group) {
	report := func(reason string, keys ...string) {
		if err := s.scheduler.ReportDrift(reason, keys...); err != nil {
			s.log.Warn("Drift could not be reported", "reason", reason, "error", err)
		}
	}
	group.Go(func() error { return notCanceled(s.vs.Watch(ctx, report)) })
	group.Go(func() error { return notCanceled(s.lin.Watch(ctx, report)) })
}
