// Package lab runs a Contiv cluster on one machine. Nodes are network namespaces with an agent
// process, pods are network namespaces wired by the real contiv-cni, and KSR reads Kubernetes
// objects from a directory of manifests.
//
//	                 namespace <lab>-outside          203.0.113.10, has no route to pods
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
//	   │ wired by contiv-cni in the node's namespace
//	<lab>-node1-a  <lab>-node1-b  <lab>-node2-c
//
// The lab replaces the container runtime (pod namespaces, CNI calls), the kubelet (pod addresses in
// the status) and the API server:
//
//	manifest ──> <state>/manifests ──> contiv-ksr ──> contiv-etcd ──> contiv-agent
//	AddPod ──> namespace ──> libcni ──> contiv-cni ──> contiv-agent ──> kernel
//
// With Options.Calico, the lab represents a Calico cluster without BGP: see calico.go.
//
// The directory /run/contiv-lab/<lab> holds the whole state of a lab: sockets, logs, the data of
// etcd and agents, and state.json, which records each namespace before it is created and each
// process as soon as it runs. A lab therefore survives the program that made it, other programs can
// use it, and Down removes it even after a crash. A file lock serializes changes of a lab; reads
// take no lock.
//
// The lab creates nothing outside of its own namespaces and directory.
package lab
