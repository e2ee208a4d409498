package contivconf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/dbresources"
)

// Source says where the configuration of a single node comes from.
type Source string

// The sources. A NodeConfig replaces the node's section of contiv.conf as a whole.
const (
	FromFile       Source = "contiv.conf"
	FromNodeConfig Source = "NodeConfig"
)

// choice is the configuration of this node by one source, checked. Immutable.
type choice struct {
	source Source
	config NodeConfig
	static Resolved // what the configuration alone says
}

// view is the configuration of this node in force. Immutable.
type view struct {
	choice
	resolved Resolved
	// internalIPs are this node's addresses in Kubernetes.
	internalIPs []netip.Addr
	// wanted is the NodeConfig in etcd; nil if there is none, or it is disabled.
	wanted *nodeconfig.NodeConfig
	// refused is why another configuration than the one in etcd is in force; else nil.
	refused error
}

// sameEffect reports whether nothing needs to be recomputed.
func (v *view) sameEffect(other *view) bool {
	return v.resolved.equal(other.resolved) && v.config.NatExternalTraffic == other.config.NatExternalTraffic
}

// isOwnNodeConfig reports whether the change is one of this node's NodeConfig.
func (c *ContivConf) isOwnNodeConfig(change *controller.KubeStateChange) bool {
	return change.Resource == dbresources.NodeConfig && change.Key == dbresources.NodeConfigKey(c.nodeName)
}

// enabled returns the value of this node's NodeConfig, nil if it is not to be used.
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

// settle decides which configuration is to be in force:
//
//  1. the NodeConfig in etcd, if there is one, else contiv.conf;
//  2. if that is wrong, what is in force, or was before the agent was restarted:
//     a mistake in etcd must not cost a node its network;
//  3. contiv.conf, if there is no such thing.
//
// The error is for a node without a usable configuration; even then the view has the requested
// configuration. Nothing is changed.
func (c *ContivConf) settle(ctx context.Context, wanted *nodeconfig.NodeConfig, internalIPs []netip.Addr) (next view, links []HostLink, err error) {
	before, started := c.current()
	next = view{internalIPs: internalIPs, wanted: wanted}
	use := func(candidate choice) (err error) {
		next.choice = candidate
		next.resolved, links, err = c.complete(candidate, internalIPs)
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
		err = fmt.Errorf("NodeConfig of node %s was deleted, but contiv.conf cannot take its place: %w", c.nodeName, err)
	}
	next.refused = err
	if started {
		if use(before.choice) != nil { // e.g. an interface is missing for a while
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

// useNodeConfig gives use what a NodeConfig says.
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
		return choice{}, fmt.Errorf("its node_name is %q: use the name in the key, or leave it out", name)
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

// choose checks what can be checked without the links.
func (c *ContivConf) choose(source Source, config NodeConfig) (choice, error) {
	static, err := resolveStatic(&c.config, &config)
	if err == nil {
		err = checkAddresses(&static, &c.subnets)
	}
	return choice{source: source, config: config, static: static}, err
}

// complete adds what the links say, and checks all of it.
func (c *ContivConf) complete(candidate choice, internalIPs []netip.Addr) (Resolved, []HostLink, error) {
	resolved, links, err := c.read(candidate.static, internalIPs)
	if err == nil {
		err = checkMainLink(&resolved, links, &c.subnets)
	}
	if err == nil && candidate.source == FromNodeConfig {
		err = c.checkReachable(&resolved, candidate.config.Gateway != "", links)
	}
	return resolved, links, err
}

// checkReachable finds out before anything is changed what would only show in the
// vswitch: that the node would have no address, or the gateway could not be
// reached.
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
		return fmt.Errorf("main interface %s has no IP address: give nodeConfig.mainVPPInterface.ip", r.Main.Name)
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
			return fmt.Errorf("nodeConfig.gateway %v is on none of the networks of the node's interfaces (%v): correct it, or give an interface an address on its network",
				gateway, masked(networks))
		}
		if own := r.addresses(); slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr() == gateway }) {
			return fmt.Errorf("nodeConfig.gateway %v is an address of the node itself: give that of the router", gateway)
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

// NodeConfigError says why the NodeConfig in etcd, or its removal, is not in
// force: what was before it stays. It is nil if all is well. May be called
// from any goroutine.
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

// NodeConfigChange says that the configuration of this node has changed: all plugins recompute. The
// southbound is assumed to be as last seen.
type NodeConfigChange struct {
	controller.NonBlocking
	// Source of the configuration that is in force now.
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
