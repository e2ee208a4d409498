package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/dbwatcher"
	"github.com/contiv/contiv/internal/controller/feedback"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/kvscheduler"
)

// eventLoop is the event loop between etcd and the scheduler:
//
//	etcd ── watcher ──> loop ──> scheduler
//	  ^──── feedback <───┴──────────┘
type eventLoop struct {
	component
	loop *controller.Controller
	// Without etcd, both are nil.
	watcher  *dbwatcher.Watcher
	feedback *feedback.Publisher
}

type eventLoopOptions struct {
	node      string
	config    controller.Config
	scheduler *kvscheduler.Scheduler
	etcd      *etcdClient // nil: without etcd
	mirror    store.Broker
	// standalone: the node starts empty if neither etcd nor the mirror is available.
	standalone bool
	sources    []controller.ExternalConfigSource
	recorder   func(*controller.EventRecord)
	// reserved lists the key prefixes of statuses that components publish with feedback.Replace.
	reserved     []string
	loopLog, log *slog.Logger
}

// newEventLoop returns an event loop that start starts.
func newEventLoop(o eventLoopOptions) *eventLoop {
	e := &eventLoop{}
	loop := controller.Options{Config: o.config, Scheduler: controller.NewScheduler(o.scheduler), Sources: o.sources, Recorder: o.recorder, Log: o.loopLog}
	if o.etcd != nil {
		e.feedback = feedback.Start(feedback.Options{Node: o.node, Store: o.etcd, Scheduler: o.scheduler, Config: o.config, Reserved: o.reserved, Log: o.log})
		loop.Observer = e.feedback.GivenOutside
	}
	e.loop = controller.New(loop)
	e.component = component{
		name:  "event loop",
		rest:  map[string]http.Handler{"/controller/": e.loop.Handler(e.requestResync)},
		tasks: []task{e.awaitFailure},
		stop:  e.end,
	}
	if o.etcd != nil {
		e.watcher = dbwatcher.New(dbwatcher.Options{
			Node: o.node, Remote: o.etcd, Local: o.mirror, Loop: e.loop, Standalone: o.standalone,
			Feedback: e.feedback, Config: o.config, Log: o.log,
		})
		e.rest[feedback.URL] = e.feedback.Handler()
		e.checks = []health.Check{{Name: "etcd-values", Look: e.feedback.Problems}} // values that cannot be decoded
		if !o.standalone {
			e.checks = append(e.checks, health.Check{Name: "cluster-state", Look: e.watcher.Problems, Cluster: true})
		}
		e.close = e.feedback.Close
	}
	return e
}

// start starts the loop, and then the source of its first resync.
func (e *eventLoop) start() error {
	e.loop.Start()
	if e.watcher == nil {
		return e.requestResync()
	}
	e.watcher.Start()
	return nil
}

// requestResync requests a resync, from etcd if there is one.
func (e *eventLoop) requestResync() error {
	if e.watcher == nil {
		return e.loop.PushEvent(context.Background(), &controller.DBResync{})
	}
	return e.watcher.RequestResync()
}

// connected returns why etcd is unreachable; nil without etcd.
func (e *eventLoop) connected() error {
	if e.watcher == nil {
		return nil
	}
	return e.watcher.Connected()
}

// awaitFailure returns the error that stops the event loop, nil when ctx ends. If an unreachable database
// is the cause, its reason comes first.
func (e *eventLoop) awaitFailure(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.loop.Fatal():
		return withCause(err, e.connected())
	}
}

// withCause prepends the reason why the database is unreachable to the error about the missing
// first resync.
func withCause(err, unreachable error) error {
	if errors.Is(err, controller.ErrNoStartupResync) && unreachable != nil {
		return fmt.Errorf("%w: %w", unreachable, err)
	}
	return err
}

// end ends the exchange with etcd, and then the loop.
func (e *eventLoop) end(ctx context.Context) error {
	if e.watcher != nil {
		e.watcher.Close()
		e.feedback.Close()
	}
	return e.loop.Close(ctx)
}

// startOfEvents starts the event loop once admitted returns and the vswitch can be configured.
func startOfEvents(events *eventLoop, southbound *southboundComponent, admitted func(context.Context) error) component {
	return component{name: "start of the event loop", tasks: []task{func(ctx context.Context) error {
		if err := admitted(ctx); err != nil {
			return notCanceled(err)
		}
		if err := southbound.Await(ctx); err != nil {
			return notCanceled(err)
		}
		if err := events.start(); ctx.Err() == nil {
			return err
		}
		return nil
	}}}
}
