// Package e2e makes a real Kubernetes cluster on one machine, with Contiv as its
// network, and tests it. It takes no Docker and no registry.
//
//	namespace <name>-underlay   192.168.16.254, 10.96.0.1 (service "kubernetes")
//	┌───────────────────────────────────────────────────────────────────────┐
//	│ etcd <── kube-apiserver <── kube-controller-manager, kube-scheduler    │
//	│ etcd of Contiv                                                         │
//	└────────┬─────────────────────────────────────────┬────────────────────┘
//	  namespace <name>-node1, 192.168.16.1      namespace <name>-node2, 192.168.16.2
//	┌────────┴──────────────────────┐         ┌────────┴──────────────────────┐
//	│ kubelet ──> containerd ──> runc          │ kubelet ──> containerd ──> runc
//	│   pods on the host's network: │         │   pods on the host's network: │
//	│     contiv-agent, contiv-ksr  │         │     contiv-agent              │
//	│   pods, wired by contiv-cni   │         │   pods, wired by contiv-cni   │
//	└───────────────────────────────┘         └───────────────────────────────┘
//
// Networks, both etcds, processes and the record of what exists are those of a lab
// (package lab) that has neither agents nor KSR of its own. Kubernetes' programs are
// built from its Go module by hack/kubernetes, containerd and runc are Debian's,
// images are archives that this package writes. Contiv comes from the manifests in
// deploy, as at a user's.
//
// All nodes share the machine's file system and its cgroups, so each has a directory,
// <cluster>/nodes/<node>, for what would be in /var/lib, /etc, /run and /opt, and a
// cgroup, /contiv-e2e-<cluster>/<node>. Kubelet and containerd enter the network
// namespace of their node and no other: mounts must be seen by all.
//
// Down needs nothing but the cluster's name, and so removes what a crash has left.
package e2e
