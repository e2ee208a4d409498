// Package processor computes the endpoints of each Kubernetes service for clients of this node. It
// does no I/O and is independent of the translation:
//
//	Service ─────────┐
//	EndpointSlices ──┤
//	Redirects ───────┼─> Compute ──> Service{Frontends} of an IP version ──> renderer
//	Node (this one) ─┘
//
// A frontend is an address, protocol and port that clients connect to. Its endpoints depend on the
// client: inside (local pods and the node's own processes) or outside. A client on another node is
// inside there, because each node translates the packets of its own pods.
//
// Rules, in the terms of the Kubernetes API:
//
//   - Services with a cluster IP are rendered, unless they are headless, of type ExternalName, or
//     labelled for another service proxy.
//   - Ready endpoints are used, or else endpoints that still serve while they terminate.
//     publishNotReadyAddresses makes all endpoints ready.
//   - The traffic policy Cluster uses the endpoints of the whole cluster. If all ready endpoints have
//     node hints and one of them names this node, it uses only endpoints hinted for this node;
//     otherwise the same applies to zone hints.
//   - The traffic policy Local uses the endpoints on this node, regardless of hints.
//     internalTrafficPolicy applies to cluster IPs, externalTrafficPolicy to all other addresses, but
//     only for outside clients.
//   - A pod is reached at another interface than eth0 if its node publishes one for services and the
//     IP version (Redirects).
//   - If several services request the same address, port and protocol, one owns it (claims.go).
//   - Without endpoints, connections are refused. With externalTrafficPolicy Local and endpoints on
//     other nodes, outside connections are dropped instead, because load balancers detect such nodes
//     by the health check.
package processor
