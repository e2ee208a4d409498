// Package apiserver replaces an API server and its controllers in a lab. It rejects invalid
// objects, allocates cluster IPs and node ports, and makes an EndpointSlice for each service with a
// selector.
//
//	manifest ──Check──> errors, or none ──Allocate (services)──> KSR
//	services, pods ──Slices──> EndpointSlices ──> KSR
//
// Check validates the fields that Contiv reads. It ignores errors in the rest of a pod's spec.
package apiserver
