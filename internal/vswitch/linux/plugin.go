package linux

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/vswitch/linux/iptables"
	"github.com/contiv/contiv/internal/vswitch/linux/microservices"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/internal/vswitch/linux/redirects"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/models/valid"
	"github.com/vishvananda/netns"
	"google.golang.org/protobuf/proto"
)

// Options of a Plugin. The zero value is usable.
type Options struct {
	// NetNS is the path of the agent's own network namespace. Default: the
	// namespace of the calling thread.
	NetNS string
	// NamedNetNSDir is the directory of namespaces of type NSID. Default /var/run/netns.
	NamedNetNSDir string
	// Logger; nil: slog.Default().
	Logger *slog.Logger
	// DriftDelay is how long changes are collected before they are reported. Default 30 ms.
	DriftDelay time.Duration
}

// Plugin configures Linux. It needs the capabilities NET_ADMIN, SYS_ADMIN (to
// enter namespaces) and, for Watch, NET_BROADCAST.
type Plugin struct {
	log        *slog.Logger
	driftDelay time.Duration
	namespaces *namespaces.Set
	inventory  *inventory

	microservices *microservices.Set
	chains        *iptables.Chains
	redirects     *redirects.Redirects

	// alloc resolves references to allocated addresses.
	alloc *netalloc.Resolver
	// scheduler is notified of obtained values.
	scheduler notifier

	// inRuleset is closed by needRuleset when the first rule chain or redirect exists.
	inRuleset   chan struct{}
	needRuleset func()

	eventFault func() error // injected by tests

	closeOnce sync.Once
}

// notifier is the part of the scheduler that receives obtained values.
type notifier interface {
	PushSBNotification(...kvscheduler.Notification) error
	// PushSBNotifications calls changes when the transaction's turn comes.
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
	services := microservices.New(s)
	spaces, err := namespaces.Open(opts.NetNS, opts.NamedNetNSDir, services.Path)
	if err != nil {
		return nil, fmt.Errorf("linux: %w", err)
	}
	p := &Plugin{
		log:           opts.Logger,
		driftDelay:    opts.DriftDelay,
		namespaces:    spaces,
		inventory:     newInventory(),
		microservices: services,
		alloc:         netalloc.NewResolver(s),
		scheduler:     s,
		inRuleset:     make(chan struct{}),
	}
	p.needRuleset = sync.OnceFunc(func() { close(p.inRuleset) })
	p.chains = iptables.New(iptables.Options{
		Namespaces: spaces, Inhabited: p.inhabited, RemoveUnneeded: p.removeUnneeded,
		ListenTo:      func(ns *namespaces.Namespace) { p.listenTo(ns); p.needRuleset() },
		RetrieveAfter: []string{InterfaceDescriptor}, Log: opts.Logger,
	})
	if p.redirects, err = redirects.New(spaces.Own, p.needRuleset); err != nil {
		spaces.Close()
		return nil, fmt.Errorf("linux: %w", err)
	}
	if err := p.register(s); err != nil {
		p.redirects.Close()
		spaces.Close()
		return nil, err
	}
	return p, nil
}

// Close releases the network namespaces and leaves the configuration in them.
func (p *Plugin) Close() error {
	p.closeOnce.Do(func() {
		p.redirects.Close()
		p.namespaces.Close()
	})
	return nil
}

// SetMicroservices sets the microservices that run on this node, by label. Values in a missing one
// stay pending. It does not wait for the scheduler.
func (p *Plugin) SetMicroservices(running map[string]microservices.Place) error {
	return p.microservices.Run(running)
}

// AtAddress calls do in each network namespace where an interface of ours has the address. It
// ignores a namespace that is gone.
func (p *Plugin) AtAddress(addr netip.Addr, do func(ns netns.NsHandle) error) error {
	var errs []error
	for _, ref := range p.inventory.namespacesWith(addr) {
		ns, err := p.namespaces.Acquire(ref)
		if errors.Is(err, namespaces.ErrGone) {
			continue
		}
		if err == nil {
			err = do(ns.Handle())
			p.namespaces.Release(ns)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// inhabited returns references to the namespaces of our interfaces and of microservices.
func (p *Plugin) inhabited() map[namespaces.ID]*linux_namespace.NetNamespace {
	refs := p.inventory.namespaces()
	for _, ref := range p.microservices.Refs() {
		if id, err := p.namespaces.Identify(ref); err == nil && refs[id] == nil {
			refs[id] = ref
		}
	}
	return refs
}

func (p *Plugin) register(s *kvscheduler.Scheduler) error {
	for _, register := range []func() error{
		func() error { return registerChecked(s, p.hostNameDescriptor()) },
		func() error { return registerChecked(s, p.microservices.Descriptor()) },
		func() error { return registerChecked(s, p.interfaceDescriptor()) },
		func() error { return registerChecked(s, p.addressDescriptor()) },
		func() error { return registerChecked(s, p.arpDescriptor()) },
		func() error { return registerChecked(s, p.routeDescriptor()) },
		func() error { return registerChecked(s, p.chains.Descriptor()) },
		func() error { return registerChecked(s, p.redirects.Descriptor()) },
	} {
		if err := register(); err != nil {
			return fmt.Errorf("register the linux descriptors: %w", err)
		}
	}
	return nil
}

// registerChecked registers a descriptor and applies the checks common to all models before the
// descriptor's own Validate.
func registerChecked[V proto.Message, M any](s *kvscheduler.Scheduler, d kvscheduler.Descriptor[V, M]) error {
	if d.NB {
		d.Validate = valid.Checked(d.Validate)
	}
	return kvscheduler.Register(s, d)
}
