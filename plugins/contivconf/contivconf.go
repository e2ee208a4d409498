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
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/kubeaddr"
	"github.com/contiv/contiv/store"
)

// HostLink is a network interface in the agent's network namespace.
type HostLink struct {
	Name string
	MTU  int
	// Addresses with the prefix lengths of their networks.
	Addresses []netip.Prefix
	// Assigned are those of Addresses that Contiv assigned, as far as the kernel
	// can tell.
	Assigned []netip.Prefix
	// Leased are those of Addresses that Contiv's DHCP client obtained.
	Leased []netip.Prefix
	// Fleeting are those of Addresses that are not for long use: deprecated, temporary (RFC 8981), or duplicates.
	Fleeting []netip.Prefix
	// DefaultGateways are the next hops of default routes out of the link, at most
	// one of each IP version. For a default route without next hop, it is the
	// unspecified address.
	DefaultGateways []netip.Addr
	Up              bool
}

// HostLinks lists the links of the host.
type HostLinks interface {
	// HostLinks returns the links in the order of their indexes, without those
	// that the vswitch itself created.
	HostLinks() ([]HostLink, error)
}

// Interface is an interface of the vswitch that existed before it.
type Interface struct {
	Name string
	// Addresses to be assigned; empty if those it has are to be used.
	Addresses []netip.Prefix
	UseDHCP   bool
}

// Resolved is what New and Resync found out.
type Resolved struct {
	// Main is the interface that connects to the other nodes. Its Name is empty
	// if there is none.
	Main  Interface
	Other []Interface
	// LinkAddress is the address of this node that the main link already has;
	// the zero Prefix if it has none that fits.
	LinkAddress netip.Prefix
	// SecondLinkAddress is its address of the other IP version, in a dual-stack
	// cluster; may be the zero Prefix.
	SecondLinkAddress netip.Prefix
	// LinkMTU is the main link's; 0 if unknown.
	LinkMTU int
	// Gateways are the configured default gateways, at most one of each IP version.
	Gateways []netip.Addr
	// RouteGateways are those of Gateways through which a default route is to be
	// made: where the host's network stack is shared and has a default route
	// already, that one stays.
	RouteGateways []netip.Addr
	// Stolen is the network card that the host shares with the vswitch; nil: there is none.
	Stolen *Stolen

	stealing stealing
}

// nodeNames are those that Kubernetes allows; they become parts of keys.
var nodeNames = regexp.MustCompile(`^[a-z0-9]([a-z0-9.\-]*[a-z0-9])?$`)

// ContivConf is the plugin.
type ContivConf struct {
	nodeName       string
	config         Config
	subnets        Subnets
	file           choice // what contiv.conf says of this node
	allowedSources []netip.Prefix
	gateways       []netip.Addr // of all nodes, in contiv.conf
	links          HostLinks
	loop           controller.EventLoop
	log            *slog.Logger
	saved          saved
	leases         leases
	nics           nics
	stn            func(name string, dhcp bool) (*Stolen, error)
	// disabled says that there is a NodeConfig, which is not to be used.
	disabled atomic.Bool
	// misread says why the one in etcd cannot be decoded; may be nil.
	misread func() error
	// published are the addresses of this node when its agent ran before. Used by resyncs only.
	published []netip.Addr

	mu  sync.RWMutex
	now view
	// announced is what the last NodeIPv4Change was about.
	announced Resolved
	// started: there was a resync.
	started bool
	// overlaps says which networks of the host's links are part of the address plan.
	overlaps []string
	// mismatch says why the links of the host do not fit the network that is in force; "": they do.
	mismatch string
	// lost is the address that the main interface no longer has; the zero Prefix if it has one.
	lost netip.Prefix
}

// Sources are what the configuration of a node follows from beside contiv.conf and the state of
// Kubernetes. All of them may be nil.
type Sources struct {
	// Links are those of the host; nil on a vswitch with a network stack of its own:
	// the main interface must then be configured, or be one of NICs.
	Links HostLinks
	// NICs lists the network cards that a vswitch with a network stack of its own has by
	// itself, in its order: the first one that is not configured otherwise is the main
	// interface of a node whose configuration names none. While they cannot be
	// listed, they are what they were.
	NICs func() ([]string, error)
	// STN claims a network card of the host for the vswitch, the first one for "", and
	// says what it has.
	STN func(name string, dhcp bool) (*Stolen, error)
	// Misread returns why the NodeConfig in etcd cannot be decoded.
	Misread func() error
}

// New checks the configuration. The last NodeConfig in force is kept in local, unless
// it is nil.
func New(nodeName string, config Config, sources Sources, loop controller.EventLoop, local store.Broker, log *slog.Logger) (*ContivConf, error) {
	c := &ContivConf{nodeName: nodeName, config: config, links: sources.Links, nics: nics{list: sources.NICs}, stn: sources.STN, misread: sources.Misread,
		loop: loop, log: log, saved: saved{db: local}}
	if err := c.parse(); err != nil {
		return nil, fmt.Errorf("contiv configuration: %w", err)
	}
	c.now = view{choice: c.file, resolved: c.file.static}
	for _, remark := range config.Remarks() {
		log.Warn("The configuration is read otherwise than it is written", "remark", remark)
	}
	if c.links != nil && c.file.static.stealing.wanted {
		log.Info("stealInterface and stealFirstNIC have nothing to do: the vswitch is the host's network stack, which has the network card already")
	}
	return c, nil
}

