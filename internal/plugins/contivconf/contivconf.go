package contivconf

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
)

// HostLink is a network interface in the agent's network namespace.
type HostLink struct {
	Name string
	MTU  int
	// Addresses with the prefix lengths of their networks.
	Addresses []netip.Prefix
	// Assigned are the Addresses that Contiv assigned, if the kernel can tell.
	Assigned []netip.Prefix
	// Leased are the Addresses from Contiv's DHCP client.
	Leased []netip.Prefix
	// Fleeting are the deprecated, temporary (RFC 8981) or duplicate Addresses.
	Fleeting []netip.Prefix
	// DefaultGateways are the next hops of the link's default routes, at most one per IP version. A
	// route without next hop yields the unspecified address.
	DefaultGateways []netip.Addr
	Up              bool
}

// HostLinks lists the host's links.
type HostLinks interface {
	// HostLinks returns the links sorted by index, without the vswitch's own.
	HostLinks() ([]HostLink, error)
}

// Interface is a preexisting interface of the vswitch.
type Interface struct {
	Name string
	// Addresses to assign. If empty, the existing ones are used.
	Addresses []netip.Prefix
	UseDHCP   bool
}

// Resolved is the result of New and Resync.
type Resolved struct {
	// Main is the interface to other nodes. Its Name may be empty.
	Main  Interface
	Other []Interface
	// LinkAddress is this node's existing address on the main link, or the zero Prefix.
	LinkAddress netip.Prefix
	// SecondLinkAddress is the address of the second IP version in a dual-stack cluster, or the
	// zero Prefix.
	SecondLinkAddress netip.Prefix
	// LinkMTU is the MTU of the main link, or 0 if unknown.
	LinkMTU int
	// Gateways are the configured default gateways, at most one per IP version.
	Gateways []netip.Addr
	// RouteGateways are the Gateways that need a default route. An existing default route of a
	// shared host stack stays.
	RouteGateways []netip.Addr
	// Stolen is the NIC shared with the host, or nil.
	Stolen *Stolen

	stealing stealing
}

// nodeNames matches Kubernetes node names, which become parts of keys.
var nodeNames = regexp.MustCompile(`^[a-z0-9]([a-z0-9.\-]*[a-z0-9])?$`)

// ContivConf is the plugin.
type ContivConf struct {
	nodeName       string
	config         Config
	subnets        Subnets
	file           choice
	allowedSources []netip.Prefix
	gateways       []netip.Addr
	links          HostLinks
	loop           controller.EventLoop
	log            *slog.Logger
	saved          saved
	leases         leases
	nics           nics
	stn            func(name string, dhcp bool) (*Stolen, error)
	disabled       atomic.Bool
	// misread returns the error of decoding the NodeConfig in etcd. It may be nil.
	misread func() error
	// published are this node's addresses from an earlier run of the agent. Only for resyncs.
	published []netip.Addr

	mu  sync.RWMutex
	now view
	// announced is the content of the last NodeIPv4Change.
	announced Resolved
	started   bool
	overlaps  []string
	// mismatch is the reason why the host's links do not match the network in force, or "".
	mismatch string
	// lost is the address that the main interface has lost, or the zero Prefix.
	lost netip.Prefix
}

// Sources are the inputs of a node's configuration except contiv.conf and the Kubernetes state.
// Each may be nil.
type Sources struct {
	// Links of the host. It is nil for a vswitch with its own network stack, whose main interface
	// must be configured or be one of NICs.
	Links HostLinks
	// NICs lists the NICs of a vswitch with its own network stack, in its order. The first one
	// without a configuration is the default main interface. While the list fails, the previous one
	// applies.
	NICs func() ([]string, error)
	// STN claims a NIC of the host for the vswitch ("": the first) and returns its configuration.
	STN func(name string, dhcp bool) (*Stolen, error)
	// Misread returns the error of decoding the NodeConfig in etcd.
	Misread func() error
}

// New validates the configuration and returns the plugin. It keeps the last NodeConfig in force in
// local, unless local is nil.
func New(nodeName string, config Config, sources Sources, loop controller.EventLoop, local store.Broker, log *slog.Logger) (*ContivConf, error) {
	c := &ContivConf{nodeName: nodeName, config: config, links: sources.Links, nics: nics{list: sources.NICs}, stn: sources.STN, misread: sources.Misread,
		loop: loop, log: log, saved: saved{db: local}}
	if err := c.parse(); err != nil {
		return nil, fmt.Errorf("contiv configuration: %w", err)
	}
	c.now = view{choice: c.file, resolved: c.file.static, subnets: c.subnets}
	for _, remark := range config.Remarks() {
		log.Warn("Configuration interpreted differently", "remark", remark)
	}
	if c.links != nil && c.file.static.stealing.wanted {
		log.Info("stealInterface and stealFirstNIC have no effect with the kernel vswitch")
	}
	return c, nil
}

