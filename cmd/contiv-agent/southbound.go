package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/damper"
	"github.com/contiv/contiv/filter"
	"github.com/contiv/contiv/history"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/linux"
	"github.com/contiv/contiv/linux/microservices"
	"github.com/contiv/contiv/logline/loglevel"
	"github.com/contiv/contiv/metrics/activity"
	"github.com/contiv/contiv/netalloc"
	"github.com/contiv/contiv/netlink/conntrack"
	"github.com/contiv/contiv/plugins/microservice"
	serviceconfig "github.com/contiv/contiv/plugins/service/config"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/descriptors"
	"github.com/contiv/contiv/vswitch/kernel"
	"github.com/contiv/contiv/vswitch/vpp"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// Values of --vswitch.
const (
	kernelVSwitch = "kernel"
	vppVSwitch    = "vpp"
)

// southbound is the scheduler with what it configures.
type southbound struct {
	vs        vswitch.VSwitch // nil if there is none
	lin       *linux.Plugin
	scheduler *kvscheduler.Scheduler
	counts    *activity.Counts
	log       *slog.Logger
}

// What not every vswitch has beside its ports.
type (
	// deviceOwner: its interfaces are devices of the host.
	deviceOwner interface {
		Device(logical string) (name, mac string, ok bool)
	}
	// remote: it is another process, which may not be there.
	remote interface {
		Ready(context.Context) error
		Connected() error
	}
	// adviser: it knows what may keep it from working some day.
	adviser interface {
		Warnings(context.Context) ([]string, error)
	}
	// commandLine: it has one of its own.
	commandLine interface {
		CLI(ctx context.Context, command string) (string, error)
	}
	// nicOwner: it drives network cards by itself.
	nicOwner interface {
		NICs(context.Context) ([]string, error)
	}
	// aheadReader: it reads in the background what the first resync will ask for.
	aheadReader interface{ ReadAhead() }
	// denier: it reports the packets that policies deny.
	denier interface {
		Denials(ctx context.Context, live bool) (filter.Denials, error)
	}
	// uninstaller: it has more than northbound values stand for.
	uninstaller interface {
		Uninstall(context.Context) error
	}
)

// component returns the log of a part of the agent, which has a level of its own.
func component(log *slog.Logger, name string) *slog.Logger { return log.With(loglevel.Component, name) }

// openVSwitch does not wait for a vswitch that is not there yet.
func openVSwitch(o options, netns string, cards *lentCards, lin *linux.Plugin, log *slog.Logger) (vswitch.VSwitch, error) {
	if o.vswitch == vppVSwitch {
		return vpp.Open(vpp.Options{Socket: o.vppSocket, XDPDevices: o.vppXDPDevices, Lent: cards.has, Namespaces: lin.AtAddress, TracePackets: o.tracePackets, Logger: log}), nil
	}
	return kernel.New(kernel.Options{NetNS: netns, Established: o.tracking.Established, CloseWait: o.tracking.CloseWait, Logger: log})
}

// trackingSettings are those of service.conf for this node.
func trackingSettings(c serviceconfig.Conntrack) conntrack.Settings {
	return conntrack.Settings{
		Max: c.Max(runtime.NumCPU()), Established: c.TCPEstablishedTimeout.Std(), CloseWait: c.TCPCloseWaitTimeout.Std(),
		UDP: c.UDPTimeout.Std(), UDPStream: c.UDPStreamTimeout.Std(), Liberal: c.TCPBeLiberal,
	}
}

