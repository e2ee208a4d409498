// Package location finds the pods of etcd (deploy/contiv.yaml) without services, which may not work
// before the agents reach etcd:
//
//	EndpointSlices of the service contiv-etcd ──Find──> KSR's client of etcd
//	                                          └─Keep──> file ──> the agent's client of etcd
package location
