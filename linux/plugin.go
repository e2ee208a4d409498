package linux

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/models/valid"
	"github.com/contiv/contiv/netalloc"
	"google.golang.org/protobuf/proto"
)

// Options of a Plugin. The zero value is usable.
type Options struct {
	// NetNS is the path of the agent's own network namespace. Default: the
	// namespace of the calling thread.
	NetNS string
	// NamedNetNSDir is where namespaces of type NSID are looked up. Default
	// /var/run/netns.
	NamedNetNSDir string
	// Logger; nil: slog.Default().
	Logger *slog.Logger
	// DriftDelay is for how long changes are collected before they are
	// reported. Default 30 ms.
	DriftDelay time.Duration
}

// Plugin configures Linux. It needs the capabilities NET_ADMIN, SYS_ADMIN (to
// enter namespaces) and, for Watch, NET_BROADCAST.
type Plugin struct {
	log        *slog.Logger
	driftDelay time.Duration
	namespaces *namespaces
	inventory  *inventory
	nsids      *nsids
	// firewallMu is held while rule chains are changed or looked at by Watch.
	firewallMu sync.Mutex

	// alloc resolves references to allocated addresses.
	alloc *netalloc.Resolver
	// scheduler is notified of obtained values.
	scheduler notifier

	eventFault func() error // injected by tests

	closeOnce sync.Once
}

// notifier is the part of the scheduler that obtained values are pushed to.
type notifier interface {
	PushSBNotification(...kvscheduler.Notification) error
	// PushSBNotifications calls its argument when the transaction's turn comes.
	PushSBNotifications(changes func() []kvscheduler.Notification) error
}

// New opens the agent's own network namespace and registers the descriptors of the linux.*
// models with the scheduler. It must be called before the scheduler's first transaction.
// Close the plugin when the scheduler is closed and Watch has returned.
func New(s *kvscheduler.Scheduler, opts Options) (*Plugin, error) {
	if opts.NamedNetNSDir == "" {
		opts.NamedNetNSDir = models.NetNSDir
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.DriftDelay == 0 {
		opts.DriftDelay = 30 * time.Millisecond
	}
	namespaces, err := newNamespaces(opts.NetNS, opts.NamedNetNSDir)
	if err != nil {
		return nil, fmt.Errorf("linux: %w", err)
	}
	p := &Plugin{
		log:        opts.Logger,
		driftDelay: opts.DriftDelay,
		namespaces: namespaces,
		inventory:  newInventory(),
		nsids:      newNSIDs(),
		alloc:      netalloc.NewResolver(s),
		scheduler:  s,
	}
	if err := p.register(s); err != nil {
		namespaces.close()
		return nil, err
	}
	return p, nil
}

// Close releases the network namespaces. What is configured in them stays.
func (p *Plugin) Close() error {
	p.closeOnce.Do(p.namespaces.close)
	return nil
}

// register adds the descriptors to the scheduler.
func (p *Plugin) register(s *kvscheduler.Scheduler) error {
	for _, register := range []func() error{
		func() error { return registerChecked(s, p.hostNameDescriptor()) },
		func() error { return registerChecked(s, p.microserviceDescriptor()) },
		func() error { return registerChecked(s, p.interfaceDescriptor()) },
		func() error { return registerChecked(s, p.addressDescriptor()) },
		func() error { return registerChecked(s, p.arpDescriptor()) },
		func() error { return registerChecked(s, p.routeDescriptor()) },
		func() error { return registerChecked(s, p.ruleChainDescriptor()) },
	} {
		if err := register(); err != nil {
			return fmt.Errorf("register the linux descriptors: %w", err)
		}
	}
	return nil
}

// registerChecked registers a descriptor whose northbound values must pass the checks common
// to all models before its own Validate sees them.
func registerChecked[V proto.Message, M any](s *kvscheduler.Scheduler, d kvscheduler.Descriptor[V, M]) error {
	if d.NB {
		d.Validate = valid.Checked(d.Validate)
	}
	return kvscheduler.Register(s, d)
}
