package contivconf

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"slices"
	"sync"

	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/controller"
)

// HostLink is a network interface in the agent's network namespace.
type HostLink struct {
	Name string
	MTU  int
	// Addresses with the prefix lengths of their networks.
	Addresses []netip.Prefix
	// DefaultGateway is the next hop of a default route out of the link; the
	// zero Addr if there is none. For a default route without next hop, it is
	// the unspecified address.
	DefaultGateway netip.Addr
	Up             bool
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
}

// nodeNames are those that Kubernetes allows; they become parts of keys.
var nodeNames = regexp.MustCompile(`^[a-z0-9]([a-z0-9.\-]*[a-z0-9])?$`)

// ContivConf is the plugin.
type ContivConf struct {
	nodeName string
	config   Config
	subnets  Subnets
	static   Resolved // what the configuration alone says
	nodeConf NodeConfig
	links    HostLinks
	loop     controller.EventLoop
	log      *slog.Logger

	mu       sync.RWMutex
	resolved Resolved
	// internalIPs are this node's addresses in Kubernetes.
	internalIPs []netip.Addr
	// announced is what the last NodeIPv4Change was about.
	announced Resolved
	// started tells that there was a resync.
	started bool
}

// New checks the configuration. links is nil on a vswitch with a network stack
// of its own; the main interface must then be configured.
func New(nodeName string, config Config, links HostLinks, loop controller.EventLoop, log *slog.Logger) (*ContivConf, error) {
	c := &ContivConf{nodeName: nodeName, config: config, links: links, loop: loop, log: log}
	if err := c.parse(); err != nil {
		return nil, fmt.Errorf("contiv configuration: %w", err)
	}
	c.resolved = c.static
	return c, nil
}

// parse reads everything that does not depend on the state of the node.
func (c *ContivConf) parse() error {
	if !nodeNames.MatchString(c.nodeName) {
		return fmt.Errorf("node name %q: use the name of the node in Kubernetes", c.nodeName)
	}
	if err := c.config.checkSupported(); err != nil {
		return err
	}
	subnets, err := parseSubnets(&c.config.IPAMConfig, c.config.NodeToNodeTransport)
	if err != nil {
		return err
	}
	if c.config.IPAMConfig.UseExternalIPAM && subnets.DualStack() {
		return fmt.Errorf("option ipamConfig.useExternalIPAM is not supported in a dual-stack cluster: set it to false, or give one pod subnet only")
	}
	if c.subnets = subnets; c.links == nil && subnets.DualStack() && !subnets.Second.VPPHost.IsValid() {
		return fmt.Errorf("ipamConfig.vppHostSubnetCIDR %v has no network of the IP version of podSubnetCIDR %v: add one, separated by a comma", subnets.VPPHost, subnets.Second.Pods)
	}
	if c.nodeConf, err = c.config.forNode(c.nodeName); err != nil {
		return err
	}
	c.static, err = resolveStatic(&c.config, &c.nodeConf)
	return err
}

func (*ContivConf) String() string { return "contivconf" }

