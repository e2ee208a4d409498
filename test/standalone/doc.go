// Package standalone tests `contiv-agent --standalone`: a real agent in a network
// namespace, without Kubernetes and etcd, that gRPC clients configure, with
// effects in the kernel. The walk-throughs in testdata do by hand, with etcdctl and
// contivctl, what the guide to the scheduler's control flows describes. And it measures how much clients can ask for (load_test.go).
//
// The tests need root.
package standalone
