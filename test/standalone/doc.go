// Package standalone tests `contiv-agent --standalone`: a real agent in a network
// namespace, without Kubernetes and etcd, that gRPC clients configure, with
// effects in the kernel. And it measures how much clients can ask for (load_test.go).
//
// The tests need root.
package standalone