// openSouthbound opens the network namespace given; "": that of the process.
// The recorder, which may be nil, is told of transactions. cards may be nil.
func openSouthbound(o options, netns string, cards *lentCards, recorder *history.Recorder, registry prometheus.Registerer, log *slog.Logger) (*southbound, error) {
	s, err := openHost(netns, recorder, registry, log)
	if err != nil {
		return nil, err
	}
	vs, err := openVSwitch(o, netns, cards, s.lin, component(log, "vswitch"))
	if err != nil {
		s.Close()
		return nil, err
	}
	s.vs = vs
	err = descriptors.Register(s.scheduler, vs)
	if own, counts := vs.(prometheus.Collector); counts && err == nil {
		err = registry.Register(own)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// openHost opens the scheduler and the linux plugin, which exist with and without a vswitch.
func openHost(netns string, recorder *history.Recorder, registry prometheus.Registerer, log *slog.Logger) (*southbound, error) {
	counts := activity.New()
	scheduler := kvscheduler.New(kvscheduler.Options{
		Logger: component(log, "kvscheduler"), Metrics: registry, Recorder: func(c kvscheduler.Committed) {
			recorder.Transaction(c)
			counts.Transaction(c)
		},
	})
	lin, err := linux.New(scheduler, linux.Options{NetNS: netns, Logger: component(log, "linux")})
	if err != nil {
		scheduler.Close()
		return nil, err
	}
	s := &southbound{lin: lin, log: log, counts: counts, scheduler: scheduler}
	if err := errors.Join(registry.Register(counts), netalloc.Register(scheduler)); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the scheduler before what it works on.
func (s *southbound) Close() {
	s.scheduler.Close()
	s.lin.Close()
	if s.vs != nil {
		s.vs.Close()
	}
}

// Device returns the host's device behind the logical name of an interface of the
// vswitch; false if there is none.
func (s *southbound) Device(logical string) (name, mac string, ok bool) {
	if owner, has := s.vs.(deviceOwner); has {
		return owner.Device(logical)
	}
	return "", "", false
}

// recordEvents returns what the event loop tells of events.
func (s *southbound) recordEvents(past *history.Recorder) func(*controller.EventRecord) {
	return func(r *controller.EventRecord) {
		past.Event(r)
		s.counts.Event(r)
	}
}

// denials returns the reader of the packets that policies deny; nil if the vswitch does not tell.
func (s *southbound) denials() func(ctx context.Context, live bool) (filter.Denials, error) {
	if d, is := s.vs.(denier); is {
		return d.Denials
	}
	return nil
}

// setMicroservices tells package linux what plugin microservice knows.
func (s *southbound) setMicroservices(running map[string]microservice.Place) error {
	places := make(map[string]microservices.Place, len(running))
	for label, place := range running {
		places[label] = microservices.Place(place)
	}
	return s.lin.SetMicroservices(places)
}

// nicsTimeout bounds how long the event loop waits for the list of network cards.
const nicsTimeout = 5 * time.Second

// NICs lists the network cards that the vswitch drives by itself.
func (s *southbound) NICs() ([]string, error) {
	owner, has := s.vs.(nicOwner)
	if !has {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), nicsTimeout)
	defer cancel()
	return owner.NICs(ctx)
}

// Err returns why the vswitch does not forward as requested, nil if it may: it cannot be
// reached, or has just come back.
func (s *southbound) Err() error {
	if r, is := s.vs.(remote); is {
		if err := r.Connected(); err != nil {
			return err
		}
	}
	if reason := s.scheduler.Restoring(); reason != "" {
		return fmt.Errorf("the vswitch is being resynchronised: %s", reason)
	}
	return nil
}

// Warnings say what may keep the vswitch from working some day; nothing of one that cannot
// be reached.
func (s *southbound) Warnings(ctx context.Context) []string {
	a, is := s.vs.(adviser)
	if !is {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	warnings, err := a.Warnings(ctx)
	if err != nil {
		s.log.Debug("The vswitch does not tell warnings", "error", err)
	}
	return warnings
}

// await returns when the vswitch can be configured, or with an error when ctx ends.
func (s *southbound) await(ctx context.Context) error {
	r, is := s.vs.(remote)
	if !is {
		return nil
	}
	if err := r.Connected(); err != nil {
		s.log.Info("Waiting for the vswitch", "because", err)
	}
	return r.Ready(ctx)
}

// awaitFor is await that gives up after a time.
func (s *southbound) awaitFor(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.await(ctx)
}

// readAhead has the vswitch read already what takes long.
func (s *southbound) readAhead() {
	if r, is := s.vs.(aheadReader); is {
		r.ReadAhead()
	}
}

// watch tells the scheduler of drift until ctx ends. worded says in reasons what interfaces are.
func (s *southbound) watch(ctx context.Context, group *errgroup.Group, worded func(reason string) string) {
	report := damper.New(ctx, func(reason string, keys ...string) {
		reason = worded(reason)
		s.log.Info("drift noticed", "reason", reason, "keys", keys)
		if err := s.scheduler.ReportDrift(reason, keys...); err != nil {
			s.log.Warn("Drift could not be reported", "reason", reason, "error", err)
		}
	}).Report
	group.Go(func() error { return notCanceled(s.vs.Watch(ctx, report)) })
	group.Go(func() error { return notCanceled(s.lin.Watch(ctx, report)) })
}
