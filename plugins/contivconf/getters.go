package contivconf

import "net/netip"

// What VXLAN adds to a packet, in bytes, by the IP version between the nodes.
const (
	vxlanOverheadIPv4 = 50
	vxlanOverheadIPv6 = 70
	// srv6Overhead is that of an IPv6 header with two segments, whatever the transport.
	srv6Overhead = 80
)

// defaultMTU is assumed of a main interface whose MTU is unknown.
const defaultMTU = 1500

// All getters may be called at any time and from any goroutine; those of
// resolved values return what the configuration alone says until the first
// resync.

// Resolved returns the interfaces and addresses of this node.
func (c *ContivConf) Resolved() Resolved {
	now, _ := c.current()
	return now.resolved
}

// NodeName is this node's name in Kubernetes.
func (c *ContivConf) NodeName() string { return c.nodeName }

// Subnets returns the address plan of the cluster.
func (c *ContivConf) Subnets() Subnets { return c.subnets }

// StaticGateways returns the default gateways in contiv.conf, the same on all nodes:
// addresses that are computed from node IDs leave them out.
func (c *ContivConf) StaticGateways() []netip.Addr { return c.gateways }

// ExternalIPAM reports whether Kubernetes assigns the pod subnets of nodes, and another IPAM plugin
// the addresses of pods.
func (c *ContivConf) ExternalIPAM() bool { return c.config.IPAMConfig.UseExternalIPAM }

// EffectiveIPAMConfig returns the ipamConfig with the subnets really used.
func (c *ContivConf) EffectiveIPAMConfig() IPAMConfig {
	return c.subnets.effective(c.config.IPAMConfig)
}

// Interfaces returns what applies to all interfaces.
func (c *ContivConf) Interfaces() InterfaceConfig { return c.config.InterfaceConfig }

// AllowedSources returns the networks from whose addresses pods may send, beside their
// own, if their annotation says so.
func (c *ContivConf) AllowedSources() []netip.Prefix { return c.allowedSources }

// Routing returns how nodes and pods are connected.
func (c *ContivConf) Routing() RoutingConfig { return c.config.RoutingConfig }

// IPNeighborScan returns how neighbours that went away are found out.
func (c *ContivConf) IPNeighborScan() IPNeighborScanConfig { return c.config.IPNeighborScanConfig }

// NatExternalTraffic reports whether pods appear outside of the cluster with the address of their
// node.
func (c *ContivConf) NatExternalTraffic() bool {
	now, _ := c.current()
	return c.config.NatExternalTraffic || now.config.NatExternalTraffic
}

// NatExternalTrafficIPv6 reports the same for IPv6.
func (c *ContivConf) NatExternalTrafficIPv6() bool {
	return c.config.NatExternalTrafficIPv6 && c.NatExternalTraffic()
}

// PodMTU returns the MTU of pods, on a node with the given address: as
// configured, else the main interface's less the overhead of the transport.
func (c *ContivConf) PodMTU(nodeIP netip.Addr) uint32 {
	if c.config.MTUSize != 0 {
		return c.config.MTUSize
	}
	mtu := c.Resolved().LinkMTU
	if mtu == 0 {
		mtu = defaultMTU
	}
	return uint32(max(mtu-c.TransportOverhead(nodeIP), 0))
}

// TransportOverhead returns how many bytes the transport between nodes adds to a packet of a pod, to a
// node with the given address, at most: packets to services may take another way than those to pods.
func (c *ContivConf) TransportOverhead(nodeIP netip.Addr) int {
	return c.config.transportOverhead(nodeIP)
}

func (c *Config) transportOverhead(nodeIP netip.Addr) int {
	switch {
	case c.UseSRv6ForServices:
		return srv6Overhead
	case c.NodeToNodeTransport != VXLANTransport:
		return 0
	case nodeIP.Is6():
		return vxlanOverheadIPv6
	}
	return vxlanOverheadIPv4
}