func (c *ContivConf) parse() error {
	if !nodeNames.MatchString(c.nodeName) {
		return fmt.Errorf("node name %q: use the name of the node in Kubernetes", c.nodeName)
	}
	if err := c.config.check(); err != nil {
		return err
	}
	subnets, err := parseSubnets(&c.config.IPAMConfig, c.config.NodeToNodeTransport)
	if err != nil {
		return err
	}
	c.subnets = subnets
	if err := c.config.checkVSwitch(c.links == nil, &subnets); err != nil {
		return err
	}
	if c.allowedSources, err = subnets.parseAllowedSources(c.config.PodAllowedSources); err != nil {
		return err
	}
	section, err := c.config.forNode(c.nodeName)
	if err != nil {
		return err
	}
	c.gateways = c.config.gateways()
	c.file, err = c.choose(FromFile, section)
	return err
}

func (*ContivConf) String() string { return "contivconf" }

// HandlesEvent accepts resyncs and changes of nodes, ServiceCIDRs and this node's NodeConfig.
func (c *ContivConf) HandlesEvent(event controller.Event) bool {
	if change, ok := event.(*controller.KubeStateChange); ok {
		return c.isOwnNodeConfig(change) || change.Resource == kubestate.Node || change.Resource == kubestate.ServiceCIDR
	}
	if _, ok := event.(*STNHolderChange); ok {
		return true
	}
	return event.Method() != controller.Update
}

func (c *ContivConf) ownNode(value any) *node.Node {
	if n, ok := value.(*node.Node); ok && n.GetName() == c.nodeName {
		return n
	}
	return nil
}

// Resync resolves the configuration.
func (c *ContivConf) Resync(ctx context.Context, _ controller.Event, state controller.KubeState, _ int, _ controller.ResyncOperations) error {
	var addresses []netip.Addr
	for _, value := range state[kubestate.Node] {
		if n := c.ownNode(value); n != nil {
			addresses = internalIPs(n)
		}
	}
	c.remember(state)
	wanted := c.enabled(ctx, state[kubestate.NodeConfig][kubestate.NodeConfigKey(c.nodeName)])
	next, links, err := c.settle(ctx, wanted, addresses, clusterOf(state))
	if err != nil {
		c.wants(next)
		return err
	}
	c.warn(ctx, &next, links)
	c.set(ctx, next, links)
	return nil
}

// Update resolves the configuration again after a change of nodes' addresses, ServiceCIDRs or this
// node's NodeConfig. It requests a resync if the result differs.
func (c *ContivConf) Update(ctx context.Context, event controller.Event, _ controller.UpdateOperations) (string, error) {
	if holder, ok := event.(*STNHolderChange); ok {
		return holder.Describe(), nil
	}
	change, ok := event.(*controller.KubeStateChange)
	if !ok {
		return "", nil
	}
	before, _ := c.current()
	wanted, addresses := before.wanted, before.internalIPs
	known, changed := before.cluster.after(change)
	if c.isOwnNodeConfig(change) {
		wanted = c.enabled(ctx, change.NewValue)
		if wanted == nil && before.wanted == nil {
			return "", nil
		}
	} else {
		own := internalIPs(c.ownNode(change.NewValue))
		// A deleted node keeps its network until its agent ends.
		if len(own) == 0 || slices.Equal(own, addresses) {
			return c.updateServices(ctx, &before, known, changed)
		}
		addresses = own
	}
	next, links, err := c.settle(ctx, wanted, addresses, known)
	if err != nil {
		c.wants(next)
		return "", err
	}
	c.set(ctx, next, links)
	if next.sameEffect(&before) {
		if next.refused != nil {
			return "refuse the " + next.refused.Error(), nil
		}
		return "", nil
	}
	if err := c.loop.PushEvent(ctx, &NodeConfigChange{Source: next.source, Resolved: next.resolved}); err != nil {
		return "", fmt.Errorf("announce the new node configuration: %w", err)
	}
	return "node configuration changed", nil
}

// Revert does nothing.
func (*ContivConf) Revert(context.Context, controller.Event) error { return nil }

