// Package service translates addresses: of services, of host ports of pods, and of traffic that
// leaves the cluster. Service is the event handler. It calls parts with one job each, in this order:
//
//	sourcenat   main interface, node address ──> source NAT of traffic that leaves the cluster
//	proxy       Service, EndpointSlice, Node ──> destination NAT of services
//	hostports   AddPod, DeletePod            ──> destination NAT of host ports
//	replies     endpoints of both            ──> routes of replies to external clients
//
// The parts share two descriptions of the node: localnode, with its addresses, interfaces and
// reservations, and podports, with the host ports that pods request. Explanations (explain.go,
// explainhost.go), reports (report.go), warnings (warnings.go) and metrics (metrics.go) only read the
// parts.
//
// A change of a Service takes this way:
//
//  1. service.go: Update calls the parts.
//  2. proxy/proxy.go: Update takes steps 3 to 8.
//  3. proxy/inputs.go records the change in package processor, which returns the affected services.
//  4. proxy/translations.go takes steps 5 and 6 for each of these services.
//  5. proxy/render.go renders the service: proxy/entrances.go redirects addresses of the host,
//     proxy/segments.go carries addresses by SRv6, package renderer/nat renders the rest, and
//     proxy/limits.go lists settings without effect.
//  6. proxy/values.go requests the values that differ. proxy/segments.go assigns carried addresses to
//     local pods.
//  7. proxy/sourceranges.go renders the source ranges of all services.
//  8. proxy/healthchecks.go opens the ports for load balancers.
//  9. hostports/hostports.go opens and closes host ports, if a service has or had the port of a pod.
//  10. replies/replies.go updates the routes of replies.
package service
