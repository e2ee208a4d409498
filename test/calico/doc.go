// Package calico tests contiv-calico-routes with packets: nodes are network namespaces on a common
// link, each with a pod as Calico attaches it, and the program as their only source of routes
// between nodes. etcd is a real one.
package calico