// parse reads everything that does not depend on the state of the node.
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

// HandlesEvent accepts resyncs and changes of this node's Kubernetes object and
// NodeConfig.
func (c *ContivConf) HandlesEvent(event controller.Event) bool {
	if change, ok := event.(*controller.KubeStateChange); ok {
		return c.isOwnNodeConfig(change) || c.ownNode(change.PrevValue) != nil || c.ownNode(change.NewValue) != nil
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
	for _, value := range state[dbresources.Node] {
		if n := c.ownNode(value); n != nil {
			addresses = internalIPs(n)
		}
	}
	c.remember(state)
	wanted := c.enabled(ctx, state[dbresources.NodeConfig][dbresources.NodeConfigKey(c.nodeName)])
	next, links, err := c.settle(ctx, wanted, addresses)
	if err != nil {
		c.wants(next)
		return err
	}
	c.warn(ctx, &next.resolved, links)
	c.set(ctx, next, links)
	return nil
}

// Update resolves the configuration again when this node's addresses or its
// NodeConfig changed, and asks for a resync if that makes a difference.
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
	if c.isOwnNodeConfig(change) {
		wanted = c.enabled(ctx, change.NewValue)
		if wanted == nil && before.wanted == nil {
			return "", nil
		}
	} else {
		addresses = internalIPs(c.ownNode(change.NewValue))
		// A node that is about to leave keeps its network until its agent ends.
		if len(addresses) == 0 || slices.Equal(addresses, before.internalIPs) {
			return "", nil
		}
	}
	next, links, err := c.settle(ctx, wanted, addresses)
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

// Revert has nothing to undo.
func (*ContivConf) Revert(context.Context, controller.Event) error { return nil }

// read completes the configuration from the links.
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
	links, err := c.links.HostLinks()
	if err != nil {
		return Resolved{}, nil, fmt.Errorf("list the links of the host: %w", err)
	}
	resolved, err := resolveLinks(static, links, internalIPs, c.before(&static), &c.subnets)
	return resolved, links, err
}

// checkMainLink compares the address plan with the networks of the main link, which
// must not be part of it.
func checkMainLink(resolved *Resolved, links []HostLink, subnets *Subnets) error {
	for link, address := range addressesOf(links) {
		if subnet, clashes := subnets.clash(address.Masked()); clashes && link.Name == resolved.Main.Name {
			return fmt.Errorf("network %v of the main interface %s overlaps with ipamConfig.%s %v: change %s in the configuration of the whole cluster",
				address.Masked(), link.Name, subnet.name, subnet.prefix, subnet.name)
		}
	}
	return nil
}

// warn tells the user what is odd about the links, but no mistake.
func (c *ContivConf) warn(ctx context.Context, resolved *Resolved, links []HostLink) {
	log := controller.Logger(ctx, c.log)
	for _, gateway := range resolved.Gateways {
		if host := hostGateway(links, gateway.Is6()); host.IsValid() && host != gateway {
			log.Warn("The host has a default route of its own, which stays; remove it, and the configured one is made",
				"configured", gateway, "host", host)
		}
	}
	for _, text := range c.subnets.overlaps(resolved, links) {
		log.Warn(text)
	}
}

// overlaps says which networks of links other than the main one are part of the address plan.
func (s *Subnets) overlaps(resolved *Resolved, links []HostLink) (texts []string) {
	for link, address := range addressesOf(links) {
		subnet, clashes := s.clash(address.Masked())
		// Kube-proxy in IPVS mode and node-local DNS assign addresses of services to devices of the host.
		ofService := subnet.name == "serviceCIDR" && address.IsSingleIP()
		if clashes && !ofService && link.Name != resolved.Main.Name {
			texts = append(texts, fmt.Sprintf("network %v of interface %s overlaps with ipamConfig.%s %v: what is behind the interface is cut off from pods, or pods from each other: give %[2]s another network, or change %[3]s in the configuration of the whole cluster",
				address.Masked(), link.Name, subnet.name, subnet.prefix))
		}
	}
	return texts
}

// addressesOf yields the addresses of the links that others may reach.
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

// current returns the configuration in force, and whether there was a resync.
func (c *ContivConf) current() (now view, started bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.now, c.started
}

// wants notes what was asked for while no configuration can be in force.
func (c *ContivConf) wants(next view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.wanted, c.now.internalIPs, c.now.refused = next.wanted, next.internalIPs, next.refused
}

// set puts a configuration in force. links are those of the host.
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
		log.Error("NodeConfig is refused; what was in force before stays", "source", next.source, "error", next.refused)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLost(&before, &next)
	c.now, c.announced, c.started = next, next.resolved, true
	c.overlaps = c.subnets.overlaps(&next.resolved, links)
}

// internalIPs returns the sorted addresses of the type InternalIP.
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
