package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/controller/dbwatcher"
	"github.com/contiv/contiv/controller/feedback"
	"github.com/contiv/contiv/health"
	"github.com/contiv/contiv/history"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/logline/loglevel"
	"github.com/contiv/contiv/metrics"
	"github.com/contiv/contiv/metrics/endpoint"
	"github.com/contiv/contiv/northbound/ifstate"
	"github.com/contiv/contiv/plugins/statscollector"
	"github.com/contiv/contiv/rest"
	"github.com/contiv/contiv/store"
	"github.com/contiv/contiv/version"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// runStandalone connects the parts of an agent without Kubernetes, whose configuration comes from
// clients. It has no event handlers.
//
//	gRPC ──> contivgrpc ─┐
//	files ─> configdir ──┤
//	etcd ──> dbwatcher ──┼─> controller ──> KVScheduler ─┬─> vswitch/kernel or vswitch/vpp
//	(if it is given)     └──── bolt (mirror, gRPC)       └─> linux
func runStandalone(ctx context.Context, o options, log *slog.Logger) error {
	_, controllerConfig, err := loadConfig(o)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	recorder := openHistory(o, log)
	defer recorder.Close()
	sb, err := openSouthbound(o, "", nil, recorder, registry, log)
	if err != nil {
		return err
	}
	defer sb.Close()
	sb.readAhead()
	clients, err := openExternal(ctx, o, registry, log)
	if err != nil {
		return err
	}
	defer clients.Close()
	db, err := openDatabase(o, controllerConfig, sb, log)
	if err != nil {
		return err
	}
	loop := controller.New(controller.Options{
		Config:    controllerConfig,
		Scheduler: controller.NewScheduler(sb.scheduler),
		Sources:   clients.sources(),
		Recorder:  sb.recordEvents(recorder),
		Observer:  db.observer(),
		Log:       log,
	})
	db.watch(o, controllerConfig, loop, log)
	if o.interfaceStats {
		registry.MustRegister(statscollector.New(o.nodeName, interfaceStats(ctx, sb.vs.States()), noPods{}, log))
	}
	drops := statscollector.NewDrops(o.nodeName, guardDrops(ctx, sb.vs), noPods{}, log)
	registry.MustRegister(drops)
	registerSessions(ctx, o, sb.vs, registry, log)
	restServer, err := rest.Listen(o.listener, log, append([]string{"unix://" + filepath.Join(o.runDir, "agent.sock")}, o.http...)...)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/scheduler/", inspect.Handler(sb.scheduler))
	mux.Handle("/controller/", loop.Handler(db.resync))
	if db.publisher != nil {
		mux.Handle(feedback.URL, db.publisher.Handler())
	}
	clients.handle(mux)
	states := interfaceStates(o.nodeName, sb.vs.States(), loop.Ready, db.remote, controllerConfig, log)
	mux.Handle(ifstate.URL, states.Handler())
	mux.Handle(statscollector.DropsURL, drops.Handler())
	sb.handle(mux)
	ready := func() error { return cmp.Or(sb.Err(), loop.Ready()) }
	if recorder != nil {
		mux.Handle(history.URL, recorder.Handler())
	}
	mux.Handle("/log/", loglevel.Handler(log))
	asked := checks{alive: loop.Alive, ready: ready, connected: db.connected, full: db.full, warnings: sb.Warnings}.
		monitored(o, sb, health.NoOwners, nil, nil, recorder, registry, db.checks()...)
	metricsGatherer := metrics.Conventional(registry)
	asked.handle(mux, metricsGatherer)

	serve, cancel := context.WithCancel(ctx)
	defer cancel()
	group, serve := errgroup.WithContext(serve)
	group.Go(func() error { asked.health.Run(serve); return nil })
	sb.watch(serve, group, func(reason string) string { return reason })
	group.Go(func() error { return restServer.Serve(serve, mux) })
	group.Go(func() error { return o.metrics.Run(serve, metricsGatherer, log, endpoint.Retry) })
	if controllerConfig.LigatoStatus && db.remote != nil {
		group.Go(func() error {
			asked.publisher(o.nodeName, db.remote, log).run(serve)
			return nil
		})
	}
	clients.serve(serve, group, loop, sb, states, log)
	group.Go(func() error { return fatal(serve, loop, db.connected) })
	group.Go(func() error {
		if err := sb.await(serve); err != nil {
			return notCanceled(err)
		}
		loop.Start()
		if err := db.start(); serve.Err() == nil {
			return err
		}
		return nil
	})
	log.Info("Agent started without Kubernetes", "version", version.Version, "etcd", db.endpoints, "grpc", o.grpc, "sockets", o.runDir)
	<-serve.Done()

	closing, done := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer done()
	clients.server.Stop(closing)
	db.stop()
	closeErr := loop.Close(closing)
	err = group.Wait()
	db.close()
	log.Info("Agent ended")
	return errors.Join(err, closeErr)
}

