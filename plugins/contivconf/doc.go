// Package contivconf determines the configuration of a node from all its
// sources, so that no other plugin has to know them.
//
//	contiv.conf ──Load──> Config ──────────┐
//	Kubernetes state (own Node, NodeConfig) ┼─settle──> main interface, addresses, gateway, MTU, subnets
//	links of the host, NICs of the vswitch ─┘               │
//	                                                         └──> getters for the other plugins
//
// What can be checked without the node is checked by New, before anything is touched: networks must
// parse, must fit together by IP version, and must not overlap. The rest is resolved at every
// resync, and again when this node's addresses in Kubernetes or its NodeConfig change; if the
// outcome differs, NodeConfigChange makes all plugins recompute. NodeIPv4Change does so when the
// main link's address or MTU changes.
//
// A NodeConfig with a mistake changes nothing: what was in force stays, also over
// restarts of the agent, and NodeConfigError says why.
package contivconf
