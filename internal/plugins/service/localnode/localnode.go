// Package localnode describes the node of the agent to the parts of the service plugin: its
// addresses and interfaces (addresses.go, interfaces.go), the path on which the host hands packets to
// the vswitch (interconnect.go), and the ports that nodes need themselves (reservations.go). It
// computes each result from the current state of the node and stores nothing.
package localnode

import (
	"net/netip"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service/config"
)

// Config provides the configuration of this node.
type Config interface {
	Resolved() contivconf.Resolved
	Routing() contivconf.RoutingConfig
	NatExternalTraffic() bool
	// NatExternalTrafficIPv6 is true only if NatExternalTraffic is.
	NatExternalTrafficIPv6() bool
}

// Network provides the interfaces of this node.
type Network interface {
	// GetNodeIPOf returns the zero Prefix while the node has no address of the IP version.
	GetNodeIPOf(ipv6 bool) netip.Prefix
	GetMainInterface() string
	// GetVxlanBVIIfName returns "" without an overlay.
	GetVxlanBVIIfName() string
	// GetHostInterconnectIfName returns "" if the vswitch shares the host's network stack.
	GetHostInterconnectIfName() string
	// GetHostIPs returns the host's addresses that a vswitch with its own stack lacks.
	GetHostIPs() []netip.Addr
	// PodInterfaces maps the interfaces of local pods to the pods.
	PodInterfaces() map[string]podmanager.PodID
}

// Capabilities of the vswitch that affect the configuration.
type Capabilities struct {
	// HostStackShared: the vswitch is the host's network stack. Its routes lead out of the cluster,
	// and it does not translate packets that it sends itself.
	HostStackShared bool
	IPv6SourceNAT   bool
	// ClientScopes: mappings can be limited to inside or outside clients, or to source ranges.
	ClientScopes      bool
	ResetsConnections bool
	// SegmentRouting: segments can carry services.
	SegmentRouting bool
}

// Nodes provides the addresses of nodes.
type Nodes interface {
	GetAllNodes() nodesync.Nodes
}

// Addresses provides the networks of the cluster, and the addresses of local pods.
type Addresses interface {
	Plan() ipam.Plan
	PodSubnets(n *nodesync.Node) []netip.Prefix
	GetPodIPs(podmanager.PodID) []netip.Addr
}

// Node is this node. Name, Nodes and Addresses are empty if the plugin translates neither services
// nor host ports.
type Node struct {
	Name      string
	Nodes     Nodes
	Addresses Addresses

	Caps     Capabilities
	Config   Config
	Settings config.Config // service.conf
	Network  Network
}

// HasOwnStack reports whether the vswitch has its own network stack and can translate. That needs
// VRF 0.
func (n *Node) HasOwnStack() bool {
	return !n.Caps.HostStackShared && n.Config.Routing().MainVRFID == 0
}

// SharesCard reports whether the host shares its network card with the vswitch.
func (n *Node) SharesCard() bool { return n.Config.Resolved().Stolen != nil }

// HostChangedBy reports whether an event changes addresses of the host that affect the translation.
func (n *Node) HostChangedBy(event controller.Event) bool {
	_, ok := event.(*ipnet.HostAddressesChange)
	return ok && n.HasOwnStack() && n.SharesCard()
}
