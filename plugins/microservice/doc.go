// Package microservice tells which microservices run on this node, and in which network
// namespace: the pods with Label, each from its ADD until its DEL.
//
//	pods that Kubernetes knows ──label──┐
//	                                    ├─> Plugin ──> Set: label ──> network namespace
//	pods wired on this node ────netns───┘
//
// Configuration from outside refers to them as network namespaces of the type MICROSERVICE.
package microservice
