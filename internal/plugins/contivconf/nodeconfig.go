package contivconf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
)

// Source is the origin of a node's own configuration.
type Source string

// A NodeConfig replaces the node's whole section of contiv.conf.
const (
	FromFile       Source = "contiv.conf"
	FromNodeConfig Source = "NodeConfig"
)

// choice is a validated configuration of this node from one source. It is immutable.
type choice struct {
	source Source
	config NodeConfig
	static Resolved
}

// view is this node's configuration in force. It is immutable.
type view struct {
	choice
	resolved Resolved
	// subnets are the address plan in force.
	subnets Subnets
	// unused are the reasons why ranges of ServiceCIDRs are not in it.
	unused      []string
	cluster     cluster
	internalIPs []netip.Addr
	// wanted is the enabled NodeConfig in etcd, or nil.
	wanted *nodeconfig.NodeConfig
	// refused is the reason why wanted is not in force, or nil.
	refused error
}

// sameEffect reports whether a change needs no resync.
func (v *view) sameEffect(other *view) bool {
	return v.resolved.equal(other.resolved) && v.config.NatExternalTraffic == other.config.NatExternalTraffic && v.sameServices(other)
}

func (v *view) sameServices(other *view) bool {
	return slices.Equal(v.subnets.AllServices(), other.subnets.AllServices())
}

// overlaps describes overlaps of the host's networks and of ServiceCIDRs with the address plan.
func (v *view) overlaps(links []HostLink) []string {
	return append(v.subnets.overlaps(&v.resolved, links), v.unused...)
}

func (c *ContivConf) isOwnNodeConfig(change *controller.KubeStateChange) bool {
	return change.Resource == kubestate.NodeConfig && change.Key == kubestate.NodeConfigKey(c.nodeName)
}

// enabled returns this node's NodeConfig, or nil if it is missing or disabled.
func (c *ContivConf) enabled(ctx context.Context, value any) *nodeconfig.NodeConfig {
	wanted, _ := value.(*nodeconfig.NodeConfig)
	disabled := wanted != nil && c.config.CRDNodeConfigurationDisabled
	c.disabled.Store(disabled)
	if disabled {
		controller.Logger(ctx, c.log).Warn(errDisabled.Error())
		return nil
	}
	return wanted
}

var errDisabled = errors.New("NodeConfig has no effect: set crdNodeConfigurationDisabled to false in contiv.conf of this node, or delete it")

// settle selects the configuration to put in force:
//
//  1. the NodeConfig in etcd if it exists, else contiv.conf;
//  2. if that is invalid, the current configuration, or the last one before a restart, so that a mistake
//     in etcd does not cost a node its network;
//  3. otherwise contiv.conf.
//
// It returns an error if the node has no usable configuration; the view then holds the requested
// one. It changes nothing.
func (c *ContivConf) settle(ctx context.Context, wanted *nodeconfig.NodeConfig, internalIPs []netip.Addr, known cluster) (next view, links []HostLink, err error) {
	before, started := c.current()
	next = view{internalIPs: internalIPs, wanted: wanted, cluster: known, subnets: before.subnets, unused: before.unused}
	use := func(candidate choice) (err error) {
		next.choice = candidate
		links, err = c.complete(candidate, &next)
		return err
	}
	if wanted == nil {
		err = use(c.file)
	} else {
		err = c.useNodeConfig(wanted, use)
	}
	switch {
	case err == nil:
		return next, links, nil
	case wanted == nil && (!started || before.source == FromFile):
		return next, links, err
	case wanted == nil:
		err = fmt.Errorf("NodeConfig of node %s was deleted, but contiv.conf cannot replace it: %w", c.nodeName, err)
	}
	next.refused = err
	if started {
		if use(before.choice) != nil { // for example while an interface is missing
			next.resolved = before.resolved
		}
		return next, links, nil
	}
	if last := c.saved.load(ctx, controller.Logger(ctx, c.log)); last != nil && c.useNodeConfig(last, use) == nil {
		return next, links, nil
	}
	if fileErr := use(c.file); fileErr != nil {
		return next, links, errors.Join(err, fileErr)
	}
	return next, links, nil
}

func (c *ContivConf) useNodeConfig(msg *nodeconfig.NodeConfig, use func(choice) error) error {
	candidate, err := c.fromNodeConfig(msg)
	if err == nil {
		err = use(candidate)
	}
	if err != nil {
		return fmt.Errorf("NodeConfig of node %s: %w", c.nodeName, err)
	}
	return nil
}

func (c *ContivConf) fromNodeConfig(msg *nodeconfig.NodeConfig) (choice, error) {
	if name := msg.GetNodeName(); name != "" && name != c.nodeName {
		return choice{}, fmt.Errorf("its node_name is %q: use the name in the key, or remove it", name)
	}
	config := NodeConfig{
		NodeName:           c.nodeName,
		MainVPPInterface:   interfaceWithIP(msg.GetMainVppInterface()),
		StealInterface:     msg.GetStealInterface(),
		Gateway:            msg.GetGateway(),
		NatExternalTraffic: msg.GetNatExternalTraffic(),
	}
	for _, other := range msg.GetOtherVppInterfaces() {
		config.OtherVPPInterfaces = append(config.OtherVPPInterfaces, interfaceWithIP(other))
	}
	return c.choose(FromNodeConfig, config)
}

