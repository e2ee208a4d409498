// Package calico tests contiv-calico-routes with packets. Nodes are network namespaces on a common
// link, each with a pod attached like Calico's and with the program as the only source of routes
// between nodes. etcd is real.
package calico
