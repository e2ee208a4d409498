// Package processor computes, for each Kubernetes service, the endpoints to which this node sends
// clients. It does no I/O, and knows nothing about how packets are translated:
//
//	Service ─────────┐
//	EndpointSlices ──┤
//	Redirects ───────┼─> Compute ──> Service{Frontends} of an IP version ──> renderer
//	Node (this one) ─┘
//
// A frontend is an address, protocol and port that clients connect to. Its endpoints
// depend on where the client is: inside (pods of this node, and the node's own
// processes) or outside (all other clients). Clients on other nodes are
// inside there: each node translates what its own pods send.
//
// Rules, in the terms of the Kubernetes API:
//
//   - A service is rendered if it has a cluster IP. Headless services and those of type
//     ExternalName are not; nor are those that a label gives to another service proxy.
//   - An endpoint is used while it is ready. While none is ready, those that still
//     serve although they terminate are used. publishNotReadyAddresses makes all ready.
//   - The traffic policy Cluster uses the endpoints of the whole cluster, unless hints
//     narrow them down: to those for this node if all ready endpoints have hints for
//     nodes and one of them is for this node; else to those for this zone in the same way.
//   - The traffic policy Local uses the endpoints on this node, whatever the hints.
//     internalTrafficPolicy is about cluster IPs, externalTrafficPolicy about all other
//     addresses; with externalTrafficPolicy Local, clients inside still reach the
//     endpoints of the whole cluster.
//   - An endpoint that is a pod is reached at another interface than eth0 if the pod's node publishes one for
//     services (Redirects); until then, and for an IP version that this interface lacks, at eth0.
//   - Of several services that ask for the same address, port and protocol, one has it
//     (claims.go).
//   - Without endpoints connections are refused. Connections from outside are dropped
//     instead if the policy is Local and other nodes have endpoints: load balancers are
//     to find out by the health check, not by errors.
package processor
