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

	// alloc knows the allocated addresses; set by Register.
	alloc *netalloc.Resolver

	eventFault func() error // of tests

	closeOnce sync.Once
	// notify pushes obtained values; both are set by Register.
	notify func(...kvscheduler.Notification) error
	// notifyLater pushes what its argument returns when it is that transaction's turn.
	notifyLater func(func() []kvscheduler.Notification) error
}

// New opens the agent's own network namespace. Close the plugin when its
// scheduler is closed and Watch has returned.
func New(opts Options) (*Plugin, error) {
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
	return &Plugin{
		log:        opts.Logger,
		driftDelay: opts.DriftDelay,
		namespaces: namespaces,
		inventory:  newInventory(),
		nsids:      newNSIDs(),
	}, nil
}

// Close releases the network namespaces. What is configured in them stays.
func (p *Plugin) Close() error {
	p.closeOnce.Do(p.namespaces.close)
	return nil
}

// Register adds the descriptors of the linux.* models to the scheduler. Call it
// once per plugin, before the first transaction and before Watch.
func Register(s *kvscheduler.Scheduler, p *Plugin) error {
	p.notify, p.notifyLater = s.PushSBNotification, s.PushSBNotifications
	p.alloc = netalloc.NewResolver(s)
	for _, register := range []func() error{
		func() error { return register(s, p.hostNameDescriptor()) },
		func() error { return register(s, p.microserviceDescriptor()) },
		func() error { return register(s, p.interfaceDescriptor()) },
		func() error { return register(s, p.addressDescriptor()) },
		func() error { return register(s, p.arpDescriptor()) },
		func() error { return register(s, p.routeDescriptor()) },
		func() error { return register(s, p.ruleChainDescriptor()) },
	} {
		if err := register(); err != nil {
			return fmt.Errorf("register the linux descriptors: %w", err)
		}
	}
	return nil
}

// register registers a descriptor; what is wrong in any model is refused before its Validate.
func register[V proto.Message, M any](s *kvscheduler.Scheduler, d kvscheduler.Descriptor[V, M]) error {
	if d.NB {
		d.Validate = valid.Checked(d.Validate)
	}
	return kvscheduler.Register(s, d)
}