// database is the optional etcd of an agent without Kubernetes. All fields are nil without etcd.
type database struct {
	endpoints []string
	remote    store.Broker
	full      func(context.Context) error
	watchable store.Watchable
	mirror    store.Broker
	watcher   *dbwatcher.Watcher
	publisher *feedback.Publisher
	loop      *controller.Controller
	closers   []interface{ Close() error }
}

func openDatabase(o options, config controller.Config, sb *southbound, log *slog.Logger) (*database, error) {
	d := &database{}
	if o.etcdConfig == "" && len(o.etcdEndpoints) == 0 {
		return d, nil
	}
	remote, err := openEtcd(o, log)
	if err != nil {
		return nil, err
	}
	mirror, err := openFile(o.bolt, log)
	if err != nil {
		return nil, errors.Join(err, remote.Close())
	}
	d.full = remote.Full
	d.endpoints, d.remote, d.watchable, d.mirror, d.closers = remote.Endpoints(), remote, remote, mirror, []interface{ Close() error }{remote, mirror}
	d.publisher = feedback.Start(feedback.Options{Node: o.nodeName, Store: remote, Scheduler: sb.scheduler, Config: config, Log: log})
	return d, nil
}

// observer observes the external configuration; nil without etcd.
func (d *database) observer() controller.ExternalObserver {
	if d.publisher == nil {
		return nil
	}
	return d.publisher.GivenOutside
}

// checks returns the checks of the database; none without etcd.
func (d *database) checks() []health.Check {
	if d.publisher == nil {
		return nil
	}
	return []health.Check{inEtcd(d.publisher)}
}

// watch connects the database to the event loop, which has not started.
func (d *database) watch(o options, config controller.Config, loop *controller.Controller, log *slog.Logger) {
	d.loop = loop
	if d.watchable == nil {
		return
	}
	d.watcher = dbwatcher.New(dbwatcher.Options{
		Node: o.nodeName, Remote: d.watchable, Local: d.mirror, Loop: loop, Standalone: true,
		Feedback: d.publisher, Config: config, Log: log,
	})
}

// start requests the startup resync.
func (d *database) start() error {
	if d.watcher == nil {
		return d.resync()
	}
	d.watcher.Start()
	return nil
}

// resync requests a resync from the database.
func (d *database) resync() error {
	if d.watcher == nil {
		return d.loop.PushEvent(context.Background(), &controller.DBResync{})
	}
	return d.watcher.RequestResync()
}

func (d *database) connected() error {
	if d.watcher == nil {
		return nil
	}
	return d.watcher.Connected()
}

// stop stops the sources of events.
func (d *database) stop() {
	if d.watcher != nil {
		d.watcher.Close()
		d.publisher.Close()
	}
}

func (d *database) close() {
	for _, c := range d.closers {
		c.Close()
	}
}
