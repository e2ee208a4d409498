// Package microservice tracks the microservices on this node and their network namespaces: the pods
// with Label, each from its ADD until its DEL.
//
//	pods that Kubernetes knows ──label──┐
//	                                    ├─> Plugin ──> Set: label ──> network namespace
//	pods wired on this node ────netns───┘
//
// External configuration refers to them as network namespaces of the type MICROSERVICE.
package microservice