// HandlesEvent accepts resyncs and changes of this node's Kubernetes object.
func (c *ContivConf) HandlesEvent(event controller.Event) bool {
	if change, ok := event.(*controller.KubeStateChange); ok {
		return c.ownNode(change.PrevValue) != nil || c.ownNode(change.NewValue) != nil
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
	for _, value := range state["node"] {
		if n := c.ownNode(value); n != nil {
			addresses = internalIPs(n)
		}
	}
	resolved, err := c.resolve(ctx, addresses)
	if err != nil {
		return err
	}
	c.set(ctx, resolved, addresses)
	return nil
}

// Update resolves the configuration again when this node's addresses changed,
// and asks for a resync if that makes a difference.
func (c *ContivConf) Update(ctx context.Context, event controller.Event, _ controller.UpdateOperations) (string, error) {
	change, ok := event.(*controller.KubeStateChange)
	if !ok {
		return "", nil
	}
	var addresses []netip.Addr
	if n := c.ownNode(change.NewValue); n != nil {
		addresses = internalIPs(n)
	}
	// A node that is about to leave keeps its network until its agent ends.
	known, _ := c.known()
	if len(addresses) == 0 || slices.Equal(addresses, known) {
		return "", nil
	}
	resolved, err := c.resolve(ctx, addresses)
	if err != nil {
		return "", err
	}
	changed := !resolved.equal(c.Resolved())
	c.set(ctx, resolved, addresses)
	if !changed {
		return "", nil
	}
	if err := c.loop.PushEvent(ctx, &NodeConfigChange{Resolved: resolved}); err != nil {
		return "", fmt.Errorf("announce the new node configuration: %w", err)
	}
	return "node configuration changed", nil
}

// Revert has nothing to undo.
func (*ContivConf) Revert(context.Context, controller.Event) error { return nil }

// resolve finds out about this node, and checks it.
func (c *ContivConf) resolve(ctx context.Context, internalIPs []netip.Addr) (Resolved, error) {
	resolved, links, err := c.read(c.static, internalIPs)
	if err != nil {
		return Resolved{}, err
	}
	for _, gateway := range resolved.Gateways {
		if host := hostGateway(links, gateway.Is6()); host.IsValid() && host != gateway {
			controller.Logger(ctx, c.log).Warn("The host has a default route of its own, which stays; remove it, and the configured one is made",
				"configured", gateway, "host", host)
		}
	}
	return resolved, c.checkClashes(ctx, &resolved, links)
}

// read completes what the configuration says with what the links say.
func (c *ContivConf) read(static Resolved, internalIPs []netip.Addr) (Resolved, []HostLink, error) {
	static.RouteGateways = static.Gateways
	if c.links == nil {
		return static, nil, nil
	}
	links, err := c.links.HostLinks()
	if err != nil {
		return Resolved{}, nil, fmt.Errorf("list the links of the host: %w", err)
	}
	resolved, err := resolveLinks(static, links, internalIPs, &c.subnets)
	return resolved, links, err
}

// checkClashes compares the address plan with what the host's links have. The
// main link must not be part of it; of other links, the user is warned.
func (c *ContivConf) checkClashes(ctx context.Context, resolved *Resolved, links []HostLink) error {
	for _, link := range links {
		for _, address := range link.Addresses {
			if address.Addr().IsLoopback() || address.Addr().IsLinkLocalUnicast() {
				continue
			}
			subnet, clashes := c.subnets.clash(address.Masked())
			switch {
			case !clashes:
			case link.Name == resolved.Main.Name:
				return fmt.Errorf("network %v of the main interface %s overlaps with ipamConfig.%s %v: change %s in the configuration of the whole cluster",
					address.Masked(), link.Name, subnet.name, subnet.prefix, subnet.name)
			default:
				controller.Logger(ctx, c.log).Warn("A network of the host overlaps with the cluster's: what it holds cannot be reached from pods",
					"link", link.Name, "network", address.Masked(), "option", subnet.name, "subnet", subnet.prefix)
			}
		}
	}
	return nil
}

// known returns this node's addresses in Kubernetes, and whether there was a
// resync.
func (c *ContivConf) known() (internalIPs []netip.Addr, started bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.internalIPs, c.started
}

func (c *ContivConf) set(ctx context.Context, r Resolved, internalIPs []netip.Addr) {
	if !r.equal(c.Resolved()) {
		controller.Logger(ctx, c.log).Info("Node configuration", "mainInterface", r.Main.Name, "configuredIPs", r.Main.Addresses,
			"linkAddress", r.LinkAddress, "linkMTU", r.LinkMTU, "gateways", r.Gateways)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resolved, c.announced, c.internalIPs, c.started = r, r, internalIPs, true
}

// internalIPs returns the sorted addresses of the type InternalIP.
func internalIPs(n *node.Node) []netip.Addr {
	var ips []netip.Addr
	for _, a := range n.GetAddresses() {
		if ip, err := netip.ParseAddr(a.GetAddress()); err == nil && a.GetType() == node.NodeAddress_NodeInternalIP {
			ips = append(ips, ip.Unmap())
		}
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return ips
}

// NodeConfigChange says that the configuration of this node has changed: all
// plugins compute anew. The southbound is assumed to be as last seen.
type NodeConfigChange struct {
	controller.NonBlocking
	Resolved Resolved
}

func (*NodeConfigChange) Name() string                   { return "Node Config Change" }
func (*NodeConfigChange) Method() controller.EventMethod { return controller.UpstreamResync }
func (e *NodeConfigChange) String() string {
	return fmt.Sprintf("Node Config Change: main interface %s, addresses %v, on the link %v",
		e.Resolved.Main.Name, e.Resolved.Main.Addresses, e.Resolved.LinkAddress)
}
