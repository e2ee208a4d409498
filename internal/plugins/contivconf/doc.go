// Package contivconf determines the configuration of a node from all sources for the other plugins.
//
//	contiv.conf ──Load──> Config ────────────────────────────┐
//	Kubernetes state (own NodeConfig, Nodes, ServiceCIDRs) ──┼─settle──> main interface, addresses, gateway, MTU, subnets
//	links of the host, NICs of the vswitch ──────────────────┘               │
//	                                                                         └──> getters for the other plugins
//
// New validates everything that does not depend on the node: the syntax, IP versions and overlaps
// of networks. The rest is resolved in every resync and after changes of this node's addresses in
// Kubernetes or its NodeConfig. If the result differs, NodeConfigChange triggers a resync of all
// plugins. A change of the main link's address or MTU triggers NodeIPv4Change. Other ranges of cluster
// IPs, from ServiceCIDRs, trigger ServiceRangesChange.
//
// An invalid NodeConfig is ignored: the previous configuration stays in force, even over restarts,
// and NodeConfigError returns the reason.
package contivconf
