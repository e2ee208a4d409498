package contivconf

import "net/netip"

// VXLAN's overhead per packet in bytes, by the IP version between nodes.
const (
	vxlanOverheadIPv4 = 50
	vxlanOverheadIPv6 = 70
	// srv6Overhead is the size of an IPv6 header with two segments.
	srv6Overhead = 80
)

// defaultMTU is the assumed MTU of a main interface.
const defaultMTU = 1500

// All getters may be called from any goroutine. Before the first resync, they return the static
// configuration.

// Resolved returns the interfaces and addresses of this node.
func (c *ContivConf) Resolved() Resolved {
	now, _ := c.current()
	return now.resolved
}

// NodeName returns this node's name in Kubernetes.
func (c *ContivConf) NodeName() string { return c.nodeName }

// Subnets returns the address plan of the cluster. Its Services may change with each
// ServiceRangesChange.
func (c *ContivConf) Subnets() Subnets {
	now, _ := c.current()
	return now.subnets
}

// StaticGateways returns the default gateways of all nodes in contiv.conf. Addresses computed from
// node IDs skip them.
func (c *ContivConf) StaticGateways() []netip.Addr { return c.gateways }

// ExternalIPAM reports whether Kubernetes assigns pod subnets and another IPAM plugin pod
// addresses.
func (c *ContivConf) ExternalIPAM() bool { return c.config.IPAMConfig.UseExternalIPAM }

// EffectiveIPAMConfig returns the ipamConfig with the effective subnets.
func (c *ContivConf) EffectiveIPAMConfig() IPAMConfig {
	subnets := c.Subnets()
	return subnets.effective(c.config.IPAMConfig)
}

// Interfaces returns the options of all interfaces.
func (c *ContivConf) Interfaces() InterfaceConfig { return c.config.InterfaceConfig }

// AllowedSources returns the networks whose addresses a pod's annotation may add as sources.
func (c *ContivConf) AllowedSources() []netip.Prefix { return c.allowedSources }

// Routing returns the options of the connections of nodes and pods.
func (c *ContivConf) Routing() RoutingConfig { return c.config.RoutingConfig }

// IPNeighborScan returns the options of neighbour expiry.
func (c *ContivConf) IPNeighborScan() IPNeighborScanConfig { return c.config.IPNeighborScanConfig }

// NatExternalTraffic reports whether traffic of pods that leaves the cluster is masqueraded.
func (c *ContivConf) NatExternalTraffic() bool {
	now, _ := c.current()
	return c.config.NatExternalTraffic || now.config.NatExternalTraffic
}

// NatExternalTrafficIPv6 is the same for IPv6.
func (c *ContivConf) NatExternalTrafficIPv6() bool {
	return c.config.NatExternalTrafficIPv6 && c.NatExternalTraffic()
}

// PodMTU returns the MTU of pods on a node with the address: the configured one, or the main
// interface's minus the overhead of the transport.
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

// TransportOverhead returns the maximal number of bytes that the transport to a node with the
// address adds to a pod's packet. Traffic to services may use another transport than traffic to
// pods.
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
