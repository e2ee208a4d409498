// Package apiserver does for a lab what an API server and its controllers do in a cluster: it refuses objects with
// mistakes, gives services cluster IPs and node ports, and has an EndpointSlice for each service with a selector.
//
//	manifest ──Check──> mistakes, or none ──Allocate (services)──> KSR
//	services, pods ──Slices──> EndpointSlices ──> KSR
//
// Check is about what Contiv reads. Mistakes elsewhere in a pod's spec pass.
package apiserver
