package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
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

// southbound is the scheduler and the parts that it configures.
type southbound struct {
	vs        vswitch.VSwitch // nil if none
	lin       *linux.Plugin
	scheduler *kvscheduler.Scheduler
	counts    *activity.Counts
	log       *slog.Logger
}

// Features that not every vswitch has.
type (
	// deviceOwner is a vswitch whose interfaces are host devices.
	deviceOwner interface {
		Device(logical string) (name, mac string, ok bool)
	}
	// remote is a vswitch in another process, which may not run yet.
	remote interface {
		Ready(context.Context) error
		Connected() error
	}
	// warner is a vswitch that warns of possible future failures.
	warner interface {
		Warnings(context.Context) ([]string, error)
	}
	// commandLine is a vswitch with a command line.
	commandLine interface {
		CLI(ctx context.Context, command string) (string, error)
	}
	// nicOwner is a vswitch that drives network cards itself.
	nicOwner interface {
		NICs(context.Context) ([]string, error)
	}
	// neighbourGuard is a vswitch that compares the senders of packets from pods on other nodes with its
	// neighbours.
	neighbourGuard interface{ GuardNeighbours(networks []netip.Prefix) }
	// aheadReader is a vswitch that reads in the background the state for the first resync.
	aheadReader interface{ ReadAhead() }
	// denialReader is a vswitch that reports packets denied by policies.
	denialReader interface {
		Denials(ctx context.Context, live bool) (filter.Denials, error)
	}
	// uninstaller is a vswitch with objects that no northbound value represents.
	uninstaller interface {
		Uninstall(context.Context) error
	}
)

// component returns the logger of a part of the agent, with a separate level.
func component(log *slog.Logger, name string) *slog.Logger { return log.With(loglevel.Component, name) }

// openVSwitch does not wait for a vswitch that is not running yet.
func openVSwitch(o options, netns string, lent *lentCards, lin *linux.Plugin, log *slog.Logger) (vswitch.VSwitch, error) {
	if o.vswitch == vppVSwitch {
		return vpp.Open(vpp.Options{Socket: o.vppSocket, XDPDevices: o.vppXDPDevices, Lent: lent.has, Namespaces: lin.AtAddress, TracePackets: o.tracePackets, Logger: log}), nil
	}
	return kernel.New(kernel.Options{NetNS: netns, Established: o.tracking.Established, CloseWait: o.tracking.CloseWait, Logger: log})
}

// trackingSettings are the settings of service.conf for this node.
func trackingSettings(c serviceconfig.Conntrack) conntrack.Settings {
	return conntrack.Settings{
		Max: c.Max(runtime.NumCPU()), Established: c.TCPEstablishedTimeout.Std(), CloseWait: c.TCPCloseWaitTimeout.Std(),
		UDP: c.UDPTimeout.Std(), UDPStream: c.UDPStreamTimeout.Std(), Liberal: c.TCPBeLiberal,
	}
}

// openSouthbound opens the given network namespace; "" is that of the process. recorder receives
// transactions; it and lent may be nil.
func openSouthbound(o options, netns string, lent *lentCards, recorder *history.Recorder, registry prometheus.Registerer, log *slog.Logger) (*southbound, error) {
	s, err := openHost(netns, recorder, registry, log)
	if err != nil {
		return nil, err
	}
	vs, err := openVSwitch(o, netns, lent, s.lin, component(log, "vswitch"))
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

// openHost opens the scheduler and the linux plugin, which need no vswitch.
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

// Close ends the scheduler first.
func (s *southbound) Close() {
	s.scheduler.Close()
	s.lin.Close()
	if s.vs != nil {
		s.vs.Close()
	}
}

// Device returns the host's device of a vswitch interface, by logical name; false if none.
func (s *southbound) Device(logical string) (name, mac string, ok bool) {
	if owner, has := s.vs.(deviceOwner); has {
		return owner.Device(logical)
	}
	return "", "", false
}

// recordEvents returns the event loop's callback for the recorder.
func (s *southbound) recordEvents(recorder *history.Recorder) func(*controller.EventRecord) {
	return func(r *controller.EventRecord) {
		recorder.Event(r)
		s.counts.Event(r)
	}
}

// denials returns the reader of packets denied by policies; nil if the vswitch does not support it.
func (s *southbound) denials() func(ctx context.Context, live bool) (filter.Denials, error) {
	if d, is := s.vs.(denialReader); is {
		return d.Denials
	}
	return nil
}

// setMicroservices passes the microservices from plugin microservice to package linux.
func (s *southbound) setMicroservices(running map[string]microservice.Place) error {
	places := make(map[string]microservices.Place, len(running))
	for label, place := range running {
		places[label] = microservices.Place(place)
	}
	return s.lin.SetMicroservices(places)
}

// nicsTimeout bounds the event loop's wait for the list of network cards.
const nicsTimeout = 5 * time.Second

// NICs lists the network cards that the vswitch drives itself.
func (s *southbound) NICs() ([]string, error) {
	owner, has := s.vs.(nicOwner)
	if !has {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), nicsTimeout)
	defer cancel()
	return owner.NICs(ctx)
}

// Err returns why the vswitch does not forward as requested, such as being unreachable or just
// restarted; nil if it forwards.
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

// Warnings lists possible future failures of the vswitch. It is empty while the vswitch is
// unreachable.
func (s *southbound) Warnings(ctx context.Context) []string {
	a, is := s.vs.(warner)
	if !is {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	warnings, err := a.Warnings(ctx)
	if err != nil {
		s.log.Debug("Reading warnings of the vswitch failed", "error", err)
	}
	return warnings
}

// await returns when the vswitch can be configured, or an error when ctx ends.
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

// awaitFor is await with a timeout.
func (s *southbound) awaitFor(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.await(ctx)
}

// readAhead starts the vswitch's slow reads early.
func (s *southbound) readAhead() {
	if r, is := s.vs.(aheadReader); is {
		r.ReadAhead()
	}
}

// watch reports drift to the scheduler until ctx ends. worded replaces interface names in reasons.
func (s *southbound) watch(ctx context.Context, group *errgroup.Group, worded func(reason string) string) {
	report := damper.New(ctx, func(reason string, keys ...string) {
		reason = worded(reason)
		s.log.Info("Drift detected", "reason", reason, "keys", keys)
		if err := s.scheduler.ReportDrift(reason, keys...); err != nil {
			s.log.Warn("Reporting drift failed", "reason", reason, "error", err)
		}
	}).Report
	group.Go(func() error { return notCanceled(s.vs.Watch(ctx, report)) })
	group.Go(func() error { return notCanceled(s.lin.Watch(ctx, report)) })
}

// guardNeighbours sets the networks in which pods of other nodes send from their neighbours only.
func (s *southbound) guardNeighbours(networks []netip.Prefix) {
	if guard, can := s.vs.(neighbourGuard); can {
		guard.GuardNeighbours(networks)
	}
}
