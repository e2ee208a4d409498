// Package standalone tests `contiv-agent --standalone`: a real agent in a network namespace,
// without Kubernetes and etcd, configured by gRPC clients, with effects in the kernel. The scripts
// in testdata follow the guide to the scheduler's control flows with etcdctl and contivctl.
// load_test.go measures the capacity for clients' requests.
//
// The tests need root.
package standalone
