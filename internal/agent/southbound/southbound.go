// Package southbound opens the transaction engine of a node with everything that it configures: a
// vswitch, and the linux devices of pods. It hides which features the chosen vswitch has.
//
//	KVScheduler ─┬─> internal/vswitch/kernel or internal/vswitch/vpp
//	             └─> internal/vswitch/linux
package southbound

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/contiv/contiv/internal/lib/damper"
	"github.com/contiv/contiv/internal/lib/logline/loglevel"
	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/contiv/contiv/internal/plugins/microservice"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/kernel"
	"github.com/contiv/contiv/internal/vswitch/linux"
	"github.com/contiv/contiv/internal/vswitch/linux/microservices"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/internal/vswitch/vpp"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// Values of Options.VSwitch.
const (
	KernelVSwitch = "kernel"
	VPPVSwitch    = "vpp"
)

// Options of a Southbound.
type Options struct {
	// VSwitch is KernelVSwitch or VPPVSwitch.
	VSwitch string
	// NetNS is the path of the network namespace to configure; "": the namespace of the process.
	NetNS string
	// Tracking sets timeouts of connections in the kernel vswitch.
	Tracking conntrack.Settings

	// Options of VPP: the socket of its binary API, the host's interfaces that it uses with AF_XDP, and
	// whether it traces packets.
	VPPSocket     string
	VPPXDPDevices []string
	TracePackets  bool
	// Lent reports whether contiv-stn has lent a network card to VPP. It may be nil.
	Lent func(device string) bool

	// Recorder receives each committed transaction. It may be nil.
	Recorder func(kvscheduler.Committed)
	Metrics  prometheus.Registerer
	Log      *slog.Logger
}

// Southbound is the scheduler and the drivers that it configures.
type Southbound struct {
	Scheduler *kvscheduler.Scheduler
	vs        vswitch.VSwitch // nil without vswitch
	lin       *linux.Plugin
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
		Denials(ctx context.Context, live bool) (policyrules.Denials, error)
	}
	// uninstaller is a vswitch with objects that no northbound value represents.
	uninstaller interface {
		Uninstall(context.Context) error
	}
)