func interfaceWithIP(msg *nodeconfig.InterfaceConfig) InterfaceWithIP {
	return InterfaceWithIP{InterfaceName: msg.GetInterfaceName(), IP: msg.GetIp(), UseDHCP: msg.GetUseDhcp()}
}

func (c *ContivConf) choose(source Source, config NodeConfig) (choice, error) {
	static, err := resolveStatic(&c.config, &config)
	if err == nil {
		err = checkAddresses(&static, &c.subnets)
	}
	return choice{source: source, config: config, static: static}, err
}

// complete resolves the candidate. It sets next even with an error.
func (c *ContivConf) complete(candidate choice, next *view) ([]HostLink, error) {
	resolved, links, err := c.read(candidate.static, next.internalIPs)
	next.resolved = resolved
	if err != nil {
		return links, err
	}
	next.subnets, next.unused = c.services(&resolved, links, next.cluster)
	err = checkMainLink(&resolved, links, &next.subnets)
	if err == nil && candidate.source == FromNodeConfig {
		err = c.checkReachable(&resolved, candidate.config.Gateway != "", links)
	}
	return links, err
}

// checkReachable rejects a configuration that would leave the node without an address or with an
// unreachable gateway, before it is applied.
func (c *ContivConf) checkReachable(r *Resolved, checkGateways bool, links []HostLink) error {
	var networks []netip.Prefix
	for _, family := range c.subnets.Families() {
		if family.NodeInterconnect.IsValid() && !r.Main.UseDHCP {
			networks = append(networks, family.NodeInterconnect)
		}
	}
	networks = append(networks, r.Main.Addresses...)
	for _, p := range []netip.Prefix{r.LinkAddress, r.SecondLinkAddress} {
		if p.IsValid() {
			networks = append(networks, p)
		}
	}
	if len(networks) == 0 && c.links != nil && !r.Main.UseDHCP {
		return fmt.Errorf("main interface %s has no IP address: set nodeConfig.mainVPPInterface.ip", r.Main.Name)
	}
	unknown := c.links == nil && len(networks) == 0
	for _, other := range r.Other {
		networks = append(networks, other.Addresses...)
		at := slices.IndexFunc(links, func(l HostLink) bool { return l.Name == other.Name })
		switch {
		case len(other.Addresses) > 0:
		case at >= 0 && len(links[at].Addresses) > 0:
			networks = append(networks, links[at].Addresses...)
		case other.UseDHCP:
			unknown = true
		}
	}
	if unknown || !checkGateways {
		return nil
	}
	for _, gateway := range r.Gateways {
		onLink := gateway.IsLinkLocalUnicast() || slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(gateway) })
		if !onLink {
			return fmt.Errorf("nodeConfig.gateway %v is on none of the networks of the node's interfaces (%v): correct it, or assign an address on its network to an interface",
				gateway, masked(networks))
		}
		if own := r.addresses(); slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr() == gateway }) {
			return fmt.Errorf("nodeConfig.gateway %v is an address of the node itself: use the address of the router", gateway)
		}
	}
	return nil
}

func masked(networks []netip.Prefix) []netip.Prefix {
	var list []netip.Prefix
	for _, p := range networks {
		if !slices.Contains(list, p.Masked()) {
			list = append(list, p.Masked())
		}
	}
	return list
}

// NodeConfigError returns the reason why the NodeConfig in etcd, or its removal, is not in force,
// or nil. It may be called from any goroutine.
func (c *ContivConf) NodeConfigError() error {
	if c.misread != nil {
		if err := c.misread(); err != nil {
			return fmt.Errorf("NodeConfig of node %s: %w", c.nodeName, err)
		}
	}
	if c.disabled.Load() {
		return errDisabled
	}
	now, _ := c.current()
	return now.refused
}

// NodeConfigChange reports a change of this node's configuration. All plugins recompute; the
// southbound is not read.
type NodeConfigChange struct {
	controller.NonBlocking
	// Source of the configuration now in force.
	Source   Source
	Resolved Resolved
}

func (*NodeConfigChange) Name() string                   { return "Node Config Change" }
func (*NodeConfigChange) Method() controller.EventMethod { return controller.UpstreamResync }
func (e *NodeConfigChange) String() string {
	text := fmt.Sprintf("Node Config Change: by %s\n* main interface %s, addresses %v, on the link %v",
		e.Source, e.Resolved.Main.Name, e.Resolved.Main.Addresses, e.Resolved.LinkAddress)
	for _, other := range e.Resolved.Other {
		text += fmt.Sprintf("\n* interface %s, addresses %v", other.Name, other.Addresses)
	}
	if len(e.Resolved.Gateways) > 0 {
		text += fmt.Sprintf("\n* gateways %v", e.Resolved.Gateways)
	}
	return text
}