func (c *ContivConf) read(static Resolved, internalIPs []netip.Addr) (Resolved, []HostLink, error) {
	static.RouteGateways = static.Gateways
	if c.links == nil {
		if static.stealing.wanted {
			var err error
			if static, err = c.readStolen(static, internalIPs); err != nil {
				return Resolved{}, nil, err
			}
		}
		if static.Main.Name == "" {
			name, err := c.nics.first(static.Other)
			if err != nil {
				return Resolved{}, nil, err
			}
			static.Main.Name = name
		}
		static.LinkAddress = c.leases.of(static.Main)
		return static, nil, nil
	}
	links, err := c.hostLinks()
	if err != nil {
		return Resolved{}, nil, err
	}
	resolved, err := resolveLinks(static, links, internalIPs, c.before(&static), &c.subnets)
	return resolved, links, err
}

// hostLinks returns no links for a vswitch with its own network stack.
func (c *ContivConf) hostLinks() ([]HostLink, error) {
	if c.links == nil {
		return nil, nil
	}
	links, err := c.links.HostLinks()
	if err != nil {
		return nil, fmt.Errorf("list the links of the host: %w", err)
	}
	return links, nil
}

func checkMainLink(resolved *Resolved, links []HostLink, subnets *Subnets) error {
	for link, address := range addressesOf(links) {
		if subnet, clashes := subnets.clash(address.Masked()); clashes && link.Name == resolved.Main.Name {
			return fmt.Errorf("network %v of the main interface %s overlaps with %v: %s", address.Masked(), link.Name, subnet, subnet.remedy())
		}
	}
	return nil
}

func (c *ContivConf) warn(ctx context.Context, next *view, links []HostLink) {
	log := controller.Logger(ctx, c.log)
	for _, gateway := range next.resolved.Gateways {
		if host := hostGateway(links, gateway.Is6()); host.IsValid() && host != gateway {
			log.Warn("Configured default route blocked by a route of the host",
				"configured", gateway, "host", host)
		}
	}
	for _, text := range next.overlaps(links) {
		log.Warn(text)
	}
}

func (s *Subnets) overlaps(resolved *Resolved, links []HostLink) (texts []string) {
	for link, address := range addressesOf(links) {
		subnet, clashes := s.clash(address.Masked())
		// Kube-proxy in IPVS mode and node-local DNS assign service addresses to devices of the
		// host.
		ofService := subnet.ofServices() && address.IsSingleIP()
		if clashes && !ofService && link.Name != resolved.Main.Name {
			texts = append(texts, fmt.Sprintf("network %v of interface %s overlaps with %v: pods cannot reach hosts behind the interface, or each other: use another network for %[2]s, or %[4]s",
				address.Masked(), link.Name, subnet, subnet.remedy()))
		}
	}
	return texts
}

// addressesOf yields the addresses of the links that other hosts may reach.
func addressesOf(links []HostLink) iter.Seq2[*HostLink, netip.Prefix] {
	return func(yield func(*HostLink, netip.Prefix) bool) {
		for i := range links {
			for _, address := range links[i].Addresses {
				if a := address.Addr(); !a.IsLoopback() && !a.IsLinkLocalUnicast() && !yield(&links[i], address) {
					return
				}
			}
		}
	}
}

func (c *ContivConf) current() (now view, started bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.now, c.started
}

func (c *ContivConf) wants(next view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.wanted, c.now.internalIPs, c.now.cluster, c.now.refused = next.wanted, next.internalIPs, next.cluster, next.refused
}

func (c *ContivConf) set(ctx context.Context, next view, links []HostLink) {
	before, started := c.current()
	log := controller.Logger(ctx, c.log)
	if r := &next.resolved; !started || !next.sameEffect(&before) {
		log.Info("Node configuration", "source", next.source, "mainInterface", r.Main.Name, "configuredIPs", r.Main.Addresses,
			"linkAddress", r.LinkAddress, "linkMTU", r.LinkMTU, "gateways", r.Gateways, "otherInterfaces", len(r.Other))
	}
	if next.refused == nil {
		c.saved.put(ctx, next.wanted, log)
	} else if before.refused == nil || before.refused.Error() != next.refused.Error() {
		log.Error("Invalid NodeConfig ignored; the previous one stays in force", "source", next.source, "error", next.refused)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLost(&before, &next)
	c.now, c.announced, c.started = next, next.resolved, true
	c.overlaps = next.overlaps(links)
}

func internalIPs(n *node.Node) []netip.Addr {
	var ips []netip.Addr
	for _, a := range n.GetAddresses() {
		if ip, err := kubeaddr.ParseAddr(a.GetAddress()); err == nil && a.GetType() == node.NodeAddress_NodeInternalIP {
			ips = append(ips, ip)
		}
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return ips
}