// Open opens the scheduler, the linux plugin and the vswitch. It does not wait for a vswitch that is not
// running yet.
func Open(o Options) (*Southbound, error) {
	s, err := OpenWithoutVSwitch(o)
	if err != nil {
		return nil, err
	}
	vs, err := openVSwitch(o, s.lin)
	if err != nil {
		s.Close()
		return nil, err
	}
	if err := s.add(vs, o.Metrics); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// OpenWith is Open with a given vswitch, such as one in memory. The Southbound closes vs.
func OpenWith(vs vswitch.VSwitch, o Options) (*Southbound, error) {
	s, err := OpenWithoutVSwitch(o)
	if err != nil {
		return nil, err
	}
	if err := s.add(vs, o.Metrics); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// OpenWithoutVSwitch opens the scheduler and the linux plugin.
func OpenWithoutVSwitch(o Options) (*Southbound, error) {
	scheduler := kvscheduler.New(kvscheduler.Options{Logger: component(o.Log, "kvscheduler"), Metrics: o.Metrics, Recorder: o.Recorder})
	lin, err := linux.New(scheduler, linux.Options{NetNS: o.NetNS, Logger: component(o.Log, "linux")})
	if err != nil {
		scheduler.Close()
		return nil, err
	}
	s := &Southbound{Scheduler: scheduler, lin: lin, log: o.Log}
	if err := netalloc.Register(scheduler); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func openVSwitch(o Options, lin *linux.Plugin) (vswitch.VSwitch, error) {
	log := component(o.Log, "vswitch")
	if o.VSwitch == VPPVSwitch {
		return vpp.Open(vpp.Options{Socket: o.VPPSocket, XDPDevices: o.VPPXDPDevices, Lent: o.Lent, Namespaces: lin.AtAddress, TracePackets: o.TracePackets, Logger: log}), nil
	}
	return kernel.New(kernel.Options{NetNS: o.NetNS, Established: o.Tracking.Established, CloseWait: o.Tracking.CloseWait, Logger: log})
}

// add makes the scheduler configure the vswitch, and registers the vswitch's own metrics.
func (s *Southbound) add(vs vswitch.VSwitch, metrics prometheus.Registerer) error {
	s.vs = vs
	if err := descriptors.Register(s.Scheduler, vs); err != nil {
		return err
	}
	if own, counts := vs.(prometheus.Collector); counts {
		return metrics.Register(own)
	}
	return nil
}

// component returns the logger of a part of the southbound, with a separate level.
func component(log *slog.Logger, name string) *slog.Logger { return log.With(loglevel.Component, name) }

// VSwitch returns the vswitch; nil without vswitch.
func (s *Southbound) VSwitch() vswitch.VSwitch { return s.vs }

// Close ends the scheduler first.
func (s *Southbound) Close() {
	s.Scheduler.Close()
	s.lin.Close()
	if s.vs != nil {
		s.vs.Close()
	}
}

// Device returns the host's device of a vswitch interface, by logical name; false if none.
func (s *Southbound) Device(logical string) (name, mac string, ok bool) {
	if owner, has := s.vs.(deviceOwner); has {
		return owner.Device(logical)
	}
	return "", "", false
}

// Denials returns the reader of packets denied by policies; nil if the vswitch does not support it.
func (s *Southbound) Denials() func(ctx context.Context, live bool) (policyrules.Denials, error) {
	if d, is := s.vs.(denialReader); is {
		return d.Denials
	}
	return nil
}

// SetMicroservices passes the microservices from plugin microservice to package linux.
func (s *Southbound) SetMicroservices(running map[string]microservice.Place) error {
	places := make(map[string]microservices.Place, len(running))
	for label, place := range running {
		places[label] = microservices.Place(place)
	}
	return s.lin.SetMicroservices(places)
}

// nicsTimeout bounds the event loop's wait for the list of network cards.
const nicsTimeout = 5 * time.Second

// NICs lists the network cards that the vswitch drives itself.
func (s *Southbound) NICs() ([]string, error) {
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
func (s *Southbound) Err() error {
	if r, is := s.vs.(remote); is {
		if err := r.Connected(); err != nil {
			return err
		}
	}
	if reason := s.Scheduler.Restoring(); reason != "" {
		return fmt.Errorf("the vswitch is being resynchronised: %s", reason)
	}
	return nil
}

// Warnings lists possible future failures of the vswitch. It is empty while the vswitch is
// unreachable.
func (s *Southbound) Warnings(ctx context.Context) []string {
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

// Await returns when the vswitch can be configured, or an error when ctx ends.
func (s *Southbound) Await(ctx context.Context) error {
	r, is := s.vs.(remote)
	if !is {
		return nil
	}
	if err := r.Connected(); err != nil {
		s.log.Info("Waiting for the vswitch", "because", err)
	}
	return r.Ready(ctx)
}

// ReadAhead starts the vswitch's slow reads early.
func (s *Southbound) ReadAhead() {
	if r, is := s.vs.(aheadReader); is {
		r.ReadAhead()
	}
}

// Watch reports drift to the scheduler until ctx ends. worded replaces interface names in reasons.
func (s *Southbound) Watch(ctx context.Context, worded func(reason string) string) error {
	report := damper.New(ctx, func(reason string, keys ...string) {
		reason = worded(reason)
		s.log.Info("Drift detected", "reason", reason, "keys", keys)
		if err := s.Scheduler.ReportDrift(reason, keys...); err != nil {
			s.log.Warn("Reporting drift failed", "reason", reason, "error", err)
		}
	}).Report
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.vs.Watch(ctx, report) })
	group.Go(func() error { return s.lin.Watch(ctx, report) })
	return group.Wait()
}

// WatchLinks calls changed at once and after changes of the host's links, until ctx ends.
func (s *Southbound) WatchLinks(ctx context.Context, changed func()) error {
	return s.lin.WatchLinks(ctx, changed)
}

// GuardNeighbours sets the networks in which pods of other nodes send from their neighbours only.
func (s *Southbound) GuardNeighbours(networks []netip.Prefix) {
	if guard, can := s.vs.(neighbourGuard); can {
		guard.GuardNeighbours(networks)
	}
}

// CommandLine returns the command line of the vswitch; nil if it has none.
func (s *Southbound) CommandLine() func(ctx context.Context, command string) (string, error) {
	if vs, has := s.vs.(commandLine); has {
		return vs.CLI
	}
	return nil
}

// Uninstaller returns a function that removes the vswitch's objects that no northbound value represents;
// nil if it has none.
func (s *Southbound) Uninstaller() func(context.Context) error {
	if vs, has := s.vs.(uninstaller); has {
		return vs.Uninstall
	}
	return nil
}
