// Package lab makes a Contiv cluster on one machine: nodes are network
// namespaces with an agent process in each, pods are network namespaces wired by
// the real contiv-cni, Kubernetes is a directory of manifests that KSR reads.
//
//	                 namespace <lab>-outside          203.0.113.10, knows no pod subnet
//	                         │ veth
//	 ┌───────────────────────┴──────────────────────┐
//	 │ namespace <lab>-underlay   203.0.113.1       │  a router, and the switch that
//	 │   contiv-etcd, contiv-ksr                    │  joins the nodes
//	 │   bridge "nodes"           192.168.16.254/24 │
//	 └────────┬───────────────────────────┬─────────┘
//	          │ veth                      │ veth
//	  eth0 192.168.16.1/24        eth0 192.168.16.2/24     default route via .254
//	┌─────────┴───────────┐     ┌─────────┴───────────┐
//	│ namespace           │     │ namespace           │
//	│ <lab>-node1         │     │ <lab>-node2         │
//	│   contiv-agent      │     │   contiv-agent      │
//	└──┬───────────┬──────┘     └──┬──────────────────┘
//	   │ wired by contiv-cni, run in the node's namespace as a runtime would
//	<lab>-node1-a  <lab>-node1-b  <lab>-node2-c
//
// Who does what a real cluster's other parts would do: the lab is the container
// runtime (pod namespaces, CNI calls), the kubelet (the pod's address in its
// status) and the person who writes manifests.
//
//	manifest ──> <state>/manifests ──> contiv-ksr ──> contiv-etcd ──> contiv-agent
//	AddPod ──> namespace ──> libcni ──> contiv-cni ──> contiv-agent ──> kernel
//
// With Options.Calico, the lab stands for a Calico cluster without BGP instead: see calico.go.
//
// All there is to know about a lab stands in its directory, /run/contiv-lab/<lab>:
// state.json, which names a namespace or process before or as soon as it exists,
// the sockets, logs, the data of etcd and the agents. So a lab survives the
// program that made it, any program can continue to use it, and what a crash
// leaves behind is found and removed by Down. Changes of a lab exclude each other
// by a file lock; reading does not.
//
// Nothing is made outside of the lab's own namespaces and directory.
package lab
